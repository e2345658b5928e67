"""What is no document, or a broken one: refused with a typed error, or read in part."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from making_documents import SIZE, changed, file_of, pdf, picture_of, scan_of, write
from pypdf import PdfWriter

from backbone.errors import ConfigError, DataError, FoveaError
from docparse.documents import Limits, Page, PasswordError, Word, open_document

TEXT = ("Purchase order 20931", "Amount due: $1,870.25", "Delivery by 14 March 2024")


def text_pdf(pages: int = 1) -> bytes:
    return pdf(lambda canvas: write(canvas, "Hello from this page", 50, 200) and None, pages)


# refusals --------------------------------------------------------------------------------------------------------

HTML = b"<!DOCTYPE html><html><head><title>Login</title></head><body>Please sign in</body></html>"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (HTML, "is a web page"),
        (b"\xef\xbb\xbf  <html>", "is a web page"),
        (b"PK\x03\x04" + bytes(100), "office file or archive"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 4, "broken PDF"),
        (b"%PDF-1.4\n%%EOF", "broken PDF"),
        (b"nothing that anybody knows", "not a readable picture"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "picture"),
    ],
)
def test_what_is_no_document_is_refused_by_name(data, said, tmp_path):
    path = tmp_path / "given.pdf"
    path.write_bytes(data)
    with pytest.raises(DataError, match=said) as caught:
        open_document(path)
    assert str(caught.value).startswith("given.pdf: ")


def test_places_that_are_no_file_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        open_document(tmp_path / "absent.pdf")
    with pytest.raises(DataError, match="is not a file"):
        open_document(tmp_path)


def test_a_pdf_without_pages_is_refused():
    buffer = io.BytesIO()
    PdfWriter().write(buffer)
    with pytest.raises(DataError, match=r"no pages|broken PDF"):
        open_document(buffer.getvalue())


def test_one_byte_over_the_limit_is_refused():
    data = text_pdf()
    open_document(data, Limits(file_bytes=len(data))).close()
    with pytest.raises(DataError, match="exceed the limit"):
        open_document(data, Limits(file_bytes=len(data) - 1))


SECRET, GUESS = "open sesame", "please"


def test_passwords():
    data = changed(text_pdf(), password=SECRET)
    with pytest.raises(PasswordError, match="needs a password"):
        open_document(data)
    with pytest.raises(PasswordError, match="the password is wrong"):
        open_document(data, password=GUESS)
    with open_document(data, password=SECRET) as document:
        assert document.page(0).words[0].text == "Hello"


@pytest.mark.parametrize(
    "wrong", [{"pages": 0}, {"page_seconds": 0.0}, {"page_seconds": float("nan")}, {"dpi": 3.0}, {"page_pixels": 10**9}]
)
def test_impossible_limits_are_refused(wrong):
    with pytest.raises(ConfigError):
        Limits(**wrong)


def test_a_closed_document_says_so():
    document = open_document(text_pdf())
    document.close()
    document.close()
    with pytest.raises(DataError, match="is closed"):
        document.page(0)


# faults ----------------------------------------------------------------------------------------------------------


def read_all(data: bytes) -> str:
    """What reading comes to; anything but a typed error at opening is a failure of the test."""
    try:
        document = open_document(data, Limits(page_seconds=10.0, pages=4, ocr=False))
    except FoveaError:
        return "refused"
    with document:
        pages = [*document.pages(picture=True)]
    for page in pages:
        assert page.error or page.image is not None
    return "errors" if any(page.error for page in pages) else "read"


def test_truncated_and_garbled_files_end_in_typed_errors_or_pages():
    image = picture_of(["Scan of 2024"], 400, 120)[0]
    sound = [text_pdf(2), changed(text_pdf(2), rotate=90), scan_of(image)]
    sound += [
        file_of(image, "PNG"),
        file_of(image, "JPEG"),
        file_of(image, "TIFF", save_all=True, append_images=[image]),
    ]
    generator = random.Random(7)
    outcomes = set()
    for data in sound:
        assert read_all(data) == "read"
        for _ in range(8):
            outcomes.add(read_all(data[: generator.randrange(1, len(data))]))
            garbled = bytearray(data)
            for _ in range(generator.choice((1, 10, 100))):
                garbled[generator.randrange(len(data))] = generator.randrange(256)
            outcomes.add(read_all(bytes(garbled)))
    assert {"refused", "read"} <= outcomes


def test_words_that_cannot_be_are_refused():
    for box in ((1, 1, 1, 2), (1, 2, 3, 2), (5, 0, 1, 1), (0, 0, float("inf"), 1), (0, 0, float("nan"), 1)):
        with pytest.raises(DataError):
            Word("x", box, 0, 0)
    with pytest.raises(DataError):
        Word("", (0, 0, 1, 1), 0, 0)
    with pytest.raises(DataError, match="an image of 5 x 4"):
        Page(0, 4, 4, np.zeros((4, 5, 3), np.uint8), (), "none")
    example = Page.make_example()
    assert example.text() == "Total: $12.50"
    assert example.points((10, 20, 40, 32)) == (10, 28, 40, 40)
    assert SIZE == (400.0, 300.0)
