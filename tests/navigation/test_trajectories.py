"""Trajectories survive the disk, and become exactly the conversations that the agent has."""

import dataclasses
import zipfile

import numpy as np
import pytest
from nav_records import picture, stage_one, stage_two

from backbone.errors import DataError
from navigation import prompts
from navigation.actions import END, LEFT, MOVE, OBS, RIGHT
from navigation.config import NavigationConfig
from navigation.examples import example_at, places_of, segment_example
from navigation.memory import Landmark, Memory
from navigation.records import (
    Cycle,
    Trajectory,
    list_episodes,
    pack,
    read_episode,
    read_trajectory,
    unpack,
    with_thoughts,
    write_episode,
)

NANO = NavigationConfig.preset("nano")


@pytest.mark.parametrize("made", [stage_one(), stage_two()], ids=["stage1", "stage2"])
def test_an_episode_survives_the_disk(made, tmp_path):
    path = write_episode(made, tmp_path, 12_345)
    again = read_episode(path)
    assert path == tmp_path / "00012" / "00012345.npz"
    assert again.trajectory == made.trajectory == read_trajectory(path)
    assert again.packed == made.packed
    assert list_episodes(tmp_path) == [path]
    assert not list(tmp_path.glob("**/*.part"))


def test_nothing_in_a_file_is_pickled(tmp_path):
    path = write_episode(stage_one(), tmp_path, 0)
    with np.load(path, allow_pickle=False) as stored:
        assert {stored[k].dtype.kind for k in stored} == {"u", "i"}


def test_pictures_keep_their_looks():
    image = picture(3)
    assert np.abs(unpack(pack(image)).astype(int) - image).mean() < 2
    with pytest.raises(DataError, match="decoded"):
        unpack(b"no picture")


@pytest.mark.parametrize("damage", ["cut", "text", "missing part", "absent"])
def test_broken_files_are_named(damage, tmp_path):
    path = write_episode(stage_one(), tmp_path, 0)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "text":
        path.write_text("hello")
    elif damage == "missing part":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("other.npy", b"")
    else:
        path.unlink()
    with pytest.raises(DataError, match=r"00000000\.npz"):
        read_episode(path)


def test_no_episodes_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no episodes"):
        list_episodes(tmp_path)


@pytest.mark.parametrize(
    ("actions", "views", "wrong"),
    [
        ((MOVE, OBS, MOVE), (), "motor actions"),
        ((MOVE, "fly"), (), "motor actions"),
        ((), (), "at least one"),
        ((MOVE, LEFT), (0, 1, 2), "look around"),
        ((MOVE, LEFT), (1, 2, 3, 4), "first frame"),
        ((OBS,), (0, 1, 2, 3), "again"),
    ],
)
def test_cycles_without_sense_are_refused(actions, views, wrong):
    count = len(actions)
    with pytest.raises(DataError, match=wrong):
        Cycle(tuple(range(count)), actions, (True,) * count, ((0.0, 0.0, 0.0),) * count, views)


def test_cycles_must_be_joined_by_a_look():
    made = stage_two()
    cycles = list(made.trajectory.cycles)
    cycles[0] = dataclasses.replace(cycles[0], actions=(MOVE, LEFT, LEFT))
    with pytest.raises(DataError, match="must end in obs"):
        dataclasses.replace(made.trajectory, cycles=tuple(cycles))
    with pytest.raises(DataError, match="needs a cycle"):
        Trajectory("a", "rooms", "find the bed", "bed", 0, "shortest", True, ())


def test_counts():
    made = stage_two().trajectory
    assert made.steps == 7
    assert made.actions == (MOVE, LEFT, OBS, RIGHT, MOVE, MOVE, OBS, MOVE, END)
    assert len(made.poses) == 9


def test_memory_at_each_cycle():
    made = stage_two()
    first, last = made.memory(0, 10), made.memory(2, 10)
    assert len(first.landmarks) == 1
    assert first.edges == ()
    assert last.edges == ((MOVE, LEFT), (RIGHT, MOVE, MOVE))
    assert [mark.step for mark in last.landmarks] == [0, 2, 5]
    assert np.array_equal(last.landmarks[2].views[1], made.picture(made.trajectory.cycles[2].views[1]))
    assert len(made.memory(2, 2).shown().landmarks) == 2
    with pytest.raises(DataError, match="no look around"):
        stage_one().memory(0, 10)


def plain(messages):
    return [
        (m["role"], [p["text"] if p["type"] == "text" else p["image"].tobytes() for p in m["content"]])
        for m in messages
    ]


def test_stage_one_is_written_with_the_agents_own_words():
    made = stage_one(learn=(True, False, True, True, True))
    (place,) = places_of(made.trajectory, "p", NANO)
    got = example_at(made, place.cycle, place.begin, NANO)
    frames = [made.picture(i) for i in range(5)]
    wanted = prompts.base_messages("find the bed", frames[0], NANO)[:1]
    wanted += prompts.fast_messages(frames, made.trajectory.actions)
    assert plain(got.messages) == plain(wanted)
    assert got.learn == (True, False, True, True, True)
    assert place.pictures == 5


def test_long_ways_are_cut_where_the_agent_begins_anew():
    config = dataclasses.replace(NANO, window=2)
    made = stage_one(learn=(True, True, False, False, True))
    places = list(places_of(made.trajectory, "p", config))
    assert [p.begin for p in places] == [0, 4]  # the second window has nothing to learn
    first = example_at(made, 0, 0, config)
    assert plain(first.messages)[-1] == ("assistant", [MOVE])
    assert first.learn == (True, True)
    got = example_at(made, 0, 4, config)
    assert plain(got.messages) == plain(
        [*prompts.base_messages("find the bed", made.picture(4), config), prompts.reply_turn(END)]
    )


def test_segments_are_written_with_the_agents_own_words():
    made = stage_two()
    got = segment_example(made, 1, NANO)
    cycle = made.trajectory.cycles[1]
    memory = Memory(10)
    for past, edge in zip(made.trajectory.cycles[:2], ((), (MOVE, LEFT)), strict=True):
        memory = memory.add(Landmark(tuple(made.picture(v) for v in past.views)), edge)
    frames = [made.picture(f) for f in cycle.frames[1:]]
    wanted = [
        *prompts.cycle_messages("find the bed", memory, made.picture(cycle.views[0]), NANO),
        prompts.reply_turn(prompts.slow_reply("two", RIGHT)),
        *prompts.fast_messages(frames, cycle.actions[1:]),
    ]
    assert plain(got.messages) == plain(wanted)
    assert got.learn == (True,) * 4
    assert [p.pictures for p in places_of(made.trajectory, "p", NANO)] == [4 + 3, 8 + 4, 12 + 2]


def test_a_segment_without_a_thought_teaches_nothing():
    made = with_thoughts(stage_two(), ("one", "", "three"))
    assert [p.cycle for p in places_of(made.trajectory, "p", NANO)] == [0, 2]
    with pytest.raises(DataError, match="no thought"):
        segment_example(made, 1, NANO)
    with pytest.raises(DataError, match="as many thoughts"):
        with_thoughts(made, ("one",))
