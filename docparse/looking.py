"""Which pages are looked at for a question, and what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image, Stage
from backbone.errors import CancelledError, DataError
from docparse.contracts import Looking
from docparse.documents import Page
from docparse.fields.patches import PagePatches, PatchField, PatchSession

WORDS_ONLY = "pages were not looked at: there are only words of this document"


def pages_to_look_at(count: int, most: int, page: NDArray[np.int64], covered: NDArray[np.floating]) -> list[int]:
    """At most ``most`` of ``count`` pages, in order: those with the words that answer best, then the first ones.

    Args:
        count: pages of the document.
        most: limit.
        page: (n,) page of each word.
        covered: (n,) how much of the question each word's surroundings answer to.
    """
    if count <= most:
        return list(range(count))
    best = np.zeros(count)
    np.maximum.at(best, page, covered)
    return sorted(np.argsort(-best, kind="stable")[:most].tolist())


def look_at_pages(
    looks: PatchSession,
    question: str,
    pages: Sequence[Page],
    document: Looking | None,
    words: tuple[NDArray[np.int64], NDArray[np.floating]],
    cancel: threading.Event | None = None,
) -> tuple[PatchField, tuple[str, ...], Stage]:
    """The patch fields of a question, notes on pages without, and what it cost.

    Args:
        looks: of the document.
        question: what is asked.
        pages: of the document, with or without words.
        document: where the pictures come from; None or closed: there are words only, which a note says.
        words: the words' pages and how much of the question they answer to, see `pages_to_look_at`.
        cancel: checked before every page.

    Raises:
        DataError: no page could be looked at and there are no words either.
        CancelledError: ``cancel`` was set.
    """
    started, passes, tokens = time.perf_counter(), 0, 0
    config = looks.seer.config
    chosen = pages_to_look_at(len(pages), config.pages, *words)
    seen: dict[int, PagePatches] = {}
    notes = []
    for index in chosen:
        if document is None:
            notes.append(WORDS_ONLY)
            break
        if cancel is not None and cancel.is_set():
            raise CancelledError(f"cancelled after {len(seen)} of {len(chosen)} pages were looked at")
        new = not looks.known(index, question)
        try:
            seen[index] = looks.look(index, _picture(document, index), question)
        except DataError as error:
            notes.append(f"page {index + 1} was not looked at: {error}")
            continue
        passes += new
        tokens += new * int(np.prod(seen[index].values.shape[:2]))
    if not seen and not len(words[0]):
        raise DataError(f"no page could be looked at, and no words are read: {notes[0] if notes else 'no pages'}")
    if len(chosen) < len(pages):
        shown = ", ".join(str(index + 1) for index in chosen)
        notes.append(f"{len(chosen)} of {len(pages)} pages were looked at ({shown}); the answer may be on another")
    elapsed = 1000 * (time.perf_counter() - started)
    stage = Stage("patches", tokens, tokens, forward_passes=passes, milliseconds=elapsed)
    return PatchField(seen, config.width), tuple(notes[:4]), stage


def _picture(document: Looking, index: int) -> Image:
    page = document.page(index)
    if page.image is None:
        raise DataError(page.error or "it has no picture")
    return page.image
