"""One PDF through pdfium: its pages' words, pictures and form values. Runs in the reading process only.

Pdfium is not thread-safe and may crash or hang on a hostile file; `docparse.documents.workshop` calls this in a process
of its own, one call at a time, under a deadline.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw

from backbone.contracts import Image
from backbone.errors import DataError
from docparse.documents.characters import Characters, RawWords, meaningless_share, to_words
from docparse.documents.form_fields import Field, filled_fields, has_marks, with_fields
from docparse.documents.geometry import Affine, Corners, inverse, shown_to_points
from docparse.documents.page import PasswordError
from docparse.documents.sheets import Sheet

MAX_MEANINGLESS = 0.3  # share of characters without a meaning from which a text layer is not believed
FEW_WORDS = 20  # with fewer words over a picture of most of the page, the page is taken for a scan
SCAN_SHARE = 0.5  # of the page
OCR_SIDE, MAX_GROWTH = 1760, 3.0  # pixels and times up to which a small page is drawn larger for OCR
_SPACES = frozenset((0x20, 0x0D, 0x0A))
_FAILURES = {
    raw.FPDF_ERR_FILE: "it could not be read",
    raw.FPDF_ERR_FORMAT: "it is not a PDF, or too damaged to be repaired",
    raw.FPDF_ERR_SECURITY: "it is encrypted by a scheme that is not supported",
}


class Pdf:
    """An open PDF; pages count from 0."""

    def __init__(self, data: bytes, password: str | None) -> None:
        """Open the bytes. Raises `PasswordError`, or `DataError` if it is no readable PDF with pages."""
        try:
            self._document = pdfium.PdfDocument(data, password=password)
        except pdfium.PdfiumError as error:
            code = getattr(error, "err_code", None)
            if code == raw.FPDF_ERR_PASSWORD:
                wrong = "the password is wrong" if password else "it is encrypted and needs a password"
                raise PasswordError(f"{wrong}; give the right one as password=") from error
            reason = _FAILURES.get(code, str(error))
            raise DataError(f"broken PDF: {reason}; open it in a viewer and save it again") from error
        self.pages = len(self._document)
        if self.pages < 1:
            raise DataError("the PDF has no pages; save it again from the program that made it")
        self.notes: tuple[str, ...] = ()
        self._form = self._document.get_formtype()
        if self._form in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND):
            self.notes = ("an XFA form: only its static pages are shown",)
        if self._form != raw.FORMTYPE_NONE:
            self._document.init_forms()

    def close(self) -> None:
        """Free its memory."""
        self._document.close()

    def read(self, index: int, dpi: float, max_pixels: int, picture: bool) -> tuple[Sheet, Image | None, Image | None]:
        """The page, where asked for its picture uint8 (H, W, 3), and where it is a scan a picture to be read."""
        page, fields = self._page(index)
        try:
            view, turn = page.get_bbox(), page.get_rotation()
            across, along = view[2] - view[0], view[3] - view[1]
            if turn in (90, 270):
                across, along = along, across
            scale, notes = _scale(across, along, dpi, max_pixels)
            width, height = max(1, math.ceil(across * scale)), max(1, math.ceil(along * scale))
            to_points = shown_to_points(view, turn, width, height)
            to_shown = inverse(to_points)
            words, doubts = _words(page, to_shown, turn, width, height)
            words = with_fields(words, fields, to_shown, width, height)
            sheet = Sheet(width, height, scale * 72, to_points, words, (*notes, *doubts))
            scan = _is_scan(page, words, view)
            image = _render(page, scale) if picture or scan else None
            if image is not None and image.shape[:2] != (height, width):
                raise DataError(f"pdfium drew {image.shape[1]} x {image.shape[0]} pixels, {width} x {height} were due")
            return sheet, image if picture else None, _to_read(page, scale, image) if scan else None
        finally:
            page.close()

    def look(self, index: int, side: int, max_pixels: int) -> Image:
        """The page drawn ``side`` pixels long, or smaller to keep to ``max_pixels``."""
        page, _ = self._page(index)
        try:
            left, bottom, right, top = page.get_bbox()
            across, along = right - left, top - bottom
            return _render(page, _scale(across, along, 72 * side / max(across, along), max_pixels)[0])
        finally:
            page.close()

    def _page(self, index: int) -> tuple[Any, tuple[Field, ...]]:
        """The page with the appearance of form fields and comments drawn into it, and the fields' values.

        Only what is part of the page has places for its characters.
        """
        try:
            page = self._document[index]
            fields = filled_fields(page, self._document.formenv)
            if has_marks(page):
                raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY)
                page.close()
                page = self._document[index]
            return page, fields
        except pdfium.PdfiumError as error:
            raise DataError(f"page {index + 1} is damaged: {error}") from error


def _scale(across: float, along: float, dpi: float, max_pixels: int) -> tuple[float, tuple[str, ...]]:
    """Pixels to a point so that the page keeps to ``max_pixels``, and a note if that lowers ``dpi``."""
    scale = dpi / 72
    if math.ceil(across * scale) * math.ceil(along * scale) <= max_pixels:
        return scale, ()
    scale = min(scale, math.sqrt(max_pixels / (across * along)))
    for side in (across, along):  # rounding up may cost another row or column
        scale = min(scale, max_pixels / side)
    while math.ceil(across * scale) * math.ceil(along * scale) > max_pixels:
        scale *= 0.999
    size = f"{across / 72:.1f} x {along / 72:.1f} inches"
    return scale, (f"{size}: shown at {scale * 72:.1f} instead of {dpi:g} dpi to stay under {max_pixels} pixels",)


def _words(page: Any, to_shown: Affine, turn: int, width: int, height: int) -> tuple[RawWords, tuple[str, ...]]:
    """The words of the text layer, or none and the reason if it is not to be believed."""
    characters = _characters(page)
    share = meaningless_share(characters.codes)
    if share > MAX_MEANINGLESS:
        return RawWords.none(), (f"text layer not used: {share:.0%} of its characters have no meaning",)
    return to_words(characters, to_shown, turn, width, height), ()


def _characters(page: Any) -> Characters:
    """All characters of the page. One pass through pdfium's C interface: this loop is most of the reading time."""
    textpage = page.get_textpage()
    try:
        handle = textpage.raw
        count = raw.FPDFText_CountChars(handle)
        codes: list[int] = []
        tight = np.zeros((max(count, 0), 4))
        loose = np.zeros((max(count, 0), 4))
        angles = np.zeros(max(count, 0))
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        places = tuple(ctypes.byref(value) for value in (left, right, bottom, top))
        rectangle = raw.FS_RECTF()
        around = ctypes.byref(rectangle)
        for index in range(count):
            code = raw.FPDFText_GetUnicode(handle, index)
            codes.append(code)
            if code in _SPACES:
                continue
            if raw.FPDFText_GetCharBox(handle, index, *places):
                tight[index] = left.value, bottom.value, right.value, top.value
            if raw.FPDFText_GetLooseCharBox(handle, index, around):
                loose[index] = rectangle.left, rectangle.bottom, rectangle.right, rectangle.top
            angles[index] = raw.FPDFText_GetCharAngle(handle, index)
        return Characters(codes, tight, loose, np.degrees(angles))
    finally:
        textpage.close()


def _is_scan(page: Any, words: RawWords, view: Corners) -> bool:
    """Whether there is something on the page whose words its text layer does not have."""
    if not words.texts:
        return bool(raw.FPDFPage_CountObjects(page.raw) > 0)
    if len(words.texts) >= FEW_WORDS:
        return False
    seen = (view[2] - view[0]) * (view[3] - view[1])
    for image in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = image.get_bounds()
        across, along = min(right, view[2]) - max(left, view[0]), min(top, view[3]) - max(bottom, view[1])
        if across > 0 and along > 0 and across * along >= SCAN_SHARE * seen:
            return True
    return False


def _to_read(page: Any, scale: float, image: Image | None) -> Image | None:
    """The picture for OCR: a small page is drawn larger, for its scan may be finer than it is shown."""
    if image is None:
        return None
    growth = min(OCR_SIDE / max(image.shape[:2]), MAX_GROWTH)
    return _render(page, scale * growth) if growth > 1.2 else image


def _render(page: Any, scale: float) -> Image:
    bitmap = page.render(scale=scale, may_draw_forms=True, rev_byteorder=True, force_bitmap_format=raw.FPDFBitmap_BGR)
    try:
        return np.array(bitmap.to_numpy(), np.uint8, order="C")
    finally:
        bitmap.close()
