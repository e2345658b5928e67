"""Reading order, lines, blocks and neighbours, on pages whose layout is known."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making_documents import pdf, write

from docparse.documents import Word, neighbours, open_document
from docparse.documents.lines import arrange

SENTENCE = "the quick brown fox jumps over"


def words_of(draw, size=(600, 800)):
    with open_document(pdf(draw, size=size)) as document:
        return document.words(0)


def texts_by(words, key):
    groups = {}
    for word in words:
        groups.setdefault(getattr(word, key), []).append(word.text)
    return [" ".join(texts) for texts in groups.values()]


def two_columns(canvas, offset=0.0):
    write(canvas, "A title that spans both of the columns of this page", 60, 760, size=16)
    for row in range(14):
        write(canvas, f"L{row} {SENTENCE}", 60, 700 - 14 * row)
        write(canvas, f"R{row} {SENTENCE}", 320, 700 - 14 * row + offset)
    write(canvas, "Under both columns there is a line that is long enough to span them", 60, 440)


@pytest.mark.parametrize("offset", [0.0, 5.0, 7.0])
def test_two_columns_are_read_one_after_the_other(offset):
    words = words_of(lambda canvas: two_columns(canvas, offset))
    expected = ["A title that spans both of the columns of this page"]
    expected += [f"{side}{row} {SENTENCE}" for side in "LR" for row in range(14)]
    expected += ["Under both columns there is a line that is long enough to span them"]
    assert texts_by(words, "line") == expected
    near = neighbours(words)
    first_right = next(i for i, word in enumerate(words) if word.text == "R3")
    assert near.left[first_right] == -1
    last_left = next(i for i, word in enumerate(words) if word.text == "L3") + 6
    assert near.right[last_left] == -1


def test_three_columns():
    def draw(canvas):
        for row in range(12):
            for column in range(3):
                write(canvas, f"{'ABC'[column]}{row} four words of text", 30 + 190 * column, 700 - 14 * row)

    lines = texts_by(words_of(draw), "line")
    assert lines == [f"{c}{row} four words of text" for c in "ABC" for row in range(12)]


def test_rows_of_a_table_and_of_a_form_stay_lines_whatever_lies_between():
    rows = [("Item", "Qty", "Price"), ("Bolt M6", "12", "3.10"), ("Nut", "400", "18.00"), ("Washer large", "7", "0.99")]
    rows += [(f"Part {i}", str(i), f"{i}.50") for i in range(8)]

    def draw(canvas):
        for row, cells in enumerate(rows):
            for place, cell in zip((50, 300, 500), cells, strict=True):
                write(canvas, cell, place, 700 - 20 * row)
        write(canvas, "Account holder:", 50, 300)
        write(canvas, "Erika Mustermann", 400, 300)

    words = words_of(draw)
    assert texts_by(words, "line") == [" ".join(cells) for cells in rows] + ["Account holder: Erika Mustermann"]
    near = neighbours(words)
    at = {word.text: i for i, word in enumerate(words)}
    assert words[near.left[at["18.00"]]].text == "400"
    assert words[near.left[at["400"]]].text == "Nut"
    assert words[near.left[at["Erika"]]].text == "holder:"
    assert words[near.above[at["18.00"]]].text == "3.10"
    assert words[near.above[at["3.10"]]].text == "Price"
    assert words[near.below[at["Qty"]]].text == "12"
    assert near.above[at["Item"]] == -1
    assert near.right[at["Price"]] == -1


def test_paragraphs_and_changes_of_size_are_blocks():
    def draw(canvas):
        write(canvas, "Heading", 50, 760, size=20)
        for row in range(3):
            write(canvas, f"first {SENTENCE}", 50, 730 - 14 * row)
        for row in range(3):
            write(canvas, f"second {SENTENCE}", 50, 660 - 14 * row)

    blocks = texts_by(words_of(draw), "block")
    assert [block.split()[0] for block in blocks] == ["Heading", "first", "second"]


@pytest.mark.parametrize("degrees", [-2.0, -0.7, 0.7, 2.0])
def test_lines_of_a_skewed_scan_hold_together(degrees):
    boxes, truth = [], []
    for row in range(20):
        for column in range(12):
            boxes.append((100 + 90 * column, 100 + 45 * row, 180 + 90 * column, 122 + 45 * row))
            truth.append(row)
    boxes = np.array(boxes, float)
    middle = (boxes[:, 0] + boxes[:, 2]) / 2
    shift = np.tan(np.radians(degrees)) * (middle - 600)
    boxes[:, 1] += shift
    boxes[:, 3] += shift
    shuffled = np.random.default_rng(0).permutation(len(boxes))
    found = arrange(boxes[shuffled])
    np.testing.assert_array_equal(shuffled[found.order], np.arange(len(boxes)))
    np.testing.assert_array_equal(found.line, truth)


@pytest.mark.parametrize("direction", [90, 180, 270])
def test_turned_pages_are_read_in_their_own_direction(direction):
    upright = np.array(
        [(50 + 60 * c, 40 + 30 * r, 100 + 60 * c, 52 + 30 * r) for r in range(4) for c in range(5)], float
    )
    x0, y0, x1, y1 = upright.T
    turned = {
        90: np.stack([900 - y1, x0, 900 - y0, x1], 1),  # reading downwards
        180: np.stack([900 - x1, 900 - y1, 900 - x0, 900 - y0], 1),
        270: np.stack([y0, 900 - x1, y1, 900 - x0], 1),  # reading upwards
    }[direction]
    found = arrange(turned, np.full(len(turned), direction))
    np.testing.assert_array_equal(found.order, np.arange(20))
    np.testing.assert_array_equal(found.line, np.repeat(np.arange(4), 5))


boxes = st.lists(
    st.tuples(st.floats(0, 900), st.floats(0, 900), st.floats(0.5, 200), st.floats(0.5, 60)), max_size=60
).map(lambda drawn: np.array([(x, y, x + w, y + h) for x, y, w, h in drawn], float).reshape(-1, 4))


@settings(max_examples=60, deadline=None)
@given(boxes, st.integers(0, 3))
def test_any_boxes_are_arranged_once_each_with_counting_lines_and_blocks(drawn, turned):
    found = arrange(drawn, np.full(len(drawn), 90 * turned))
    assert sorted(found.order.tolist()) == [*range(len(drawn))]
    for numbers in (found.line, found.block):
        steps = np.diff(numbers, prepend=-1 if len(numbers) else 0)
        assert set(steps.tolist()) <= {0, 1}
    assert all(len({*found.block[found.line == line].tolist()}) == 1 for line in {*found.line.tolist()})


@settings(max_examples=40, deadline=None)
@given(boxes)
def test_neighbours_are_what_their_definition_says(drawn):
    found = arrange(drawn)
    words = [
        Word(str(i), tuple(drawn[k].tolist()), line, block)
        for i, (k, line, block) in enumerate(zip(found.order, found.line.tolist(), found.block.tolist(), strict=True))
    ]
    near = neighbours(words)
    for i, word in enumerate(words):
        if near.left[i] >= 0:
            assert words[near.left[i]].line == word.line
            assert near.right[near.left[i]] == i
        for j, upper, lower in ((near.above[i], near.above[i], i), (near.below[i], i, near.below[i])):
            if j >= 0:
                a, b = words[upper].box, words[lower].box
                assert a[1] + a[3] < b[1] + b[3]  # its middle is higher
                assert min(a[2], b[2]) > max(a[0], b[0])  # shares some width


def test_neighbours_of_no_word_and_of_many_are_fast():
    assert neighbours([]).left.shape == (0,)
    words = [
        Word("w", (60.0 * (i % 20), 20.0 * (i // 20), 60.0 * (i % 20) + 50, 20.0 * (i // 20) + 12), i // 20, 0)
        for i in range(2000)
    ]
    started = time.process_time()
    near = neighbours(words)
    assert time.process_time() - started < 2
    np.testing.assert_array_equal(
        near.above, np.arange(2000) - 20 * (np.arange(2000) >= 20) - (np.arange(2000) < 20) * (1 + np.arange(2000))
    )


def test_short_labels_and_values_are_rows_though_they_are_words():
    def draw(canvas):
        for row in range(12):
            write(canvas, f"Account holder no{row}", 50, 700 - 20 * row)
            write(canvas, "Erika Mustermann", 300, 700 - 20 * row)

    assert texts_by(words_of(draw), "line") == [f"Account holder no{row} Erika Mustermann" for row in range(12)]


def test_words_of_one_string_stay_on_one_line_whatever_their_boxes():
    bent = np.array([(60 * i, 20 * row + 9 * i * (4 - i) / 4, 60 * i + 50, 20 * row + 9 * i * (4 - i) / 4 + 18)
                     for row in range(6) for i in range(5)], float)  # fmt: skip
    strings = np.repeat(np.arange(6), 5)
    found = arrange(bent, strings=strings)
    np.testing.assert_array_equal(found.line, strings)
    np.testing.assert_array_equal(found.order, np.arange(30))
    apart = bent.copy()
    apart[:, [1, 3]] *= 3
    steep = apart + np.tile(np.arange(5), 6)[:, None] * np.array([0, 14, 0, 14])
    np.testing.assert_array_equal(arrange(steep, strings=strings).line, strings)


def test_numbers_and_leaders_of_dots_are_no_prose():
    def draw(canvas):
        for row in range(14):
            write(canvas, f"Offence {row} . . . . . . .", 50, 700 - 14 * row)
            write(canvas, f"{row}.1 69.1 398.8 380.2", 240, 700 - 14 * row)
            write(canvas, f"{row}.2 1,540.0 56.5 7.0", 420, 700 - 14 * row)

    lines = texts_by(words_of(draw), "line")
    assert lines == [
        f"Offence {row} . . . . . . . {row}.1 69.1 398.8 380.2 {row}.2 1,540.0 56.5 7.0" for row in range(14)
    ]
