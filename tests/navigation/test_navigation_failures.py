"""Why episodes failed, how long they took, how often they reasoned: worked values, and the watched world."""

import numpy as np
import pytest

from backbone.errors import DataError
from backbone.rollout.agents import ExpertConfig
from backbone.rollout.config import Episode
from backbone.rollout.episode import run_episode
from backbone.rollout.results import EpisodeResult
from navigation.failures import ORDER, classify, stagnated, taxonomy
from navigation.timing import episode_sot, episode_time, reasoning_of, sot_sensitivity
from navigation.watching import WatchedConfig
from navigation.worlds.rooms import RoomsConfig


def ended(**changes):
    return {
        "success": 0.0, "stopped": 1.0, "reachable": 1.0, "stagnated": 0.0,
        "target_seen": 0.0, "target_ahead": 0.0, "object_ahead": 1.0, **changes,
    }  # fmt: skip


CASES = [
    ("success", ended(success=1.0)),
    ("misidentified", ended()),
    ("misidentified", ended(target_seen=1.0, object_ahead=0.0)),
    ("stopped_short", ended(target_seen=1.0, target_ahead=1.0)),
    ("gave_up", ended(object_ahead=0.0)),
    ("timeout_stagnated", ended(stopped=0.0, stagnated=1.0)),
    ("timeout_wandering", ended(stopped=0.0, target_seen=1.0)),
    ("unreachable", ended(stopped=0.0, reachable=0.0)),
    ("misidentified", {"success": 0.0, "stopped": 1.0, "reachable": 1.0, "stagnated": 0.0}),
]


@pytest.mark.parametrize(("name", "measures"), CASES)
def test_every_end_has_one_name(name, measures):
    assert classify(measures) == name


def test_the_taxonomy_counts_all():
    counts = taxonomy([measures for _, measures in CASES])
    assert sum(counts[name] for name in ORDER) == len(CASES)
    assert counts["misidentified"] == 3
    assert counts["never_saw"] == 4  # failures with labels in which the target was never in view
    with pytest.raises(DataError, match="stagnated"):
        classify({"success": 0.0, "stopped": 1.0, "reachable": 1.0})


def test_stagnation_by_hand():
    straight = np.stack([np.arange(60) * 0.25, np.zeros(60)], 1)
    assert not stagnated(straight)
    assert stagnated(np.zeros((21, 2)))  # k = 0, t = 20
    assert not stagnated(np.zeros((20, 2)))
    there_and_back = np.concatenate([straight[:15], straight[14::-1]])
    assert stagnated(there_and_back)
    circle = np.stack([np.cos(np.arange(25) * 2 * np.pi / 24), np.sin(np.arange(25) * 2 * np.pi / 24)], 1) * 2
    assert stagnated(circle)
    assert not stagnated(circle[:18])
    assert not stagnated(np.zeros((0, 2)))


def row(success=True, **changes):
    # the worked example of the notes: 5 m straight, 30 moves, 8 turns, 2 looks, a stop, 846 tokens
    metrics = {"success": float(success), "optimal_time": 20.0, "execution_time": 30 + 8 * 0.6 + 2 * 4.0 + 0.1}
    values = {
        "index": 0, "seed": 1, "options": {}, "status": "scored", "success": success, "metrics": metrics,
        "ledger": {"generated_tokens": 846},
        "statuses": {"obs: start": 1, "obs: policy": 3, "obs: forced": 2, "obs: offered": 1, "slow": 7,
                     "slow, repaired": 1, "fast": 90, "fast, repaired": 2, "looking": 11},
    }  # fmt: skip
    return EpisodeResult(**{**values, **changes})


def test_the_worked_example_of_sot():
    assert episode_time(row()) == pytest.approx(42.9 + 12.69)
    assert episode_sot(row()) == pytest.approx(0.360, abs=5e-4)
    assert episode_sot(row(success=False)) == 0.0
    assert episode_sot(row(status="failed", metrics={})) == 0.0
    with pytest.raises(DataError, match="optimal_time"):
        episode_sot(row(metrics={"success": 1.0}))


def test_sot_falls_with_the_price_of_a_token():
    curve = sot_sensitivity([row(), row(success=False)])
    values = [interval.estimate for interval in curve.values()]
    assert list(curve) == ["0.0075", "0.015", "0.03", "0.06", "0.12", "0.24", "0.48"]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 7
    assert curve["0.48"].estimate == pytest.approx(20 / (42.9 + 0.48 * 846) / 2)
    assert curve["0.015"].estimate == pytest.approx(0.360 / 2, abs=5e-4)


def test_reasoning_by_hand():
    found = reasoning_of(row())
    assert (found.fast, found.slow, found.repaired) == (92, 8, 3)
    assert found.looks == {"start": 1, "policy": 3, "forced": 2, "offered": 1}
    assert found.ratio == 8 / 100
    assert found.forced_share == 3 / 6
    twice = found + found
    assert (twice.slow, twice.ratio, twice.looks["forced"]) == (16, 0.08, 4)
    other = reasoning_of(row(statuses={"ok": 40}))
    assert (other.fast, other.ratio, other.forced_share) == (40, 0.0, 0.0)


@pytest.fixture(scope="module")
def world():
    world = WatchedConfig(RoomsConfig(width=96, height=72, max_steps=200)).make()
    yield world
    world.close()


class TestWatched:
    def act(self, world, name):
        return world.step(np.array([world.action_spec.choices.index(name)], np.float32))

    def test_the_expert_sees_what_it_finds_and_ends_before_it(self, world):
        agent = ExpertConfig().make(world.action_spec)
        result = run_episode(world, agent, Episode(0, 11, {}))
        assert result.success
        assert result.metrics["target_seen"] == result.metrics["target_ahead"] == result.metrics["object_ahead"] == 1.0
        assert classify(result.metrics) == "success"

    def test_turning_for_ever_is_stagnation(self, world):
        world.reset(seed=11)
        for _ in range(25):
            self.act(world, "turn_left")
        assert world.metrics()["stagnated"] == 1.0

    def test_an_end_at_once_is_no_success_and_named(self, world):
        world.reset(seed=11)
        self.act(world, "stop")
        measures = world.metrics()
        assert measures["stopped"] == 1.0
        assert classify(measures) in ("gave_up", "misidentified", "stopped_short")
        assert world.metrics() == measures

    def test_all_else_is_the_worlds_own(self, world):
        world.reset(seed=11)
        assert world.panorama()["left"].shape == (72, 96, 3)
        assert world.describe()["category"]
        assert world.semantic().shape == (72, 96)
        with pytest.raises(AttributeError):
            world.no_such_thing  # noqa: B018
        config = WatchedConfig(RoomsConfig())
        assert config.world == "rooms"
        assert config.options(3) == {}
