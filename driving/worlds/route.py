"""A route: a smooth line to follow, with speed limits, in the driving world's frame (x east, y north, metres)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backbone.errors import DataError

Floats = NDArray[np.float64]
STEP_M = 0.5


def wrap_angle(angle: Any) -> Any:
    """Angles in [-pi, pi)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def to_ego(points: ArrayLike, x: float, y: float, heading: float) -> Floats:
    """World points (..., 2) in the frame of a car at (x, y): x forward, y left."""
    c, s = math.cos(heading), math.sin(heading)
    local: Floats = (np.asarray(points, np.float64) - (x, y)) @ np.array([[c, -s], [s, c]])
    return local


def from_ego(points: ArrayLike, x: float, y: float, heading: float) -> Floats:
    """Points (..., 2) of a car's frame in the world's; undoes `to_ego`."""
    c, s = math.cos(heading), math.sin(heading)
    world: Floats = np.asarray(points, np.float64) @ np.array([[c, s], [-s, c]]) + (x, y)
    return world


@dataclass(frozen=True, eq=False)
class Route:
    """``points`` (N, 2) every `STEP_M` metres, ``limits`` (N,) m/s; ``goal_s`` where it arrives, None for nowhere.

    ``command`` is the driving command as one word, ``instruction`` the same for a reader.
    """

    points: Floats
    limits: Floats
    command: str
    instruction: str
    goal_s: float | None = None

    @classmethod
    def through(
        cls,
        pieces: Sequence[tuple[ArrayLike, float]],
        command: str,
        instruction: str,
        *,
        goal: ArrayLike | None = None,
        smooth_m: float = 1.5,
    ) -> Route:
        """A route through pieces of road, each ``((N, 2) points in driving order, speed limit)``.

        Where pieces do not meet exactly, points that would go back are left out and the joint is rounded
        (a Gaussian of ``smooth_m`` metres). ``goal`` is the point of arrival.
        """
        points, limits = _joined(pieces)
        steps = np.hypot(*np.diff(points, axis=0).T)
        along = np.concatenate([[0.0], np.cumsum(steps)])
        if along[-1] < 4 * STEP_M:
            raise DataError(f"route: {along[-1]:.2f} m are too short; it needs at least {4 * STEP_M} m")
        s = np.arange(0.0, along[-1], STEP_M)
        line = np.stack([np.interp(s, along, points[:, i]) for i in (0, 1)], 1)
        limit = limits[np.minimum(np.searchsorted(along, s, side="right"), len(limits) - 1)]
        route = cls(_smoothed(line, smooth_m / STEP_M), limit, command, instruction)
        if goal is None:
            return route
        return cls(route.points, route.limits, command, instruction, route.project(*np.asarray(goal, float))[0])

    @cached_property
    def headings(self) -> Floats:
        """Direction (N,) in radians, without jumps by 2 pi."""
        ahead = np.gradient(self.points, axis=0)
        return np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0]))

    @cached_property
    def curvatures(self) -> Floats:
        """1/m (N,), positive to the left."""
        return np.gradient(self.headings, STEP_M)

    @property
    def length(self) -> float:
        """Metres from the first point to the last."""
        return (len(self.points) - 1) * STEP_M

    def project(self, x: float, y: float, near: float | None = None, window: float = 30.0) -> tuple[float, float]:
        """Where on the route a point is: metres along it and metres to its left.

        ``near`` looks only within ``window`` of it, so that a route may cross itself or go round twice.
        """
        first, last = 0, len(self.points)
        if near is not None:
            first = max(int((near - window) / STEP_M), 0)
            last = min(max(int((near + window) / STEP_M) + 2, first + 2), len(self.points))
            first = min(first, last - 2)
        offsets = (x, y) - self.points[first:last]
        k = int(np.argmin(np.einsum("ij,ij->i", offsets, offsets)))
        heading = float(self.headings[first + k])
        c, s = math.cos(heading), math.sin(heading)
        dx, dy = offsets[k].tolist()
        return (first + k) * STEP_M + c * dx + s * dy, c * dy - s * dx

    def at(self, s: ArrayLike) -> tuple[Floats, Floats]:
        """Points (..., 2) and headings (...) at metres along; straight on before the start and beyond the end."""
        where = np.asarray(s, np.float64)
        inside = np.clip(where, 0.0, self.length)
        grid = np.arange(len(self.points)) * STEP_M
        heading = np.interp(inside, grid, self.headings)
        line = np.stack([np.interp(inside, grid, self.points[:, i]) for i in (0, 1)], -1)
        over = (where - inside)[..., None]
        return line + over * np.stack([np.cos(heading), np.sin(heading)], -1), heading

    def value_at(self, values: Floats, s: float) -> float:
        """One of the route's rows of numbers at ``s``."""
        return float(values[min(max(round(s / STEP_M), 0), len(values) - 1)])


def _joined(pieces: Sequence[tuple[ArrayLike, float]]) -> tuple[Floats, Floats]:
    points: list[Floats] = []
    limits: list[float] = []
    for piece, limit in pieces:
        line = np.asarray(piece, np.float64)
        if line.ndim != 2 or line.shape[1] != 2 or len(line) < 2 or not np.isfinite(line).all():
            raise DataError(f"route: expected pieces of finite (N >= 2, 2) points, got shape {line.shape}")
        if points:
            ahead = points[-1] - points[-2]
            forward = (line - points[-1]) @ (ahead / max(float(np.hypot(*ahead)), 1e-9))
            skip = int(np.argmax(forward > 0.2)) if (forward > 0.2).any() else len(line)
            line = line[skip:]
        points.extend(line)
        limits.extend([limit] * len(line))
    if len(points) < 2:
        raise DataError("route: no pieces of road")
    keep = [True, *(np.hypot(*np.diff(np.array(points), axis=0).T) > 1e-6).tolist()]
    return np.array(points)[keep], np.array(limits, np.float64)[keep]


def _smoothed(line: Floats, sigma: float) -> Floats:
    """The line under a Gaussian of ``sigma`` steps; its ends are continued straight, so that they stay."""
    reach = math.ceil(3 * sigma)
    if reach < 1:
        return line
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    count = np.arange(reach, 0, -1)[:, None]
    before = line[0] - count * (line[1] - line[0])
    after = line[-1] + count[::-1] * (line[-1] - line[-2])
    padded = np.concatenate([before, line, after])
    return np.stack([np.convolve(padded[:, i], weights / weights.sum(), "valid") for i in (0, 1)], 1)
