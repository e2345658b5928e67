"""Pages as a PDF: the picture, and its words as invisible text exactly over their ink, as a scanner's OCR leaves it."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from backbone.contracts import Image
from backbone.errors import DataError
from docparse.generator.document import Corners, GeneratedPage

QUALITY = 88  # of the JPEG in the PDF
INVISIBLE = 3  # PDF's text rendering mode: neither filled nor stroked


def write_pdf(pages: Sequence[GeneratedPage], path: Path) -> None:
    """Write the pages, each of its own size; a pixel is 72 / dpi points.

    Raises:
        DataError: a page has no picture.
        ModuleNotFoundError: pypdfium2 is not installed.
    """
    import pypdfium2 as pdfium
    import pypdfium2.raw as raw

    document = pdfium.PdfDocument.new()
    try:
        font = raw.FPDFText_LoadStandardFont(document.raw, b"Helvetica")
        for number, page in enumerate(pages, 1):
            if page.image is None:
                raise DataError(f"page {number} has no picture; generate the document with render=True")
            scale = 72 / page.dpi
            sheet = document.new_page(page.width * scale, page.height * scale)
            _place_picture(pdfium, document, sheet, page.image)
            for word in page.words:
                _place_word(raw, document, sheet, font, word.text, _points(word.box, page.height, scale))
            sheet.gen_content()
        document.save(str(path))
    finally:
        document.close()


def _place_picture(pdfium: Any, document: Any, sheet: Any, image: Image) -> None:
    packed = io.BytesIO()
    Pillow.fromarray(image).save(packed, "JPEG", quality=QUALITY)
    picture = pdfium.PdfImage.new(document)
    picture.load_jpeg(packed)
    picture.set_matrix(pdfium.PdfMatrix().scale(*sheet.get_size()))
    sheet.insert_obj(picture)


def _place_word(raw: Any, document: Any, sheet: Any, font: Any, text: str, box: Corners) -> None:
    """Stretch the word, set in a standard font, so that its ink covers ``box`` in points (left, bottom, right, top).

    A space follows it, which has no ink: readers would join words whose gap is narrow for the stretched font.
    """
    word = raw.FPDFPageObj_CreateTextObj(document.raw, font, 10.0)
    letters = ctypes.create_string_buffer(f"{text} \0".encode("utf-16-le"))
    raw.FPDFText_SetText(word, ctypes.cast(letters, ctypes.POINTER(ctypes.c_ushort)))
    raw.FPDFTextObj_SetTextRenderMode(word, INVISIBLE)
    edges = [ctypes.c_float() for _ in range(4)]
    raw.FPDFPageObj_GetBounds(word, *(ctypes.byref(e) for e in edges))
    left, bottom, right, top = (e.value for e in edges)
    sx = (box[2] - box[0]) / max(right - left, 1e-3)
    sy = (box[3] - box[1]) / max(top - bottom, 1e-3)
    raw.FPDFPageObj_Transform(word, sx, 0, 0, sy, box[0] - left * sx, box[1] - bottom * sy)
    raw.FPDFPage_InsertObject(sheet.raw, word)


def _points(box: Corners, height: int, scale: float) -> Corners:
    return box[0] * scale, (height - box[3]) * scale, box[2] * scale, (height - box[1]) * scale
