"""Dense supervision of a glimpse: for every visual token what lies there, and how far away it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from navigation.glimpses import DOOR, EYE, Glimpse
from navigation.homes.description import Door
from navigation.homes.furniture import CATEGORIES, SHELL

Ints = NDArray[np.int64]
CELL = 32  # pixels along the side of a visual token
IGNORE = -100
KINDS = ("nothing", *CATEGORIES)  # classes of the map "kind"; a doorway's cells are "door", also where it stands open
DEPTH_BINS = 16
NEAR_M, FAR_M = 0.3, 10.0  # range of the depth bins, spaced evenly in the logarithm
_CLEAR, _FAINT = 0.2, 0.05  # shares of a cell from which a thing counts, and below which it does not
_NEAREST_DOOR = 0.8  # metres: in a doorway one sees the next room, no door


def maps(glimpse: Glimpse) -> dict[str, Ints]:
    """``kind`` and ``depth``, int64 (H / 32, W / 32): indices in `KINDS` and depth bins, `IGNORE` where undecided."""
    return {"kind": kind_map(glimpse), "depth": depth_map(glimpse.depth)}


def kind_map(glimpse: Glimpse) -> Ints:
    """In each cell the thing that covers most of it, if it covers a fifth; else what the shell shows there.

    A cell with only a little of a thing is undecided. Wall or ceiling behind a doorway some way off is a door's.
    """
    cells = _cells(glimpse.categories)  # (R, C, 32 * 32)
    rows, columns, pixels = cells.shape
    base = (np.arange(rows * columns) * (len(CATEGORIES) + 1)).reshape(rows, columns, 1)
    counts = np.bincount((cells + 1 + base).ravel(), minlength=rows * columns * (len(CATEGORIES) + 1))
    shares = counts.reshape(rows, columns, -1) / pixels  # by index in KINDS
    things, shell = shares[..., 1 + len(SHELL) :], shares[..., : 1 + len(SHELL)]
    most, out = things.max(-1), shell.argmax(-1)
    solid = np.isin(out, [1 + SHELL.index(n) for n in ("wall", "ceiling")])
    out = np.where(solid & _behind_doors(glimpse), 1 + DOOR, out)
    out = np.where(most >= _CLEAR, things.argmax(-1) + 1 + len(SHELL), out)
    return np.where((most >= _FAINT) & (most < _CLEAR), IGNORE, out).astype(np.int64)


def depth_map(depth: NDArray[np.float32]) -> Ints:
    """The bin of the median depth in the middle quarter of every cell; `IGNORE` where there is nothing."""
    rows, columns = depth.shape[0] // CELL, depth.shape[1] // CELL
    quarter = CELL // 4
    blocks = depth[: rows * CELL, : columns * CELL].reshape(rows, CELL, columns, CELL)
    inner = blocks[:, quarter:-quarter, :, quarter:-quarter].transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    return depth_bin(np.median(inner, -1))


def depth_bin(metres: NDArray[np.floating]) -> Ints:
    """Bins 0 to 15 of depths: ``floor(16 log(d / 0.3) / log(10 / 0.3))``, clipped; `IGNORE` for 0."""
    values = np.asarray(metres, np.float64)
    place = np.log(np.maximum(values, 1e-6) / NEAR_M) / np.log(FAR_M / NEAR_M)
    bins = np.clip(np.floor(DEPTH_BINS * place), 0, DEPTH_BINS - 1)
    return np.where(values > 0, bins, IGNORE).astype(np.int64)


def _cells(values: Ints) -> Ints:
    """(H, W) -> (R, C, 32 * 32)."""
    rows, columns = values.shape[0] // CELL, values.shape[1] // CELL
    blocks = values[: rows * CELL, : columns * CELL].reshape(rows, CELL, columns, CELL)
    return blocks.transpose(0, 2, 1, 3).reshape(rows, columns, CELL * CELL)


def _behind_doors(glimpse: Glimpse) -> NDArray[np.bool_]:
    """For every cell whether the ray through its middle passes a doorway before it ends: (R, C)."""
    width, height = glimpse.size
    rows, columns = height // CELL, width // CELL
    side = ((np.arange(columns) + 0.5) * CELL - width / 2) / glimpse.focal
    down = ((np.arange(rows) + 0.5) * CELL - height / 2) / glimpse.focal
    c, s = np.cos(glimpse.heading), np.sin(glimpse.heading)
    ray_x, ray_z = c * side - s, -s * side - c  # one unit is one metre of depth
    end = glimpse.depth[CELL // 2 :: CELL, CELL // 2 :: CELL][:rows, :columns]
    out = np.zeros((rows, columns), bool)
    for door in glimpse.scene.home.doors:
        at, inside = _crossing(door, glimpse.place, ray_x, ray_z)
        level = EYE - down[:, None] * at[None]
        out |= inside[None] & (at[None] < end - 0.05) & (level > 0) & (level < door.height) & (at[None] > _NEAREST_DOOR)
    return out


def _crossing(
    door: Door, place: NDArray[np.float64], ray_x: NDArray[np.float64], ray_z: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Where rays over the floor meet a doorway's plane (in units of the ray), and whether between its posts."""
    x, z = float(place[0]), float(place[1])
    if door.along == "x":
        through, along, start, beside, off = ray_z, ray_x, z, x, (door.z, door.x)
    else:
        through, along, start, beside, off = ray_x, ray_z, x, z, (door.x, door.z)
    at = (off[0] - start) / np.where(np.abs(through) < 1e-9, 1e-9, through)
    return at, (at > 0) & (np.abs(beside + at * along - off[1]) < door.width / 2)
