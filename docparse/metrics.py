"""Metrics of document question answering as pure functions: is the answer right, and is the evidence where it stands.

Regions are ``(page, (x0, y0, x1, y1))``: page from 0, pixels of that page. A law over pages is cells: ``pages`` (N,) of
whole numbers, ``cells`` (N, 4) of corners and ``mass`` (N,) not negative; mass lies uniformly in its cell.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from docparse.areas import Corners, Place, by_page, evidence_share, overlap, union_area

__all__ = [
    "anls",
    "average_precision",
    "bucket",
    "evidence_share",
    "exact_match",
    "iou",
    "mass_in_truth",
    "mean_average_precision",
    "page_found",
    "pointing",
    "region_iou",
    "strictly_attributed",
    "truth_law",
]

HITS = (0.25, 0.5, 0.7)  # thresholds of region IoU that reports name
MAP_THRESHOLDS = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))  # 0.5 to 0.95, as COCO
RIGHT_REGION = 0.5  # region IoU from which an answer counts as attributed
BUCKETS = (
    ("<0.5 %", 0.005),
    ("0.5-2 %", 0.02),
    ("2-10 %", 0.1),
    (">10 %", float("inf")),
)  # share of the page, upper end

Scored: TypeAlias = tuple[int, Corners, float]  # page, box, score
FloatArray: TypeAlias = NDArray[np.floating[Any]]


# Answers


def anls(prediction: str | None, answers: Sequence[str], threshold: float = 0.5) -> float:
    """Average normalised Levenshtein similarity of one question (Biten et al. 2019), 0 to 1.

    ``NL = distance / length of the longer``, over lower-cased text with single spaces; the score is ``1 - NL`` of the
    closest answer if ``NL < threshold``, else 0. (The challenge's own script also accepts ``NL = threshold``.)
    Without answers the question has none: not answering (None or blank) scores 1, anything else 0.
    """
    text = _spaced(prediction or "")
    if not answers:
        return float(not text)
    best = min(_normalised_distance(text, _spaced(answer), threshold) for answer in answers)
    return 1.0 - best if best < threshold else 0.0


def exact_match(prediction: str | None, answers: Sequence[str]) -> bool:
    """Whether the prediction equals an answer but for case, width forms, spaces and punctuation around it.

    Punctuation inside counts: 1.5 is not 15. Without answers, whether nothing was answered.
    """
    text = _bare(prediction or "")
    return not text if not answers else any(text == _bare(answer) for answer in answers)


def levenshtein(a: str, b: str) -> int:
    """Edits (insert, delete, substitute) between two texts, by bit vectors (Myers 1999): one step a character of b."""
    if not a or not b:
        return len(a) or len(b)
    places: dict[str, int] = {}
    for index, character in enumerate(a):
        places[character] = places.get(character, 0) | (1 << index)
    last, full = 1 << (len(a) - 1), (1 << len(a)) - 1
    plus, minus, distance = full, 0, len(a)
    for character in b:
        match = places.get(character, 0)
        diagonal = (((match & plus) + plus) ^ plus) | match | minus
        up, down = minus | (full & ~(diagonal | plus)), plus & diagonal
        distance += bool(up & last) - bool(down & last)
        up = (up << 1) | 1
        plus = ((down << 1) | (full & ~(diagonal | up))) & full
        minus = up & diagonal & full
    return distance


def _spaced(text: str) -> str:
    return " ".join(text.lower().split())


def _bare(text: str) -> str:
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return re.sub(r"^[\s\"'`.,;:!?()\[\]]+|[\s\"'`.,;:!?()\[\]]+$", "", folded)


def _normalised_distance(a: str, b: str, limit: float) -> float:
    longest = max(len(a), len(b))
    if not longest:
        return 0.0
    if abs(len(a) - len(b)) / longest >= limit:  # the distance is at least that
        return 1.0
    return levenshtein(a, b) / longest


# Regions


def iou(a: Corners, b: Corners) -> float:
    """Intersection over union of two boxes of one page, 0 to 1."""
    return region_iou([(0, a)], [(0, b)])


def region_iou(
    predicted: Sequence[Place], truth: Sequence[Place], page_areas: Mapping[int, float] | None = None
) -> float:
    """Intersection over union of two sets of boxes on pages, areas summed over pages, overlaps counted once.

    Where pages differ in resolution, ``page_areas`` (square pixels a page) lets each page's areas count as shares of
    that page. 1 when both sets are empty.
    """
    mine, theirs = by_page(predicted), by_page(truth)
    if not mine and not theirs:
        return 1.0
    common = total = 0.0
    for page in mine.keys() | theirs.keys():
        scale = 1.0 / page_areas[page] if page_areas else 1.0
        a, b = mine.get(page, []), theirs.get(page, [])
        both = overlap(a, b)
        common += both * scale
        total += (union_area(a) + union_area(b) - both) * scale
    return min(1.0, common / total) if total else 0.0


def page_found(page: int | None, truth: Sequence[Place]) -> bool:
    """Whether a page is one of those with evidence; without evidence, whether no page was named."""
    return page in {p for p, _ in truth} if truth else page is None


def strictly_attributed(
    prediction: str | None,
    answers: Sequence[str],
    predicted: Sequence[Place],
    truth: Sequence[Place],
    page_areas: Mapping[int, float] | None = None,
) -> bool:
    """Whether the answer is right (`exact_match`) and its region as well (`region_iou` at least 0.5).

    A question without answers is right when neither an answer nor a region is given.
    """
    if not answers:
        return exact_match(prediction, ()) and not predicted
    return exact_match(prediction, answers) and region_iou(predicted, truth, page_areas) >= RIGHT_REGION


def bucket(share: float) -> str:
    """The bucket of an evidence area (share of the page, from `evidence_share`); each includes its lower end."""
    return next(name for name, end in BUCKETS if share < end)


# Detection


def average_precision(
    predicted: Sequence[Sequence[Scored]], truth: Sequence[Sequence[Place]], threshold: float
) -> float:
    """Average precision over items at one IoU threshold: COCO's, 101 recall points, precision made non-increasing.

    ``predicted`` and ``truth`` hold one sequence an item. Predictions are taken by falling score; each takes the free
    box of its item and page with the largest IoU, if that reaches the threshold.

    Raises:
        DataError: different numbers of items, or no true box at all.
    """
    if len(predicted) != len(truth):
        raise DataError(f"average precision: {len(predicted)} items predicted, {len(truth)} with truth")
    positives = sum(len(boxes) for boxes in truth)
    if not positives:
        raise DataError("average precision needs at least one true box")
    order = sorted(((-p[2], i, p) for i, item in enumerate(predicted) for p in item), key=lambda entry: entry[0])
    free = [list(boxes) for boxes in truth]
    hits = np.array([_take(free[item], box, threshold) for _, item, box in order], np.float64)
    if not hits.size:
        return 0.0
    found = np.cumsum(hits)
    precision = np.maximum.accumulate((found / np.arange(1, hits.size + 1))[::-1])[::-1]
    at = np.searchsorted(found / positives, np.linspace(0, 1, 101), side="left")
    return float(np.append(precision, 0.0)[np.minimum(at, hits.size)].mean())


def mean_average_precision(predicted: Sequence[Sequence[Scored]], truth: Sequence[Sequence[Place]]) -> float:
    """`average_precision` averaged over IoU thresholds 0.5 to 0.95 in steps of 0.05."""
    return float(np.mean([average_precision(predicted, truth, t) for t in MAP_THRESHOLDS]))


def _take(free: list[Place], prediction: Scored, threshold: float) -> bool:
    best, at = 0.0, -1
    for index, (page, box) in enumerate(free):
        value = iou(box, prediction[1]) if page == prediction[0] else 0.0
        if value > best:
            best, at = value, index
    if at < 0 or best < min(threshold, 1 - 1e-10):
        return False
    del free[at]
    return True


# Laws over pages


def mass_in_truth(
    pages: NDArray[np.integer[Any]], cells: FloatArray, mass: FloatArray, truth: Sequence[Place]
) -> float:
    """The part of a law's mass that lies in the truth, 0 to 1; a cell half covered gives half its mass.

    Raises:
        DataError: shapes that do not fit, negative or no mass, or a cell without area.
    """
    weights = _law(pages, cells, mass)
    return float(weights @ _covered(pages, cells, truth))


def pointing(pages: NDArray[np.integer[Any]], cells: FloatArray, mass: FloatArray, truth: Sequence[Place]) -> bool:
    """Whether the centre of the densest cell (mass by area) lies in the truth; the first of equally dense ones."""
    weights = _law(pages, cells, mass)
    at = int(np.argmax(weights / _areas(cells)))
    x, y = (cells[at, 0] + cells[at, 2]) / 2, (cells[at, 1] + cells[at, 3]) / 2
    return any(page == pages[at] and b[0] <= x <= b[2] and b[1] <= y <= b[3] for page, b in truth)


def truth_law(pages: NDArray[np.integer[Any]], cells: FloatArray, truth: Sequence[Place]) -> NDArray[np.float64]:
    """The law (N,) on the cells that is uniform on the union of the truth's boxes of each page: what to compare with.

    Pages weigh as their evidence's area in pixels. The distance W2 between it and a predicted law on the same cells is
    the flow's own `docparse.flow` divergence.

    Raises:
        DataError: no cell touches the truth, or shapes that do not fit.
    """
    _law(pages, cells, np.ones(len(cells)))
    inside = _covered(pages, cells, truth) * _areas(cells)
    if not inside.sum() > 0:
        raise DataError(f"none of the {len(cells)} cells touches one of the {len(truth)} true boxes")
    return np.asarray(inside / inside.sum(), np.float64)


def _covered(pages: NDArray[np.integer[Any]], cells: FloatArray, truth: Sequence[Place]) -> NDArray[np.float64]:
    """The part of each cell inside the union of the truth's boxes of its page."""
    part = np.zeros(len(cells))
    for page, boxes in by_page(truth).items():
        on_page = np.flatnonzero(pages == page)
        for index in on_page[_touches(cells[on_page], boxes)]:
            x0, y0, x1, y1 = (float(v) for v in cells[index])
            part[index] = overlap([(x0, y0, x1, y1)], boxes) / ((x1 - x0) * (y1 - y0))
    return part


def _touches(cells: FloatArray, boxes: Sequence[Corners]) -> NDArray[np.bool_]:
    b = np.array(boxes, np.float64)
    apart = (
        (cells[:, None, 0] >= b[None, :, 2])
        | (cells[:, None, 2] <= b[None, :, 0])
        | (cells[:, None, 1] >= b[None, :, 3])
        | (cells[:, None, 3] <= b[None, :, 1])
    )
    return np.asarray(~apart.all(axis=1))


def _areas(cells: FloatArray) -> NDArray[np.float64]:
    return np.asarray((cells[:, 2] - cells[:, 0]) * (cells[:, 3] - cells[:, 1]), np.float64)


def _law(pages: NDArray[np.integer[Any]], cells: FloatArray, mass: FloatArray) -> NDArray[np.float64]:
    """The mass, normalised, after a check of everything."""
    n = len(pages)
    if not n or pages.shape != (n,) or cells.shape != (n, 4) or mass.shape != (n,):
        raise DataError(
            f"a law over pages needs pages (N,), cells (N, 4) and mass (N,), "
            f"got {pages.shape}, {cells.shape} and {mass.shape}"
        )
    weights = np.asarray(mass, np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise DataError(f"a law's mass must be finite, not negative and not all 0, got a sum of {weights.sum()}")
    if not (_areas(cells) > 0).all() or not (cells[:, 2] > cells[:, 0]).all():
        raise DataError(f"{int((_areas(cells) <= 0).sum())} of {n} cells have no area; corners are x0, y0, x1, y1")
    return np.asarray(weights / weights.sum(), np.float64)
