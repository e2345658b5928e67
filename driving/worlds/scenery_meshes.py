"""The still part of a road scene: asphalt, paint, grass, houses and trees, as one mesh for each square of ground."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from backbone.rendering.mesh import Mesh
from backbone.rendering.shapes import Tile
from driving.worlds.scenery_atlas import WALLS, tile
from driving.worlds.shapes import house_mesh, tree_mesh

Points = NDArray[np.float64]
Rows = NDArray[np.float32]  # (3 T, 8): position, normal, uv
Cell = tuple[int, int]
CELL_M = 80.0  # the scene is cut into squares, of which a camera draws those it can see
SHOULDER_M = 0.35
GRASS_Z, MARKING_Z = -0.04, 0.015
DASH_M, GAP_M = 3.0, 5.0
VERGE_M = 2.5
HOUSES, TREES = 4, 12  # places tried in each square
_HOUSES = ((9.0, 8.0, 4.0), (12.0, 9.0, 5.0), (16.0, 10.0, 8.0), (11.0, 11.0, 13.0), (18.0, 12.0, 6.0))


@dataclass(frozen=True, eq=False)
class Strip:
    """Asphalt along ``middle`` (N >= 2, 2), ``widths`` metres wide: one number or (N,)."""

    middle: Points
    widths: float | Points


@dataclass(frozen=True, eq=False)
class Marking:
    """A painted line along ``points`` (N >= 2, 2)."""

    points: Points
    dashed: bool
    colour: Literal["white", "yellow"] = "white"
    width: float = 0.15


def scene_meshes(strips: Sequence[Strip], markings: Sequence[Marking], seed: int) -> list[tuple[Mesh, Points]]:
    """The still scene as one mesh for each square of `CELL_M`, with the square's middle (2,)."""
    if not strips:
        raise DataError("scenery: a scene needs at least one strip of road")
    ground: dict[Cell, list[Rows]] = defaultdict(list)
    for k, strip in enumerate(strips):
        half = np.asarray(strip.widths) / 2 + SHOULDER_M
        layer = 0.002 * (k % 5)  # strips overlap at their shoulders and in junctions
        _add_band(ground, *edges(strip.middle, half), layer - 0.01, "asphalt")
    for marking in markings:
        left, right = edges(marking.points, np.asarray(marking.width / 2))
        if marking.dashed:
            left, right = _dashes(left, right)
        _add_band(ground, left, right, MARKING_Z, marking.colour, pieces=marking.dashed)
    draw = np.random.default_rng([seed, 0x7365])
    road = np.concatenate([np.asarray(s.middle, np.float64) for s in strips])
    verge = max(float(np.max(s.widths)) for s in strips) / 2 + VERGE_M
    cells = {(i + a, j + b) for i, j in ground for a in (-1, 0, 1) for b in (-1, 0, 1)}
    for cell in sorted(cells):
        ground[cell].append(_grass(cell))
        ground[cell].extend(_plants(cell, road, verge, draw))
    return [(_mesh(ground[cell]), (np.array(cell) + 0.5) * CELL_M) for cell in sorted(cells)]


def edges(middle: Points, half: Points) -> tuple[Points, Points]:
    """The lines (N, 2) ``half`` metres to the left and right of a line."""
    ahead = np.gradient(np.asarray(middle, np.float64), axis=0)
    ahead /= np.maximum(np.hypot(*ahead.T)[:, None], 1e-9)
    aside = np.stack([-ahead[:, 1], ahead[:, 0]], 1) * np.broadcast_to(half, (len(middle),))[:, None]
    return middle + aside, middle - aside


def _mesh(parts: list[Rows]) -> Mesh:
    rows = np.concatenate(parts)
    positions, normals, uv = (np.ascontiguousarray(c) for c in (rows[:, :3], rows[:, 3:6], rows[:, 6:]))
    return Mesh(positions, normals, uv, np.zeros(len(rows) // 3, np.int32))


def _add_band(
    ground: dict[Cell, list[Rows]], left: Points, right: Points, z: float, name: str, pieces: bool = False
) -> None:
    """A flat band between two edges, each piece in the square where it lies.

    With ``pieces`` every two rows are a band of their own.
    """
    step = 2 if pieces else 1
    corners = np.stack([left[:-1:step], right[:-1:step], right[1::step], left[1::step]], 1)  # (Q, 4, 2)
    if not len(corners):
        return
    u0, v0, u1, v1 = tile(name)
    rows = np.zeros((len(corners), 4, 8), np.float32)
    rows[..., :2], rows[..., 2], rows[..., 5] = corners, z, 1.0
    rows[..., 6:] = [(u0, v1), (u1, v1), (u1, v0), (u0, v0)]
    triangles = rows[:, [0, 1, 2, 0, 2, 3]]
    cells = np.floor(corners.mean(1) / CELL_M).astype(int)
    for cell in np.unique(cells, axis=0):
        mine = (cells == cell).all(1)
        ground[(int(cell[0]), int(cell[1]))].append(triangles[mine].reshape(-1, 8))


def _dashes(left: Points, right: Points) -> tuple[Points, Points]:
    """Two edges cut into dashes of `DASH_M` with gaps of `GAP_M`: pairs of rows, start and end of each."""
    middle = (left + right) / 2
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(middle, axis=0).T))])
    starts = np.arange(GAP_M / 2, along[-1] - DASH_M / 2, DASH_M + GAP_M)
    places = np.stack([starts, np.minimum(starts + DASH_M, along[-1])], 1).ravel()
    cut = [np.stack([np.interp(places, along, edge[:, i]) for i in (0, 1)], 1) for edge in (left, right)]
    return cut[0], cut[1]


def _grass(cell: Cell) -> Rows:
    """Ground in two by two pieces, so that the texture keeps some grain."""
    lines = np.linspace(0.0, CELL_M, 3)
    x, y = (grid.ravel() for grid in np.meshgrid(lines[:-1], lines[:-1]))
    side = CELL_M / 2
    corners = np.stack([(x, y), (x + side, y), (x + side, y + side), (x, y + side)]).transpose(2, 0, 1)
    rows = np.zeros((4, 4, 8), np.float32)
    rows[..., :2], rows[..., 2], rows[..., 5] = corners + np.array(cell) * CELL_M, GRASS_Z, 1.0
    for k, (u0, v0, u1, v1) in enumerate(_mirrored(tile("grass"))):  # so that neighbours meet in one colour
        rows[k, :, 6:] = [(u0, v1), (u1, v1), (u1, v0), (u0, v0)]
    return rows[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 8)


def _mirrored(whole: Tile) -> list[Tile]:
    u0, v0, u1, v1 = whole
    return [(u0, v0, u1, v1), (u1, v0, u0, v1), (u0, v1, u1, v0), (u1, v1, u0, v0)]


def _plants(cell: Cell, road: Points, verge: float, draw: np.random.Generator) -> list[Rows]:
    """Houses and trees of a square, none nearer to any lane than its own size and a verge."""
    corner = np.array(cell) * CELL_M
    spots = corner + draw.random((HOUSES + TREES, 2)) * CELL_M
    choices = draw.random((HOUSES + TREES, 3))
    near = road[(np.abs(road - corner - CELL_M / 2) < CELL_M).all(1)]
    clear = np.full(len(spots), math.inf)
    if len(near):
        clear = np.hypot(*(near[:, None] - spots).transpose(2, 0, 1)).min(0)
    parts: list[Rows] = []
    taken: list[tuple[Points, float]] = []
    for k, (spot, (kind, size, turn)) in enumerate(zip(spots, choices.tolist(), strict=True)):
        house = k < HOUSES
        scale = 1.0 if house else 4.0 + 5.0 * size
        template = _house(int(kind * 997)) if house else _tree(kind < 0.4)
        radius = float(np.hypot(*template[:, :2].T).max()) * scale
        if clear[k] < radius + verge + (4.0 if house else 0.0):
            continue
        if any(np.hypot(*(spot - other)) < radius + reach + 1.0 for other, reach in taken):
            continue
        taken.append((spot, radius))
        parts.append(_placed(template, spot, round(4 * turn) * math.pi / 8, scale))
    return parts


def _placed(template: Rows, spot: Points, turn: float, scale: float) -> Rows:
    c, s = math.cos(turn), math.sin(turn)
    rotation = np.array([[c, s], [-s, c]], np.float32)
    rows = template.copy()
    rows[:, :3] *= scale
    rows[:, :2] = rows[:, :2] @ rotation + spot.astype(np.float32)
    rows[:, 3:5] = rows[:, 3:5] @ rotation
    return rows


@cache
def _tree(conifer: bool) -> Rows:
    return _rows(tree_mesh(conifer))


@cache
def _house(number: int) -> Rows:
    size, wall = _HOUSES[number % len(_HOUSES)], number // len(_HOUSES) % len(WALLS)
    return _rows(house_mesh(*size, wall))


def _rows(mesh: Mesh) -> Rows:
    return np.concatenate([mesh.positions, mesh.normals, mesh.uv], 1)
