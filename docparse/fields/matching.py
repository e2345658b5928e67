"""A question's fields: how much of the question each word's surroundings answer to.

A question's content words are matched with every word of the document (`matches`); for each word these matches are then
gathered over the places where labels stand: its own segment, what is left of it on its line, the words above it in its
column, the line, the heading above, the block, the page. A value is typically found by a label left of it and a column
header above it that together cover the question, hence the unions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backbone.errors import DataError
from docparse.fields.text import asking, content_tokens, stem
from docparse.fields.words import DocumentWords, Embedder, FloatArray, Indices

MAX_TOKENS = 24  # of a question; further ones are left out
ALIKE = 0.2  # cosine from which two words begin to match; 1 is a full match
PLACES = ("word", "segment", "left", "line", "above", "header", "beside", "heading", "block", "page")
UNIONS = (("left", "above"), ("left", "above", "heading"), ("line", "heading"), ("line", "above", "heading", "page"))


@dataclass(frozen=True, eq=False)
class WordFields:
    """A question's fields over the n words of a document."""

    matched: FloatArray  # (n, 2 * (len(PLACES) + len(UNIONS)) + 2) coverage by meaning and by letters
    question: FloatArray  # (d + len(ASKING) + 1,) what is asked for


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
    by_letters, by_meaning = _matches(words, tokens, vectors[:-1])
    rare = _rarity(by_letters, words)
    columns = []
    for matches in (by_meaning, by_letters):
        places = _gather(matches[:, words.which], words)
        places |= {"+".join(union): np.maximum.reduce([places[p] for p in union]) for union in UNIONS}
        columns += [rare @ covered for covered in places.values()]
        columns.append(matches[:, words.which].max(0))
    return WordFields(np.stack(columns, 1).astype(np.float32), asked)


def word_matches(words: DocumentWords, tokens: Sequence[str], embedder: Embedder) -> FloatArray:
    """(tokens, n) how well each normalised token and each word of the document match, by letters or meaning, 0 to 1."""
    return _matches(words, tokens, embedder.embed([*tokens]))[1][:, words.which]


def _matches(words: DocumentWords, tokens: Sequence[str], vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Matches (tokens, unique) by letters, and by letters or meaning; ``vectors`` (tokens, d) are the tokens'."""
    by_letters = _by_letters(tokens, words.unique)
    cosine = vectors @ words.vectors.T
    return by_letters, np.maximum(by_letters, np.clip((cosine - ALIKE) / (1 - ALIKE), 0, 1).astype(np.float32))


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
