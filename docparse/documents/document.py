"""An open document, whose pages are read when they are asked for."""

from __future__ import annotations

import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from backbone.errors import DataError
from docparse.documents.page import Page, Sight, Sights, Word
from docparse.documents.workshop import OCR_S, Workshop, as_array, new_key, shared_workshop

if TYPE_CHECKING:
    from docparse.documents.opening import Limits

KEPT_IMAGES = 4  # pictures of the pages read last are kept
BLANK_SIDE = 8  # pixels of a page that could not even be measured


class Document:
    """A document as `docparse.documents.opening.open_document` gives it; safe to use from several threads.

    ``name``; ``page_count`` pages in the file, of which the first ``len(document)`` are read; ``notes`` say what was
    left out. A page that fails is a `Page` with an ``error``, never an exception; ``errors`` lists them so far.
    """

    def __init__(self, name: str, data: bytes, kind: str, limits: Limits, password: str | None = None) -> None:
        """Open the bytes of a ``pdf`` or ``picture``; raises as `open_document` does."""
        self.name = name
        self.limits = limits
        self._data, self._kind, self._password = data, kind, password
        self._key = new_key()
        self._generation = -1
        self._closed = False
        self._lock = threading.Lock()
        self._pages: dict[int, Page] = {}  # without their pictures
        self._images: OrderedDict[int, Page] = OrderedDict()
        self._sights: dict[int, Sights] = {}
        weakref.finalize(self, self._workshop.abandon, self._key)
        try:
            opened = self._open()
        except DataError as error:
            raise type(error)(f"{name}: {error}") from error
        self.page_count = int(opened["pages"])
        self.notes: tuple[str, ...] = tuple(opened["notes"])
        if self.page_count > limits.pages:
            self.notes += (f"only the first {limits.pages} of {self.page_count} pages are read",)

    def __len__(self) -> int:
        """How many pages are read: all, or as many as the limit allows."""
        return min(self.page_count, self.limits.pages)

    def page(self, index: int, picture: bool = True) -> Page:
        """Page ``index``, from 0, with its picture or without. Raises `DataError` for a page that there is not."""
        if not 0 <= index < len(self):
            limit = f", limited to {len(self)}" if len(self) < self.page_count else ""
            raise DataError(f"{self.name}: no page {index + 1}; it has {self.page_count} pages{limit}")
        with self._lock:
            known = self._images.get(index) if picture else self._pages.get(index)
            if known is not None:
                if picture:
                    self._images.move_to_end(index)
                return known
        page = self._read(index, picture)
        with self._lock:
            self._pages[index] = replace(page, image=None)
            if page.image is not None:
                self._images[index] = page
                while len(self._images) > KEPT_IMAGES:
                    self._images.popitem(last=False)
        return page

    def words(self, index: int) -> tuple[Word, ...]:
        """The words of a page, without drawing it where a text layer has them."""
        return self.page(index, picture=False).words

    def sights(self, index: int) -> Sights:
        """What page ``index`` shows beside its words; drawn and looked at when it is first asked for.

        Raises:
            DataError: the document is closed, there is no such page, it could not be read, or it took too long.
        """
        with self._lock:
            if index in self._sights:
                return self._sights[index]
        page = self.page(index, picture=False)
        if page.error:
            raise DataError(f"{self.name}: page {index + 1} could not be read: {page.error}")
        reply = self._call("sights", index, boxes=page.boxes(), size=np.array([page.width, page.height], np.int64))
        corners = np.asarray(reply["boxes"], np.float64).reshape(-1, 4).tolist()
        boxes = [(x0, y0, x1, y1) for x0, y0, x1, y1 in corners]
        found = tuple(Sight(box, look) for box, look in zip(boxes, reply["looks"], strict=True))
        seen = Sights(found, np.asarray(reply["rules"], np.float64).reshape(-1, 4))
        with self._lock:
            self._sights[index] = seen
        return seen

    def pages(self, picture: bool = False) -> Iterator[Page]:
        """The pages in order, each read when it is come to; pictures are not kept beyond the last few."""
        for index in range(len(self)):
            yield self.page(index, picture)

    @property
    def errors(self) -> dict[int, str]:
        """The errors of the pages read so far, by index."""
        with self._lock:
            return {index: page.error for index, page in sorted(self._pages.items()) if page.error}

    def close(self) -> None:
        """Forget the file and its pages; a second call does nothing."""
        self._closed = True
        self._data = b""
        self._workshop.abandon(self._key)
        with self._lock:
            self._pages.clear()
            self._sights.clear()
            self._images.clear()

    def __enter__(self) -> Document:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # within ------------------------------------------------------------------------------------------------------

    @property
    def _workshop(self) -> Workshop:
        return shared_workshop()

    def _open(self) -> dict[str, Any]:
        workshop = self._workshop
        with workshop.lock:
            opened: dict[str, Any] = workshop.call(
                "open_document",
                max(self.limits.page_seconds, 1.0),
                key=self._key,
                data=as_array(self._data),
                kind=self._kind,
                password=self._password,
                max_pixels=self.limits.page_pixels,
            )
            self._generation = workshop.generation
            return opened

    def _read(self, index: int, picture: bool) -> Page:
        if self._closed:
            raise DataError(f"{self.name}: the document is closed; open it again")
        limits = self.limits
        asked = {"dpi": limits.dpi, "max_words": limits.page_words, "picture": picture}
        try:
            with self._workshop.lock:
                reply = self._call("read", index, may_ocr=limits.ocr, **asked)
                if reply.get("wants_ocr"):
                    self._workshop.call("load_ocr", OCR_S)
                    reply = self._call("read", index, may_ocr=True, **asked)
        except DataError as error:
            return self._failed(index, str(error))
        return _page(index, reply)

    def _call(self, method: str, index: int, **asked: Any) -> dict[str, Any]:
        """One call about a page, within its seconds; opens the document anew in a fresh reading process."""
        workshop, limits = self._workshop, self.limits
        with workshop.lock:
            if workshop.pid is None or self._generation != workshop.generation:
                self._open()
            about = {"key": self._key, "index": index, "max_pixels": limits.page_pixels}
            reply: dict[str, Any] = workshop.call(method, limits.page_seconds, **about, **asked)
            return reply

    def _failed(self, index: int, error: str) -> Page:
        known = self._pages.get(index)
        if known is not None and not known.error:  # its words were read before, only the picture failed
            return replace(known, error=error)
        return Page(index, BLANK_SIDE, BLANK_SIDE, None, (), "none", error=error)


def _page(index: int, reply: dict[str, Any]) -> Page:
    width, height = reply["size"]
    boxes = np.asarray(reply["boxes"], np.float64).reshape(-1, 4).tolist()
    lines, blocks, scores = (np.asarray(reply[key]).tolist() for key in ("lines", "blocks", "confidences"))
    words = tuple(
        Word(text, (x0, y0, x1, y1), line, block, score)
        for text, (x0, y0, x1, y1), line, block, score in zip(reply["texts"], boxes, lines, blocks, scores, strict=True)
    )
    dpi = reply["dpi"]
    return Page(
        index,
        int(width),
        int(height),
        reply["image"],
        words,
        reply["source"],
        float(dpi) if dpi is not None and math.isfinite(dpi) else None,
        reply["to_points"],
        tuple(reply["notes"]),
    )
