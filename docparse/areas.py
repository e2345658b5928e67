"""Areas of boxes on pages: unions and intersections, exact, overlaps counted once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from backbone.errors import DataError

Corners: TypeAlias = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels of the page, x right, y down
Place: TypeAlias = tuple[int, Corners]  # page from 0, and a box on it


def union_area(boxes: Sequence[Corners]) -> float:
    """The area covered by boxes of one page, overlaps counted once; inverted or empty boxes cover nothing."""
    solid = [b for b in boxes if b[0] < b[2] and b[1] < b[3]]
    area = 0.0
    for left, right in itertools.pairwise(sorted({x for b in solid for x in (b[0], b[2])})):
        reached = float("-inf")
        for low, high in sorted((b[1], b[3]) for b in solid if b[0] <= left and right <= b[2]):
            area += max(0.0, high - max(low, reached)) * (right - left)
            reached = max(reached, high)
    return area


def overlap(a: Sequence[Corners], b: Sequence[Corners]) -> float:
    """The area that the union of ``a`` and the union of ``b``, both of one page, have in common."""
    pieces = [(max(p[0], q[0]), max(p[1], q[1]), min(p[2], q[2]), min(p[3], q[3])) for p in a for q in b]
    return union_area(pieces)


def by_page(places: Sequence[Place]) -> dict[int, list[Corners]]:
    """The boxes of each page that has any."""
    pages: dict[int, list[Corners]] = {}
    for page, box in places:
        pages.setdefault(page, []).append(box)
    return pages


def evidence_share(
    places: Sequence[Place], sizes: Mapping[int, tuple[float, float]] | Sequence[tuple[float, float]]
) -> float:
    """The part of the pages with evidence that the evidence covers, 0 to 1.

    ``sizes`` gives ``(width, height)`` of a page in the boxes' pixels. With evidence on several pages it is the mean
    over those pages, each page's covered part counting alike whatever its resolution.

    Raises:
        DataError: no evidence, or a page without area.
    """
    if not places:
        raise DataError("evidence without a box has no share of the page")
    shares = []
    for page, boxes in by_page(places).items():
        width, height = sizes[page]
        if not (width > 0 and height > 0):
            raise DataError(f"page {page + 1} has no area: {width} x {height} pixels")
        shares.append(overlap(boxes, [(0.0, 0.0, float(width), float(height))]) / (width * height))
    return sum(shares) / len(shares)
