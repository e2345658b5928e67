"""Words against a question: how much of the question each word's surroundings answer to, and what the word is.

A question's content words are matched with every word of the document (`matches`); for each word these matches are then
gathered over the places where labels stand: its own segment, what is left of it on its line, the words above it in its
column, the line, the heading above, the block, the page. A value is typically found by a label left of it and a column
header above it that together cover the question, hence the unions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from docparse.fields.text import KINDS, asking, content_tokens, kinds, normal, stem

FloatArray = NDArray[np.float32]
Indices = NDArray[np.int64]

MAX_TOKENS = 24  # of a question; further ones are left out
ALIKE = 0.2  # cosine from which two words begin to match; 1 is a full match
SEGMENT_GAP = 1.6  # of the line's height: white that separates two cells of a line
HEADING = 1.18  # of the page's median word height: a line from which a heading is told
PLACES = ("word", "segment", "left", "line", "above", "header", "beside", "heading", "block", "page")
UNIONS = (("left", "above"), ("left", "above", "heading"), ("line", "heading"), ("line", "above", "heading", "page"))
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


@dataclass(frozen=True, eq=False)
class WordFields:
    """A question's fields over the n words of a document."""

    matched: FloatArray  # (n, 2 * (len(PLACES) + len(UNIONS)) + 2) coverage by meaning and by letters
    question: FloatArray  # (d + len(ASKING) + 1,) what is asked for


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


def word_fields(words: DocumentWords, question: str, embedder: Embedder) -> WordFields:
    """The fields of one question. Raises `DataError` for an empty question."""
    tokens = content_tokens(question)[:MAX_TOKENS]
    if not tokens:
        raise DataError(f"the question {question!r} has no words")
    vectors = embedder.embed([*tokens, question])
    asked = np.concatenate([vectors[-1], asking(question), [min(len(tokens), 12) / 12]]).astype(np.float32)
    if not len(words):
        width = 2 * (len(PLACES) + len(UNIONS)) + 2
        return WordFields(np.zeros((0, width), np.float32), asked)
    by_letters = _by_letters(tokens, words.unique)  # (tokens, unique)
    cosine = vectors[:-1] @ words.vectors.T
    by_meaning = np.maximum(by_letters, np.clip((cosine - ALIKE) / (1 - ALIKE), 0, 1).astype(np.float32))
    rare = _rarity(by_letters, words)
    columns = []
    for matches in (by_meaning, by_letters):
        places = _gather(matches[:, words.which], words)
        places |= {"+".join(union): np.maximum.reduce([places[p] for p in union]) for union in UNIONS}
        columns += [rare @ covered for covered in places.values()]
        columns.append(matches[:, words.which].max(0))
    return WordFields(np.stack(columns, 1).astype(np.float32), asked)


def _by_letters(tokens: Sequence[str], unique: Sequence[str]) -> FloatArray:
    """1 where a token and a text are one word, 0.9 where they share a stem, 0.8 where one is part of a joined word."""
    same = {text: i for i, text in enumerate(unique)}
    stems: dict[str, list[int]] = {}
    for i, text in enumerate(unique):
        stems.setdefault(stem(text), []).append(i)
    out = np.zeros((len(tokens), len(unique)), np.float32)
    joined = [(i, text.replace("/", "-").split("-")) for i, text in enumerate(unique) if "-" in text or "/" in text]
    for row, token in enumerate(tokens):
        for i, parts in joined:
            if token in parts:
                out[row, i] = 0.8
        out[row, stems.get(stem(token), [])] = 0.9
        if token in same:
            out[row, same[token]] = 1.0
    return out


def _rarity(by_letters: FloatArray, words: DocumentWords) -> FloatArray:
    """(1, tokens): how much each token tells; one that stands everywhere in the document tells little."""
    found = (by_letters[:, words.which] > 0).sum(1)
    weight = 1 / np.sqrt(np.maximum(found, 1.0))
    return np.asarray(weight / weight.sum(), np.float32)


def _gather(matches: FloatArray, words: DocumentWords) -> dict[str, FloatArray]:
    """``matches`` (tokens, n) of the words themselves -> for each of PLACES the best match there, (tokens, n)."""
    line = _best(matches, words.line)
    by_segment = _group_best(matches, words.segment)
    segment = by_segment[:, words.segment]
    column = _chain(by_segment, words.over)
    over = words.over[words.segment]
    before = _chain(matches, words.left)
    left = np.where(words.left >= 0, before[:, words.left], 0)
    heading = np.zeros_like(matches)
    has = words.heading >= 0
    if has.any():
        by_line = _group_best(matches, words.line)
        heading[:, has] = by_line[:, words.heading[has]]
    first = _roots(words.over)[words.segment]
    return {
        "word": matches,
        "segment": segment,
        "left": left,
        "line": line,
        "above": np.where(over >= 0, column[:, over], 0),
        "header": by_segment[:, first],
        "beside": np.where(words.left >= 0, segment[:, _segment_before(words)], 0),
        "heading": heading,
        "block": _best(matches, words.block),
        "page": _best(matches, words.page),
    }


def _group_best(values: FloatArray, group: Indices) -> FloatArray:
    out = np.zeros((len(values), int(group.max()) + 1), np.float32)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(group[order]) > 0])
    out[:, group[order][starts]] = np.maximum.reduceat(values[:, order], starts, axis=1)
    return out


def _best(values: FloatArray, group: Indices) -> FloatArray:
    """(tokens, n): the best value within each word's group."""
    return _group_best(values, group)[:, group]


def _chain(values: FloatArray, parent: Indices) -> FloatArray:
    """The best value among a word and all its ancestors along ``parent``, by doubling."""
    best, jump = values.copy(), parent.copy()
    while (jump >= 0).any():
        there = jump >= 0
        best[:, there] = np.maximum(best[:, there], best[:, jump[there]])
        jump = np.where(there, jump[jump], -1)
    return best


def _roots(parent: Indices) -> Indices:
    """The first ancestor of each word: the head of its column."""
    root = np.where(parent >= 0, parent, np.arange(len(parent)))
    while True:
        further = root[root]
        if (further == root).all():
            return root
        root = further


def _segment_before(words: DocumentWords) -> Indices:
    """A word of the segment before each word's own on its line; the word itself if its segment is the first."""
    first = np.full(int(words.segment.max()) + 1, len(words), np.int64)
    np.minimum.at(first, words.segment, np.arange(len(words)))
    start = first[words.segment]
    return np.where(words.left[start] >= 0, words.left[start], start)


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
