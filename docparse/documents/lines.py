"""Lines, blocks and reading order of words from their boxes alone, and each word's neighbours.

Words are linked to the next word on their line: the nearest to the right that shares half of the lower one's height,
if they choose each other. A page is cut at gutters between columns of prose first; within a column, lines are chains
of links and a row of a table stays one line, so that a label and its value are neighbours whatever lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docparse.documents.page import Word

Boxes = NDArray[np.float64]  # (n, 4)
Indices = NDArray[np.int64]

SHARED = 0.5  # of the lower word's height: on one line
GUTTER = 0.8  # of the median word height: the least width between columns
PROSE_LINES = 5  # a column has at least so many lines
PROSE_WORDS = 3.5  # of so many words on average: fewer are the cells of a table
BLOCK_GAP = 0.85  # of the lines' median height: more white between two lines begins a block
SIZE_CHANGE = 1.45  # so does a change of the words' height by this factor
TOUCH = 0.4  # of the lower word's height: tight boxes of two lines may overlap by so much
CHUNK = 512  # rows of the pairwise matrices held at a time
MAX_DEPTH = 12


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For each of n words the index of its neighbour, or -1: arrays (n,) int64.

    ``left`` and ``right`` are the words beside it on its line, however far; ``above`` and ``below`` the nearest ones
    that share some of its width.
    """

    left: Indices
    above: Indices
    right: Indices
    below: Indices


@dataclass(frozen=True, eq=False)
class Arrangement:
    """``order`` (n,) lists the words in reading order; ``line`` and ``block`` (n,) are those of ``order[i]``."""

    order: Indices
    line: Indices
    block: Indices


def neighbours(words: Sequence[Word]) -> Neighbours:
    """The neighbours of each word; ``words`` as a page has them, in reading order."""
    count = len(words)
    boxes = np.array([word.box for word in words], np.float64).reshape(-1, 4)
    lines = np.array([word.line for word in words], np.int64)
    left, right = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    pairs = np.flatnonzero(lines[1:] == lines[:-1])
    right[pairs], left[pairs + 1] = pairs + 1, pairs
    above, below = _vertical(boxes)
    return Neighbours(left, above, right, below)


def arrange(
    boxes: Boxes,
    directions: Indices | None = None,
    spelled: NDArray[np.bool_] | None = None,
    strings: Indices | None = None,
) -> Arrangement:
    """Lines, blocks and reading order of word boxes (n, 4) in shown pixels.

    ``directions`` (n,) is each word's reading direction, clockwise degrees from rightwards (0, 90, 180, 270); words of
    other directions than the page's main one follow after it. ``spelled`` (n,) says which words are made of letters:
    only they make prose, numbers and dots make tables. Words of one number in ``strings`` (n,) that is not negative
    follow each other on one line in the given order, whatever their boxes.
    """
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    if directions is None:
        directions = np.zeros(len(boxes), np.int64)
    if spelled is None:
        spelled = np.ones(len(boxes), bool)
    if strings is None:
        strings = np.full(len(boxes), -1, np.int64)
    found, counts = np.unique(directions, return_counts=True)
    order: list[int] = []
    line: list[int] = []
    block: list[int] = []
    for direction in found[np.argsort(-counts, kind="stable")]:
        members = np.flatnonzero(directions == direction)
        upright = _upright(boxes[members], int(direction))
        for lines_of_block in _blocks(upright, spelled[members], strings[members]):
            number = block[-1] + 1 if block else 0
            for chain in lines_of_block:
                line += [line[-1] + 1 if line else 0] * len(chain)
                block += [number] * len(chain)
                order += members[chain].tolist()
    return Arrangement(np.array(order, np.int64), np.array(line, np.int64), np.array(block, np.int64))


def _upright(boxes: Boxes, direction: int) -> Boxes:
    """The boxes turned so that their words read from left to right."""
    x0, y0, x1, y1 = boxes.T
    if direction == 90:
        return np.stack([y0, -x1, y1, -x0], axis=1)
    if direction == 180:
        return np.stack([-x1, -y1, -x0, -y0], axis=1)
    if direction == 270:
        return np.stack([-y1, x0, -y0, x1], axis=1)
    return boxes


def _links(boxes: Boxes, strings: Indices) -> Indices:
    """The next word on the line of each (n,), or -1: the next of its string, else the nearest to the right.

    The nearest must share enough height, and the choice be mutual.
    """
    count = len(boxes)
    x0, y0, x1, y1 = boxes.T
    height = y1 - y0
    one, other = _near_in_height((y0 + y1) / 2, float(height.max()))
    shared = np.minimum(y1[one], y1[other]) - np.maximum(y0[one], y0[other])
    rightwards = x0[other] + x1[other] > x0[one] + x1[one]
    inside = _next_of_string(strings)
    ends, starts = inside < 0, np.ones(count, bool)
    starts[inside[inside >= 0]] = False
    rightwards &= ends[one] & starts[other]
    fit = rightwards & (shared >= SHARED * np.minimum(height[one], height[other]))
    one, other = one[fit], other[fit]
    gap = x0[other] - x1[one]
    order = np.argsort(gap, kind="stable")[::-1]  # of several writes to one place the last counts: the nearest
    forward, backward = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    forward[one[order]] = other[order]
    backward[other[order]] = one[order]
    mutual = (forward >= 0) & (backward[forward] == np.arange(count))
    return np.where(inside >= 0, inside, np.where(mutual, forward, -1))


def _next_of_string(strings: Indices) -> Indices:
    """The next word of the same string of each (n,), or -1."""
    follows = np.full(len(strings), -1, np.int64)
    order = np.argsort(strings, kind="stable")
    same = (strings[order][1:] == strings[order][:-1]) & (strings[order][1:] >= 0)
    follows[order[:-1][same]] = order[1:][same]
    return follows


def _near_in_height(middle: NDArray[np.float64], reach: float) -> tuple[Indices, Indices]:
    """All ordered pairs of different words whose middles (n,) are at most ``reach`` apart."""
    order = np.argsort(middle, kind="stable")
    heights = middle[order]
    low, high = np.searchsorted(heights, heights - reach), np.searchsorted(heights, heights + reach, "right")
    sizes = high - low
    one = np.repeat(np.arange(len(middle)), sizes)
    other = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(low, sizes)
    different = one != other
    return order[one[different]], order[other[different]]


def _blocks(boxes: Boxes, spelled: NDArray[np.bool_], strings: Indices) -> list[list[Indices]]:
    """Blocks of lines of word indices, in reading order."""
    if not len(boxes):
        return []
    links = _links(boxes, strings)
    return [block for region in _regions(boxes, links, spelled) for block in _blocks_of(boxes, links, region)]


def _regions(boxes: Boxes, links: Indices, spelled: NDArray[np.bool_]) -> list[Indices]:
    """The words of each column, or of what spans columns, in reading order."""
    least = GUTTER * float(np.median(boxes[:, 3] - boxes[:, 1]))
    result: list[Indices] = []

    def cut(members: Indices, depth: int) -> None:
        parts = _gutter(boxes, links, spelled, members, least) if depth < MAX_DEPTH else None
        if parts is None:
            result.append(members)
            return
        for part in parts:
            if len(part):
                cut(part, depth + 1)

    cut(np.arange(len(boxes)), 0)
    return result


def _gutter(
    boxes: Boxes, links: Indices, spelled: NDArray[np.bool_], members: Indices, least: float
) -> list[Indices] | None:
    """The members above, left, right and below of the best gutter between two columns of prose, or None."""
    inside = np.zeros(len(boxes), bool)
    inside[members] = True
    linked = members[links[members] >= 0]
    linked = linked[inside[links[linked]]]
    close = boxes[links[linked], 0] - boxes[linked, 2] < least
    inside[links[linked[close]]] = False  # what follows another word closely begins no line
    starts = boxes[members[inside[members]], 0]
    if len(starts) < 2 * PROSE_LINES:
        return None
    places, counts = np.unique(np.floor((starts - least / 2) / 4) * 4, return_counts=True)
    best: tuple[float, list[Indices]] | None = None
    for place in places[np.argsort(-counts, kind="stable")][:16]:
        for top, bottom in _free_runs(boxes[members], float(place), least):
            parts = _parted(boxes, members, float(place), top, bottom)
            score = min(_prose(links, spelled, parts[1]), _prose(links, spelled, parts[2]))
            if score > 0 and (best is None or score > best[0]):
                best = score, parts
    return best[1] if best else None


def _free_runs(boxes: Boxes, place: float, least: float) -> list[tuple[float, float]]:
    """The longest stretches (top, bottom) in which no word comes near the vertical line at ``place``."""
    near = (boxes[:, 0] < place + least / 2 - 1e-9) & (boxes[:, 2] > place - least / 2 + 1e-9)
    top, bottom = float(boxes[:, 1].min()), float(boxes[:, 3].max())
    runs: list[tuple[float, float]] = []
    for y0, y1 in sorted(map(tuple, boxes[near][:, [1, 3]].tolist())):
        if y0 > top:
            runs.append((top, y0))
        top = max(top, y1)
    if bottom > top:
        runs.append((top, bottom))
    long = [run for run in runs if run[1] - run[0] >= PROSE_LINES * least / GUTTER]
    return sorted(long, key=lambda run: run[0] - run[1])[:2]


def _parted(boxes: Boxes, members: Indices, place: float, top: float, bottom: float) -> list[Indices]:
    x, y = (boxes[members, 0] + boxes[members, 2]) / 2, (boxes[members, 1] + boxes[members, 3]) / 2
    within = (y >= top) & (y <= bottom)
    left = x < place
    return [members[y < top], members[within & left], members[within & ~left], members[y > bottom]]


def _prose(links: Indices, spelled: NDArray[np.bool_], members: Indices) -> float:
    """How many words of letters the members have if they stand in lines of prose, else 0."""
    words = int(spelled[members].sum())
    if words < PROSE_LINES * PROSE_WORDS:
        return 0.0
    inside = np.zeros(len(links), bool)
    inside[members] = True
    follows = links[members]
    lines = len(members) - int(inside[follows[follows >= 0]].sum())
    return float(words) if lines >= PROSE_LINES and words / lines >= PROSE_WORDS else 0.0


def _chains(links: Indices, members: Indices) -> list[Indices]:
    """The members as lines: chains along the links that stay inside."""
    inside = np.zeros(len(links), bool)
    inside[members] = True
    follow = np.where(inside & (links >= 0), links, -1)
    follow = np.where((follow >= 0) & inside[follow], follow, -1)
    begins = inside.copy()
    begins[follow[follow >= 0]] = False
    after = follow.tolist()
    chains: list[Indices] = []
    for first in np.flatnonzero(begins).tolist():
        chain = [first]
        while after[chain[-1]] >= 0:
            chain.append(after[chain[-1]])
        chains.append(np.array(chain, np.int64))
    return chains


def _blocks_of(boxes: Boxes, links: Indices, region: Indices) -> list[list[Indices]]:
    chains = _chains(links, region)
    spans = np.array(
        [[*boxes[c, :2].min(0), *boxes[c, 2:].max(0), np.median(boxes[c, 3] - boxes[c, 1])] for c in chains]
    )  # (lines, 5): box and the words' height
    middle = np.array([float(np.mean(boxes[c][:, [1, 3]])) for c in chains])
    height = float(np.median(spans[:, 4]))
    order = np.lexsort((spans[:, 0], np.round(middle / max(height / 2, 1e-6))))
    blocks: list[list[Indices]] = []
    bottom = 0.0
    for position, index in enumerate(order.tolist()):
        before = order[position - 1]
        grown = spans[index, 4] / max(spans[before, 4], 1e-6)
        apart = spans[index, 1] - bottom > BLOCK_GAP * height or not 1 / SIZE_CHANGE < grown < SIZE_CHANGE
        if position == 0 or apart:
            blocks.append([])
            bottom = spans[index, 3]
        blocks[-1].append(chains[index])
        bottom = max(bottom, spans[index, 3])
    return blocks


def _vertical(boxes: Boxes) -> tuple[Indices, Indices]:
    """The nearest word above and below of each (n,) that shares some of its width, or -1."""
    count = len(boxes)
    x0, y0, x1, y1 = boxes.T if count else np.zeros((4, 0))
    found = np.full((2, count), -1, np.int64)
    for start in range(0, count, CHUNK):
        rows = slice(start, min(start + CHUNK, count))
        shared = np.minimum(x1[rows, None], x1) - np.maximum(x0[rows, None], x0)  # (rows, n)
        lower = y0[rows, None] - y1  # white between a word above and this one
        upper = y0 - y1[rows, None]
        size = np.minimum(y1[rows, None] - y0[rows, None], y1 - y0)
        for which, gap in ((0, lower), (1, upper)):
            able = (shared > 0) & (gap > -TOUCH * size)
            # of several words at one distance the one that shares most stands for them
            cost = np.where(able, np.maximum(gap, 0) + 0.5 * size * (1 - shared / (x1 - x0)[rows, None]), np.inf)
            best = cost.argmin(1)
            held = np.isfinite(cost[np.arange(len(best)), best])
            found[which, rows] = np.where(held, best, -1)
    return found[0], found[1]
