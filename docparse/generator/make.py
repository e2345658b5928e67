"""A document of a seed: template, layout, questions, and the scan, each from its own stream of random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from backbone.errors import ConfigError
from docparse.generator.document import (
    SPLITS,
    GeneratedDocument,
    GeneratedPage,
    Question,
    Region,
    Split,
    Word,
)
from docparse.generator.draft import Draft, new_draft
from docparse.generator.draw import CLEAN, Scan, drawn, scanned, turned
from docparse.generator.hops import hop_questions, linked_tables
from docparse.generator.questions import questions
from docparse.generator.sheet import Sheet, TextMark
from docparse.generator.templates import KINDS, TEMPLATES
from docparse.generator.values import pick

MAXIMUM_PAGES = 40
MAXIMUM_HOPS = 64
USUAL_PAGES = 8  # at most, where nothing else is asked for
LINKED = 0.7  # of documents that are asked for questions of two looks have two linked tables
SCANNED = 0.5  # of documents, where nothing else is asked for


def make_document(
    seed: int,
    split: Split = "train",
    *,
    pages: int | tuple[int, int] | None = None,
    kind: str | None = None,
    render: bool = True,
    scan: bool | None = None,
    most_questions: int = 8,
    unanswerable: float = 0.1,
    sights: bool = False,
    hops: int = 0,
) -> GeneratedDocument:
    """The document of ``(seed, split)``; the same arguments give the same document, word for word and pixel for pixel.

    The splits share neither fonts nor templates, and their labels and questions only in part.

    Args:
        seed: any number from 0 on; the splits' documents differ even for one seed.
        split: ``train`` or ``held_out``.
        pages: how many pages, or a range to draw from; None draws 1 to 8, most often 1. Long tables can add pages.
        kind: one of `KINDS`; None draws one.
        render: whether to draw pictures. Without, words and boxes are the same, and ten times faster.
        scan: whether the pages look scanned, turned by up to a degree; None decides for each document.
        most_questions: at most so many questions.
        unanswerable: share of questions that the document does not answer.
        sights: whether reports, slides, letters and forms hold photographs, drawings, signatures, stamps and boxes to
            tick, and most questions ask for those; without, documents are as before there were any.
        hops: at most so many further questions that need two looks (`docparse.generator.hops`); most documents then
            end with two linked tables. 0 leaves documents and questions as they are.

    Raises:
        ConfigError: an unknown split or kind, pages outside 1 to 40, hops outside 0 to 64, a share outside 0 to 1, or
            fonts not installed.
    """
    _check(seed, split, pages, kind, most_questions, unanswerable)
    if not 0 <= hops <= MAXIMUM_HOPS:
        raise ConfigError(f"hops must be 0 to {MAXIMUM_HOPS} questions of two looks a document, got {hops}")
    stream = [np.random.default_rng((seed, SPLITS.index(split), i)) for i in range(4)]
    kind = kind or pick(stream[0], KINDS)
    template = pick(stream[0], tuple(TEMPLATES[kind][split]))
    draft = new_draft(stream[0], split, kind, _pages(stream[0], pages), sights)
    TEMPLATES[kind][split][template](draft)
    linked = linked_tables(draft) if hops and stream[3].random() < LINKED else None
    draft.finish()
    asked = questions(draft, stream[1], most_questions, unanswerable)
    if hops:
        asked += hop_questions(draft, linked, stream[3], hops)
    scans = _scans(stream[2], len(draft.sheets), scan)
    return GeneratedDocument(
        seed=seed,
        split=split,
        kind=kind,
        template=template,
        fonts=_fonts(draft),
        pages=tuple(_page(sheet, s, render) for sheet, s in zip(draft.sheets, scans, strict=True)),
        questions=tuple(_turned_question(q, draft.sheets, scans) for q in asked),
    )


def _check(
    seed: int, split: Split, pages: int | tuple[int, int] | None, kind: str | None, most: int, unanswerable: float
) -> None:
    if split not in SPLITS:
        raise ConfigError(f"generated documents have the splits {' and '.join(SPLITS)}, asked for {split!r}")
    if seed < 0 or most < 1 or not 0 <= unanswerable <= 1:
        raise ConfigError(
            f"a document needs seed >= 0, at least 1 question and a share of unanswerable ones from 0 to 1, "
            f"got {seed}, {most} and {unanswerable}"
        )
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"no kind of document {kind!r}; there are {', '.join(KINDS)}")
    low, high = (1, USUAL_PAGES) if pages is None else (pages, pages) if isinstance(pages, int) else pages
    if not 1 <= low <= high <= MAXIMUM_PAGES:
        raise ConfigError(f"pages must be 1 to {MAXIMUM_PAGES}, or a range in it, got {pages}")


def _pages(rng: Generator, pages: int | tuple[int, int] | None) -> int:
    drawn_share, within = float(rng.random()), float(rng.random())  # always both, so that all else stays the same
    if isinstance(pages, int):
        return pages
    low, high = pages if pages else (1, 1) if drawn_share < 0.6 else (2, 3) if drawn_share < 0.85 else (4, USUAL_PAGES)
    return low + int(within * (high - low + 1))


def _scans(rng: Generator, count: int, scan: bool | None) -> list[Scan]:
    decided = bool(rng.random() < SCANNED) if scan is None else scan
    if not decided:
        return [CLEAN] * count
    return [Scan.drawn(rng) for _ in range(count)]


def _page(sheet: Sheet, scan: Scan, render: bool) -> GeneratedPage:
    words = sheet.words
    if scan.angle:
        words = [Word(w.text, turned(w.box, scan.angle, sheet.width, sheet.height), w.line, w.block) for w in words]
    image = scanned(drawn(sheet), scan) if render else None
    return GeneratedPage(sheet.width, sheet.height, sheet.dpi, tuple(words), scan.angle, image)


def _turned_question(question: Question, sheets: Sequence[Sheet], scans: Sequence[Scan]) -> Question:
    evidence, via = (
        tuple(
            Region(r.page, turned(r.box, scans[r.page].angle, sheets[r.page].width, sheets[r.page].height))
            for r in part
        )
        for part in (question.evidence, question.via)
    )
    return replace(question, evidence=evidence, via=via)


def _fonts(draft: Draft) -> tuple[str, ...]:
    return tuple(sorted({m.face.family.name for s in draft.sheets for m in s.marks if isinstance(m, TextMark)}))
