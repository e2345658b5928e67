"""The words that speak for something without words: what stands in it, its caption or label, its heading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docparse.fields.words import DocumentWords
from docparse.sights.wish import Kind

Indices = NDArray[np.int64]
Boxes = NDArray[np.float64]

PART = 1.6  # of a line's height: white between two captions, or two columns, on one line
REACH = 2.5  # of a line's height: a caption is no further from its figure; twice that if it says "Figure 3"
LABEL_REACH = 4.0  # of a line's height: nor the label of a box on its line
CAPTION_LINES = 3
CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|photo(?:graph)?|picture|image|illustration|chart|diagram|drawing|graph|map|plate|exhibit)\.?\s*\d",
    re.IGNORECASE,
)
TOUCHING = 1.2  # of a line's height: short words so near to a drawing are its own
SHORT = 4  # words of a label of a drawing


@dataclass(frozen=True, eq=False)
class Speakers:
    """Indices of words by what they are to a thing; ``caption`` is its label where it is no figure."""

    inside: Indices
    caption: Indices
    heading: Indices

    @property
    def all(self) -> Indices:
        """All of them, each once."""
        return np.unique(np.concatenate([self.inside, self.caption, self.heading]))


@dataclass(frozen=True, eq=False)
class Lines:
    """The pieces of lines of one page: boxes (m, 4) in page units, and the words of each."""

    boxes: Boxes
    words: tuple[Indices, ...]


def lines_of(words: DocumentWords, page: int) -> Lines:
    """Lines of a page in reading order, parted where the white is wider than `PART` times the line's height.

    The segments of `DocumentWords` are parted by the height of single words, and so at every dash.
    """
    here = np.flatnonzero(words.page == page)
    if not len(here):
        return Lines(np.zeros((0, 4)), ())
    line = np.unique(words.line[here], return_inverse=True)[1]
    heights = np.zeros(line.max() + 1)
    np.maximum.at(heights, line, words.boxes[here, 3] - words.boxes[here, 1])
    gaps = words.boxes[here[1:], 0] - words.boxes[here[:-1], 2]
    parts = np.split(here, np.flatnonzero((np.diff(line) != 0) | (gaps > PART * heights[line[1:]])) + 1)
    boxes = [np.concatenate([words.boxes[p, :2].min(0), words.boxes[p, 2:].max(0)]) for p in parts]
    return Lines(np.array(boxes, np.float64), tuple(parts))


def speakers(words: DocumentWords, page: int, boxes: Boxes, kind: Kind) -> list[Speakers]:
    """Who speaks for each of the things (m, 4), in page units, on one page; a caption speaks for one thing only."""
    lines = lines_of(words, page)
    inside = [_inside(words, page, box) for box in boxes]
    if kind == "box":
        captions = [_beside(words, page, box, boxes) for box in boxes]
    else:
        captions = _captions(words, lines, boxes, inside, alone=kind == "figure")
    return [
        Speakers(own, caption, _heading(words, page, box, caption))
        for own, caption, box in zip(inside, captions, boxes, strict=True)
    ]


def with_labels(words: DocumentWords, page: int, box: NDArray[np.float64]) -> NDArray[np.float64]:
    """The box (4,) around a drawing, the words in it, and short words that touch it: labels of its axes."""
    lines = lines_of(words, page)
    labels = [*_inside(words, page, box).tolist()]
    for line, part in zip(lines.boxes, lines.words, strict=True):
        near = TOUCHING * (line[3] - line[1])
        if len(part) <= SHORT and _gap(line, box) <= near and not _is_caption(words, part):
            labels += part.tolist()
    return around(box, words, np.array(labels, np.int64))


def around(box: NDArray[np.float64], words: DocumentWords, which: Indices) -> NDArray[np.float64]:
    """The box (4,) around a box and words."""
    if not len(which):
        return box
    low, high = words.boxes[which, :2].min(0), words.boxes[which, 2:].max(0)
    return np.concatenate([np.minimum(box[:2], low), np.maximum(box[2:], high)])


def _gap(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The white between two boxes, the larger of the two directions; below 0 if they meet."""
    return float(max(max(a[0], b[0]) - min(a[2], b[2]), max(a[1], b[1]) - min(a[3], b[3])))


def _inside(words: DocumentWords, page: int, box: NDArray[np.float64]) -> Indices:
    centre = (words.boxes[:, :2] + words.boxes[:, 2:]) / 2
    here = (words.page == page) & (centre >= box[:2]).all(1) & (centre <= box[2:]).all(1)
    return np.flatnonzero(here)


def _captions(
    words: DocumentWords, lines: Lines, boxes: Boxes, inside: Sequence[Indices], alone: bool
) -> list[Indices]:
    """The caption of each thing: the nearest line under or above it; one that says "Figure 3" comes before others.

    ``alone``: a line speaks for the thing it is nearest to, and for no other.
    """
    pairs: list[tuple[float, int, int]] = []
    for at, box in enumerate(boxes):
        own = set(inside[at].tolist())
        for line, part in enumerate(lines.words):
            named = _is_caption(words, part)
            cost = _cost(lines.boxes[line], box, 2 * REACH if named else REACH)
            if cost is None or own.issuperset(part.tolist()):
                continue
            if named:
                cost -= 2 * REACH
            pairs.append((cost, at, line))
    found: dict[int, Indices] = {}
    taken: set[int] = set()
    for _, at, line in sorted(pairs):
        if at in found or (alone and line in taken):
            continue
        members = _continued(words, lines, line)
        taken.update(members)
        found[at] = np.concatenate([lines.words[i] for i in members])
    return [found.get(at, np.zeros(0, np.int64)) for at in range(len(boxes))]


def _is_caption(words: DocumentWords, part: Indices) -> bool:
    return bool(CAPTION.match(" ".join(words.texts[i] for i in part[:3].tolist())))


def _cost(line: NDArray[np.float64], box: NDArray[np.float64], reach: float) -> float | None:
    """How far a line stands above or below a thing, in its own height; None if it is no caption of it."""
    height = line[3] - line[1]
    shared = min(line[2], box[2]) - max(line[0], box[0])
    if shared < 0.5 * min(line[2] - line[0], box[2] - box[0]):
        return None
    below, above = (line[1] - box[3]) / height, (box[1] - line[3]) / height
    if -0.6 <= below <= reach:
        return max(0.0, float(below))
    if -0.6 <= above <= reach:
        return max(0.0, float(above)) + 0.5
    return None


def _continued(words: DocumentWords, lines: Lines, first: int) -> list[int]:
    """A line and those that continue it below: a caption of several lines, not the text of a column."""
    block = words.block[lines.words[first][0]]
    members = [first]
    for index in range(first + 1, len(lines.words)):
        if words.block[lines.words[index][0]] != block:
            break
        last, line = lines.boxes[members[-1]], lines.boxes[index]
        height = last[3] - last[1]
        if line[1] - last[3] < 0.8 * height and line[1] > last[1] and _overlap(last, line) > 0:
            members.append(index)
    return members if len(members) <= CAPTION_LINES else members[:1]


def _overlap(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(min(a[2], b[2]) - max(a[0], b[0]))


def _beside(words: DocumentWords, page: int, box: NDArray[np.float64], boxes: Boxes) -> Indices:
    """The words that a box is to be ticked for: those that follow it on its line up to the next box, else those before.

    Few words of text follow a box closely; a far column is another matter.
    """
    middle = (words.boxes[:, 1] + words.boxes[:, 3]) / 2
    level = (
        (words.page == page) & (middle > box[1] - 0.3 * (box[3] - box[1])) & (middle < box[3] + 0.3 * (box[3] - box[1]))
    )
    others = boxes[(boxes[:, 1] < box[3]) & (boxes[:, 3] > box[1])]
    right = others[others[:, 0] > box[2], 0].min(initial=np.inf)
    left = others[others[:, 2] < box[0], 2].max(initial=-np.inf)
    for candidates in (
        np.flatnonzero(level & (words.boxes[:, 0] >= box[2] - 1e-3) & (words.boxes[:, 2] <= right)),
        np.flatnonzero(level & (words.boxes[:, 2] <= box[0] + 1e-3) & (words.boxes[:, 0] >= left))[::-1],
    ):
        kept: list[int] = []
        edge = box
        for i in candidates.tolist():
            own = words.boxes[i].astype(np.float64)
            if _gap(own, edge) > (LABEL_REACH if not kept else 1.0) * (own[3] - own[1]):
                break
            kept.append(i)
            edge = own
        if kept:
            return np.sort(np.array(kept, np.int64))
    return np.zeros(0, np.int64)


def _heading(words: DocumentWords, page: int, box: NDArray[np.float64], caption: Indices) -> Indices:
    """The words of the heading that the caption, or the first word below the thing, stands under."""
    from_word = caption
    if not len(from_word):
        from_word = np.flatnonzero((words.page == page) & (words.boxes[:, 1] > box[3]))[:1]
    if not len(from_word) or words.heading[from_word[0]] < 0:
        return np.zeros(0, np.int64)
    return np.flatnonzero(words.line == words.heading[from_word[0]])
