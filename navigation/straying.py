"""Going wrong on purpose: what a robot that is learning will do, and an expert never, is shown as well.

An expert does not walk into things, so from it alone one cannot learn that a blocked way calls for a look around.
"""

from __future__ import annotations

import math

import numpy as np

from navigation.actions import LEFT, MOVE, RIGHT
from navigation.records import Pose

_LONGEST = 8  # moves of one straying; one that meets nothing ends without a look
_TURNS = 3  # turns aside before it, at most
_STILL_M = 0.01


class Straying:
    """Now and then turns aside and walks on until something is in the way."""

    def __init__(self, rng: np.random.Generator, chance: float) -> None:
        """``chance`` is that of straying at any one action."""
        self._rng, self._chance = rng, chance
        self._left: list[str] = []  # actions still to be done
        self._before: Pose | None = None  # where its last move began

    def action(self, pose: Pose) -> str | None:
        """What it does instead of the right action from ``pose``; None where it does not stray."""
        if not self._left:
            self._before = None
            if self._chance == 0 or self._rng.random() >= self._chance:
                return None
            turns = [str(self._rng.choice((LEFT, RIGHT)))] * int(self._rng.integers(_TURNS + 1))
            self._left = [*turns, *[MOVE] * _LONGEST]
        action = self._left.pop(0)
        self._before = pose if action == MOVE else None
        return action

    @property
    def under_way(self) -> bool:
        """Whether it is going wrong at present."""
        return bool(self._left)

    def blocked(self, pose: Pose) -> bool:
        """Whether its last move met something and did not lead on; the straying is over then."""
        if self._before is None or math.dist(self._before[:2], pose[:2]) > _STILL_M:
            return False
        self.stop()
        return True

    def stop(self) -> None:
        """Go on rightly."""
        self._left, self._before = [], None
