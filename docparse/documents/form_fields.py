"""Form fields of a PDF page: their values, and their words where the page shows none."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as raw

from docparse.documents.characters import RawWords, on_page
from docparse.documents.geometry import Affine, Corners, map_boxes

_VALUED = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_UNDRAWN = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)  # nothing of them is part of the page
_HIDDEN = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
MAX_MARKS = 20_000  # fields and comments of a page that are looked at
GLYPH_WIDTH = 0.5  # of the height: the usual width of a character


@dataclass(frozen=True)
class Field:
    """A filled field: its box (left, bottom, right, top) in points and its value."""

    box: Corners
    value: str


def has_marks(page: Any) -> bool:
    """Whether form fields or comments are drawn over the page."""
    return any(kind not in _UNDRAWN for kind, _ in _marks(page))


def filled_fields(page: Any, form: Any) -> tuple[Field, ...]:
    """The visible text and choice fields of the page with a value; ``form`` is the document's form environment."""
    if form is None:
        return ()
    found: list[Field] = []
    for kind, mark in _marks(page):
        if kind != raw.FPDF_ANNOT_WIDGET or raw.FPDFAnnot_GetFlags(mark) & _HIDDEN:
            continue
        if raw.FPDFAnnot_GetFormFieldType(form, mark) not in _VALUED:
            continue
        box = raw.FS_RECTF()
        value = _value(form, mark)
        if value.strip() and raw.FPDFAnnot_GetRect(mark, box) and box.left < box.right and box.bottom < box.top:
            found.append(Field((box.left, box.bottom, box.right, box.top), value))
    return tuple(found)


def with_fields(words: RawWords, fields: tuple[Field, ...], to_shown: Affine, width: int, height: int) -> RawWords:
    """The words, and those of each field in whose box none stands: spread over the field from its left."""
    for field in fields:
        x0, y0, x1, y1 = map_boxes(to_shown, [field.box])[0].tolist()
        middle = (words.boxes[:, :2] + words.boxes[:, 2:]) / 2
        within = (middle[:, 0] >= x0) & (middle[:, 0] <= x1) & (middle[:, 1] >= y0) & (middle[:, 1] <= y1)
        if not within.any():
            words = words.with_more(on_page(_spread(field.value, (x0, y0, x1, y1)), width, height))
    return words


def _spread(value: str, box: Corners) -> RawWords:
    lines = [line.split() for line in value.splitlines() if line.strip()]
    x0, y0, x1, y1 = box
    pitch = (y1 - y0) / len(lines)
    texts: list[str] = []
    boxes: list[Corners] = []
    for row, line in enumerate(lines):
        letters = len(" ".join(line))
        size = min(GLYPH_WIDTH * pitch, (x1 - x0) / letters)
        start = x0
        for text in line:
            boxes.append((start, y0 + row * pitch, start + size * len(text), y0 + (row + 1) * pitch))
            texts.append(text)
            start += size * (len(text) + 1)
    count = len(texts)
    return RawWords(texts, np.array(boxes), np.zeros(count, np.int64), np.ones(count), np.full(count, -1))


def _marks(page: Any) -> Any:
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), MAX_MARKS)):
        mark = raw.FPDFPage_GetAnnot(page.raw, index)
        if not mark:
            continue
        try:
            yield raw.FPDFAnnot_GetSubtype(mark), mark
        finally:
            raw.FPDFPage_CloseAnnot(mark)


def _value(form: Any, mark: Any) -> str:
    size = raw.FPDFAnnot_GetFormFieldValue(form, mark, None, 0)  # bytes, UTF-16, ended by a zero
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    raw.FPDFAnnot_GetFormFieldValue(form, mark, buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")
