"""The checkers hold for sound worlds and policies, and each check bites on one that is broken in just that way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from backbone.checks import check_policy, check_world
from backbone.contracts import ActionChunk, ActionSpec, Decision, FloatArray, Image, Observation, Session
from backbone.rollout.agents import ConstantConfig, ExpertConfig, RandomConfig
from backbone.worlds.world import Info, Step, World
from tests.toy_world import CONTINUOUS, DISCRETE, ToyConfig, ToyPolicy, ToyPolicyConfig, ToySession, ToyWorld

# Worlds


@dataclass(frozen=True)
class BrokenConfig(ToyConfig):
    """Makes the world class ``kind``, a name in this module."""

    kind: str = "ToyWorld"

    def make(self) -> ToyWorld:
        made: ToyWorld = globals()[self.kind](self)
        return made


@dataclass
class ThawedConfig(ToyConfig.__bases__[0]):  # type: ignore[misc]
    """Not frozen."""

    world: str = "toy"

    def options(self, index: int) -> dict[str, Any]:
        return {}

    def make(self) -> ToyWorld:
        return ToyWorld(ToyConfig())


@dataclass(frozen=True)
class ArrayOptionsConfig(ToyConfig):
    def options(self, index: int) -> dict[str, Any]:
        return {"place": np.zeros(2)}


class Renamed(ToyWorld):
    name = "lego"


class EagerWorld(ToyWorld):
    """Steps before a reset and after the end."""

    def step(self, action: FloatArray) -> Step:
        if not hasattr(self, "place"):
            self.reset(seed=0)
        self._running = True
        return super().step(action)


class GrowingPictures(ToyWorld):
    def _observation(self) -> Observation:
        seen = super()._observation()
        image = np.pad(seen.images["top"], ((0, self.steps), (0, 0), (0, 0)))
        return replace(seen, images={"top": image})


class StoppedClock(ToyWorld):
    def _observation(self) -> Observation:
        return replace(super()._observation(), time_s=0.0)


class BlackPictures(ToyWorld):
    def _observation(self) -> Observation:
        seen = super()._observation()
        return replace(seen, images={"top": np.zeros_like(seen.images["top"])})


class FrozenPictures(ToyWorld):
    def _observation(self) -> Observation:
        seen = super()._observation()
        if self.steps == 0:
            self.first = seen.images["top"]
        return replace(seen, images={"top": self.first.copy()})


class SharedBuffer(ToyWorld):
    def _observation(self) -> Observation:
        seen = super()._observation()
        self.buffer: Image = getattr(self, "buffer", seen.images["top"])
        self.buffer[:] = seen.images["top"]
        return replace(seen, images={"top": self.buffer})


class SwappedAnswers(ToyWorld):
    def step(self, action: FloatArray) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, terminated, reward, truncated, info


class Unseeded(ToyWorld):
    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        return super().reset(seed=int(np.random.default_rng().integers(2**31)), options=options)


class OneEpisode(ToyWorld):
    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        return super().reset(seed=5, options=options)


class Remembering(ToyWorld):
    """Wears out: the second and later episodes after another seed move less."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.seeds: set[int] = set()

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        self.seeds.add(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: FloatArray) -> Step:
        return super().step(action * np.float32(0.5 if len(self.seeds) > 1 else 1.0))


class GlobalDice(ToyWorld):
    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        np.random.seed(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: FloatArray) -> Step:
        return super().step(np.clip(action + np.float32(np.random.uniform(-0.1, 0.1)), -1, 1))


class NosyMetrics(ToyWorld):
    def describe(self) -> dict[str, Any]:
        self.place = np.clip(self.place + np.float32(0.01), 0, 10)
        return super().describe()


class ClippingWorld(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        return super().step(np.clip(action, -1, 1))


class NanEater(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        return super().step(np.nan_to_num(action, nan=0.0))


class WrongError(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        assert np.isfinite(action).all(), "no"
        return super().step(action)


class Rounding(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        return super().step(np.round(action) if np.isfinite(action).all() else action)


class WritesToAction(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        answer = super().step(action)
        action *= 0
        return answer


class ArrayLabels(ToyWorld):
    def describe(self) -> dict[str, Any]:
        return {"place": self.place}


class InfiniteMetric(ToyWorld):
    def metrics(self) -> dict[str, float]:
        return super().metrics() | {"efficiency": 1.0 / self.path if self.path else float("inf")}


class NoPathLength(ToyWorld):
    def metrics(self) -> dict[str, float]:
        return {"success": 0.0}


class NumberSuccess(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        *rest, info = super().step(action)
        return (*rest, {"success": 1 if info["success"] else 0})  # type: ignore[return-value]


class LastingPath(ToyWorld):
    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        path = getattr(self, "path", 0.0)
        answer = super().reset(seed=seed, options=options)
        self.path = path
        return answer


class Endless(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        observation, reward, _, _, info = super().step(action)
        self._running = True
        return observation, reward, False, False, info


class EarlyEnd(ToyWorld):
    def step(self, action: FloatArray) -> Step:
        observation, reward, terminated, _, info = super().step(action)
        self._running = self.steps < 5
        return observation, reward, terminated, self.steps >= 5, info


class BlankMap(ToyWorld):
    def draw(self) -> Image:
        return np.zeros((48, 48, 3), np.uint8)


class FloatMap(ToyWorld):
    def draw(self) -> Any:
        return np.zeros((48, 48), np.float32)


class DicingExpert(ToyWorld):
    def expert_action(self) -> FloatArray:
        return np.random.default_rng().uniform(-1, 1, 2).astype(np.float32)


class WildExpert(ToyWorld):
    def expert_action(self) -> FloatArray:
        return (self.goal - self.place).astype(np.float32) * 3 + 2


class OnceClosed(ToyWorld):
    def close(self) -> None:
        if self._closed:
            raise RuntimeError("already closed")
        super().close()


class NoWorld:
    def __init__(self, config: ToyConfig) -> None:
        self.name, self.action_spec, self.max_steps = "toy", CONTINUOUS, 40


BROKEN_WORLDS = [
    ("Renamed", "it opens", "use one name"),
    ("NoWorld", "it opens", "derive it from"),
    ("EagerWorld", "a step before a reset is refused", "is accepted"),
    ("GrowingPictures", "observations are valid and keep their form", "must stay the same"),
    ("StoppedClock", "observations are valid and keep their form", "time_s does not grow"),
    ("BlackPictures", "the pictures show something, and it moves", "one colour"),
    ("FrozenPictures", "the pictures show something, and it moves", "no picture changes"),
    ("SharedBuffer", "observations belong to their receiver", "return a copy"),
    ("SwappedAnswers", "step answers in gymnasium's form", "must be a bool"),
    ("Unseeded", "the same seed gives the same episode", "draw everything from the reset's seed"),
    ("OneEpisode", "other seeds give other episodes", "seed is not used"),
    ("Remembering", "an episode does not depend on those before", "reset must set everything"),
    ("GlobalDice", "two worlds side by side do not disturb each other", "global random numbers"),
    ("NosyMetrics", "looking changes nothing", "may only look"),
    ("ClippingWorld", "impossible actions are refused", "above its limits is accepted"),
    ("NanEater", "impossible actions are refused", "NaN action is accepted"),
    ("WrongError", "impossible actions are refused", "raises AssertionError"),
    ("WritesToAction", "step leaves its action alone", "work on a copy"),
    ("ArrayLabels", "describe is plain", "tolist"),
    ("InfiniteMetric", "metrics are finite and agree with info", "not finite"),
    ("NoPathLength", "metrics are finite and agree with info", "lacks ['path_length']"),
    ("NumberSuccess", "metrics are finite and agree with info", "must be a bool"),
    ("LastingPath", "metrics are finite and agree with info", "does not grow from 0"),
    ("Endless", "episodes end in time, and stay ended", "goes on after max_steps"),
    ("EagerWorld", "episodes end in time, and stay ended", "after the end of the episode is accepted"),
    ("EarlyEnd", "episodes end in time, and stay ended", "say the true limit"),
    ("BlankMap", "draw gives a picture", "one colour"),
    ("FloatMap", "draw gives a picture", "uint8"),
    ("DicingExpert", "the expert acts", "no dice"),
    ("WildExpert", "the expert acts", "not in [-1, 1]"),
    ("OnceClosed", "close may be repeated", "must do nothing"),
]


@pytest.mark.parametrize("discrete", [False, True])
def test_a_sound_world_passes(discrete: bool) -> None:
    report = check_world(ToyConfig(discrete=discrete))
    assert report.ok, report.failed
    assert len(report.findings) == 20


@pytest.mark.parametrize(("kind", "check", "words"), BROKEN_WORLDS, ids=lambda value: str(value).replace(" ", "-")[:24])
def test_a_broken_world_is_found_out(kind: str, check: str, words: str) -> None:
    report = check_world(BrokenConfig(kind=kind, max_steps=15), seed=1)
    messages = {finding.name: finding.message for finding in report.failed}
    assert words in messages.get(check, f"nothing; failed were {messages}")


def test_a_fractional_choice_is_found_out() -> None:
    report = check_world(BrokenConfig(kind="Rounding", max_steps=15, discrete=True), seed=1)
    assert [f.name for f in report.failed] == ["impossible actions are refused"]
    assert "fractional choice is accepted" in report.failed[0].message


def test_configs_that_cannot_travel_are_found_out() -> None:
    for config, words in ((ThawedConfig(), "frozen"), (ArrayOptionsConfig(), "options are not plain")):
        report = check_world(config)
        assert words in report.failed[0].message


def test_every_check_of_a_world_has_a_world_that_breaks_it() -> None:
    report = check_world(ToyConfig())
    covered = {check for _, check, _ in BROKEN_WORLDS} | {"the config is frozen and plain"}
    assert covered == {finding.name for finding in report.findings}


def test_a_world_that_cannot_be_opened_fails_every_check_with_its_reason() -> None:
    report = check_world(ToyConfig(broken=True))
    assert {f.name for f in report.failed} >= {"it opens", "close may be repeated"}
    assert "buy another one" in report.failed[0].message


# Policies


@dataclass(frozen=True)
class BrokenPolicyConfig(ToyPolicyConfig):
    """A toy policy with sessions of the class ``kind`` and, if given, an ``act_many`` of that name."""

    kind: str = "ToySession"
    many: str = ""
    spec: ActionSpec = CONTINUOUS

    def make(self, spec: ActionSpec) -> ToyPolicy:
        return BrokenPolicy(self.spec, self)


class BrokenPolicy(ToyPolicy):
    def __init__(self, spec: ActionSpec, config: BrokenPolicyConfig) -> None:
        super().__init__(spec, config)
        self.kind, self.many = config.kind, config.many
        self.shared = np.random.default_rng(0)
        self.count = 0

    def session(self, instruction: str, seed: int) -> ToySession:
        made: ToySession = globals()[self.kind](self, seed)
        return made

    def act_many(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Decision]:
        decisions = super().act_many(sessions, observations)
        many: Callable[[list[Decision]], list[Decision]] = globals()[self.many] if self.many else list
        return many(decisions)


def swapped(decisions: list[Decision]) -> list[Decision]:
    return decisions[::-1]


def one_short(decisions: list[Decision]) -> list[Decision]:
    return decisions[:-1]


def changed(decision: Decision, values: FloatArray) -> Decision:
    return replace(decision, actions=ActionChunk(np.clip(values, -1, 1).astype(np.float32), decision.actions.spec))


class SharedDice(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        shared = self._policy.shared  # type: ignore[attr-defined]
        return changed(decision, decision.actions.values * 0.5 + shared.uniform(-0.4, 0.4))


class SharedMemory(ToySession):
    """Deterministic, but counts the steps of all sessions together as long as several are open."""

    def __init__(self, policy: ToyPolicy, seed: int) -> None:
        super().__init__(policy, seed)
        policy.count = 0  # type: ignore[attr-defined]

    def act(self, observation: Observation) -> Decision:
        self._policy.count += 1  # type: ignore[attr-defined]
        decision = super().act(observation)
        return changed(decision, decision.actions.values * 0.5 + 0.01 * self._policy.count)  # type: ignore[attr-defined]


class LeftOvers(ToySession):
    """Begins with what the last session of another seed left behind."""

    def __init__(self, policy: ToyPolicy, seed: int) -> None:
        super().__init__(policy, seed)
        self.left = getattr(policy, "left", seed)
        policy.left = seed  # type: ignore[attr-defined]

    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        return changed(decision, decision.actions.values * 0.5 + (0.1 if self.left != self._seed else 0.0))


class Unclipped(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        return replace(decision, actions=ActionChunk(decision.actions.values * 5, decision.actions.spec))


class Wordless(ToySession):
    def act(self, observation: Observation) -> Any:
        return super().act(observation).actions.values


class ThoughtNumber(ToySession):
    def act(self, observation: Observation) -> Decision:
        return replace(super().act(observation), thought=3)  # type: ignore[arg-type]


class LateNan(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        decision.actions.values[:] = np.nan
        return decision


class ChangingLength(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        return changed(decision, decision.actions.values[: 1 + self._count % 2])


class EmptyChunk(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        return changed(decision, decision.actions.values[:0])


class OtherSpec(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        return replace(decision, actions=replace(decision.actions, spec=replace(CONTINUOUS, control_hz=3.0)))


class Scribbler(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        if observation.images["top"].flags.writeable:
            observation.images["top"][0, 0] = 255
        return decision


class InPlace(ToySession):
    def act(self, observation: Observation) -> Decision:
        decision = super().act(observation)
        image = observation.images["top"]
        image += 1
        image -= 1
        return decision


class Undead(ToySession):
    def close(self) -> None:
        pass


class ClosedOnce(ToySession):
    def close(self) -> None:
        if self._closed:
            raise RuntimeError("closed already")
        super().close()


class Tiring(ToySession):
    def act(self, observation: Observation) -> Decision:
        if self._count > 8:
            raise RuntimeError("tired")
        return super().act(observation)


BROKEN_POLICIES = [
    ({"spec": replace(CONTINUOUS, units=("cm", "cm"))}, "its actions are the world's", "units"),
    ({"kind": "Unclipped"}, "decisions are valid: finite, within limits, one length", "un-normalise and clip"),
    ({"kind": "Wordless"}, "decisions are valid: finite, within limits, one length", "must return a Decision"),
    ({"kind": "ThoughtNumber"}, "decisions are valid: finite, within limits, one length", "must be text"),
    ({"kind": "LateNan"}, "decisions are valid: finite, within limits, one length", "NaN"),
    ({"kind": "ChangingLength"}, "decisions are valid: finite, within limits, one length", "one length for all"),
    ({"kind": "EmptyChunk"}, "decisions are valid: finite, within limits, one length", "at least one"),
    ({"kind": "OtherSpec"}, "decisions are valid: finite, within limits, one length", "agent's own `spec`"),
    ({"kind": "SharedDice"}, "the same seed gives the same actions", "global random numbers"),
    ({"kind": "LeftOvers"}, "an episode does not depend on those before", "in the session, not in the agent"),
    ({"kind": "SharedMemory"}, "interleaved sessions act as each alone", "move it from the agent"),
    ({"many": "swapped"}, "a common inference decides as each alone", "wrong order"),
    ({"many": "one_short"}, "a common inference decides as each alone", "one each, in order"),
    ({"kind": "Scribbler"}, "act leaves its observation alone", "work on a copy"),
    ({"kind": "InPlace"}, "read-only observations are fine", "cannot be written to"),
    ({"kind": "Undead"}, "a closed session stays closed", "still acts"),
    ({"kind": "ClosedOnce"}, "a closed session stays closed", "must do nothing"),
    ({"kind": "Tiring"}, "it plays an episode to its end", "tired"),
]


@pytest.mark.parametrize("agent", [ToyPolicyConfig(), ExpertConfig(), RandomConfig(), ConstantConfig()])
def test_sound_policies_pass(agent: Any) -> None:
    report = check_policy(agent, ToyConfig())
    assert report.ok, report.failed
    assert len(report.findings) == 11


@pytest.mark.parametrize("agent", [ExpertConfig(), RandomConfig(), ConstantConfig()])
def test_sound_policies_pass_with_choices(agent: Any) -> None:
    assert check_policy(agent, ToyConfig(discrete=True)).ok


@pytest.mark.parametrize(("change", "check", "words"), BROKEN_POLICIES, ids=lambda value: str(value)[:32])
def test_a_broken_policy_is_found_out(change: dict[str, Any], check: str, words: str) -> None:
    report = check_policy(BrokenPolicyConfig(**change, noise=0.9), ToyConfig(max_steps=12), seed=9)
    messages = {finding.name: finding.message for finding in report.failed}
    assert words in messages.get(check, f"nothing; failed were {messages}")


def test_every_check_of_a_policy_has_a_policy_that_breaks_it() -> None:
    report = check_policy(RandomConfig(), ToyConfig())
    covered = {check for _, check, _ in BROKEN_POLICIES} | {"it is made"}
    assert covered == {finding.name for finding in report.findings}


def test_an_agent_that_cannot_be_made_says_why() -> None:
    report = check_policy(ConstantConfig((1.0, 2.0, 3.0)), ToyConfig())
    assert "needs 2 values" in report.failed[0].message
    assert not issubclass(NoWorld, World)
    assert DISCRETE.kind == "discrete"
