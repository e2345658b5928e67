"""Exploratory ways: from the start through the two best waypoints to the target, in the shorter order (section 4.1).

A `Ground` knows where one can stand and how far it is over the floor; there is one for generated homes and one for
scenes of habitat-sim. All points are (x, z) in metres.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import shapely
from numpy.typing import ArrayLike, NDArray

from backbone.errors import DataError
from navigation.config import DataConfig
from navigation.homes.geodesic import FloorMap
from navigation.waypoints import best, scores

Points = NDArray[np.float64]
Distance = Callable[[ArrayLike], float]  # metres over the floor from a place; infinite for none
_BOUNDARY_M = 0.1  # metres between points of a boundary


class Ground(Protocol):
    """The floor of one scene."""

    obstacles: Points  # (U, 2) points of the boundaries of all obstacles

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """Up to ``count`` places one can stand on, spread evenly: (N, 2)."""
        ...

    def distance(self, goals: ArrayLike) -> Distance:
        """The distance to the nearest of some places (G, 2), as a function."""
        ...


class HomeGround:
    """The floor of a generated home: its polygon, and exact shortest ways among its corners."""

    def __init__(self, floor: FloorMap) -> None:
        """Take points of the polygon's boundary."""
        self.floor = floor
        dense = shapely.segmentize(floor.free, _BOUNDARY_M)
        rings = [dense.exterior, *dense.interiors]
        self.obstacles: Points = np.concatenate([np.asarray(r.coords)[:-1] for r in rings])

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """See `Ground.sample`."""
        x0, z0, x1, z1 = self.floor.free.bounds
        share = self.floor.free.area / max((x1 - x0) * (z1 - z0), 1e-9)
        tried = rng.uniform((x0, z0), (x1, z1), (math.ceil(1.1 * count / share) + 32, 2))
        return np.asarray(tried[self.floor.contains(tried)][:count])

    def distance(self, goals: ArrayLike) -> Distance:
        """See `Ground.distance`."""
        field = self.floor.field(goals)
        return lambda place: self.floor.distance_in(field, place)


class GridGround:
    """The floor of a scene of habitat-sim: free cells at the height of the start, distances by its path finder."""

    def __init__(
        self,
        free: NDArray[np.uint8],
        corner: Sequence[float],
        cell_m: float,
        geodesics: Callable[[Points, Points], Sequence[float | None]],
    ) -> None:
        """``free`` (H, W) by z and x from ``corner`` = (x, z); ``geodesics`` takes pairs of places (N, 2), (N, 2)."""
        inside = np.asarray(free, bool)
        if inside.ndim != 2 or not inside.any():
            raise DataError("this scene has no free floor at the height of the start")
        self._corner, self._cell, self._geodesics = np.asarray(corner, np.float64), cell_m, geodesics
        self._free = np.argwhere(inside)
        padded = np.pad(inside, 1)
        beside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        self.obstacles: Points = self._places(np.argwhere(inside & ~beside))

    def _places(self, cells: NDArray[np.int64]) -> Points:
        middle: Points = (cells[:, ::-1] + 0.5) * self._cell + self._corner
        return middle

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """See `Ground.sample`."""
        return self._places(self._free[rng.permutation(len(self._free))[:count]])

    def distance(self, goals: ArrayLike) -> Distance:
        """See `Ground.distance`."""
        ends = np.asarray(goals, np.float64).reshape(-1, 2)

        def far(place: ArrayLike) -> float:
            found = self._geodesics(np.repeat(np.asarray(place, np.float64)[None], len(ends), 0), ends)
            return min((d for d in found if d is not None), default=math.inf)

        return far


@dataclass(frozen=True, eq=False)
class Route:
    """The waypoints (K, 2) in the order they are passed, and metres over the floor of the whole way."""

    waypoints: Points
    length_m: float


def plan_route(
    ground: Ground,
    start: ArrayLike,
    views: ArrayLike,
    target: ArrayLike,
    goals: ArrayLike,
    config: DataConfig,
    rng: np.random.Generator,
) -> Route | None:
    """The exploratory way of an episode; None if it is too long, or no waypoint is far enough from both ends.

    Args:
        ground: the floor.
        start: (2,) where the robot stands.
        views: (V, 2) the view points it is to reach in the end.
        target: (2,) the object that is to be found.
        goals: (G, 2) all objects of its category.
        config: weight, number of samples, radii and limit.
        rng: draws the samples.
    """
    here = np.asarray(start, np.float64)
    points = ground.sample(rng, config.samples)
    values = scores(points, here, target, goals, ground.obstacles, config.openness_weight)
    keep_from = np.stack([here, np.asarray(target, np.float64)])
    chosen = best(points, values, config.waypoints, apart=config.apart_m, keep_from=keep_from, away=config.away_m)
    if not len(chosen):
        return None
    to_goal = ground.distance(views)
    to_point = [ground.distance(p[None]) for p in chosen]
    routes = [
        (_length(here, order, chosen, to_point, to_goal), order) for order in itertools.permutations(range(len(chosen)))
    ]
    length, order = min(routes)
    return Route(chosen[list(order)], length) if length <= config.longest_m else None


def _length(
    here: Points, order: Sequence[int], chosen: Points, to_point: Sequence[Distance], to_goal: Distance
) -> float:
    total, place = 0.0, here
    for index in order:
        total += to_point[index](place)
        place = chosen[index]
    return total + to_goal(place)
