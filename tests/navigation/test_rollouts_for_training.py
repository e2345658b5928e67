"""Rollouts under watch: what they record is what was done, with a robot that circles and with a real agent."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from backbone.errors import ModelError, WorldError
from backbone.vlm import VLM
from navigation.actions import LEFT, MOVE, OBS, RIGHT
from navigation.agent import HydraAgent
from navigation.config import DataConfig, NavigationConfig
from navigation.data import Dropped, MakingConfig
from navigation.examples import places_of
from navigation.repairing import playing, roll_out, roll_out_many, settle, teachable
from navigation.switching import SwitchConfig

AGENT = dataclasses.replace(
    NavigationConfig.preset("nano"), width=64, height=64, least_pixels=64 * 64, thought_tokens=4, slow_retries=0
)
DATA = DataConfig(rollout_steps=30, progress_low=4, progress_high=6, stagnation_steps=5, least_gap=6)
MAKING = MakingConfig(stage="stage2", agent=AGENT, data=DATA, noise=0.0)


@pytest.fixture(scope="module")
def world():
    made = MAKING.ready_world().make()
    yield made
    made.close()


@pytest.fixture(scope="module")
def agent(tiny_vlm_dir, world):
    own = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")), pixels=AGENT.pixels(own.pixels))
    hot = dataclasses.replace(AGENT, temperature=1.0)
    return HydraAgent(vlm, world.action_spec, hot, SwitchConfig("learned"))


class Circler:
    """Turns on the spot, looks around at the start and when it is asked to; counts how often it was."""

    def __init__(self):
        self.asked = 0

    def session(self, instruction, seed):
        self.why, self.fresh, self.steps = "start", False, 0
        return self

    def ask_to_think(self):
        self.asked, self.why = self.asked + 1, "asked"

    def act(self, observation):
        if self.why:
            self.why, self.fresh = "", True
            return SimpleNamespace(action=OBS, mode="obs", thought="")
        mode, self.fresh = ("slow" if self.fresh else "fast"), False
        self.steps += 1
        action = (LEFT, MOVE, RIGHT, RIGHT)[self.steps % 4]
        return SimpleNamespace(action=action, mode=mode, thought=f"thought {self.steps}" if mode == "slow" else "")

    def close(self):
        self.why = "closed"


@pytest.fixture(scope="module")
def rollouts(world):
    return [roll_out(world, Circler(), MAKING, MAKING.episode_seed(n), MAKING.options(n)) for n in range(2)]


def test_every_action_and_distance_is_written_down(rollouts):
    for rollout in rollouts:
        made = rollout.recorded.trajectory
        motor = [a for a in made.actions if a != OBS]
        assert len(rollout.distances) == len(motor) + (not rollout.ended)
        assert all(c.views for c in made.cycles)
        assert made.facts["ended"] == rollout.ended
        assert len(motor) <= DATA.rollout_steps
        at_action = [d for d, a in zip(made.facts["distances"], made.actions, strict=True) if a != OBS]
        assert np.allclose(at_action, rollout.distances[: len(motor)], atol=1e-3)


def test_stagnation_forces_a_look_at_that_very_place(rollouts):
    forced = 0
    for rollout in rollouts:
        made = rollout.recorded.trajectory
        ends = np.cumsum([sum(a != OBS for a in c.actions) for c in made.cycles])
        for t in rollout.stagnant:
            if t < len(rollout.distances) - 1:
                assert t in ends  # a cycle ends where the robot stood at time t
                forced += 1
        assert all(b - a >= DATA.least_gap for a, b in zip(rollout.stagnant, rollout.stagnant[1:], strict=False))
    assert forced > 0
    assert all(c.thought for rollout in rollouts for c in rollout.recorded.trajectory.cycles)


def test_rollouts_of_a_model_are_functions_of_their_seed(world, agent):
    one, again = (roll_out(world, agent, MAKING, MAKING.episode_seed(3), MAKING.options(3)) for _ in range(2))
    assert again.recorded.trajectory == one.recorded.trajectory
    assert again.recorded.packed == one.recorded.packed
    assert one.recorded.trajectory.cycles[0].views


def test_rollouts_together_are_those_of_each_alone(agent):
    made = [MAKING.ready_world().make() for _ in range(3)]
    numbers = (3, 4, 11)  # of two homes

    def begun(number, world):
        return playing(world, agent, MAKING, MAKING.episode_seed(number), MAKING.options(number))

    together = roll_out_many([begun(n, w) for n, w in zip(numbers, made, strict=True)], agent.act_many)
    for number, found in zip(numbers, together, strict=True):
        alone = roll_out(made[0], agent, MAKING, MAKING.episode_seed(number), MAKING.options(number))
        assert found.recorded.trajectory == alone.recorded.trajectory
        assert found.distances == alone.distances
    for world in made:
        world.close()


def test_what_befalls_one_of_several_stays_in_its_place():
    def episode(length, fails=False):
        for i in range(length):
            assert (yield f"s{i}", f"o{i}") == i
        if fails:
            raise WorldError("the simulator is gone")
        return length

    asked = []

    def decide(sessions, observations):
        asked.append(len(sessions))
        return [int(s[1:]) for s in sessions]

    found = roll_out_many([episode(2), episode(4, fails=True), episode(3), episode(0)], decide)
    assert [f if isinstance(f, int) else type(f) for f in found] == [2, WorldError, 3, 0]
    assert asked == [3, 3, 2, 1]

    def broken(sessions, observations):
        raise ModelError("no")

    found = roll_out_many([episode(2), episode(0)], broken)
    assert isinstance(found[0], ModelError)
    assert found[1] == 0


def test_what_failed_is_repaired_and_can_be_learned(world, rollouts):
    for rollout in rollouts:
        try:
            made, judgement = settle(world, rollout, MAKING)
        except Dropped:
            continue
        assert judgement.fate in ("keep", "repair")
        assert made.trajectory.success
        assert list(places_of(made.trajectory, "p", AGENT))


@pytest.mark.parametrize(("said", "kept"), [(" Go left. ", "Go left."), (None, ""), ("a <think_end> b", "")])
def test_thoughts_with_tags_left_are_not_taught(said, kept):
    assert teachable(said) == kept
