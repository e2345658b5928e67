"""From the mass of the last step to boxes: highest-density set, groups, boxes around the words that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backbone.errors import ConfigError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class RegionConfig:
    """How mass becomes boxes. All of them OUR CHOICE."""

    mass: float = 0.9  # of the highest-density set
    peak: float = 0.2  # of the heaviest particle's mass: lighter ones are left out, they only widen boxes
    least: float = 0.4  # of the mass in regions: a lighter region is dropped
    reach: float = 1.2  # particles closer than this many times their height belong together, across the line
    along: float = 2.0  # the same along a line
    most: int = 8  # regions
    snap: Literal["off", "cells", "blocks"] = "off"  # see docparse.snapping: blocks give 0.003 of IoU, cells nothing
    snap_share: float = 0.8  # of a cell or block that a box must hold to grow to it

    def __post_init__(self) -> None:
        if (
            not 0 < self.mass <= 1
            or not 0 <= self.least < 1
            or not 0 <= self.peak <= 1
            or min(self.reach, self.along) < 0
            or self.most < 1
            or self.snap not in ("off", "cells", "blocks")
            or not 0 < self.snap_share <= 1
        ):
            raise ConfigError(
                f"regions: 0 < mass <= 1, 0 <= least < 1, 0 <= peak <= 1, reach >= 0, most >= 1, snap off, cells or "
                f"blocks, 0 < snap_share <= 1; got {self}"
            )


@dataclass(frozen=True, eq=False)
class FoundRegion:
    """A box in page units with its mass, and the particles in it."""

    page: int
    box: tuple[float, float, float, float]
    mass: float
    members: NDArray[np.int64]


def find_regions(
    rho: FloatArray,
    boxes: FloatArray,
    pages: NDArray[np.int64],
    config: RegionConfig,
    follows: NDArray[np.int64] | None = None,
) -> list[FoundRegion]:
    """Regions by falling mass; the heaviest is always kept.

    Args:
        rho: (N,) the law.
        boxes: (N, 4) of its particles in page units; words, or cells where there are none.
        pages: (N,) of the particles.
        config: see `RegionConfig`.
        follows: (N,) the particle that follows each on its line, however far, -1 for none: the cells of a table's row
            belong together if nothing lies between them.
    """
    if not len(rho):
        return []
    order = np.argsort(-rho, kind="stable")
    before = np.cumsum(rho[order]) - rho[order]
    dense = order[(before < config.mass * rho.sum()) & (rho[order] >= config.peak * rho[order[0]])]
    joined = _near(boxes[dense], pages[dense], config)
    if follows is not None:
        place = np.full(len(rho), -1, np.int64)
        place[dense] = np.arange(len(dense))
        pairs = [(place[i], place[follows[i]]) for i in dense.tolist() if follows[i] >= 0 and place[follows[i]] >= 0]
        for i, j in pairs:
            joined[i, j] = joined[j, i] = True
    label = _components(joined)
    found = []
    for number in range(label.max() + 1):
        members = np.sort(dense[label == number])
        x0, y0 = boxes[members, :2].min(0)
        x1, y1 = boxes[members, 2:].max(0)
        found.append(
            FoundRegion(
                int(pages[members[0]]), (float(x0), float(y0), float(x1), float(y1)), float(rho[members].sum()), members
            )
        )
    found.sort(key=lambda region: -region.mass)
    return [r for i, r in enumerate(found) if i == 0 or r.mass >= config.least * rho[dense].sum()][: config.most]


def _near(boxes: FloatArray, pages: NDArray[np.int64], config: RegionConfig) -> NDArray[np.bool_]:
    """(n, n) whether the gap between two boxes of a page is small."""
    height = boxes[:, 3] - boxes[:, 1]
    size = np.minimum(height[:, None], height[None])
    across = np.maximum(boxes[:, None, 1], boxes[None, :, 1]) - np.minimum(boxes[:, None, 3], boxes[None, :, 3])
    along = np.maximum(boxes[:, None, 0], boxes[None, :, 0]) - np.minimum(boxes[:, None, 2], boxes[None, :, 2])
    same_line = (across < -0.4 * size) & (along < config.along * size)
    stacked = (along < 0) & (across < config.reach * size)
    near: NDArray[np.bool_] = (same_line | stacked) & (pages[:, None] == pages[None])
    return near


def _components(joined: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(n,) number of each element's connected component."""
    label = np.arange(len(joined))
    while True:
        least = np.minimum(label, np.where(joined, label[None], len(joined)).min(1))
        if (least == label).all():
            return np.unique(label, return_inverse=True)[1].astype(np.int64)
        label = least
