"""Documents of every kind and condition: opened, read in part with the reason, or refused with a typed error."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
from making_documents import changed, file_of, overlap, pdf, picture_of, scan_of, write
from PIL import Image
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject
from reportlab.lib.utils import ImageReader

from backbone.errors import DataError
from docparse.documents import Limits, open_document

TEXT = ("Purchase order 20931", "Amount due: $1,870.25", "Delivery by 14 March 2024")


def text_pdf(pages: int = 1) -> bytes:
    return pdf(lambda canvas: write(canvas, "Hello from this page", 50, 200) and None, pages)


@pytest.fixture(scope="module")
def picture():
    return picture_of(TEXT)


# kinds -----------------------------------------------------------------------------------------------------------


def check_ocr(page, drawn, scale=1.0):
    assert page.source == "ocr"
    assert not page.error
    assert [word.text for word in page.words] == [text for text, _ in drawn]
    for word, (text, box) in zip(page.words, drawn, strict=True):
        assert overlap(word.box, [scale * v for v in box]) > 0.75, (text, word.box, box)
        assert 0.5 < word.confidence <= 1


@pytest.mark.parametrize("format", ["WEBP", "TIFF", "BMP", "GIF"])
def test_pictures_are_shown_pixel_for_pixel(picture, format):
    image, _ = picture
    with open_document(
        file_of(image, format, **({"lossless": True} if format == "WEBP" else {})), Limits(ocr=False)
    ) as d:
        np.testing.assert_array_equal(d.page(0).image, np.asarray(image))


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_pictures_are_read_by_ocr_with_word_boxes_on_the_ink(picture, format, tmp_path):
    image, drawn = picture
    path = tmp_path / f"order.{format.lower()}"
    path.write_bytes(file_of(image, format, **({"quality": 95} if format == "JPEG" else {})))
    with open_document(path) as document:
        page = document.page(0)
        assert document.name == path.name
        assert len(document) == 1
    assert page.image.shape == (image.height, image.width, 3)
    assert page.to_points is None
    assert page.dpi is None
    check_ocr(page, drawn)
    assert page.text() == "\n\n".join(TEXT)
    with pytest.raises(DataError, match="no PDF points"):
        page.points((0, 0, 5, 5))


def test_a_scanned_pdf_is_read_by_ocr_and_its_boxes_have_points(picture):
    image, drawn = picture
    with open_document(scan_of(image)) as document:
        page = document.page(0)
    check_ocr(page, drawn)
    amount = next(word for word in page.words if word.text == "$1,870.25")
    true = dict(drawn)["$1,870.25"]
    np.testing.assert_allclose(page.points(amount.box)[0], true[0] / 150 * 72, atol=1.5)
    np.testing.assert_allclose(page.points(amount.box)[3], (image.height - true[1]) / 150 * 72, atol=1.5)


def test_a_turned_scan_is_read_as_it_is_shown(picture):
    image, drawn = picture
    lying = image.transpose(Image.Transpose.ROTATE_90)  # put right by the page's /Rotate
    with open_document(changed(scan_of(lying), rotate=90)) as document:
        check_ocr(document.page(0), drawn)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_scan_that_lies_on_its_side_or_head_is_read_with_boxes_on_the_page_as_shown(picture, turns):
    image, drawn = picture
    width, height = image.size
    lying = Image.fromarray(np.ascontiguousarray(np.rot90(np.asarray(image), turns)))
    with open_document(file_of(lying, "PNG")) as document:
        page = document.page(0)
    assert [word.text for word in page.words] == [text for text, _ in drawn]
    for word, (text, (x0, y0, x1, y1)) in zip(page.words, drawn, strict=True):
        true = {
            1: (y0, width - x1, y1, width - x0),
            2: (width - x1, height - y1, width - x0, height - y0),
            3: (height - y1, x0, height - y0, x1),
        }[turns]
        assert overlap(word.box, true) > (0.75 if turns == 2 else 0.4), (text, word.box, true)  # a column is not fitted


def test_no_line_of_an_upright_page_is_taken_for_upside_down():
    lines = (
        "The Hydro Network package contains the set of classes that form the linear network. The Hydrographic",
        "package contains the set of classes that form the graphical representation of features related to the linear",
    )

    def draw(canvas):
        for row, line in enumerate(lines):
            write(canvas, line, 30, 170 - 16 * row, size=10)

    with open_document(pdf(draw, size=(540, 200))) as document:
        drawn = document.page(0)
    with open_document(file_of(Image.fromarray(drawn.image), "PNG")) as document:
        seen = document.words(0)
    assert [word.text for word in seen] == [word.text for word in drawn.words]
    assert min(overlap(a.box, b.box) for a, b in zip(seen, drawn.words, strict=True)) > 0.5


def test_the_pages_of_a_tiff_are_pages(picture):
    image, drawn = picture
    second, drawn_second = picture_of(["Second sheet 2"], 500, 120)
    data = file_of(image, "TIFF", save_all=True, append_images=[second])
    with open_document(data) as document:
        assert len(document) == 2
        check_ocr(document.page(1), drawn_second)
        check_ocr(document.page(0), drawn)
        assert document.page(1).image.shape == (120, 500, 3)
        assert document.page(1).notes == ()


def test_a_stamp_over_a_scan_keeps_its_words_and_the_scan_gets_its_own(picture):
    image, _ = picture
    width, height = image.width / 150 * 72, image.height / 150 * 72

    def draw(canvas):
        canvas.drawImage(ImageReader(image), 0, 0, width, height)
        write(canvas, "RECEIVED", width - 90, 12)

    with open_document(pdf(draw, size=(width, height))) as document:
        page = document.page(0)
    assert page.source == "ocr"
    assert [word.text for word in page.words].count("RECEIVED") == 1
    assert {"Purchase", "$1,870.25", "March"} <= {word.text for word in page.words}


def test_a_text_layer_without_meaning_gives_way_to_ocr_and_that_is_said(picture):
    image, drawn = picture
    data = scan_of(image)
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    cmap = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def
1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <00> <FF> <E000> endbfrange endcmap end end"""
    stream = DecodedStreamObject()
    stream.set_data(cmap)
    font = DictionaryObject({NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1")})
    font[NameObject("/BaseFont")] = NameObject("/Helvetica")
    font[NameObject("/ToUnicode")] = writer._add_object(stream)
    page = writer.pages[0]
    page["/Resources"][NameObject("/Font")] = DictionaryObject({NameObject("/F9"): font})
    content = DecodedStreamObject()
    content.set_data(page.get_contents().get_data() + b" BT 3 Tr /F9 9 Tf 20 20 Td (hidden words of no meaning) Tj ET")
    page[NameObject("/Contents")] = writer._add_object(content)
    buffer = io.BytesIO()
    writer.write(buffer)
    with open_document(buffer.getvalue()) as document:
        page = document.page(0)
    check_ocr(page, drawn)
    assert "text layer not used: 100%" in page.notes[0]


def test_blank_pages_have_no_words_and_cost_no_ocr():
    started = time.monotonic()
    with open_document(pdf(lambda canvas: None, 3)) as document:
        assert [(page.source, page.words, page.error) for page in document.pages()] == [("none", (), "")] * 3
    with open_document(file_of(Image.new("RGB", (300, 200), "white"), "PNG")) as document:
        assert document.page(0).source == "none"
    assert time.monotonic() - started < 5
    with open_document(scan_of(picture_of(TEXT)[0]), Limits(ocr=False)) as document:
        assert document.page(0).source == "none"


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (3000, 2), (9, 9)])
def test_degenerate_pictures_have_no_words(size):
    with open_document(file_of(Image.effect_noise(size, 90), "PNG")) as document:
        page = document.page(0)
        assert not page.error
        assert (page.width, page.height) == size
