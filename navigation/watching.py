"""A navigation world under observation: further measures that say why an episode failed.

The wrapped world is what the agent sees; what is measured besides is privileged and reaches nobody but the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backbone.contracts import FloatArray, Image, Observation
from backbone.errors import WorldError
from backbone.worlds.world import Info, Step, World, WorldConfig
from navigation.actions import MOTOR, ActionMap
from navigation.failures import stagnated

LEAST_SEEN = 0.002  # of the picture: from so much of it on a target counts as seen (41 pixels of 160 x 128)
LEAST_AHEAD = 0.02  # of the picture: from so much on an object is what the robot stands before
FIXED = ("door", "window", "wall", "floor", "ceiling")  # no object one could take for another


@dataclass(frozen=True)
class WatchedConfig:
    """A world of navigation with more measures, each 0 or 1.

    ``stagnated``: it came back to where it was, see `navigation.failures.stagnated`. And where the scene has labels:
    ``target_seen``: the camera ahead showed the target at some step (what a look around shows to the sides is not
    counted); ``target_ahead``, ``object_ahead``: at the end it shows the target, or any object from near.
    """

    inner: WorldConfig

    @property
    def world(self) -> str:
        """The wrapped world's name."""
        return self.inner.world

    def options(self, index: int) -> dict[str, Any]:
        """The wrapped world's."""
        return self.inner.options(index)

    def make(self) -> WatchedWorld:
        """Open the wrapped world."""
        return WatchedWorld(self.inner.make())


class WatchedWorld(World):
    """Passes everything on and keeps count. What other worlds of navigation offer besides is passed on too."""

    def __init__(self, inner: World) -> None:
        """``inner`` must have navigation's actions, ``instances()`` and its place in ``info["position"]``."""
        self.inner: Any = inner
        self.name, self.action_spec, self.max_steps = inner.name, inner.action_spec, inner.max_steps
        self._map = ActionMap.of(inner.action_spec)
        self._places: list[tuple[float, float]] = []
        self._goals: frozenset[int] | None = None  # ids in the label picture; None where the scene has no labels
        self._seen = False
        self._end: dict[str, float] = {}

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """See `World.reset`."""
        observation, info = self.inner.reset(seed=seed, options=options)
        told = self.inner.describe()
        labelled = {int(number) for number in told["labels"]}
        goals = frozenset(int(goal["id"]) for goal in told["goals"])
        self._goals = goals if goals & labelled else None
        self._places, self._end, self._seen = [], {}, False
        self._note(info)
        self._watch()
        return observation, info

    def step(self, action: FloatArray) -> Step:
        """See `World.step`."""
        result: Step = self.inner.step(action)
        _, _, terminated, truncated, info = result
        if self._map.spec.choices[int(action[0])] in _MOVING:
            self._note(info)
            self._watch()
        if terminated or truncated:
            self._end = self._before()
        return result

    def _note(self, info: Info) -> None:
        if "position" not in info:
            raise WorldError(f"{self.name}: info has no position, so it cannot be told whether the agent stagnated")
        x, _, z = info["position"]
        self._places.append((float(x), float(z)))

    def _watch(self) -> None:
        """Look for the target until it was seen once."""
        if self._goals is not None and not self._seen:
            ids = self.inner.instances()
            self._seen = bool(np.isin(ids, list(self._goals)).mean() >= LEAST_SEEN)

    def _before(self) -> dict[str, float]:
        """What the robot stands before."""
        if self._goals is None:
            return {}
        shares = {entry["id"]: entry for entry in self.inner.describe()["visible"]}
        target = sum(e["share"] for number, e in shares.items() if number in self._goals)
        things = [e["share"] for e in shares.values() if e["category"].lower() not in FIXED]
        return {
            "target_ahead": float(target >= LEAST_SEEN),
            "object_ahead": float(max(things, default=0.0) >= LEAST_AHEAD),
        }

    def metrics(self) -> dict[str, float]:
        """The wrapped world's measures and those of `WatchedConfig`."""
        own = {"stagnated": float(stagnated(np.asarray(self._places)))}
        if self._goals is not None:
            own |= {"target_seen": float(self._seen), **(self._end or self._before())}
        return {**self.inner.metrics(), **own}

    def describe(self) -> dict[str, Any]:
        """See `World.describe`."""
        told: dict[str, Any] = self.inner.describe()
        return told

    def expert_action(self) -> FloatArray:
        """See `World.expert_action`."""
        action: FloatArray = self.inner.expert_action()
        return action

    def draw(self) -> Image:
        """See `World.draw`."""
        picture: Image = self.inner.draw()
        return picture

    def close(self) -> None:
        """See `World.close`."""
        self.inner.close()

    def __getattr__(self, name: str) -> Any:
        """Panoramas, label pictures and whatever else the wrapped world has."""
        if name == "inner" or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)


_MOVING = ("move_forward", "turn_left", "turn_right")
assert len(_MOVING) == len(MOTOR)  # noqa: S101 - the same three in the world's words
