"""Characters to words without any PDF: what is kept, spelled out, dropped, split and joined."""

from __future__ import annotations

import numpy as np
import pytest
from making_documents import pdf
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont

from docparse.documents import open_document
from docparse.documents.characters import Characters, meaningless_share, to_words

FLIP = np.array([[1.0, 0, 0], [0, -1.0, 100]])  # a page of 400 x 100 points shown at 72 dpi


def words_of(codes, *, gaps=None, tight=None, angle=0.0):
    """The words of characters 6 points wide in a row, with ``gaps`` {index: points} before some."""
    starts = np.cumsum([6.0 + (gaps or {}).get(i, 0) for i in range(len(codes))])
    loose = np.array([(x, 40.0, x + 6, 52.0) for x in starts])
    boxes = loose + np.array([0.5, 2, -0.5, -3]) if tight is None else np.array(tight)
    return to_words(Characters(codes, boxes, loose, np.full(len(codes), angle)), FLIP, 0, 400, 100)


def texts_of(text: str, **options):
    return words_of([ord(c) for c in text], **options).texts


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("two words", ["two", "words"]),
        ("no\u00a0break", ["no", "break"]),
        ("line\r\nbreak", ["line", "break"]),
        ("o\ufb03ce \ufb01nal", ["office", "final"]),
        ("auto\u00admatic", ["automatic"]),  # a soft hyphen within a line does not show
        ("auto\u00ad", ["auto-"]),  # at its end it does
        ("exam\u0002", ["exam-"]),  # pdfium's mark of a hyphen at a line's end
        ("zero\u200bwidth\ufeff", ["zerowidth"]),
        ("e-mail: a@b.c", ["e-mail:", "a@b.c"]),
        ("\u0000\u0001 x", ["x"]),
        ("§ 5 äöü €", ["§", "5", "äöü", "€"]),
        (" ", []),
    ],
)
def test_texts(given, texts):
    assert texts_of(given) == texts


def test_halves_of_a_character_beyond_the_basic_plane_are_joined():
    assert words_of([0xD83D, 0xDE00]).texts == ["\U0001f600"]
    assert words_of([0xD83D, ord("a")]).texts == ["\ufffda"]  # half of one is no text that could be written anywhere


def test_white_without_a_space_parts_words_and_thin_white_does_not():
    assert texts_of("ab", gaps={1: 5.9}) == ["ab"]
    assert texts_of("ab", gaps={1: 6.5}) == ["a", "b"]
    assert texts_of("ccccccccb", gaps={8: -40}) == ["cccccccc", "b"]  # back to the line's beginning
    assert texts_of("\u05d0\u05d1\u05d2", gaps={1: -12, 2: -12}) == ["\u05d0\u05d1\u05d2"]  # Hebrew runs to the left


def test_boxes_are_the_ink_and_never_empty():
    found = words_of([ord("a"), ord("b")])
    np.testing.assert_allclose(found.boxes, [[6.5, 51, 17.5, 58]])
    flat = words_of([ord("a"), ord("b")], tight=[(6, 40, 6, 40), (12, 40, 12, 40)])
    np.testing.assert_allclose(flat.boxes, [[6, 48, 18, 60]])  # the font's height where no ink is stated
    nothing = to_words(Characters([97], np.full((1, 4), 9.0), np.full((1, 4), 9.0), np.zeros(1)), FLIP, 0, 400, 100)
    assert (nothing.boxes[:, 2:] > nothing.boxes[:, :2]).all()


def test_what_is_mostly_outside_the_page_is_left_out():
    assert words_of([97], tight=[(-30, 40, -20, 50)]).texts == []
    assert words_of([97], tight=[(396, 40, 406, 50)]).texts == []
    np.testing.assert_allclose(words_of([97], tight=[(394, 40, 404, 50)]).boxes, [[394, 50, 400, 60]])


def test_the_share_of_characters_without_a_meaning():
    assert meaningless_share([ord(c) for c in "plain text, 100 %\u0002\r\n"]) == 0
    assert meaningless_share([0xE000, 0xF123, 0xFFFD, 97]) == 0.75
    assert meaningless_share([]) == 0
    assert meaningless_share([32, 32]) == 0


def test_ligatures_of_a_real_font_are_spelled_out():
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))

    def draw(canvas):
        canvas.setFont("Vera", 12)
        canvas.drawString(50, 200, "\ufb01nal \ufb02ow Größe 25\u00a0€")

    with open_document(pdf(draw)) as document:
        assert [word.text for word in document.words(0)] == ["final", "flow", "Größe", "25", "€"]
