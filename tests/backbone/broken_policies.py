"""Policies that are each broken in one way, and the check that has to find it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backbone.contracts import ActionChunk, ActionSpec, Decision, FloatArray, Observation, Session
from tests.toy_world import CONTINUOUS, ToyPolicy, ToyPolicyConfig, ToySession


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
