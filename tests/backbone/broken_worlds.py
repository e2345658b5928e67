"""Worlds that are each broken in one way, and the check that has to find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backbone.contracts import FloatArray, Image, Observation
from backbone.worlds.world import Info, Step
from tests.toy_world import CONTINUOUS, ToyConfig, ToyWorld


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
