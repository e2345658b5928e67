"""Documents of every kind and condition: opened, read in part with the reason, or refused with a typed error."""

from __future__ import annotations

import io
import os
import random
import signal
import threading
import time
import zlib

import numpy as np
import pytest
from making_documents import SIZE, changed, file_of, overlap, pdf, picture_of, scan_of, write
from PIL import Image
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject
from reportlab.lib.utils import ImageReader

from backbone.errors import ConfigError, DataError, FoveaError
from docparse.documents import Limits, Page, PageTimeoutError, PasswordError, Word, open_document, workshop
from docparse.documents.workshop import shared_workshop

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


# limits ----------------------------------------------------------------------------------------------------------


def test_300_pages_with_a_limit_of_5():
    with open_document(text_pdf(300), Limits(pages=5)) as document:
        assert document.page_count == 300
        assert len(document) == 5
        assert len([*document.pages()]) == 5
        assert document.notes == ("only the first 5 of 300 pages are read",)
        with pytest.raises(DataError, match="no page 6; it has 300 pages, limited to 5"):
            document.page(5)
        with pytest.raises(DataError, match="no page 0"):
            document.page(-1)


def png_header(width: int, height: int) -> bytes:
    """A small file that claims to be huge."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    rows = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_picture_of_20000_by_20000_pixels_is_refused_before_it_is_decoded():
    started = time.monotonic()
    with pytest.raises(DataError, match=r"20000 x 20000 is 400.0 megapixels, over the limit of 50.0"):
        open_document(png_header(20_000, 20_000), name="map.png")
    assert time.monotonic() - started < 5


def test_a_tiff_with_one_page_too_large_gives_the_others():
    small = picture_of(["small one"], 300, 100)[0]
    data = file_of(small, "TIFF", save_all=True, append_images=[Image.new("RGB", (900, 900), "white"), small])
    with open_document(data, Limits(page_pixels=100_000)) as document:
        pages = [*document.pages()]
        assert [bool(page.error) for page in pages] == [False, True, False]
        assert "900 x 900" in document.errors[1]
        assert [*document.errors] == [1]
        assert pages[0].words[0].text == pages[2].words[0].text == "small"


def test_a_page_of_ten_metres_is_shown_smaller():
    data = pdf(lambda canvas: write(canvas, "poster", 100, 100, size=900) and None, size=(14_400, 14_400))
    with open_document(data, Limits(page_pixels=1_000_000)) as document:
        page = document.page(0)
    assert page.width * page.height <= 1_000_000
    assert page.words[0].text == "poster"
    assert "dpi" in page.notes[0]


def slow_pdf() -> bytes:
    """A second page that takes pdfium minutes: very many wide transparent strokes over each other."""

    def draw(canvas):
        write(canvas, "page of words", 50, 250)
        if canvas.getPageNumber() == 2:
            canvas.setStrokeAlpha(0.5)
            canvas.setLineWidth(300)
            generator = random.Random(0)
            for _ in range(30_000):
                canvas.bezier(*(generator.uniform(0, 400) for _ in range(8)))

    return pdf(draw, 3)


def test_the_seconds_of_a_page_hold_and_the_other_pages_are_read():
    with open_document(slow_pdf(), Limits(page_seconds=1.5, dpi=600)) as document:
        assert document.page(0).words
        started = time.monotonic()
        slow = document.page(1)
        assert time.monotonic() - started < 6
        assert "given up after 1.5 s" in slow.error
        last = document.page(2)
        assert not last.error
        assert last.words[0].text == "page"
        assert last.image is not None
        assert [*document.errors] == [1]


def test_a_call_that_is_given_up_ends_the_process_and_the_next_one_works():
    shared = shared_workshop()
    with open_document(slow_pdf(), Limits(dpi=600)) as document:
        before = shared.pid
        asked = {"index": 1, "dpi": 600.0, "max_pixels": 10**8, "max_words": 9, "picture": True, "may_ocr": False}
        with pytest.raises(PageTimeoutError, match=r"given up after 0\.5 s"):
            shared.call("read", 0.5, key=document._key, **asked)
        assert shared.pid is None
        assert document.words(0)
        assert shared.pid not in (None, before)


def test_a_reading_process_that_dies_costs_one_page_only():
    with open_document(text_pdf(3)) as document:
        assert document.page(0).words
        before = shared_workshop().pid
        os.kill(before, signal.SIGKILL)
        page = document.page(1)
        assert "died over it (killed by SIGKILL)" in page.error or page.words
        assert document.page(2).words
        assert shared_workshop().pid != before


def test_several_threads_read_several_documents():
    kinds = {
        letter: pdf(lambda canvas, letter=letter: write(canvas, letter * 5, 50, 200) and None, 4) for letter in "abcd"
    }
    documents = {letter: open_document(data) for letter, data in kinds.items()}
    found: dict[str, list[str]] = {letter: [] for letter in kinds}

    def work(letter):
        found[letter] = [page.words[0].text for page in documents[letter].pages(picture=True)]

    threads = [threading.Thread(target=work, args=(letter,)) for letter in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {letter: [letter * 5] * 4 for letter in kinds}


def test_a_fork_reads_in_a_process_of_its_own():
    with open_document(text_pdf(2)) as document:
        assert document.page(0).words
        before = shared_workshop().pid
        child = os.fork()
        if child == 0:
            good = bool(document.page(1).words) and shared_workshop().pid != before
            shared_workshop().stop()
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert document.page(1).words
        assert shared_workshop().pid == before


def test_a_library_that_is_missing_in_the_reading_process_names_the_extra():
    with pytest.raises(ConfigError, match=r"'\.\[documents\]'"):
        workshop._raise({"type": "ModuleNotFoundError", "message": "No module named 'rapidocr'", "traceback": ""})


def test_memory_is_bounded_by_keeping_few_pictures():
    with open_document(text_pdf(12)) as document:
        pages = [document.page(i) for i in range(12)]
        assert all(page.image is not None for page in pages)
        assert len(document._images) == 4
        assert document.page(11) is pages[11]
        assert document.page(0) is not pages[0]


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
