"""Episodes of stages 1 and 2 and repaired rollouts: played in `rooms`, held to the paper's rules."""

import dataclasses
import json
import os

import numpy as np
import pytest
from nav_records import FakeJob, stage_two

from backbone.errors import ConfigError, DataError, WorldError
from navigation.actions import END, LEFT, MOVE, OBS, ActionMap
from navigation.config import DataConfig, NavigationConfig
from navigation.data import Dropped, MakingConfig
from navigation.irft import Judgement
from navigation.making import MakingJob, make_episode
from navigation.producing import count, produce
from navigation.records import list_episodes, read_episode
from navigation.repairing import repair, settle
from navigation.thoughts import Situation, TemplateTeacher, side_of, situation, think_all, write
from navigation.worlds.rooms import RoomsConfig

AGENT = dataclasses.replace(NavigationConfig.preset("nano"), width=64, height=64)
DATA = DataConfig(samples=200)
ONE = MakingConfig(agent=AGENT, data=DATA, per_home=4)
TWO = dataclasses.replace(ONE, stage="stage2")


@pytest.fixture(scope="module")
def world():
    made = ONE.ready_world().make()
    yield made
    made.close()


@pytest.fixture(scope="module")
def explored(world):
    return [make_episode(world, TWO, n) for n in range(3)]


def replay(world, made, config, number):
    """The world at the end of the trajectory's own actions."""
    world.reset(seed=config.episode_seed(number), options=config.options(number))
    actions = ActionMap.of(world.action_spec)
    seen = []
    for action in made.trajectory.actions:
        if action == OBS:
            continue
        observation, *_, info = world.step(np.array([actions.index(action)], np.float32))
        seen.append(observation.images["front"])
    return seen, info


def test_stage_one_is_a_function_of_its_number_and_ends_at_the_object(world):
    first, again, other = (make_episode(world, ONE, n) for n in (2, 2, 3))
    assert first.trajectory == again.trajectory
    assert first.packed == again.packed
    assert first.trajectory != other.trajectory
    seen, info = replay(world, first, ONE, 2)
    assert info["success"]
    (cycle,) = first.trajectory.cycles
    assert cycle.actions[-1] == END
    assert not cycle.views
    for frame, image in zip(cycle.frames[1:], seen, strict=False):
        assert np.abs(first.picture(frame).astype(int) - image).mean() < 4  # what was seen after each action


def test_wrong_actions_are_made_and_not_learned(world):
    noisy = dataclasses.replace(ONE, noise=0.5)
    made = make_episode(world, noisy, 1).trajectory.cycles[0]
    share = np.mean([not x for x in made.learn])
    assert 0.15 < share < 0.6  # a third of the random ones are right by chance
    assert made.learn[-1]
    clean = make_episode(world, dataclasses.replace(ONE, noise=0.0), 1).trajectory.cycles[0]
    assert all(clean.learn)
    assert len(clean.actions) < len(made.actions)


def test_poses_follow_the_actions(world):
    made = make_episode(world, dataclasses.replace(ONE, noise=0.0), 0).trajectory
    poses = np.array(made.poses)
    for before, after, action in zip(poses, poses[1:], made.actions, strict=False):
        moved, turned = np.linalg.norm(after[:2] - before[:2]), np.angle(np.exp(1j * (after[2] - before[2])))
        if action == MOVE:
            assert moved <= 0.25 + 1e-4
            assert abs(turned) < 1e-4
            if moved > 0.01:
                ahead = np.array([-np.sin(before[2]), -np.cos(before[2])])
                assert np.allclose((after[:2] - before[:2]) / moved, ahead, atol=1e-2)
        else:
            assert moved < 1e-4
            assert np.degrees(turned) == pytest.approx(30 if action == LEFT else -30, abs=0.01)


def test_segments_are_sixteen_steps_and_every_one_has_a_thought(explored):
    for made in explored:
        *inner, last = made.trajectory.cycles
        assert all(len(c.actions) == 16 and c.actions[-1] == OBS for c in inner)
        assert len(last.actions) <= 16
        assert last.actions[-1] == END
        assert all(c.thought and len(c.views) == 4 for c in made.trajectory.cycles)
        assert all(c.learn[0] for c in made.trajectory.cycles)  # a thought goes with a right action
        assert made.trajectory.success


def test_exploratory_ways_are_longer_than_the_shortest(world, explored):
    literal = dataclasses.replace(TWO, seen_m=0.0, noise=0.0)
    ways = [make_episode(world, literal, n).trajectory for n in range(3)]
    assert all(t.facts["measures"]["path_length"] > 1.05 * t.facts["distances"][0] for t in ways)


def test_an_episode_that_takes_too_long_is_dropped(world):
    hasty = dataclasses.replace(ONE, data=DataConfig(repaired_steps=3))
    with pytest.raises(Dropped, match="more than 3 steps"):
        make_episode(world, hasty, 0)


def test_thoughts_tell_the_truth(explored):
    for made in explored:
        again = think_all(made, TemplateTeacher("short", TWO.seed))
        assert again.trajectory == made.trajectory
        for i, cycle in enumerate(made.trajectory.cycles):
            now = situation(made.trajectory, i)
            named = {side for side in ("ahead", "left", "behind", "right") if f"{side} bed" in cycle.thought}
            if made.trajectory.category == "bed":
                assert named <= {
                    s for s, v in zip(("ahead", "left", "behind", "right"), now.views, strict=True) if v["goals"]
                }
            assert ("No " + made.trajectory.category.replace("_", " ")) not in cycle.thought or now.goal is None
            assert "future" not in cycle.thought.lower()


def view(*things, doors=(), goals=()):
    return {"things": [[n, 1.0] for n in things], "doors": list(doors), "goals": list(goals)}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, ("kitchen", "left table", "No bed", "right through the door")),
        ({"views": (view(), view(goals=[2.0]), view(), view()), "toward": 1}, ("left bed", "bed")),
        ({"ends": True}, ("Stop",)),
        ({"rooms": ()}, ("left table",)),
        ({"returns": True}, ("again",)),
    ],
)
def test_parts_of_a_short_thought(change, wanted):
    base = {"category": "bed", "rooms": ("kitchen", "bedroom"), "room": "bathroom", "toward": 3, "ends": False}
    views = (view("sofa"), view("table"), view(), view("sink", doors=[1.0]))
    now = Situation(**{**base, "views": views, "returns": False, **change})
    for seed in range(6):
        text = write(now, "short", np.random.default_rng(seed))
        assert all(part in text for part in wanted), text
        assert len(text) < 200
    assert len({write(now, "full", np.random.default_rng(s)) for s in range(20)}) > 1


@pytest.mark.parametrize(
    ("there", "side"),
    [((0, -2, 0), 0), ((-2, 0, 0), 1), ((0, 2, 0), 2), ((2, 0, 0), 3), ((0.1, 0.1, 0), None)],
)
def test_sides_of_places(there, side):
    assert side_of((0.0, 0.0, 0.0), there) == side


def test_nothing_is_thought_of_what_was_not_noted():
    with pytest.raises(DataError, match="nothing is known"):
        situation(stage_two().trajectory, 0)


# Repairs


def failed(made, at, config, number):
    """A rollout that never came to an end: the trajectory's cycles, cut off."""
    cycles, left = [], at
    for cycle in made.trajectory.cycles:
        cycles.append(cycle)
        left -= sum(a != OBS for a in cycle.actions)
        if left <= 0:
            break
    facts = {**made.trajectory.facts, "options": config.options(number)}
    facts["around"] = facts["around"][: len(cycles)]
    return dataclasses.replace(
        made, trajectory=dataclasses.replace(made.trajectory, cycles=tuple(cycles), facts=facts, success=False)
    )


@pytest.mark.parametrize("at", [0, 7, 15, 20])
def test_a_repair_keeps_what_came_before_and_ends_at_the_target(world, explored, at):
    source = failed(explored[1], 40, TWO, 1)
    made, object_m = repair(world, source, Judgement("timeout", "repair", at), TWO)
    assert object_m <= 1.0
    assert made.trajectory.success
    motor = [a for a in made.trajectory.actions if a != OBS]
    assert motor[:at] == [a for a in source.trajectory.actions if a != OBS][:at]
    places = np.cumsum([sum(a != OBS for a in c.actions) for c in made.trajectory.cycles])
    assert at == 0 or at in places  # a look around at the very place of the cut
    before = [c for c, end in zip(made.trajectory.cycles, places, strict=True) if end <= at]
    assert [c.thought for c in before] == [c.thought for c in source.trajectory.cycles][: len(before)]
    after = made.trajectory.cycles[len(before) :]
    assert all(c.thought for c in after)
    assert all(sum(a != OBS for a in c.actions) <= 30 for c in after)


def test_a_replay_that_goes_elsewhere_is_noticed(world, explored):
    source = failed(explored[1], 40, TWO, 1)
    cycle = source.trajectory.cycles[0]
    moved = dataclasses.replace(cycle, poses=tuple((x + 0.5, z, h) for x, z, h in cycle.poses))
    wrong = dataclasses.replace(source.trajectory, cycles=(moved, *source.trajectory.cycles[1:]))
    with pytest.raises(WorldError, match="elsewhere"):
        repair(world, dataclasses.replace(source, trajectory=wrong), Judgement("timeout", "repair", 7), TWO)


@pytest.mark.parametrize(
    ("ended", "object_m", "limit", "fate"),
    [(True, 0.5, 400, "keep"), (False, 3.0, 400, "repair"), (True, 3.0, 400, "repair"), (False, 3.0, 10, "drop")],
)
def test_what_is_learned_of_a_rollout(world, explored, ended, object_m, limit, fate):
    from navigation.repairing import Rollout

    source = failed(explored[1], 40, TWO, 1)
    count_ = sum(a != OBS for a in source.trajectory.actions)
    distances = tuple(float(10 - abs(i - 12) * 0.1) for i in range(count_))
    rollout = Rollout(source, ended, object_m, distances, ())
    config = dataclasses.replace(TWO, data=DataConfig(samples=200, repaired_steps=limit))
    if fate == "drop":
        with pytest.raises(Dropped, match="timeout"):
            settle(world, rollout, config)
        return
    made, judgement = settle(world, rollout, config)
    assert judgement.fate == fate
    assert made.trajectory.facts["fate"] == fate
    assert (made.packed == source.packed) == (fate == "keep")


# Many episodes


@pytest.mark.parametrize("workers", [1, 2])
def test_episodes_are_counted_whatever_the_workers(workers, tmp_path):
    report = produce(FakeJob(), 20, tmp_path, workers=workers)
    assert (report.expected, report.made, report.dropped, report.failed) == (20, 14, 4, 2)
    assert report.reasons == {"dropped: every fifth": 4, "failed: seven and seventeen fail": 2}
    assert not report.complete
    assert [read_episode(p).trajectory.seed for p in list_episodes(tmp_path)] == [
        n for n in range(20) if n % 5 and n % 10 != 7
    ]
    stored = json.loads((tmp_path / "summary.json").read_text())
    assert stored["made"] == 14
    trace = json.loads((tmp_path / "00000" / "00000007.json").read_text())
    assert "seven and seventeen fail" in trace["traceback"]


def test_a_run_goes_on_where_it_stopped(tmp_path):
    produce(FakeJob(), 10, tmp_path)
    path = tmp_path / "00000" / "00000003.npz"
    stamp = path.stat().st_mtime_ns
    (tmp_path / "00000" / "00000004.npz").unlink()
    report = produce(FakeJob(), 20, tmp_path)
    assert path.stat().st_mtime_ns == stamp
    assert report.new == 11
    assert count(tmp_path, range(20)).made == 14


def test_other_settings_need_another_folder(tmp_path):
    produce(FakeJob(), 2, tmp_path)
    with pytest.raises(ConfigError, match="taste"):
        produce(FakeJob(taste="sour"), 2, tmp_path)


def test_a_worker_that_dies_is_told_of(tmp_path):
    with pytest.raises(DataError, match="worker died"):
        produce(FakeJob(dies=True), 20, tmp_path, workers=2)
    assert os.path.isdir(tmp_path)


def test_settings_of_a_job_are_kept(tmp_path):
    from navigation.producing import _plain

    kept = _plain(MakingJob(ONE))
    assert kept["making.stage"] == "stage1"
    assert kept["making.world.split"] == "train"
    assert json.loads(json.dumps(kept)) == kept


@pytest.mark.parametrize(
    "wrong",
    [
        {"stage": "stage3"},
        {"noise": 1.0},
        {"per_home": 0},
        {"world": RoomsConfig(split="val")},
        {"world": RoomsConfig(unusual=(("bed", "kitchen"),))},
        {"seen_m": -1.0},
        {"seen_m": float("nan")},
        {"seen_m": float("inf")},
    ],
)
def test_impossible_settings(wrong):
    with pytest.raises(ConfigError, match="navigation data"):
        dataclasses.replace(ONE, **wrong)


def test_training_never_sees_held_out_homes_or_seeds(world):
    made = make_episode(world, ONE, 5).trajectory
    assert made.facts["home"]["split"] == "train"
    assert ONE.episode_seed(0) > 1_000_000
    assert not ONE.ready_world().unusual
