"""From where a thing can be looked at: Habitat's view points of an ObjectNav goal, found without drawing.

A place on the free floor, on a grid of 0.1 m, is a view point of a thing if the thing's outline is at most 1 m away and
at least two of ten points of the thing are in sight of the camera there: no wall and no other thing's part is in
between, and the point lies within the level camera's picture.
"""

from __future__ import annotations

import math

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import MultiPoint

from navigation.homes.description import Home, Thing
from navigation.homes.geodesic import FloorMap
from navigation.homes.meshes import solid_walls
from navigation.homes.parts import parts_of, pose_of

Points = NDArray[np.float64]

REACH, GRID = 1.0, 0.1
EYE = 0.88
_HALF_VIEW = math.tan(math.radians(39.5))  # of the picture's height, for a square one 79 degrees wide
_SEEN = 2


class Sight:
    """What blocks the view in a home: walls as upright planes, and the boxes around all parts of things."""

    def __init__(self, home: Home) -> None:
        """Gather them once."""
        self.home = home
        self._walls = solid_walls(home)  # (W, 2, 2)
        lows, highs, owners = [], [], []
        for thing in home.things:
            pose = pose_of(thing)
            for part in parts_of(thing):
                corners = part.corners() @ pose[:3, :3].T + pose[:3, 3]
                lows.append(corners.min(0))
                highs.append(corners.max(0))
                owners.append(thing.id)
        self._low, self._high = np.reshape(lows, (-1, 3)), np.reshape(highs, (-1, 3))
        self._owner = np.array(owners, np.int64)

    def free(self, eyes: Points, targets: Points, thing_id: int) -> NDArray[np.bool_]:
        """For each eye (M, 3) and target (K, 3) whether nothing but the thing itself is in between: (M, K)."""
        low, high = np.minimum(eyes.min(0), targets.min(0)), np.maximum(eyes.max(0), targets.max(0))
        near = ((self._low <= high) & (self._high >= low)).all(1) & (self._owner != thing_id)
        start = np.repeat(eyes, len(targets), 0)
        way = np.tile(targets, (len(eyes), 1)) - start
        barred = _through_boxes(start, way, self._low[near], self._high[near]) | _through_walls(start, way, self._walls)
        return ~barred.reshape(len(eyes), len(targets))


def _through_boxes(start: Points, way: Points, low: Points, high: Points) -> NDArray[np.bool_]:
    """Whether the segments (M, 3) + (M, 3) enter any box (B, 3): the slab test."""
    inverse = 1.0 / np.where(np.abs(way) < 1e-9, 1e-9, way)
    enter, leave = np.full((len(start), len(low)), 0.0), np.full((len(start), len(low)), 0.98)
    for axis in range(3):
        a = (low[None, :, axis] - start[:, None, axis]) * inverse[:, None, axis]
        b = (high[None, :, axis] - start[:, None, axis]) * inverse[:, None, axis]
        enter, leave = np.maximum(enter, np.minimum(a, b)), np.minimum(leave, np.maximum(a, b))
    return np.asarray((enter < leave).any(1), bool)


def _through_walls(start: Points, way: Points, walls: Points) -> NDArray[np.bool_]:
    """Whether the segments cross a wall (W, 2, 2), seen from above."""
    p, d = start[:, None, [0, 2]], 0.98 * way[:, None, [0, 2]]
    a, e = walls[None, :, 0], walls[None, :, 1] - walls[None, :, 0]

    def cross(u: Points, v: Points) -> Points:
        out: Points = u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
        return out

    sides = cross(e, p - a) * cross(e, p + d - a) < 0
    return np.asarray((sides & (cross(d, a - p) * cross(d, a + e - p) < 0)).any(1), bool)


def samples_of(thing: Thing) -> Points:
    """Ten points (10, 3) of a thing: eight near the corners of its box, its middle, and its upper middle."""
    w, h, d = thing.size
    signs = [(a, b, c) for a in (-1, 1) for b in (0.15, 0.9) for c in (-1, 1)]
    local = [(0.42 * w * a, h * b, 0.42 * d * c) for a, b, c in signs] + [(0.0, h / 2, 0.0), (0.0, 0.8 * h, 0.0)]
    pose = pose_of(thing)
    points: Points = np.array(local) @ pose[:3, :3].T + pose[:3, 3]
    return points


def footprint(thing: Thing) -> shapely.Geometry:
    """The outline of a thing's box from above."""
    return MultiPoint(thing.corners()).convex_hull


def view_points(thing: Thing, floor: FloorMap, sight: Sight) -> Points:
    """The view points (N, 2) of a thing; none if it cannot be seen from the free floor near it."""
    (x0, _, z0), (x1, _, z1) = thing.box()
    xs = np.arange(math.ceil((x0 - REACH) / GRID), math.floor((x1 + REACH) / GRID) + 1) * GRID
    zs = np.arange(math.ceil((z0 - REACH) / GRID), math.floor((z1 + REACH) / GRID) + 1) * GRID
    grid = np.stack(np.meshgrid(xs, zs), -1).reshape(-1, 2)
    grid = grid[floor.contains(grid)]
    outline = footprint(thing)
    grid = grid[shapely.distance(shapely.points(grid), outline) <= REACH] if len(grid) else grid
    if not len(grid):
        return np.zeros((0, 2))
    eyes = np.stack([grid[:, 0], np.full(len(grid), EYE), grid[:, 1]], 1)
    targets = samples_of(thing)
    level = np.abs(targets[None, :, 1] - EYE) <= _HALF_VIEW * np.linalg.norm(
        targets[None, :, [0, 2]] - grid[:, None], axis=2
    )
    seen = (sight.free(eyes, targets, thing.id) & level).sum(1)
    return np.asarray(grid[seen >= _SEEN], np.float64)
