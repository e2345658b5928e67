"""The world under test."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from backbone.checks.playing import Trace, actions_for, begin, check_amounts, play
from backbone.contracts import ActionSpec, FloatArray
from backbone.worlds.world import World, WorldConfig

OTHER_SEED = 7_919  # added to the seed for an episode that must differ


class WorldProbe:
    """The world under test, opened when it is needed and opened anew after a check failed."""

    def __init__(self, config: WorldConfig, seed: int, index: int, steps: int) -> None:
        """``index`` chooses the episode's options, ``seed`` the episode, ``steps`` how many are played."""
        check_amounts(seed, steps, index)
        self.config = config
        self.seed = seed
        self.options: Mapping[str, Any] = config.options(index)
        self.steps = steps
        self._world: World | None = None

    @property
    def world(self) -> World:
        """The open world."""
        if self._world is None:
            self._world = self.config.make()
        return self._world

    @property
    def spec(self) -> ActionSpec:
        """The world's actions."""
        return self.world.action_spec

    def begin(self, seed: int | None = None) -> Trace:
        """Reset the world."""
        return begin(self.world, self.seed if seed is None else seed, self.options)

    def play(self, seed: int | None = None, world: World | None = None) -> Trace:
        """Play some steps of the episode of ``seed``."""
        actions = actions_for(self.spec, self.seed, self.steps)
        return play(world or self.world, self.seed if seed is None else seed, self.options, actions)

    @property
    def action(self) -> FloatArray:
        """A valid action (A,)."""
        return actions_for(self.spec, self.seed, 1)[0]

    def close(self) -> None:
        """Close the world, whatever it says to that."""
        world, self._world = self._world, None
        if world is not None:
            with contextlib.suppress(Exception):
                world.close()
