"""Playing some steps of a world in a checkable way: deterministic actions, exact comparison, words for a difference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import ActionSpec, FloatArray, Observation
from backbone.errors import ConfigError
from backbone.rollout.agents import RESTING_CHOICES
from backbone.worlds.world import World

FEWEST_STEPS = 2  # in which something can be seen to change


def check_amounts(seed: int, steps: int, index: int = 0) -> None:
    """Raise `ConfigError` for settings with which no checker can say anything of its subject."""
    if seed < 0 or index < 0:
        raise ConfigError(f"seed and index must not be negative, got {seed} and {index}")
    if steps < FEWEST_STEPS:
        raise ConfigError(f"steps must be at least {FEWEST_STEPS}, got {steps}")


@dataclass
class Trace:
    """What came out of some steps: observations (one more than steps), rewards and ends."""

    observations: list[Observation] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    ends: list[tuple[bool, bool]] = field(default_factory=list)
    infos: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether the episode ended within these steps."""
        return bool(self.ends) and any(self.ends[-1])


def actions_for(spec: ActionSpec, seed: int, count: int) -> list[FloatArray]:
    """``count`` actions (A,) within the limits; discrete ones avoid what stands still and may end the episode."""
    generator = np.random.default_rng(seed)
    if spec.kind == "discrete":
        low, high = round(spec.low[0]), round(spec.high[0])
        names = dict(enumerate(spec.choices, low))
        moving = [i for i in range(low, high + 1) if names.get(i, "").lower() not in RESTING_CHOICES]
        return [np.array([generator.choice(moving)], np.float32) for _ in range(count)]
    return [generator.uniform(spec.low, spec.high).astype(np.float32) for _ in range(count)]


def begin(world: World, seed: int, options: Mapping[str, Any]) -> Trace:
    """Reset, and keep a copy of the observation."""
    observation, info = world.reset(seed=seed, options=dict(options))
    return Trace([copied(observation)], infos=[info])


def advance(world: World, trace: Trace, action: FloatArray) -> None:
    """One step, appended to ``trace``."""
    observation, reward, terminated, truncated, info = world.step(action.copy())
    trace.observations.append(copied(observation))
    trace.rewards.append(float(reward))
    trace.ends.append((bool(terminated), bool(truncated)))
    trace.infos.append(info)


def play(world: World, seed: int, options: Mapping[str, Any], actions: Sequence[FloatArray]) -> Trace:
    """Reset and carry out ``actions`` until they or the episode end."""
    trace = begin(world, seed, options)
    for action in actions:
        if trace.ended:
            break
        advance(world, trace, action)
    return trace


def copied(observation: Observation) -> Observation:
    """The observation with arrays of its own."""
    return Observation(
        {name: image.copy() for name, image in observation.images.items()},
        observation.instruction,
        None if observation.state is None else observation.state.copy(),
        observation.time_s,
        {name: depth.copy() for name, depth in observation.depths.items()},
    )


def difference(a: Trace, b: Trace) -> str:
    """The first difference of two traces in words, empty if there is none."""
    for step, (one, other) in enumerate(zip(a.observations, b.observations, strict=False)):
        found = observation_difference(one, other)
        if found:
            return f"at step {step}, {found}"
    for step, (reward, other_reward) in enumerate(zip(a.rewards, b.rewards, strict=False), 1):
        if reward != other_reward:
            return f"at step {step}, the reward is {reward} and then {other_reward}"
    if a.ends != b.ends:
        return f"the episode ends differently, after {len(a.ends)} and {len(b.ends)} steps"
    return ""


def observation_difference(a: Observation, b: Observation) -> str:
    """What differs between two observations, in words."""
    if a.instruction != b.instruction:
        return f"the instruction is {a.instruction!r} and then {b.instruction!r}"
    pairs: list[tuple[str, Any, Any]] = [("state", a.state, b.state)]
    for kind, one, other in (("image", a.images, b.images), ("depth", a.depths, b.depths)):
        if set(one) != set(other):
            return f"the {kind}s are {sorted(one)} and then {sorted(other)}"
        pairs += [(f"{kind} {name!r}", one[name], other[name]) for name in one]
    for name, left, right in pairs:
        if (left is None) != (right is None):
            return f"{name} is there only once"
        if left is not None and (left.shape != right.shape or not np.array_equal(left, right)):
            return f"{name} differs{_amount(left, right)}"
    return f"time_s is {a.time_s} and then {b.time_s}" if a.time_s != b.time_s else ""


def _amount(a: NDArray[Any], b: NDArray[Any]) -> str:
    if a.shape != b.shape:
        return f" in shape, {a.shape} and then {b.shape}"
    gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return f" in {np.mean(gap > 0):.1%} of its values, by up to {gap.max():g}"


def plain(value: object) -> str:
    """JSON text of ``value``; raises `TypeError` or `ValueError` where it is no JSON."""
    return json.dumps(value, sort_keys=True, allow_nan=False)
