"""What thoughts get right: reading them, and counting against what the simulator knew."""

import dataclasses
import json

import numpy as np
import pytest
from speaking import SpeakingVLM

from apps.cli import main
from backbone.errors import ConfigError, DataError
from navigation.config import NavigationConfig
from navigation.data import MakingConfig
from navigation.making import make_episode
from navigation.records import write_episode
from navigation.thought_check import Checked, Claims, check_thoughts, claims_of, summary, true_claims
from navigation.thoughts import situation, write

NANO = NavigationConfig.preset("nano")
MAKING = MakingConfig(stage="stage2", agent=dataclasses.replace(NANO, width=64, height=64))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("episodes")
    world = MAKING.ready_world().make()
    for number in range(2):
        write_episode(make_episode(world, MAKING, number), where, number)
    world.close()
    return where


def recorded(folder):
    from navigation.records import list_episodes, read_episode

    return [read_episode(path) for path in list_episodes(folder)]


@pytest.mark.parametrize("style", ["short", "full"])
def test_the_teachers_own_thoughts_are_read_as_what_they_say(folder, style):
    count = 0
    for made in recorded(folder):
        for number in range(len(made.trajectory.cycles)):
            now = situation(made.trajectory, number)
            for seed in range(4):
                said = claims_of(write(now, style, np.random.default_rng(seed)), made.trajectory.category)
                true = true_claims(now)
                assert said.verdict == true.verdict
                assert said.room == true.room
                if true.verdict == "found":
                    assert said.side == true.side
                if true.verdict != "stop" and any(now.way):
                    assert said.way == now.way
                count += 1
    assert count > 10


@pytest.mark.parametrize(
    ("thought", "claims"),
    [
        (
            "Start. Here gym: left bed. The bed is left; go there: left 3, ahead 8.",
            Claims("found", "left", "gym", (3, 8)),
        ),
        (
            "Been: gym. Here gym: walls. bed behind, but round. Go ahead: right 2.",
            Claims("found", "behind", "gym", (-2, 0)),
        ),
        ("Here: left bed. No bed. Go ahead: ahead 12.", Claims("absent", "", "", (0, 12))),
        ("Here gym: ahead bed. The bed is here. Stop.", Claims("stop", "", "gym", None)),
        ("quite something else", Claims("absent")),
        ("", Claims("absent")),
    ],
)
def test_claims(thought, claims):
    assert claims_of(thought, "bed") == claims


def test_a_model_is_asked_with_the_memory_of_the_record_and_its_thoughts_are_counted(folder):
    vlm = SpeakingVLM(thoughts=["<think_start>Here gym: walls. No bed. Go ahead: ahead 3.<think_end>\nMoveAhead 0.25"])
    found = check_thoughts(vlm, None, [folder], NANO, 5, seed=1)
    assert len(found) == 5
    assert [c.said for c in found] == [Claims("absent", "", "gym", (0, 3))] * 5
    assert {(c.episode, c.cycle) for c in found} == {
        (c.episode, c.cycle) for c in check_thoughts(vlm, None, [folder], NANO, 5, seed=1)
    }
    made = {m.trajectory.id: m for m in recorded(folder)}
    first = made[found[0].episode]
    pictures = [p for m in vlm.calls[0]["messages"] for p in m["content"] if p["type"] == "image"]
    assert len(pictures) == 4 * (found[0].cycle + 1) + 1
    assert found[0].true == true_claims(situation(first.trajectory, found[0].cycle))


def entry(said, true, sides=()):
    return Checked("e", 0, "bed", "", said, true, tuple(sides))


def test_the_summary_counts_what_it_says():
    found = Claims("found", "left", "gym", (3, 8))
    told = summary(
        [
            entry(found, found, ["left"]),
            entry(Claims("absent", "", "gym", (2, 4)), found, ["left"]),
            entry(Claims("found", "ahead", "kitchen", (-5, 8)), Claims("absent", "", "gym", (6, 5))),
            entry(Claims("stop", "", "gym", None), Claims("stop", "", "gym", (0, 0)), ["ahead"]),
            entry(Claims("stop", "", "gym", None), Claims("absent", "", "gym", (0, 5))),
        ]
    )
    shares = {k: (round(v["estimate"] * v["n"]), v["n"]) for k, v in told["shares"].items()}
    assert shares == {
        "object_recall": (2, 3), "object_precision": (2, 4), "side": (1, 1), "room": (4, 5), "plan_given": (3, 4),
        "turns_within_one": (3, 4), "steps_within_three": (2, 4), "stop": (1, 1), "false_stop": (1, 4),
    }  # fmt: skip
    assert told["verdicts"]["absent -> found"] == 1


def test_nothing_to_ask_about_is_said(tmp_path, folder):
    with pytest.raises(DataError, match="holds no episodes"):
        check_thoughts(SpeakingVLM(), None, [tmp_path], NANO, 5)
    with pytest.raises(ConfigError, match="at least 1"):
        check_thoughts(SpeakingVLM(), None, [folder], NANO, 0)
    assert summary([])["n"] == 0


def test_the_command_prints_shares_and_keeps_the_thoughts(folder, tmp_path, capsys):
    assert (
        main(["eval", "thoughts", "--data", str(folder), "--n", "2", "--output", str(tmp_path / "out"), "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["n"] == 2
    rows = [json.loads(line) for line in (tmp_path / "out" / "thoughts.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert all(row["thought"] for row in rows)
    assert main(["eval", "thoughts", "--data", str(tmp_path / "nowhere")]) == 2


def test_weights_that_only_see_have_no_thoughts_to_check(folder, capsys):
    assert main(["eval", "thoughts", "--data", str(folder), "--n", "1", "--adapter", "sight"]) == 2
    assert "learned to see, not to act" in " ".join(capsys.readouterr().err.split())
