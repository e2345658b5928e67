"""The reading process: opens documents and reads pages for `docparse.documents.workshop`.

Loaded by `backbone.worlds.worker_runtime`. Pdfium and OCR live here only, so that a page which hangs, crashes them or
takes all memory ends this process and not the user's.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[2]))  # a checkout that is not installed

from backbone.contracts import Image
from backbone.errors import DataError
from docparse.documents import ink, ocr
from docparse.documents.characters import RawWords
from docparse.documents.lines import arrange
from docparse.documents.sheets import Sheet

MEMORY_BYTES = 6 << 30  # of address space: more is refused to pdfium and the decoders


class Opened(Protocol):
    """An open PDF or picture file."""

    pages: int
    notes: tuple[str, ...]

    def read(self, index: int, dpi: float, max_pixels: int, picture: bool) -> tuple[Sheet, Image | None, Image | None]:
        """A page, its picture where asked for, and the picture to read by OCR where its text layer does not do."""

    def look(self, index: int, side: int, max_pixels: int) -> Image:
        """The page's picture, drawn ``side`` pixels long if it is not made of pixels."""

    def close(self) -> None:
        """Free its memory."""


class Desk:
    """The documents that are open, by the number their reader gave them."""

    def __init__(self) -> None:
        """Nothing is open at first."""
        self._open: dict[int, Opened] = {}

    def spec(self) -> dict[str, Any]:
        """Nothing to be said beforehand."""
        return {}

    def open_document(
        self, key: int, data: NDArray[np.uint8], kind: str, password: str | None, max_pixels: int
    ) -> dict[str, Any]:
        """Open the bytes as ``pdf`` or ``picture``; how many pages it has, and notes."""
        self.close_document(key)
        document: Opened
        if kind == "pdf":
            from docparse.documents.pdf_pages import Pdf

            document = Pdf(data.tobytes(), password)
        else:
            from docparse.documents.picture_pages import Picture

            document = Picture(data.tobytes(), max_pixels)
        self._open[key] = document
        return {"pages": document.pages, "notes": [*document.notes]}

    def close_document(self, key: int) -> None:
        """Forget a document."""
        document = self._open.pop(key, None)
        if document is not None:
            document.close()

    def load_ocr(self) -> None:
        """Load the OCR engine, which no page's time should pay for."""
        ocr.load()

    def read(
        self, key: int, index: int, dpi: float, max_pixels: int, max_words: int, picture: bool, may_ocr: bool
    ) -> dict[str, Any]:
        """Read a page; only ``{"wants_ocr": True}`` if it is a scan and the engine is still to be loaded."""
        if key not in self._open:
            raise DataError(f"document {key} is not open")
        sheet, image, scan = self._open[key].read(index, dpi, max_pixels, picture)
        words, source, notes = sheet.words, "text layer" if sheet.words.texts else "none", [*sheet.notes]
        if may_ocr and scan is not None and ocr.has_ink(scan):
            if not ocr.loaded():
                return {"wants_ocr": True}
            across, along = sheet.width / scan.shape[1], sheet.height / scan.shape[0]
            words, source = _with_ocr(words, ocr.read_words(scan).scaled(across, along))
        spelled = np.array([sum(map(str.isalpha, text)) > 1 for text in words.texts], bool)
        arrangement = arrange(words.boxes, words.directions, spelled, words.strings)
        words = words.chosen(arrangement.order)
        count = len(words.texts)
        if count > max_words:
            notes.append(f"only the first {max_words} of {count} words are kept")
            words = words.chosen(np.arange(max_words))
        return {
            "size": [sheet.width, sheet.height],
            "dpi": sheet.dpi,
            "to_points": sheet.to_points,
            "source": source,
            "notes": notes,
            "texts": words.texts,
            "boxes": words.boxes,
            "confidences": words.confidences,
            "lines": arrangement.line[:max_words],
            "blocks": arrangement.block[:max_words],
            "image": image if picture else None,
        }

    def sights(
        self, key: int, index: int, max_pixels: int, boxes: NDArray[np.float64], size: NDArray[np.int64]
    ) -> dict[str, Any]:
        """What a page of ``size`` (width, height) shows beside the words in ``boxes`` (n, 4)."""
        if key not in self._open:
            raise DataError(f"document {key} is not open")
        image = self._open[key].look(index, ink.SIDE, max_pixels)
        scale = np.tile(np.array(image.shape[1::-1]) / size, 2)  # x, y, x, y
        found, rules = ink.find_sights(image, boxes * scale)
        seen = np.array([sight.box for sight in found], np.float64).reshape(-1, 4)
        return {"boxes": seen / scale, "looks": [sight.look for sight in found], "rules": rules / scale}

    def close(self) -> None:
        """Close everything."""
        for key in [*self._open]:
            self.close_document(key)


def _with_ocr(layer: RawWords, seen: RawWords) -> tuple[RawWords, str]:
    """The words of the text layer and those that OCR saw elsewhere; and where they came from."""
    if not seen.texts:
        return layer, "text layer" if layer.texts else "none"
    if not layer.texts:
        return seen, "ocr"
    middle = (seen.boxes[:, :2] + seen.boxes[:, 2:]) / 2
    inside = (middle[:, None] >= layer.boxes[None, :, :2] - 2) & (middle[:, None] <= layer.boxes[None, :, 2:] + 2)
    fresh = np.flatnonzero(~np.any(np.all(inside, axis=2), axis=1))
    return layer.with_more(seen.chosen(fresh)), "ocr"


def open_world(arguments: dict[str, Any]) -> Desk:
    """What the worker runtime calls first."""
    with contextlib.suppress(ValueError, OSError):  # a stricter limit is set already
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return Desk()
