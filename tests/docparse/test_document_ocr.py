"""What the OCR engine may answer, without the engine."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from docparse.documents import ocr

QUAD = np.array([[100.0, 10], [200, 10], [200, 30], [100, 30]])
WHITE = np.full((60, 300, 3), 255, np.uint8)


def answer(word_results, **changes):
    fields = {"boxes": np.array([QUAD]), "txts": ("ab cd",), "scores": (0.9,), "word_results": word_results}
    return SimpleNamespace(**{**fields, **changes})


def test_words_with_places_are_taken_as_they_are():
    places = [("ab", 0.8, [[100, 10], [140, 10], [140, 30], [100, 30]]), ("cd", 0.7, QUAD.tolist())]
    found = ocr._words(WHITE, answer((places,)))
    assert found.texts == ["ab", "cd"]
    np.testing.assert_allclose(found.boxes, [[100, 10, 140, 30], [100, 10, 200, 30]])
    np.testing.assert_allclose(found.confidences, [0.8, 0.7])
    assert found.strings.tolist() == [0, 0]


def test_without_places_words_are_spread_over_their_line():
    for missing in (None, (), ("raw",), ([],), ([("ab", 0.5)],)):
        found = ocr._words(WHITE, answer(missing))
        assert found.texts == ["ab", "cd"]
        np.testing.assert_allclose(found.boxes, [[100, 10, 140, 30], [160, 10, 200, 30]])


def test_no_lines_are_no_words():
    for nothing in (SimpleNamespace(), answer((), boxes=None), answer((), txts=(), boxes=np.zeros((0, 4, 2)))):
        assert ocr._words(WHITE, nothing).texts == []


def test_turned_back_words_keep_their_places():
    found = ocr._turned_back(ocr._words(WHITE, answer(())), 300, 60)
    np.testing.assert_allclose(found.boxes, [[160, 30, 200, 50], [100, 30, 140, 50]])
    assert found.directions.tolist() == [180, 180]


def test_ink_is_told_from_paper_and_from_one_colour():
    assert not ocr.has_ink(WHITE)
    drawn = WHITE.copy()
    drawn[20:40, 100:120] = 0
    assert ocr.has_ink(drawn)
    assert ocr._ink(WHITE[:, :, 0]) is None
    np.testing.assert_array_equal(ocr._ink(drawn[:, :, 0]), drawn[:, :, 0] == 0)
    np.testing.assert_array_equal(ocr._ink(255 - drawn[:, :, 0]), drawn[:, :, 0] == 0)  # light ink on dark paper
