"""Evidence on things without words: the law over words is carried to the things that their words speak for.

The shipped network knows words only, and its features have a fixed width. A thing therefore gets its mass through its
speakers (`docparse.sights.beside`): how much of the question they answer to, how much mass the flow left on them, and
how well the thing's look fits what is asked for. No weights are involved; a reader of any weights can do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docparse.documents.page import Sights
from docparse.fields.matching import word_matches
from docparse.fields.words import DocumentWords, Embedder
from docparse.sights.beside import Speakers, around, speakers, with_labels
from docparse.sights.wish import Wish

FloatArray = NDArray[np.float64]

# OUR CHOICE, set on generated documents of the training split
PAGES = 12  # at most are looked at: those whose words answer best
HEADING = 0.6  # what a heading's match is worth against that of a caption
UNSAID = 0.15  # of the score: what a thing has without any word that speaks for it
HEARD = 0.5  # of the score: the weight of the mass that the flow left on its words
ELSEWHERE = 0.7  # what a match is worth under another heading than the question names
SHARP = 6.0  # the law goes with this power of the scores
LEAST = 0.4  # score from which a thing is believed to be meant


@dataclass(frozen=True, eq=False)
class Thing:
    """A particle without words: page, box in page units (x, y over the page's longer side), and who speaks for it."""

    page: int
    box: FloatArray  # (4,)
    look: str
    words: Speakers


@dataclass(frozen=True, eq=False)
class SightLaw:
    """Scores (m,) from 0 to about 1 of things, and their law; ``best`` is where the score is highest."""

    things: tuple[Thing, ...]
    scores: FloatArray
    law: FloatArray

    @property
    def best(self) -> int:
        """Index of the likeliest thing."""
        return int(self.scores.argmax())

    @property
    def convinced(self) -> bool:
        """Whether there is a thing that is likely meant."""
        return bool(len(self.things)) and float(self.scores.max()) >= LEAST


def pages_to_see(words: DocumentWords, wish: Wish, mass: FloatArray, embedder: Embedder) -> list[int]:
    """At most `PAGES` pages on which the thing may be, in order: by what their words answer to and the flow's mass."""
    count = len(words.sizes)
    if wish.page is not None and 0 <= wish.page < count:
        return [wish.page]
    if count <= PAGES:
        return list(range(count))
    worth = np.zeros(count)
    np.add.at(worth, words.page, mass)
    tokens = [*wish.tokens, wish.noun]
    matched = word_matches(words, tokens, embedder)
    for row in matched:
        best = np.zeros(count)
        np.maximum.at(best, words.page, row)
        worth += best / len(tokens)
    return sorted(np.argsort(-worth, kind="stable")[:PAGES].tolist())


def things_of(words: DocumentWords, sights: Mapping[int, Sights], wish: Wish) -> tuple[Thing, ...]:
    """The things on the pages that could be meant; ``sights`` by page, with boxes in page units."""
    out: list[Thing] = []
    for page, seen in sorted(sights.items()):
        fit = [sight for sight in seen.found if wish.looks.get(sight.look, 0) > 0]
        if not fit:
            continue
        boxes = np.array([sight.box for sight in fit], np.float64)
        if wish.kind == "figure":
            labelled = [
                with_labels(words, page, b) if s.look == "drawing" else b for s, b in zip(fit, boxes, strict=True)
            ]
            boxes = np.array(labelled)
        for sight, box, own in zip(fit, boxes, speakers(words, page, boxes, wish.kind), strict=True):
            whole = around(box, words, own.caption) if wish.kind == "figure" else box
            out.append(Thing(page, whole, sight.look, own))
    return tuple(out)


def sight_law(
    words: DocumentWords, things: tuple[Thing, ...], wish: Wish, mass: FloatArray, embedder: Embedder
) -> SightLaw:
    """The law over things. ``mass`` (n,) is the flow's last law over words."""
    if not things:
        return SightLaw((), np.zeros(0), np.zeros(0))
    covered = _covered(words, things, wish, embedder)
    heard = np.array([float(mass[t.words.all].sum()) for t in things])
    fit = np.array([wish.looks.get(t.look, 0.0) for t in things])  # type: ignore[call-overload]
    scores = fit**0.5 * np.minimum(1.0, UNSAID + (1 - UNSAID) * covered + HEARD * heard)
    law = scores**SHARP
    return SightLaw(things, scores, law / law.sum())


def _covered(words: DocumentWords, things: tuple[Thing, ...], wish: Wish, embedder: Embedder) -> FloatArray:
    """(m,) how much of what is known of the thing its words say; of the thing's own name if nothing else is known."""
    tokens = [*wish.tokens] or [wish.noun]
    if not len(words):
        return np.full(len(things), 0.0 if wish.tokens else 0.5)
    matched = word_matches(words, tokens, embedder).astype(np.float64)
    scope = word_matches(words, wish.scope, embedder).astype(np.float64) if wish.scope else None
    rows = []
    for thing in things:
        near = np.concatenate([thing.words.caption, thing.words.inside])
        said = matched[:, near].max(1) if len(near) else np.zeros(len(tokens))
        above = HEADING * matched[:, thing.words.heading].max(1) if len(thing.words.heading) else 0.0
        known = float(np.maximum(said, above).mean())
        if not wish.tokens:  # nothing tells one from another: its look has to do
            known = max(known, 0.5)
        if scope is not None:
            under = scope[:, thing.words.heading].max(1).mean() if len(thing.words.heading) else 0.0
            known *= ELSEWHERE + (1 - ELSEWHERE) * float(under)
        rows.append(known)
    return np.array(rows, np.float64)
