"""The surfaces of a home: each `Material` painted as a square tile, and all tiles laid out in one atlas picture.

The tiles hold final colours, so the atlas also serves renderers without our light. A tile repeats without a seam; a
border of its own pixels keeps its neighbours out of blended or shrunken reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from backbone.errors import DataError
from backbone.rendering.shapes import Tile
from navigation.homes.description import Material, Rgb

TILE, BORDER, COLUMNS = 112, 8, 8
CELL = TILE + 2 * BORDER

Field = NDArray[np.float64]  # (TILE, TILE), usually 0 to 1
Picture = NDArray[np.float64]  # (TILE, TILE, 3), 0 to 255
Painter = Callable[[Material, np.random.Generator], Picture]

_ROWS, _COLUMNS = np.mgrid[0:TILE, 0:TILE].astype(np.float64)


def _noise(random: np.random.Generator, grain: int, stretch: int = 1) -> Field:
    """Smooth noise, 0 to 1, that repeats at the tile's edges; ``stretch`` makes it longer along the columns."""
    down, across = max(TILE // grain, 1), max(TILE // (grain * stretch), 1)
    coarse = random.random((down, across))
    y, x = np.arange(TILE) * down / TILE, np.arange(TILE) * across / TILE
    iy, ix = y.astype(int), x.astype(int)
    fy, fx = (y - iy)[:, None], (x - ix)[None, :]
    fy, fx = fy * fy * (3 - 2 * fy), fx * fx * (3 - 2 * fx)
    jy, jx = (iy + 1) % down, (ix + 1) % across
    a, b = coarse[np.ix_(iy, ix)], coarse[np.ix_(iy, jx)]
    c, d = coarse[np.ix_(jy, ix)], coarse[np.ix_(jy, jx)]
    field: Field = (a * (1 - fx) + b * fx) * (1 - fy) + (c * (1 - fx) + d * fx) * fy
    return field


def _mixed(first: Rgb, second: Rgb, share: Field) -> Picture:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return a + (b - a) * np.clip(share, 0.0, 1.0)[..., None]


def _shaded(picture: Picture, field: Field, amount: float) -> Picture:
    return picture * (1.0 + amount * (2.0 * field[..., None] - 1.0))


def _plain(m: Material, random: np.random.Generator) -> Picture:
    return _shaded(_mixed(m.colour, m.colour, _ROWS * 0), _noise(random, 2), 0.02)


def _plaster(m: Material, random: np.random.Generator) -> Picture:
    return _shaded(_plain(m, random), 0.5 * _noise(random, 16) + 0.5 * _noise(random, 4), 0.06)


def _stripes(m: Material, random: np.random.Generator) -> Picture:
    width = int(random.choice((7, 14, 28)))
    return _shaded(_mixed(m.colour, m.second, (_COLUMNS // width) % 2), _noise(random, 2), 0.03)


def _diamonds(m: Material, random: np.random.Generator) -> Picture:
    step = int(random.choice((14, 28)))
    far = np.abs(_COLUMNS % step - step / 2) + np.abs(_ROWS % step - step / 2)
    return _shaded(_mixed(m.colour, m.second, (far < step / 4).astype(float)), _noise(random, 2), 0.03)


def _bricks(m: Material, random: np.random.Generator) -> Picture:
    rows = (_ROWS // 14).astype(int)
    shifted = (_COLUMNS + (rows % 2) * 14) % TILE
    tone = random.random((8, 4))[rows, (shifted // 28).astype(int)]
    grout = ((_ROWS % 14) < 2) | ((shifted % 28) < 2)
    face = _shaded(_mixed(m.colour, m.colour, _ROWS * 0), 0.7 * tone + 0.3 * _noise(random, 2), 0.22)
    return np.where(grout[..., None], np.asarray(m.second, float), face)


def _tiles(m: Material, random: np.random.Generator) -> Picture:
    step = int(random.choice((28, 28, 56)))
    count = TILE // step
    tone = random.random((count, count))[(_ROWS // step).astype(int), (_COLUMNS // step).astype(int)]
    grout = ((_ROWS % step) < 2) | ((_COLUMNS % step) < 2)
    face = _shaded(_mixed(m.colour, m.colour, _ROWS * 0), tone, 0.06)
    return np.where(grout[..., None], np.asarray(m.second, float), face)


def _checker(m: Material, random: np.random.Generator) -> Picture:
    odd = ((_ROWS // 28) + (_COLUMNS // 28)) % 2
    return _shaded(_mixed(m.colour, m.second, odd), _noise(random, 4), 0.04)


def _grain(m: Material, random: np.random.Generator) -> Picture:
    rings = 0.5 + 0.5 * np.sin(2 * math.pi * (_ROWS * 5 / TILE + 1.4 * _noise(random, 14, 4)))
    return _shaded(_mixed(m.colour, m.second, rings * 0.6), _noise(random, 1, 16), 0.10)


def _planks(m: Material, random: np.random.Generator) -> Picture:
    board = (_ROWS // 14).astype(int)
    tone = random.random(8)[board]
    shift = random.integers(0, TILE, 8)[board]
    gap = ((_ROWS % 14) < 1) | (((_COLUMNS + shift) % TILE) < 1)
    face = _shaded(_grain(m, random), tone, 0.16)
    return np.where(gap[..., None], face * 0.55, face)


def _parquet(m: Material, random: np.random.Generator) -> Picture:
    cross = ((_ROWS // 28) + (_COLUMNS // 28)) % 2 == 0
    strip = np.where(cross, _ROWS % 28 // 7, _COLUMNS % 28 // 7).astype(int)
    tone = random.random((4, 4, 4))[(_ROWS // 28).astype(int), (_COLUMNS // 28).astype(int), strip]
    gap = np.where(cross, _ROWS % 7, _COLUMNS % 7) < 1
    face = _shaded(_mixed(m.colour, m.second, tone), _noise(random, 2), 0.08)
    return np.where(gap[..., None], face * 0.7, face)


def _fabric(m: Material, random: np.random.Generator) -> Picture:
    weave = ((_ROWS // 2).astype(int) + (_COLUMNS // 2).astype(int)) % 2
    return _shaded(_mixed(m.colour, m.second, 0.2 * weave), _noise(random, 2), 0.10)


def _plaid(m: Material, random: np.random.Generator) -> Picture:
    lines = 0.5 * ((_ROWS % 28) < 9) + 0.5 * ((_COLUMNS % 28) < 9)
    return _shaded(_mixed(m.colour, m.second, lines), _noise(random, 2), 0.06)


def _carpet(m: Material, random: np.random.Generator) -> Picture:
    return _shaded(_mixed(m.colour, m.second, _noise(random, 8) * 0.4), random.random((TILE, TILE)), 0.12)


def _rug(m: Material, random: np.random.Generator) -> Picture:
    edge = np.minimum(np.minimum(_ROWS, TILE - 1 - _ROWS), np.minimum(_COLUMNS, TILE - 1 - _COLUMNS))
    rings = ((edge > 6) & (edge < 14)) | ((edge > 24) & ((_ROWS + _COLUMNS) % 24 < 8))
    return _shaded(_mixed(m.colour, m.second, rings.astype(float)), random.random((TILE, TILE)), 0.10)


def _marble(m: Material, random: np.random.Generator) -> Picture:
    bend = 2.0 * _noise(random, 28) + 0.7 * _noise(random, 8)
    vein = np.abs(np.sin(2 * math.pi * (_COLUMNS / TILE + _ROWS / TILE + bend)))
    return _mixed(m.second, m.colour, np.sqrt(vein) * 0.7 + 0.3)


def _metal(m: Material, random: np.random.Generator) -> Picture:
    return _shaded(_mixed(m.colour, m.second, _ROWS / TILE * 0.3), _noise(random, 1, 28), 0.07)


def _leaves(m: Material, random: np.random.Generator) -> Picture:
    return _shaded(_mixed(m.colour, m.second, _noise(random, 7)), _noise(random, 3), 0.25)


def _books(m: Material, random: np.random.Generator) -> Picture:
    picture = np.zeros((TILE, TILE, 3))
    column = 0
    while column < TILE:
        width = int(random.integers(5, 12))
        colour = random.integers(40, 220, 3) * 0.7 + np.asarray(m.colour) * 0.3
        top = int(random.integers(0, 26))
        picture[:, column : column + width] = colour
        picture[:top, column : column + width] = np.asarray(m.second) * 0.35
        picture[60:66, column + 1 : column + width - 1] = colour * 0.6 + 70
        picture[:, column : column + 1] *= 0.5
        column += width
    return picture


def _painting(m: Material, random: np.random.Generator) -> Picture:
    colours = random.integers(30, 240, (6, 3)).astype(float)
    if random.random() < 0.5:  # hills under a sky with a sun
        picture = _mixed((90, 140, 210), (230, 215, 190), _ROWS / TILE)
        sun = random.integers(20, TILE - 20), random.integers(14, 44)
        picture[np.hypot(_COLUMNS - sun[0], _ROWS - sun[1]) < 11] = (250, 220, 120)
        for i in range(3):
            phase, swing = random.uniform(0, 6.3), random.uniform(6, 14)
            ridge = 55 + 16 * i + swing * np.sin(_COLUMNS / TILE * 6.3 * (i + 1) / 2 + phase)
            picture[ridge < _ROWS] = colours[i] * 0.6 + (30, 60, 20)
        return _shaded(picture, _noise(random, 3), 0.10)
    picture = _mixed(m.colour, m.second, _noise(random, 28))
    for i in range(6):  # overlapping forms
        x, y, r = random.uniform(0, TILE), random.uniform(0, TILE), random.uniform(10, 34)
        near = np.hypot(_COLUMNS - x, _ROWS - y) < r
        square = (np.abs(_COLUMNS - x) < r) & (np.abs(_ROWS - y) < r * 0.7)
        picture[near if i % 2 else square] = colours[i]
    return _shaded(picture, _noise(random, 3), 0.08)


def _screen(m: Material, random: np.random.Generator) -> Picture:
    picture = _mixed((16, 18, 22), (40, 46, 58), (_COLUMNS + TILE - _ROWS) / (2 * TILE))
    if random.random() < 0.5:  # switched on
        picture = _mixed(m.colour, m.second, _ROWS / TILE)
        for _ in range(4):
            x, y, w, h = random.integers(6, 70), random.integers(6, 70), random.integers(12, 40), random.integers(8, 34)
            picture[y : y + h, x : x + w] = random.integers(60, 250, 3)
    edge = np.minimum(np.minimum(_ROWS, TILE - 1 - _ROWS), np.minimum(_COLUMNS, TILE - 1 - _COLUMNS))
    picture[edge < 4] = (12, 12, 14)
    return picture


def _view(m: Material, random: np.random.Generator) -> Picture:
    picture = _mixed((120, 170, 230), (225, 235, 245), _ROWS / 80.0)
    picture = picture + 18 * (_noise(random, 28)[..., None] > 0.6)
    trees = 74 + 12 * _noise(random, 8, 1)[0][None, :]
    picture[np.broadcast_to(trees < _ROWS, (TILE, TILE))] = m.colour
    picture[_ROWS > 94] = m.second
    return _shaded(picture, _noise(random, 3), 0.10)


def _hob(m: Material, random: np.random.Generator) -> Picture:
    picture = _mixed((28, 28, 30), (40, 40, 44), _noise(random, 8))
    for x, y, r in ((30, 32, 17), (82, 32, 13), (30, 82, 13), (82, 82, 17)):
        far = np.hypot(_COLUMNS - x, _ROWS - y)
        picture[(far < r) & (far > r - 3)] = m.colour
    return picture


def _fire(m: Material, random: np.random.Generator) -> Picture:
    heat = np.clip(1.25 * _ROWS / TILE + 0.7 * _noise(random, 14) - 0.45, 0.0, 1.0)
    picture = _mixed((25, 18, 16), m.colour, heat * 1.6)
    return np.where(heat[..., None] > 0.75, _mixed(m.colour, m.second, (heat - 0.75) * 4), picture)


PATTERNS: dict[str, Painter] = {
    "plain": _plain,
    "plaster": _plaster,
    "stripes": _stripes,
    "diamonds": _diamonds,
    "bricks": _bricks,
    "tiles": _tiles,
    "checker": _checker,
    "grain": _grain,
    "planks": _planks,
    "parquet": _parquet,
    "fabric": _fabric,
    "plaid": _plaid,
    "carpet": _carpet,
    "rug": _rug,
    "marble": _marble,
    "metal": _metal,
    "leaves": _leaves,
    "books": _books,
    "painting": _painting,
    "screen": _screen,
    "view": _view,
    "hob": _hob,
    "fire": _fire,
}
_ONCE = {"rug", "books", "painting", "screen", "view", "hob", "fire"}  # shown whole, never repeated


def paint(material: Material) -> Image:
    """The tile of a material, uint8 (TILE, TILE, 3); `DataError` for an unknown pattern."""
    if material.pattern not in PATTERNS:
        raise DataError(f"no pattern {material.pattern!r}; there are {', '.join(PATTERNS)}")
    picture = PATTERNS[material.pattern](material, np.random.default_rng(material.seed))
    return np.clip(np.round(picture), 0, 255).astype(np.uint8)


def atlas_of(materials: Sequence[Material]) -> tuple[Image, list[Tile]]:
    """The atlas picture of all materials and the corners (u0, v0, u1, v1) of each one's tile in it."""
    if not materials:
        raise DataError("an atlas needs at least one material")
    rows = -(-len(materials) // COLUMNS)
    height, width = rows * CELL, COLUMNS * CELL
    atlas = np.zeros((height, width, 3), np.uint8)
    tiles: list[Tile] = []
    for i, material in enumerate(materials):
        top, left = i // COLUMNS * CELL, i % COLUMNS * CELL
        widths = ((BORDER, BORDER), (BORDER, BORDER), (0, 0))
        tile = paint(material)
        padded = np.pad(tile, widths, "edge") if material.pattern in _ONCE else np.pad(tile, widths, "wrap")
        atlas[top : top + CELL, left : left + CELL] = padded
        u, v = left + BORDER, top + BORDER
        tiles.append((u / width, v / height, (u + TILE) / width, (v + TILE) / height))
    return atlas, tiles
