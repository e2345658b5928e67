"""When a robot has stopped getting anywhere: the two tests of section 5.1, and when they call for a slow turn.

Positions are those at times 0, 1, ... t, one a motor action; distances are metres of the shortest way to the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from backbone.errors import DataError
from navigation.config import DataConfig

Why = Literal["repetition", "no progress"]


def repeats(
    places: Sequence[Sequence[float]], t: int, *, steps: int = 20, radius_m: float = 0.5, since: int = 0
) -> bool:
    """Test 1: some ``k`` in ``[since, t - steps]`` with ``|p_t - p_k| <= radius_m``."""
    last = t - steps
    if last < max(since, 0):
        return False
    past = np.asarray(places[max(since, 0) : last + 1], np.float64)
    return bool((np.linalg.norm(past - np.asarray(places[t], np.float64), axis=1) <= radius_m).any())


def no_progress(distances: Sequence[float], t: int, delta: int) -> bool:
    """Test 2: ``dist(p_t) > dist(p_(t - delta))``; never for ``t <= delta``."""
    return t > delta and distances[t] > distances[t - delta]


class Watch:
    """Follows an episode and says at which times a slow turn is forced.

    The span of test 2 is redrawn at each step from a generator seeded with the episode's. Without ``paper_literal`` two
    forced turns lie at least ``least_gap`` steps apart, and test 1 looks back no farther than ``stagnation_steps``
    before the last slow turn: as printed, a repetition once true would force a slow turn at every step.
    """

    def __init__(self, config: DataConfig, seed: int) -> None:
        """A watch at time 0."""
        self._config = config
        self._rng = np.random.default_rng([seed, 0x57A6])
        self._places: list[tuple[float, float]] = []
        self._distances: list[float] = []
        self._slow = 0  # time of the last slow turn, whatever called for it

    @property
    def t(self) -> int:
        """The present time; -1 before the first step."""
        return len(self._places) - 1

    def slow(self) -> None:
        """A slow turn takes place now."""
        self._slow = max(self.t, 0)

    def step(self, place: tuple[float, float], distance: float) -> Why | None:
        """Where the robot is at the next time, and why a slow turn is forced there; None if it is not."""
        if not math.isfinite(place[0] + place[1] + distance):
            raise DataError(f"stagnation: places and distances must be finite, got {place} and {distance}")
        self._places.append(place)
        self._distances.append(distance)
        c, t = self._config, self.t
        delta = int(self._rng.integers(c.progress_low, c.progress_high + 1))
        if not c.paper_literal and t - self._slow < c.least_gap:
            return None
        since = 0 if c.paper_literal else max(0, self._slow - c.stagnation_steps)
        if repeats(self._places, t, steps=c.stagnation_steps, radius_m=c.stagnation_m, since=since):
            return "repetition"
        return "no progress" if no_progress(self._distances, t, delta) else None


def stagnant_times(
    places: Sequence[tuple[float, float]], distances: Sequence[float], config: DataConfig, seed: int
) -> list[int]:
    """All times of a finished episode at which a watch without slow turns of its own would have forced one."""
    if len(places) != len(distances):
        raise DataError(f"stagnation: {len(places)} places and {len(distances)} distances")
    watch, found = Watch(config, seed), []
    for place, distance in zip(places, distances, strict=True):
        if watch.step(place, distance) is not None:
            found.append(watch.t)
            watch.slow()
    return found
