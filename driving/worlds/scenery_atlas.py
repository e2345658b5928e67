"""The one picture that colours the driving worlds: tiles of asphalt, grass, paint, cars, houses and trees."""

from __future__ import annotations

from functools import cache

import numpy as np

from backbone.contracts import Image
from backbone.rendering.shapes import Tile

SIDE = 512
CELL = 64
BORDER = 8  # the renderer blends smaller copies of the atlas; tiles keep a border of their own
CAR_COLOURS = (
    (196, 30, 40), (30, 78, 160), (236, 236, 232), (38, 40, 44), (150, 156, 162),
    (214, 160, 30), (40, 120, 76), (110, 46, 120), (226, 110, 34), (90, 150, 190),
)  # fmt: skip
WALLS = ((196, 178, 156), (176, 108, 84), (206, 206, 200), (150, 160, 172), (214, 196, 140), (128, 118, 116))
_PLAIN = {
    "white": (238, 238, 234), "yellow": (232, 186, 52), "window": (44, 56, 70), "tyre": (26, 26, 28),
    "rim": (150, 152, 156), "lamp": (255, 250, 226), "tail": (120, 16, 20), "brake": (255, 48, 40),
    "trunk": (92, 70, 50), "roof": (96, 84, 80), "kerb": (168, 166, 160), "red": (206, 44, 40), "skin": (206, 160, 130),
    "steel": (176, 180, 184), "concrete": (160, 158, 152), "cloth": (60, 80, 130),
}  # fmt: skip
_NOISY = {
    "asphalt": ((84, 85, 89), 5.0), "grass": ((98, 138, 70), 9.0), "leaves": ((58, 108, 52), 14.0),
    "needles": ((42, 84, 58), 12.0), "gravel": ((138, 130, 116), 10.0),
}  # fmt: skip
_NAMES = (
    *_PLAIN, *_NOISY, *(f"car{i}" for i in range(len(CAR_COLOURS))), *(f"wall{i}" for i in range(len(WALLS))),
    *(f"tower{i}" for i in range(len(WALLS))),
)  # fmt: skip


@cache
def tile(name: str) -> Tile:
    """The inner part of a tile, as its corners in the atlas; `KeyError` for a name that is not there."""
    place = dict(zip(_NAMES, range(len(_NAMES)), strict=True))[name]
    row, column = divmod(place, SIDE // CELL)
    low, high = BORDER / SIDE, (CELL - BORDER) / SIDE
    u, v = column * CELL / SIDE, row * CELL / SIDE
    return u + low, v + low, u + high, v + high


@cache
def atlas() -> Image:
    """The picture (512, 512, 3) uint8; the same at every call."""
    noise = np.random.default_rng(20)
    picture = np.zeros((SIDE, SIDE, 3), np.uint8)
    for place, name in enumerate(_NAMES):
        row, column = divmod(place, SIDE // CELL)
        inner = np.clip(_inner(name, noise), 0, 255).astype(np.uint8)
        cell = np.pad(inner, ((BORDER, BORDER), (BORDER, BORDER), (0, 0)), mode="edge")
        picture[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL] = cell
    return picture


def _inner(name: str, noise: np.random.Generator) -> np.ndarray:
    side = CELL - 2 * BORDER
    if name in _NOISY:
        colour, spread = _NOISY[name]
        coarse = np.kron(noise.normal(0, 1, (side // 4, side // 4)), np.ones((4, 4)))
        return np.array(colour) + spread * (0.6 * coarse + 0.6 * noise.normal(0, 1, (side, side)))[..., None]
    if name.startswith("wall"):
        return _wall(WALLS[int(name[4:])], side, 2, 3)
    if name.startswith("tower"):
        return _wall(WALLS[int(name[5:])], side, 4, 5)
    colour = CAR_COLOURS[int(name[3:])] if name.startswith("car") else _PLAIN[name]
    return np.broadcast_to(np.array(colour, float), (side, side, 3))


def _wall(colour: tuple[int, int, int], side: int, storeys: int, windows: int) -> np.ndarray:
    """The front of a house."""
    picture = np.broadcast_to(np.array(colour, float), (side, side, 3)).copy()
    tall, broad = side // storeys, side // windows
    for row in range(storeys):
        for column in range(windows):
            top, left = row * tall + tall // 4, column * broad + broad // 4 + 1
            picture[top : top + tall // 2, left : left + broad // 2] = (70, 88, 108)
            picture[top + tall // 2, left : left + broad // 2] = np.array(colour) * 0.7
    return picture
