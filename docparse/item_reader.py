"""Answering the items of benchmarks: their PDFs or pictures are read as a user's would be, their boxes given back."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowModule

from backbone.contracts import Stage
from backbone.errors import DataError
from docparse.areas import Place
from docparse.benchmarks.items import Item, PageFile
from docparse.documents import Document, Limits, Page, Sights, open_document
from docparse.fields.words import read_words
from docparse.pipeline import DocumentAnswer, DocumentReader, DocumentSession
from docparse.scoring import Prediction, Row, Truth, score


class ItemReader:
    """A `DocumentReader` for items. The document read last is kept, as benchmarks ask several questions in a row."""

    def __init__(self, reader: DocumentReader, limits: Limits | None = None) -> None:
        """``limits`` of every document; a reader that sees pictures alone has no use for OCR."""
        self.reader = reader
        self.limits = limits or Limits()
        if not reader.config.network.words:
            self.limits = replace(self.limits, ocr=False)
        self._last: tuple[Any, DocumentSession] | None = None
        self._open: list[Document] = []

    def close(self) -> None:
        """Forget the document read last."""
        self._last = None
        while self._open:
            self._open.pop().close()

    def __call__(self, item: Item, truth: Truth) -> Prediction:
        """The answer with its regions in pixels of the item's pages; ``milliseconds`` are those after reading.

        Raises:
            DataError: the document cannot be read, or the item has more pages than the limit.
        """
        session = self._session(item)
        started = time.perf_counter()
        answer = session.ask(item.question)
        return _prediction(answer, session, truth, 1000 * (time.perf_counter() - started))

    def _session(self, item: Item) -> DocumentSession:
        key = item.path or tuple(page.name for page in item.pages)
        if self._last is None or self._last[0] != key:
            self.close()  # not two documents in memory
            self._last = key, self._open_file(item) if item.path is not None else self._open_pages(item)
        return self._last[1]

    def _open_file(self, item: Item) -> DocumentSession:
        if item.path is None:
            raise DataError(f"item {item.id} has no file")
        document = open_document(item.path, self.limits)
        self._open = [document]
        if len(document) < len(item.pages):
            raise DataError(f"{document.name}: {len(item.pages)} pages are asked about, {len(document)} can be read")
        return self.reader.session(document)

    def _open_pages(self, item: Item) -> DocumentSession:
        if len(item.pages) > self.limits.pages:
            raise DataError(f"item {item.id}: {len(item.pages)} pages, more than the limit of {self.limits.pages}")
        started = time.perf_counter()
        self._open = [self._page_document(page) for page in item.pages]
        pages = [replace(document.page(0, picture=False), index=index) for index, document in enumerate(self._open)]
        if all(page.error for page in pages):
            raise DataError(f"item {item.id}: no page could be read; page 1: {pages[0].error}")
        if not self.reader.config.network.words:
            pages = [replace(page, words=()) for page in pages]
        stage = Stage("pages", milliseconds=1000 * (time.perf_counter() - started))
        notes = tuple(f"page {page.index + 1}: {page.error}" for page in pages if page.error)
        words = read_words(pages, self.reader.embedder)
        return DocumentSession(self.reader, pages, words, stage, notes, _Pages(self._open))

    def _page_document(self, page: PageFile) -> Document:
        packed = io.BytesIO()
        PillowModule.fromarray(page.load().array).save(packed, "PNG", compress_level=1)
        return open_document(packed.getvalue(), self.limits, name=page.name or "page")


class _Pages:
    """Documents of one page each as the pages of one."""

    def __init__(self, documents: list[Document]) -> None:
        self._documents = documents

    def page(self, index: int, picture: bool = True) -> Page:
        return replace(self._documents[index].page(0, picture), index=index)

    def sights(self, index: int) -> Sights:
        return self._documents[index].sights(0)


def evaluate_items(
    read: Callable[[Item, Truth], Prediction], items: Iterable[Item], done: Callable[[], None] = lambda: None
) -> list[Row]:
    """One row an item; what raises fails its row, never the run."""
    rows = []
    for item in items:
        truth = Truth(item.id, item.answers, None, kind=item.kind)
        try:
            truth = item.truth()
            prediction = read(item, truth)
        except Exception as error:
            prediction = Prediction(None, error=f"{type(error).__name__}: {error}")
        rows.append(score(truth, prediction))
        done()
    return rows


def _prediction(answer: DocumentAnswer, session: DocumentSession, truth: Truth, milliseconds: float) -> Prediction:
    scales = {page.index: _scale(page, truth) for page in session.pages}
    regions: list[Place] = []
    for entry in answer.evidence:
        sx, sy = scales[entry.page]
        x0, y0, x1, y1 = entry.box.corners
        regions.append((entry.page, (x0 * sx, y0 * sy, x1 * sx, y1 * sy)))
    law = None
    if answer.steps:
        last = answer.steps[-1]
        by_page = np.array([scales[index] for index in range(len(session.pages))])[last.pages]  # (N, 2)
        boxes: NDArray[np.float64] = last.boxes * np.concatenate([by_page, by_page], 1)
        law = (last.pages, boxes, last.mass)
    text = answer.text if answer.found else None
    scores = tuple(entry.mass for entry in answer.evidence)
    return Prediction(text, tuple(regions), scores, law, milliseconds=milliseconds)


def _scale(page: Page, truth: Truth) -> tuple[float, float]:
    """From the page as it was read to the picture the benchmark's boxes were drawn on."""
    width, height = truth.sizes.get(page.index, (float(page.width), float(page.height)))
    return width / page.width, height / page.height
