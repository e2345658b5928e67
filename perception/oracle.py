"""Perfect and deliberately displaced perception: what stage 2 does with boxes of a known quality.

The paper's experiment: with an accurate close-up the global image can be tiny; accuracy against the overlap of the
close-up with the true region shows how accurate perception must be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from backbone.contracts import Box
from backbone.errors import ConfigError, DataError
from perception.answer import PerceptionAnswer
from perception.benchmarks.items import Item
from perception.pipeline import Searcher
from perception.views import LargeImage

_DIRECTIONS = 16  # tried before a displaced box is allowed to leave the picture


@dataclass(frozen=True)
class Oracle:
    """True boxes instead of stage 1.

    ``overlap`` None shows them by the crop rules of the config. A number shows close-ups of exactly the true box's
    size that cover this part of it (1: the box itself), without widening, displaced in a direction drawn per item.
    """

    overlap: float | None = None

    def __post_init__(self) -> None:
        if self.overlap is not None and not 0.0 <= self.overlap <= 1.0:
            raise ConfigError(f"oracle overlap must lie from 0 to 1, got {self.overlap}")

    def answer(self, searcher: Searcher, item: Item, image: LargeImage, seed: int) -> PerceptionAnswer:
        """Stage 2 alone on the item's boxes; raises `DataError` if it has none."""
        if not item.boxes:
            raise DataError(f"item {item.id} has no boxes; the oracle needs a benchmark with boxes (ministar, vstar)")
        if item.several:
            raise DataError(f"item {item.id} has several right options, which the oracle does not ask for")
        if self.overlap is None:
            return searcher.answer_from(image, item.question, item.options, item.boxes, seed=seed)
        rng = np.random.default_rng((item.seed, 3))
        boxes = [displaced(box, self.overlap, image.size, rng) for box in item.boxes]
        exact = replace(searcher.config, box_expand=1.0, min_side=1, min_side_fraction=0.0, duplicate_iou=1.0)
        return replace(searcher, config=exact).answer_from(image, item.question, item.options, boxes, seed=seed)


def displaced(box: Box, overlap: float, size: tuple[int, int], rng: Generator) -> Box:
    """``box`` moved in a random direction until exactly the part ``overlap`` of its area is still covered.

    Directions that would leave the picture of ``size`` (width, height) are tried last; only then the box is clipped.
    """
    turn = rng.uniform(0, 2 * math.pi)
    moved = box
    for step in range(_DIRECTIONS):
        angle = turn + 2 * math.pi * step / _DIRECTIONS
        dx, dy = _offset(box, overlap, math.cos(angle), math.sin(angle))
        corners = (box.x0 + dx, box.y0 + dy, box.x1 + dx, box.y1 + dy)
        if corners[0] >= 0 and corners[1] >= 0 and corners[2] <= size[0] and corners[3] <= size[1]:
            return Box(*corners, label=box.label, score=box.score)
        if step == 0:
            moved = _clipped(corners, size, box)
    return moved


def _offset(box: Box, overlap: float, cos: float, sin: float) -> tuple[float, float]:
    """The displacement along a direction with ``(1 - |dx| / w) (1 - |dy| / h) = overlap``."""
    u, v = abs(cos) / box.width, abs(sin) / box.height
    if u * v < 1e-12:
        distance = (1 - overlap) / (u + v)
    else:  # u v d^2 - (u + v) d + 1 - overlap = 0, the smaller root
        distance = ((u + v) - math.sqrt((u + v) ** 2 - 4 * u * v * (1 - overlap))) / (2 * u * v)
    return distance * cos, distance * sin


def _clipped(corners: tuple[float, float, float, float], size: tuple[int, int], box: Box) -> Box:
    try:
        return Box.clamped(corners, *size, label=box.label, score=box.score)
    except DataError:  # wholly outside: a picture hardly larger than the target
        return box
