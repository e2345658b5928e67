"""What is still free in a room while it is being furnished: rectangles on the floor, intervals on the walls."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from navigation.homes.description import Door, Room, Window

Rect = tuple[float, float, float, float]  # x0, z0, x1, z1

SIDES = ("north", "south", "west", "east")  # the walls at low z, high z, low x, high x
YAWS = {"north": 0.0, "south": math.pi, "west": math.pi / 2, "east": -math.pi / 2}  # looking into the room
# A gap between two things is either too narrow for anyone or wide enough for everyone, so that no two notions of
# where a body of 0.18 m radius fits (ours, a voxel navmesh) can disagree about it.
NARROW, WIDE = 0.28, 0.56
_REACH, _CELL = 0.25, 0.1  # half the width that must stay passable, and the grid it is checked on


def overlap(a: Rect, b: Rect, margin: float = 0.0) -> bool:
    """Whether two rectangles come closer than ``margin``."""
    return a[0] < b[2] + margin and b[0] < a[2] + margin and a[1] < b[3] + margin and b[1] < a[3] + margin


def gap(a: Rect, b: Rect) -> float:
    """The distance between two rectangles, 0 where they touch."""
    dx, dz = max(a[0] - b[2], b[0] - a[2], 0.0), max(a[1] - b[3], b[1] - a[3], 0.0)
    return math.hypot(dx, dz)


def around(x: float, z: float, width: float, depth: float, yaw: float) -> Rect:
    """The upright rectangle that holds a ``width`` x ``depth`` one turned by ``yaw``."""
    c, s = abs(math.cos(yaw)), abs(math.sin(yaw))
    w, d = (width * c + depth * s) / 2, (width * s + depth * c) / 2
    return x - w, z - d, x + w, z + d


def ahead(rect: Rect, yaw: float, far: float) -> Rect:
    """The strip of depth ``far`` in front of a rectangle that looks along ``yaw``, a multiple of a right angle."""
    x, z = round(math.sin(yaw)), round(math.cos(yaw))
    if x:
        return (rect[2], rect[1], rect[2] + far, rect[3]) if x > 0 else (rect[0] - far, rect[1], rect[0], rect[3])
    return (rect[0], rect[3], rect[2], rect[3] + far) if z > 0 else (rect[0], rect[1] - far, rect[2], rect[1])


@dataclass
class Space:
    """One room's free space."""

    room: Room
    doors: tuple[Door, ...]
    windows: tuple[Window, ...]
    solids: list[Rect] = field(default_factory=list)
    access: list[Rect] = field(default_factory=list)
    hung: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: {s: [] for s in SIDES})
    tall: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: {s: [] for s in SIDES})

    def __post_init__(self) -> None:
        self.rect: Rect = (self.room.x0, self.room.z0, self.room.x1, self.room.z1)
        self.keep = [self._door_zone(d) for d in self.doors]
        for door in self.doors:
            side = self._side_of(door.x, door.z, door.along)
            middle = door.x if door.along == "x" else door.z
            self.hung[side].append((middle - door.width / 2 - 0.15, middle + door.width / 2 + 0.15))
        for window in self.windows:
            side = next(s for s in SIDES if abs(math.remainder(YAWS[s] - window.yaw, 2 * math.pi)) < 0.1)
            middle = window.position[0] if side in ("north", "south") else window.position[2]
            half = window.width / 2 + (0.4 if window.curtain >= 0 else 0.12)
            self.hung[side].append((middle - half, middle + half))

    def _side_of(self, x: float, z: float, along: str) -> str:
        if along == "x":
            return "north" if z < (self.rect[1] + self.rect[3]) / 2 else "south"
        return "west" if x < (self.rect[0] + self.rect[2]) / 2 else "east"

    def _door_zone(self, door: Door) -> Rect:
        side, half, far = self._side_of(door.x, door.z, door.along), door.width / 2 + 0.1, 0.85
        x0, z0, x1, z1 = self.rect
        return {
            "north": (door.x - half, z0, door.x + half, z0 + far),
            "south": (door.x - half, z1 - far, door.x + half, z1),
            "west": (x0, door.z - half, x0 + far, door.z + half),
            "east": (x1 - far, door.z - half, x1, door.z + half),
        }[side]

    def length(self, side: str) -> float:
        """How long a wall is."""
        return self.rect[2] - self.rect[0] if side in ("north", "south") else self.rect[3] - self.rect[1]

    def against(self, side: str, share: float, width: float, depth: float, off: float = 0.02) -> tuple[float, float]:
        """The middle of a thing ``off`` metres from a wall, at ``share`` (0 to 1) of the way along it."""
        x0, z0, x1, z1 = self.rect
        along = width / 2 + 0.01 + share * max(self.length(side) - width - 0.02, 0.0)
        return {
            "north": (x0 + along, z0 + depth / 2 + off),
            "south": (x0 + along, z1 - depth / 2 - off),
            "west": (x0 + depth / 2 + off, z0 + along),
            "east": (x1 - depth / 2 - off, z0 + along),
        }[side]

    def holds(self, rect: Rect) -> bool:
        """Whether a rectangle lies in the room."""
        x0, z0, x1, z1 = self.rect
        return rect[0] >= x0 and rect[1] >= z0 and rect[2] <= x1 and rect[3] <= z1

    def fits(
        self, rect: Rect, *, access: Rect | None = None, touching: tuple[Rect, ...] = (), tall: str | None = None
    ) -> bool:
        """Whether a thing on ``rect`` leaves doors, fronts and ways free. It may overlap the ``touching`` ones.

        ``tall`` is the wall that the thing would cover, if it is tall.
        """
        x0, z0, x1, z1 = self.rect
        walls = (rect[0] - x0, rect[1] - z0, x1 - rect[2], z1 - rect[3])
        if min(walls) < 0 or any(NARROW < w < WIDE for w in walls):
            return False
        others = [s for s in self.solids if s not in touching]
        if any(overlap(rect, o) or NARROW < gap(rect, o) < WIDE for o in others):
            return False
        if any(overlap(rect, zone) for zone in (*self.keep, *self.access)):
            return False
        if access is not None and any(overlap(access, o) for o in (*self.solids,)):
            return False
        if tall is not None:
            low, high = (rect[0], rect[2]) if tall in ("north", "south") else (rect[1], rect[3])
            if any(a < high and low < b for a, b in self.hung[tall]):
                return False
        return self.passable([*self.solids, rect], access)

    def wall_free(self, side: str, low: float, high: float) -> bool:
        """Whether a stretch of a wall is free of doors, windows, tall furniture and hung things."""
        return not any(a < high and low < b for a, b in (*self.hung[side], *self.tall[side]))

    def passable(self, solids: list[Rect], access: Rect | None = None) -> bool:
        """Whether all doors stay joined, and ``access`` with them, for a body of half-width `_REACH`."""
        labels = self._ways(solids)
        seen = {self._label(labels, z) for z in self.keep}
        if len(seen) > 1 or 0 in seen:
            return False
        if access is None:
            return True
        return bool(seen & set(np.unique(self._window(labels, access)).tolist()) - {0})

    def _ways(self, solids: list[Rect]) -> NDArray[np.int32]:
        x0, z0, x1, z1 = self.rect
        free = np.ones((max(int((z1 - z0) / _CELL), 1), max(int((x1 - x0) / _CELL), 1)), bool)
        edge = math.ceil(_REACH / _CELL)
        free[:edge], free[-edge:], free[:, :edge], free[:, -edge:] = False, False, False, False
        for s in solids:
            self._window(free, (s[0] - _REACH, s[1] - _REACH, s[2] + _REACH, s[3] + _REACH))[:] = False
        labels, _ = ndimage.label(free)
        return labels  # type: ignore[no-any-return]

    def _window(self, grid: NDArray[np.generic], rect: Rect) -> NDArray[np.generic]:
        a, b = max(math.floor((rect[0] - self.rect[0]) / _CELL), 0), math.ceil((rect[2] - self.rect[0]) / _CELL)
        c, d = max(math.floor((rect[1] - self.rect[1]) / _CELL), 0), math.ceil((rect[3] - self.rect[1]) / _CELL)
        return grid[c : max(d, 0), a : max(b, 0)]

    def _label(self, labels: NDArray[np.int32], zone: Rect) -> int:
        inside = self._window(labels, zone)
        counts = np.bincount(inside.ravel())
        return int(counts[1:].argmax() + 1) if len(counts) > 1 else 0

    def occupy(self, rect: Rect, access: Rect | None = None, tall: str | None = None) -> None:
        """Take a rectangle, the strip before it, and the wall behind a tall thing."""
        self.solids.append(rect)
        if access is not None:
            self.access.append(access)
        if tall is not None:
            low, high = (rect[0], rect[2]) if tall in ("north", "south") else (rect[1], rect[3])
            self.tall[tall].append((low, high))


def merged(intervals: list[tuple[float, float]], low: float, high: float) -> list[tuple[float, float]]:
    """What of [low, high] the intervals leave free."""
    cuts = sorted((max(a, low), min(b, high)) for a, b in intervals if b > low and a < high)
    ends = [low]
    for a, b in cuts:
        ends += [max(a, ends[-1]), max(b, ends[-1])]
    ends.append(high)
    return [(a, b) for a, b in list(pairwise(ends))[::2] if b - a > 1e-6]
