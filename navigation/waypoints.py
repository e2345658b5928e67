"""Where an exploratory way leads through: the waypoint score of section 4.1 and the choice of the best points.

``S(p; p_init) = min_U |p - q| / max_U |p - q| + weight (1 - |p - p_target| / max_G |p_init - q|)``

U are the boundaries of obstacles, G all places of the target in the scene; the first term is openness, the second
closeness to the target. All points are (x, z) in metres.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backbone.errors import DataError

Points = NDArray[np.float64]
_BLOCK = 512  # points scored at a time


def scores(
    points: ArrayLike, start: ArrayLike, target: ArrayLike, goals: ArrayLike, obstacles: ArrayLike, weight: float = 0.7
) -> Points:
    """The score of every point (N,).

    Args:
        points: (N, 2) reachable places.
        start: (2,) ``p_init``.
        target: (2,) ``p_target``, the place of the target that the episode is about.
        goals: (G, 2) all places of the target, ``target`` among them.
        obstacles: (U, 2) points of the boundaries, dense enough to stand for them.
        weight: lambda; 0.7 in the paper.

    Raises:
        DataError: a shape is wrong, or there are no goals, no obstacles, or the only goal is the start itself.
    """
    p, q = _points(points, "points"), _points(obstacles, "obstacles")
    g, here, there = _points(goals, "goals"), np.asarray(start, np.float64), np.asarray(target, np.float64)
    if here.shape != (2,) or there.shape != (2,):
        raise DataError(f"waypoints: start and target are (2,), got {here.shape} and {there.shape}")
    farthest = float(np.linalg.norm(g - here, axis=1).max())
    if farthest <= 0:
        raise DataError("waypoints: the start lies on the only goal, so closeness is not defined")
    closeness = 1.0 - np.linalg.norm(p - there, axis=1) / farthest
    total: Points = openness(p, q) + weight * closeness
    return total


def openness(points: ArrayLike, obstacles: ArrayLike) -> Points:
    """The first term alone (N,): distance to the nearest boundary over that to the farthest, 0 to 1."""
    p, q = _points(points, "points"), _points(obstacles, "obstacles")
    out = np.empty(len(p))
    for begin in range(0, len(p), _BLOCK):
        away = np.linalg.norm(p[begin : begin + _BLOCK, None] - q[None], axis=2)
        out[begin : begin + _BLOCK] = away.min(1) / np.maximum(away.max(1), 1e-12)
    return out


def best(
    points: ArrayLike,
    values: ArrayLike,
    count: int,
    *,
    apart: float = 3.0,
    keep_from: ArrayLike = (),
    away: float = 2.0,
) -> Points:
    """The ``count`` points of highest value, none nearer than ``apart`` metres to a better one: (<= count, 2).

    Points within ``away`` metres of any place of ``keep_from`` (K, 2) are left out. Of equal values the earlier wins.
    """
    p, v = _points(points, "points"), np.asarray(values, np.float64)
    if v.shape != (len(p),):
        raise DataError(f"waypoints: {len(p)} points need as many values, got shape {v.shape}")
    shunned = np.asarray(keep_from, np.float64).reshape(-1, 2)
    free = np.ones(len(p), bool)
    for place in shunned:
        free &= np.linalg.norm(p - place, axis=1) >= away
    chosen: list[Points] = []
    for index in np.argsort(-v, kind="stable"):
        if len(chosen) == count:
            break
        if free[index]:
            chosen.append(p[index])
            free &= np.linalg.norm(p - p[index], axis=1) >= apart
    return np.array(chosen).reshape(-1, 2)


def _points(values: ArrayLike, what: str) -> Points:
    points = np.asarray(values, np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or not len(points) or not np.isfinite(points).all():
        raise DataError(f"waypoints: {what} must be finite, (N, 2) with N at least 1, got shape {points.shape}")
    return points
