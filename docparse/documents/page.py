"""What a document is read into: words with boxes on the page as shown, and the way back to PDF points."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image, check_image
from backbone.errors import DataError
from docparse.documents.geometry import Affine, Corners, inverse, map_boxes

Source = Literal["text layer", "ocr", "none"]
Look = Literal["photograph", "drawing", "signature", "stamp", "box"]


class PasswordError(DataError):
    """The document is encrypted: a password is missing or wrong."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word.

    ``box`` is (x0, y0, x1, y1) around its ink, in pixels of the page as shown, never empty. ``line`` and ``block``
    count in reading order from 0 over the page. ``confidence`` is the OCR engine's, 1 for a text layer.
    """

    text: str
    box: Corners
    line: int
    block: int
    confidence: float = 1.0

    def __post_init__(self) -> None:
        x0, y0, x1, y1 = self.box
        if not (x0 < x1 and y0 < y1 and math.isfinite(x0 + y0 + x1 + y1)):  # also false for NaN
            raise DataError(f"word {self.text!r}: box must be finite with x0 < x1 and y0 < y1, got {self.box}")
        if not self.text:
            raise DataError(f"the word at {self.box} has no text")


@dataclass(frozen=True, slots=True)
class Sight:
    """Something on a page that is no word: ``box`` in pixels of the page as shown, and what it looks like."""

    box: Corners
    look: Look

    def __post_init__(self) -> None:
        x0, y0, x1, y1 = self.box
        if not (x0 < x1 and y0 < y1 and math.isfinite(x0 + y0 + x1 + y1)):
            raise DataError(f"a {self.look}: box must be finite with x0 < x1 and y0 < y1, got {self.box}")


@dataclass(frozen=True, eq=False)
class Sights:
    """What a page shows beside its words, in pixels of the page as shown: things, and ruled lines (n, 4)."""

    found: tuple[Sight, ...]
    rules: NDArray[np.float64] = field(repr=False)

    def scaled(self, factor: float) -> Sights:
        """The same in units of which ``factor`` are a pixel."""
        found = tuple(Sight(tuple(v * factor for v in s.box), s.look) for s in self.found)  # type: ignore[arg-type]
        return Sights(found, self.rules * factor)


@dataclass(frozen=True, eq=False)
class Page:
    """A page as shown: turned by its /Rotate and cut to its visible part.

    ``width`` x ``height`` are its pixels, in which the words' boxes stand. ``image`` is uint8 (H, W, 3) RGB, or None
    where it was not asked for or the page failed. ``words`` stand in reading order. ``dpi`` is pixels to 72 points,
    None for pictures. ``to_points`` (2, 3) maps pixels to PDF points, None for pictures. ``notes`` say what reading
    changed or left out; ``error`` why the page, or a part of it, could not be read ("" if it could).
    """

    index: int
    width: int
    height: int
    image: Image | None = field(repr=False)
    words: tuple[Word, ...] = field(repr=False)
    source: Source
    dpi: float | None = None
    to_points: Affine | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    error: str = ""

    def __post_init__(self) -> None:
        if self.image is not None:
            check_image(self.image, f"page {self.index + 1}")
            if self.image.shape[:2] != (self.height, self.width):
                raise DataError(
                    f"page {self.index + 1}: an image of {self.image.shape[1]} x {self.image.shape[0]} pixels for a "
                    f"page of {self.width} x {self.height}"
                )

    def boxes(self) -> NDArray[np.float64]:
        """The words' boxes (n, 4)."""
        return np.array([word.box for word in self.words], np.float64).reshape(-1, 4)

    def points(self, box: Corners) -> Corners:
        """A box of shown pixels as (left, bottom, right, top) in PDF points; raises `DataError` for a picture."""
        return _corners(map_boxes(self._matrix(), [box]))

    def pixels(self, box: Corners) -> Corners:
        """A box (left, bottom, right, top) of PDF points in shown pixels; raises `DataError` for a picture."""
        return _corners(map_boxes(inverse(self._matrix()), [box]))

    def text(self) -> str:
        """The words, a line a line, blocks apart by an empty line."""
        parts: list[str] = []
        before: Word | None = None
        for word in self.words:
            if before is not None:
                parts.append("\n\n" if word.block != before.block else "\n" if word.line != before.line else " ")
            parts.append(word.text)
            before = word
        return "".join(parts)

    @classmethod
    def make_example(cls) -> Page:
        """A white page of 120 x 60 pixels at 72 dpi with two words on one line."""
        words = (Word("Total:", (10.0, 20.0, 40.0, 32.0), 0, 0), Word("$12.50", (50.0, 20.0, 85.0, 32.0), 0, 0))
        matrix = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 60.0]])
        return cls(0, 120, 60, np.full((60, 120, 3), 255, np.uint8), words, "text layer", 72.0, matrix)

    def _matrix(self) -> Affine:
        if self.to_points is None:
            raise DataError(f"page {self.index + 1} is a picture and has no PDF points; use its pixels")
        return self.to_points


def _corners(boxes: NDArray[np.float64]) -> Corners:
    x0, y0, x1, y1 = (float(v) for v in boxes[0])
    return x0, y0, x1, y1
