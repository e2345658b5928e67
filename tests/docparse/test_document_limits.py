"""Limits of documents, and the process that reads them: it may be given up, may die, and is forked."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import zlib

import pytest
from making_documents import file_of, pdf, picture_of, write
from PIL import Image

from backbone.errors import ConfigError, DataError
from docparse.documents import Limits, PageTimeoutError, open_document, workshop
from docparse.documents.workshop import shared_workshop

TEXT = ("Purchase order 20931", "Amount due: $1,870.25", "Delivery by 14 March 2024")


def text_pdf(pages: int = 1) -> bytes:
    return pdf(lambda canvas: write(canvas, "Hello from this page", 50, 200) and None, pages)


@pytest.fixture(scope="module")
def picture():
    return picture_of(TEXT)


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
