"""The words of a document as arrays: where they stand, how they lie to each other, what each looks like.

Nothing here depends on a question; `docparse.fields.matching` holds words against one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from docparse.fields.text import KINDS, kinds, normal

FloatArray = NDArray[np.float32]
Indices = NDArray[np.int64]

SEGMENT_GAP = 1.6  # of the line's height: white that separates two cells of a line
HEADING = 1.18  # of the page's median word height: a line from which a heading is told
GEOMETRY = 18


class Embedder(Protocol):
    """Texts to unit vectors."""

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """``(n, d)`` float32 unit rows."""
        ...


class WordLike(Protocol):
    """A word of a page: text, box in pixels, line and block in reading order."""

    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def box(self) -> tuple[float, float, float, float]: ...  # noqa: D102
    @property
    def line(self) -> int: ...  # noqa: D102
    @property
    def block(self) -> int: ...  # noqa: D102


class Placed(NamedTuple):
    """A word, or a segment, with its place: the simplest `WordLike`."""

    text: str
    box: tuple[float, float, float, float]
    line: int
    block: int


@dataclass(frozen=True)
class Arranged:
    """A page whose words stand in reading order: the simplest `PageLike`."""

    width: int
    height: int
    words: tuple[Placed, ...]


class PageLike(Protocol):
    """A page: its size in pixels and its words in reading order."""

    @property
    def width(self) -> int: ...  # noqa: D102
    @property
    def height(self) -> int: ...  # noqa: D102
    @property
    def words(self) -> Sequence[WordLike]: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class DocumentWords:
    """All words of a document in reading order, and how they lie to each other; what does not depend on a question.

    ``boxes`` (n, 4) are in page units: pixels over the page's longer side. ``left``, ``right``, ``above``, ``below``
    (n,) are indices of neighbours or -1. A segment is a piece of a line without a gap, as a table's cell. ``line``,
    ``segment``, ``block``, ``heading`` (n,) are numbers of groups over the whole document; a word's heading is the line
    of larger type above it, -1 if there is none.
    """

    texts: tuple[str, ...]
    boxes: FloatArray
    page: Indices
    line: Indices
    segment: Indices
    block: Indices
    heading: Indices
    left: Indices
    right: Indices
    above: Indices
    below: Indices
    over: Indices  # (segments,) the segment above each segment, -1 for none
    sizes: FloatArray  # (pages, 2) width and height of the pages in page units
    fixed: FloatArray  # (n, GEOMETRY + len(KINDS)) geometry and kinds of the words
    unique: tuple[str, ...]  # distinct normalised texts
    which: Indices  # (n,) index into unique
    vectors: FloatArray  # (len(unique), d) their embeddings

    def __len__(self) -> int:
        return len(self.texts)


def read_words(pages: Sequence[PageLike], embedder: Embedder) -> DocumentWords:
    """Arrange the words of a document once, for all questions. Raises `DataError` if there is no page."""
    if not pages:
        raise DataError("a document without pages has no words to arrange")
    parts = [_page(index, page) for index, page in enumerate(pages)]
    counts = np.cumsum([0] + [len(part["texts"]) for part in parts])
    texts = tuple(text for part in parts for text in part["texts"])
    joined: dict[str, NDArray] = {}  # type: ignore[type-arg]
    for name in ("boxes", "page", "geometry"):
        joined[name] = np.concatenate([part[name] for part in parts])
    for name in ("left", "right", "above", "below"):
        shifted = [np.where(part[name] < 0, -1, part[name] + start) for part, start in zip(parts, counts, strict=False)]
        joined[name] = np.concatenate(shifted)
    for name in ("line", "segment", "block", "heading"):
        joined[name] = _numbered([part[name] for part in parts])
    firsts = np.cumsum([0] + [len(part["over"]) for part in parts])
    overs = [np.where(part["over"] < 0, -1, part["over"] + at) for part, at in zip(parts, firsts, strict=False)]
    unique, which = np.unique([normal(text) or text for text in texts], return_inverse=True)
    sizes = np.array([[p.width, p.height] for p in pages], np.float32)
    looks = np.array([kinds(text) for text in texts], np.float32).reshape(len(texts), len(KINDS))
    return DocumentWords(
        texts=texts,
        boxes=joined["boxes"].astype(np.float32),
        page=joined["page"],
        line=joined["line"],
        segment=joined["segment"],
        block=joined["block"],
        heading=joined["heading"],
        left=joined["left"],
        right=joined["right"],
        above=joined["above"],
        below=joined["below"],
        over=np.concatenate(overs),
        sizes=sizes / sizes.max(1, keepdims=True),
        fixed=np.concatenate([joined["geometry"], looks], 1),
        unique=tuple(unique.tolist()),
        which=which.astype(np.int64),
        vectors=embedder.embed(unique.tolist()) if len(unique) else np.zeros((0, 1), np.float32),
    )


def arranged(page: PageLike) -> Arranged:
    """The page with lines, blocks and order told from the boxes alone, as those of a document that is opened are."""
    from docparse.documents.lines import arrange

    boxes = np.array([w.box for w in page.words], np.float64).reshape(-1, 4)
    spelled = np.array([sum(map(str.isalpha, w.text)) > 1 for w in page.words], bool)
    found = arrange(boxes, None, spelled)
    rows = zip(found.order.tolist(), found.line.tolist(), found.block.tolist(), strict=True)
    words = tuple(Placed(page.words[i].text, page.words[i].box, line, block) for i, line, block in rows)
    return Arranged(page.width, page.height, words)


def _numbered(groups: Sequence[Indices]) -> Indices:
    """Group numbers of the pages, counted on over the document; -1 stays."""
    out, start = [], 0
    for group in groups:
        out.append(np.where(group < 0, -1, group + start))
        start += int(group.max()) + 1 if len(group) else 0
    return np.concatenate(out)


def _page(index: int, page: PageLike) -> dict[str, NDArray]:  # type: ignore[type-arg]
    """The arrays of one page, its groups counted from 0."""
    from docparse.documents.lines import neighbours

    words = page.words
    count = len(words)
    boxes = np.array([w.box for w in words], np.float64).reshape(-1, 4) / max(page.width, page.height)
    line = np.array([w.line for w in words], np.int64)
    near = neighbours(words)  # type: ignore[arg-type] # any word with a text, a box and a line
    heights = boxes[:, 3] - boxes[:, 1]
    gap = np.where(near.left >= 0, boxes[:, 0] - boxes[near.left, 2], np.inf)
    segment = np.cumsum(gap > SEGMENT_GAP * heights) - 1 if count else line
    cells = _hulls(boxes, segment)
    median = float(np.median(heights)) if count else 1.0
    return {
        "texts": [w.text for w in words],  # type: ignore[dict-item]
        "boxes": boxes,
        "page": np.full(count, index, np.int64),
        "line": _dense(line),
        "segment": segment,
        "block": _dense(np.array([w.block for w in words], np.int64)),
        "heading": _headings(_dense(line), heights, median),
        "left": near.left,
        "right": near.right,
        "above": near.above,
        "below": near.below,
        "over": neighbours(_placed(cells)).above,  # type: ignore[arg-type] # as above
        "geometry": _geometry(index, page, boxes, line, gap, median),
    }


def _placed(boxes: NDArray[np.float64]) -> list[Placed]:
    return [Placed("", (x0, y0, x1, y1), i, 0) for i, (x0, y0, x1, y1) in enumerate(boxes.tolist())]


def _hulls(boxes: NDArray[np.float64], group: Indices) -> NDArray[np.float64]:
    """(groups, 4) the box around each group's boxes; ``group`` is non-decreasing from 0."""
    if not len(boxes):
        return boxes
    starts = np.flatnonzero(np.r_[True, np.diff(group) > 0])
    low, high = np.minimum.reduceat(boxes[:, :2], starts), np.maximum.reduceat(boxes[:, 2:], starts)
    return np.concatenate([low, high], 1)


def _dense(group: Indices) -> Indices:
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _headings(line: Indices, heights: NDArray[np.float64], median: float) -> Indices:
    """For each word the last line of larger type before its own, -1 if there is none."""
    if not len(line):
        return line
    size = np.zeros(int(line.max()) + 1)
    np.maximum.at(size, line, heights)
    latest, out = -1, np.full(len(size), -1, np.int64)
    for number, height in enumerate(size.tolist()):
        out[number] = latest
        if height > HEADING * median:
            latest = number
    return out[line]


def _geometry(
    index: int, page: PageLike, boxes: NDArray[np.float64], line: Indices, gap: NDArray[np.float64], median: float
) -> FloatArray:
    """(n, GEOMETRY) numbers of about one: place, size, and the word's place on its line."""
    if not len(boxes):
        return np.zeros((0, GEOMETRY), np.float32)
    longer = max(page.width, page.height)
    width, height = page.width / longer, page.height / longer
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2 / width, (boxes[:, 1] + boxes[:, 3]) / 2 / height
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    number = _dense(line)
    first, last = np.full(number.max() + 1, np.inf), np.full(number.max() + 1, -np.inf)
    np.minimum.at(first, number, boxes[:, 0])
    np.maximum.at(last, number, boxes[:, 2])
    many = np.bincount(number)[number]
    gaps = np.where(np.isfinite(gap), gap / np.maximum(h, 1e-6), 0)
    after = np.r_[gap[1:], np.inf]
    columns = [
        2 * x - 1,
        2 * y - 1,
        np.sin(2 * np.pi * x),
        np.cos(2 * np.pi * x),
        np.sin(2 * np.pi * y),
        np.cos(2 * np.pi * y),
        np.minimum(w / width * 5, 2),
        np.log(np.maximum(h, 1e-6) / max(median, 1e-6)),
        np.minimum(many, 20) / 20,
        np.minimum(gaps, 8) / 4,
        ~np.isfinite(gap),
        ~np.isfinite(after),
        (gaps > SEGMENT_GAP) | ~np.isfinite(gap),
        (first[number] / width),
        (last[number] / width),
        np.full(len(x), min(index, 10) / 10),
        np.full(len(x), float(index == 0)),
        np.full(len(x), width / height),
    ]
    return np.stack(columns, 1).astype(np.float32)
