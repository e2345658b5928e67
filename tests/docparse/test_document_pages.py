"""Words of PDF pages and their boxes, against where they were drawn, the ink, and another library."""

from __future__ import annotations

import io

import numpy as np
import pdfplumber
import pytest
from making_documents import SIZE, changed, pdf, write
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject
from reportlab.pdfbase.pdfmetrics import stringWidth

from docparse.documents import Limits, open_document
from docparse.documents.geometry import map_points

LINES = ("Invoice number 4711-B", "Hello brave new world", "co-operate (see page 3)", "Total: $1,234.50")
PLACES = ((60, 240), (180, 200), (60, 150), (230, 60))


def page_of(data: bytes, index: int = 0, **limits):
    with open_document(data, Limits(**limits)) as document:
        page = document.page(index)
    assert not page.error, page.error
    return page


def drawn_page():
    found = []

    def draw(canvas):
        found.clear()
        for text, (x, y) in zip(LINES, PLACES, strict=True):
            found.extend(write(canvas, text, x, y))

    return pdf(draw), found


def check_ink(page):
    """All ink lies in the boxes (grown by a pixel), and each box is full of ink to its edges."""
    dark = page.image.min(2) < 200
    covered = np.zeros_like(dark)
    for word in page.words:
        x0, y0, x1, y1 = word.box
        inner = dark[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))]
        rows, columns = np.flatnonzero(inner.any(1)), np.flatnonzero(inner.any(0))
        assert len(rows), f"no ink in the box of {word.text!r}"
        slack = [columns[0], inner.shape[1] - 1 - columns[-1], rows[0], inner.shape[0] - 1 - rows[-1]]
        assert max(slack) <= 3, (word, slack)
        covered[max(0, int(y0) - 1) : int(np.ceil(y1)) + 1, max(0, int(x0) - 1) : int(np.ceil(x1)) + 1] = True
    assert not (dark & ~covered).any(), f"{(dark & ~covered).sum()} pixels of ink outside all boxes"


CASES = {
    "plain": {},
    "turned 90": {"rotate": 90},
    "turned 180": {"rotate": 180},
    "turned 270": {"rotate": 270},
    "shifted": {"media": (-50, -20, 350, 280)},
    "cropped": {"crop": (50, 40, 390, 270)},
    "cropped, turned 90": {"crop": (50, 40, 390, 270), "rotate": 90},
    "cropped, turned 270": {"crop": (50, 40, 390, 270), "rotate": 270},
    "shifted, turned 180": {"media": (-50, -20, 380, 280), "rotate": 180},
    "user unit": {"unit": 2.5},
    "user unit, cropped, turned": {"unit": 2.0, "crop": (50, 40, 390, 270), "rotate": 90},
}


@pytest.mark.parametrize("case", CASES)
def test_boxes_lie_on_the_ink_and_points_on_the_drawing(case):
    data, drawn = drawn_page()
    page = page_of(changed(data, **CASES[case]) if CASES[case] else data)
    assert sorted(word.text for word in page.words) == sorted(word.text for word in drawn)
    check_ink(page)
    for word in page.words:
        true = next(d for d in drawn if d.text == word.text)
        left, bottom, right, top = page.points(word.box)
        assert true.left - 0.5 <= left <= true.left + 2
        assert true.right - 2 <= right <= true.right + 0.5
        assert true.baseline - 0.3 * true.size <= bottom <= true.baseline + 0.4 * true.size
        assert true.baseline + 0.4 * true.size <= top <= true.baseline + 0.95 * true.size
        np.testing.assert_allclose(page.pixels((left, bottom, right, top)), word.box, atol=1e-6)


def test_the_upper_left_pixel_is_the_corner_of_what_is_shown():
    data, _ = drawn_page()
    page = page_of(changed(data, crop=(50, 40, 390, 270), rotate=90))
    np.testing.assert_allclose(map_points(page.to_points, (0, 0)), (50, 40))
    np.testing.assert_allclose(map_points(page.to_points, (page.width, page.height)), (390, 270))
    assert (page.width, page.height) == (480, 709)  # 230 and 340 points at 150 dpi, rounded up


def test_words_outside_the_crop_are_left_out_and_cut_ones_end_at_the_edge():
    data, _ = drawn_page()
    page = page_of(changed(data, crop=(100, 130, 390, 290)))
    texts = [word.text for word in page.words]
    assert "Total:" not in texts
    assert "4711-B" in texts
    assert all(w.box[0] >= 0 and w.box[2] <= page.width and w.box[3] <= page.height for w in page.words)


def test_reading_order_lines_and_blocks_of_a_simple_page():
    data, drawn = drawn_page()
    page = page_of(data)
    assert [word.text for word in page.words] == [word.text for word in drawn]
    assert [word.line for word in page.words] == [0] * 3 + [1] * 4 + [2] * 4 + [3] * 2
    assert page.source == "text layer"
    assert page.text().splitlines()[0] == LINES[0]


@pytest.mark.parametrize("angle", [90, 180, 270, 30, -45])
def test_turned_text_is_joined_to_words(angle):
    def draw(canvas):
        write(canvas, "upright words stay", 40, 270)
        canvas.translate(200, 130)
        canvas.rotate(angle)
        canvas.drawString(-50, 0, "Draft copy only")

    page = page_of(pdf(draw))
    texts = [word.text for word in page.words]
    assert texts[:3] == ["upright", "words", "stay"]
    assert sorted(texts[3:]) == ["Draft", "copy", "only"]
    if angle % 90 == 0:
        assert texts[3:] == ["Draft", "copy", "only"]
        assert page.words[3].line == page.words[5].line
        check_ink(page)


def test_letters_drawn_one_by_one_are_words_and_cells_are_not_joined():
    def draw(canvas):
        place = 50.0
        for letter in "spaced by hand":
            canvas.drawString(place, 200, letter) if letter != " " else None
            place += stringWidth(letter, "Helvetica", 12)
        canvas.drawString(50, 150, "cell")
        canvas.drawString(50 + stringWidth("cell", "Helvetica", 12) + 9, 150, "next")
        canvas.drawString(50, 120, "tracked", charSpace=2)

    assert [w.text for w in page_of(pdf(draw)).words] == ["spaced", "by", "hand", "cell", "next", "tracked"]


def test_superscripts_stay_with_their_word_and_lines_apart():
    def draw(canvas):
        canvas.drawString(50, 200, "area m")
        canvas.setFont("Helvetica", 8)
        canvas.drawString(50 + stringWidth("area m", "Helvetica", 12), 204, "2")
        write(canvas, "below", 50, 186)

    assert page_of(pdf(draw)).text() == "area m2\nbelow"


def test_hyphens_are_kept_as_shown():
    def draw(canvas):
        write(canvas, "well-known exam-", 50, 200)
        write(canvas, "ple of 2020-2021", 50, 186)

    assert page_of(pdf(draw)).text() == "well-known exam-\nple of 2020-2021"


def test_values_of_form_fields_are_words_inside_their_fields():
    def draw(canvas):
        write(canvas, "Name:", 20, 245)
        form = canvas.acroForm
        form.textfield(name="name", value="Jane Q. Doe", x=80, y=235, width=150, height=22)
        form.textfield(
            name="notes", value="first row\nsecond", x=80, y=120, width=150, height=60, fieldFlags="multiline"
        )
        form.choice(name="colour", value="Green", options=["Red", "Green"], x=80, y=80, width=100, height=20)
        form.textfield(name="empty", value="", x=80, y=40, width=100, height=20)

    data = pdf(draw)
    for version in (data, changed(data, rotate=90), changed(data, crop=(10, 20, 300, 290))):
        page = page_of(version)
        texts = [word.text for word in page.words]
        assert {"Name:", "Jane", "Q.", "Doe", "first", "row", "second", "Green"} == set(texts)
        for text, field in (
            ("Doe", (80, 235, 230, 257)),
            ("second", (80, 120, 230, 180)),
            ("Green", (80, 80, 180, 100)),
        ):
            left, bottom, right, top = page.points(page.words[texts.index(text)].box)
            assert field[0] <= left < right <= field[2]
            assert field[1] <= bottom < top <= field[3]
            x0, y0, x1, y1 = (round(v) for v in page.words[texts.index(text)].box)
            assert np.ptp(page.image[y0:y1, x0:x1]) > 100  # the value is drawn, too


@pytest.mark.parametrize("drawn", ["by the file", "by nobody", "as nothing"])
def test_values_that_the_file_does_not_draw_are_words_too(drawn):
    data = pdf(lambda canvas: canvas.acroForm.textfield(name="a", value="Jane Doe", x=80, y=235, width=150, height=22))
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    field = writer.pages[0]["/Annots"][0].get_object()
    if drawn == "by nobody":
        del field[NameObject("/AP")]
    elif drawn == "as nothing":
        field["/AP"]["/N"].get_object().set_data(b"")
    buffer = io.BytesIO()
    writer.write(buffer)
    page = page_of(buffer.getvalue(), ocr=False)
    assert [word.text for word in page.words] == ["Jane", "Doe"]
    for word in page.words:
        left, bottom, right, top = page.points(word.box)
        assert 80 <= left < right <= 230
        assert 234.9 <= bottom < top <= 257.1


def test_another_library_finds_the_same_words_at_the_same_places():
    def draw(canvas):
        for row in range(30):
            size = 7 + row % 5
            write(canvas, f"Row {row}: the quick, brown fox (no. {row * 37}) jumps over", 30, 770 - 24 * row, size=size)

    data = pdf(draw, size=(595, 842))
    page = page_of(data)
    with pdfplumber.open(io.BytesIO(data)) as other:
        theirs = other.pages[0].extract_words(x_tolerance_ratio=0.2)
    assert [word.text for word in page.words] == [word["text"] for word in theirs]
    for word, their in zip(page.words, theirs, strict=True):
        left, bottom, right, top = page.points(word.box)
        # theirs are advance widths and font heights, ours the ink within
        assert their["x0"] - 0.6 <= left <= their["x0"] + 1.5
        assert their["x1"] - 1.5 <= right <= their["x1"] + 0.6
        assert 842 - their["bottom"] - 1 <= bottom < top <= 842 - their["top"] + 1


def test_pixels_follow_the_resolution_and_huge_pages_keep_to_their_limit():
    data, _ = drawn_page()
    coarse, fine = page_of(data, dpi=75), page_of(data, dpi=300)
    assert (coarse.width, coarse.height) == (417, 313)
    assert (fine.width, fine.height) == (1667, 1250)
    np.testing.assert_allclose(
        [coarse.points(w.box) for w in coarse.words], [fine.points(w.box) for w in fine.words], atol=1.5
    )
    small = page_of(data, page_pixels=20_000)
    assert small.width * small.height <= 20_000
    assert small.image.shape == (small.height, small.width, 3)
    assert "instead of 150 dpi" in small.notes[0]
    assert small.dpi < 60
    assert [w.text for w in small.words] == [w.text for w in fine.words]


def test_words_alone_are_those_of_the_page_with_its_picture():
    data, _ = drawn_page()
    with open_document(data) as document:
        alone = document.page(0, picture=False)
        assert alone.image is None
        assert alone.words == document.page(0).words == document.words(0)
        assert alone.width == round(SIZE[0] / 72 * 150 + 0.5)


def test_the_number_of_words_is_limited_and_said():
    page = page_of(pdf(lambda canvas: write(canvas, " ".join("abcdefgh"), 40, 100) and None), page_words=5)
    assert [word.text for word in page.words] == [*"abcde"]
    assert "first 5 of 8 words" in page.notes[0]
