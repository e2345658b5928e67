"""A map drawn from depth pictures: free, occupied and unknown cells, frontiers, and shortest ways over what is free.

The frame is that of Habitat's GPS and compass: metres ahead (x) and to the left (y) of where the episode started,
headings in radians to the left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, sparse
from scipy.sparse import csgraph

from backbone.contracts import FloatArray
from backbone.errors import DataError

UNKNOWN, FREE, OCCUPIED = 0, 1, 2
Grid = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Points = NDArray[np.float64]
Cell = tuple[int, int]
Pose = tuple[float, float, float]  # x, y, heading


@dataclass(frozen=True)
class MapConfig:
    """What counts as an obstacle and how fine the map is. OUR CHOICE, all of it."""

    cell_m: float = 0.1
    size_m: float = 60.0  # side of the map; the start is in its middle
    range_m: float = 6.0  # farther depths are left out
    low_m: float = 0.1  # of obstacles, above the floor
    high_m: float = 1.0  # the body is 0.88 m high
    body_m: float = 0.2  # radius kept free of obstacles


class OccupancyMap:
    """Cells that depth pictures have shown to be free or occupied."""

    def __init__(self, hfov_deg: float, camera_height: float, config: MapConfig | None = None) -> None:
        """For a level camera at this height, with this horizontal field of view."""
        self.config = config or MapConfig()
        count = round(self.config.size_m / self.config.cell_m)
        self.cells: Grid = np.zeros((count, count), np.uint8)
        self._half, self._height = math.tan(math.radians(hfov_deg / 2)), camera_height

    def cell(self, x: float, y: float) -> Cell:
        """The cell of a place; `DataError` outside the map."""
        i, j = self._index(np.array([[x, y]]))[0]
        if not (0 <= i < len(self.cells) and 0 <= j < len(self.cells)):
            raise DataError(
                f"the place ({x:.1f}, {y:.1f}) m is outside the map of {self.config.size_m:g} m; enlarge it"
            )
        return int(i), int(j)

    def place(self, cell: Cell) -> tuple[float, float]:
        """The middle of a cell, metres."""
        half = len(self.cells) / 2
        return (cell[0] + 0.5 - half) * self.config.cell_m, (cell[1] + 0.5 - half) * self.config.cell_m

    def points(self, depth: FloatArray, pose: Pose) -> tuple[Points, NDArray[np.float64], Mask]:
        """Of every pixel (H, W) the place (H, W, 2), the height above the floor (H, W), and whether it was measured."""
        rows, columns = depth.shape
        focal = columns / 2 / self._half
        ahead = depth.astype(np.float64)
        left = -(np.arange(columns) + 0.5 - columns / 2) / focal * ahead
        height = self._height - (np.arange(rows)[:, None] + 0.5 - rows / 2) / focal * ahead
        x, y, heading = pose
        c, s = math.cos(heading), math.sin(heading)
        places = np.stack([x + c * ahead - s * left, y + s * ahead + c * left], -1)
        return places, height, (depth > 0) & (depth <= self.config.range_m)

    def see(self, depth: FloatArray, pose: Pose) -> None:
        """Enter one depth picture (H, W), metres along the axis and 0 for nothing, taken at ``pose``."""
        places, height, known = self.points(depth, pose)
        barred = known & (height > self.config.low_m) & (height < self.config.high_m)
        floor = known & (height <= self.config.low_m)
        self._free(places, pose, barred, floor)
        self._mark(places[barred], OCCUPIED)
        i, j = self.cell(pose[0], pose[1])
        around = self.cells[i - 1 : i + 2, j - 1 : j + 2]
        around[around == UNKNOWN] = FREE  # where the body stands

    def _free(self, places: Points, pose: Pose, barred: Mask, floor: Mask) -> None:
        """Along every column of the picture all is free up to the first obstacle, or as far as the floor is seen."""
        distance = np.linalg.norm(places - np.array(pose[:2]), axis=-1)
        nearest = np.where(barred, distance, np.inf).min(0)
        farthest = np.where(floor, distance, 0.0).max(0)
        reach = np.where(np.isfinite(nearest), nearest - self.config.cell_m, farthest)
        last = distance.argmax(0)
        columns = np.arange(places.shape[1])
        way = places[last, columns] - np.array(pose[:2])
        way /= np.maximum(np.linalg.norm(way, axis=-1, keepdims=True), 1e-9)
        steps = np.arange(0.0, self.config.range_m, self.config.cell_m / 2)
        inside = steps[None] < reach[:, None]
        line = np.array(pose[:2]) + steps[None, :, None] * way[:, None]
        index = self._index(line[inside])
        index = index[((index >= 0) & (index < len(self.cells))).all(1)]
        seen = self.cells[index[:, 0], index[:, 1]]
        fresh = index[seen == UNKNOWN]
        self.cells[fresh[:, 0], fresh[:, 1]] = FREE

    def bump(self, pose: Pose, metres: float) -> None:
        """Something was hit ahead that no picture shows."""
        x, y, heading = pose
        self._mark(np.array([[x + math.cos(heading) * metres, y + math.sin(heading) * metres]]), OCCUPIED)

    def _mark(self, places: Points, value: int) -> None:
        index = self._index(places)
        index = index[((index >= 0) & (index < len(self.cells))).all(1)]
        self.cells[index[:, 0], index[:, 1]] = value

    def _index(self, places: Points) -> NDArray[np.int64]:
        return np.floor(places / self.config.cell_m).astype(np.int64) + len(self.cells) // 2

    def passable(self) -> Mask:
        """Free cells with room for the body."""
        radius = round(self.config.body_m / self.config.cell_m)
        span = np.arange(-radius, radius + 1)
        disk = span[:, None] ** 2 + span[None] ** 2 <= radius**2
        mask: Mask = (self.cells == FREE) & ~ndimage.binary_dilation(self.cells == OCCUPIED, disk)
        return mask

    def frontier(self, passable: Mask) -> Mask:
        """Passable cells next to unknown ones, without specks of fewer than three."""
        edge = passable & ndimage.binary_dilation(self.cells == UNKNOWN)
        labels, count = ndimage.label(edge, np.ones((3, 3)))
        sizes = np.bincount(labels.ravel(), minlength=count + 1)
        mask: Mask = edge & (sizes[labels] >= 3)
        return mask


@dataclass(frozen=True)
class Ways:
    """Shortest ways over passable cells from one place."""

    length: NDArray[np.float64]  # metres to each cell, infinite where none leads
    _before: NDArray[np.int64]
    _corner: Cell
    _shape: Cell

    def path(self, cell: Cell) -> list[Cell]:
        """The cells from the start to ``cell``; only where `length` is finite."""
        columns = self._shape[1]
        at = (cell[0] - self._corner[0]) * columns + cell[1] - self._corner[1]
        out = []
        while at >= 0:
            out.append((int(at) // columns + self._corner[0], int(at) % columns + self._corner[1]))
            at = int(self._before[at])
        return out[::-1]


def ways_from(passable: Mask, start: Cell, cell_m: float) -> Ways:
    """Shortest ways from ``start``, which counts as passable, in eight directions; no corner is cut."""
    free = passable.copy()
    free[start[0] - 2 : start[0] + 3, start[1] - 2 : start[1] + 3] |= _disk(free.shape, start)
    rows, columns = (np.flatnonzero(free.any(axis)) for axis in (1, 0))
    top, left = int(rows[0]), int(columns[0])
    box = free[top : rows[-1] + 1, left : columns[-1] + 1]
    number = np.arange(box.size).reshape(box.shape)
    sources, targets, costs = [], [], []
    for di, dj in ((0, 1), (1, 0), (1, 1), (1, -1)):
        a, b = _shifted(box, di, dj)
        open_ = a & b
        if di and dj:
            sides = _shifted(box, di, dj, corner=True)
            open_ &= sides[0] & sides[1]
        here, there = _shifted(number, di, dj)
        sources.append(here[open_])
        targets.append(there[open_])
        costs.append(np.full(int(open_.sum()), cell_m * math.hypot(di, dj)))
    edges = (np.concatenate(costs), (np.concatenate(sources), np.concatenate(targets)))
    graph = sparse.csr_matrix(edges, shape=(box.size, box.size))
    at = (start[0] - top) * box.shape[1] + start[1] - left
    length, before = csgraph.dijkstra(graph, directed=False, indices=at, return_predecessors=True)
    whole = np.full(passable.shape, np.inf)
    whole[top : rows[-1] + 1, left : columns[-1] + 1] = length.reshape(box.shape)
    return Ways(whole, before.astype(np.int64), (top, left), (box.shape[0], box.shape[1]))


def _disk(shape: tuple[int, ...], start: Cell) -> Mask:
    """The cells around a start from which a body that touches something must be able to leave."""
    span_i = np.arange(max(start[0] - 2, 0), min(start[0] + 3, shape[0])) - start[0]
    span_j = np.arange(max(start[1] - 2, 0), min(start[1] + 3, shape[1])) - start[1]
    mask: Mask = span_i[:, None] ** 2 + span_j[None] ** 2 <= 2
    return mask


def _shifted(grid: NDArray[np.generic], di: int, dj: int, corner: bool = False) -> tuple[Mask, Mask]:
    """Views of a grid at cells and at their neighbours (di, dj); with ``corner`` at the two cells beside a diagonal."""
    height, width = grid.shape
    near = slice(0, width - 1) if dj == 1 else slice(1, width) if dj == -1 else slice(0, width)
    far = slice(1, width) if dj == 1 else slice(0, width - 1) if dj == -1 else slice(0, width)
    upper, lower = (slice(0, height - 1), slice(1, height)) if di else (slice(0, height), slice(0, height))
    if corner:
        return grid[upper, far], grid[lower, near]  # type: ignore[return-value]
    return grid[upper, near], grid[lower, far]  # type: ignore[return-value]
