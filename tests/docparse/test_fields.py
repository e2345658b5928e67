"""What words say about a question: matches gathered from where labels stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.errors import DataError
from docparse.fields.matching import ALIKE, PLACES, UNIONS, word_fields
from docparse.fields.text import KINDS, content_tokens, kinds, normal, stem
from docparse.fields.words import read_words
from tests.docparse.reading import INVOICE, LettersEmbedder, invoice, page_of

COLUMNS = [*PLACES, *("+".join(u) for u in UNIONS), "self"]


def column(question: str, name: str, by_letters: bool = True):
    fields = word_fields(invoice(), question, LettersEmbedder()).matched
    assert fields.shape == (len(invoice()), 2 * len(COLUMNS))
    return dict(zip(invoice().texts, fields[:, COLUMNS.index(name) + by_letters * len(COLUMNS)], strict=True))


def test_a_label_on_the_left_counts_for_its_value_and_not_for_itself():
    left = column("What is the number?", "left")
    assert left["4711"] == pytest.approx(1)
    assert left["Number:"] == 0
    assert left["May"] == 0


def test_row_and_column_together_cover_a_cell():
    both = column("What is the tax of the hose?", "left+above")
    assert both["3.60"] == pytest.approx(1)
    assert both["24.10"] < 0.9
    assert both["18.00"] < 0.9
    assert max(both, key=lambda text: both[text]) == "3.60"


def test_places_by_hand():
    assert column("date", "line")["2024"] == 1
    assert column("date", "above")["Item"] == 1  # the label stands above it in its column
    assert column("item", "header")["Hose"] == column("item", "header")["Pump"]
    assert column("pump", "beside")["120.50"] == 1
    assert column("pump", "beside")["24.10"] == 0  # its neighbour is the price
    assert column("pump", "page")["Date:"] == 1
    assert column("pump", "word")["Pump"] == 1
    assert column("pumps", "word")["Pump"] == pytest.approx(0.9)


def test_question_words_alone_do_not_match():
    assert content_tokens("What is the total of the invoice?") == ["total", "invoice"]
    assert content_tokens("Who is it?") == ["who", "is", "it"]
    assert stem("payments") == stem("payment")
    assert normal("“Total:”") == "total"


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("1,234.50", {"number", "decimal"}), ("€25", {"number", "currency"}), ("12%", {"number", "percent"}),
        ("17/08/2027", {"date"}), ("2024", {"number", "year"}), ("May", {"month"}), ("a@b.org", {"mail"}),
        ("AB-123", {"code"}), ("Total:", {"colon"}), ("the", {"glue"}),
    ],
)  # fmt: skip
def test_kinds(word, wanted):
    found = dict(zip(KINDS, kinds(word), strict=True))
    assert all(found[kind] == 1 for kind in wanted), found
    others = {"number", "currency", "percent", "date", "year", "month", "mail", "code", "glue"} - wanted
    assert all(found[kind] == 0 for kind in others), found


@given(st.text(max_size=30))
@settings(max_examples=200)
def test_kinds_of_any_text_are_finite(text):
    assert np.isfinite(kinds(text)).all()


def test_meaning_lies_between_letters_and_nothing():
    fields = word_fields(invoice(), "total price", LettersEmbedder()).matched
    meaning, letters = np.split(fields, 2, axis=1)
    assert (meaning >= letters - 1e-6).all()
    assert meaning.min() >= 0
    assert meaning.max() <= 1 + 1e-6
    assert 0 < ALIKE < 1


def test_pages_are_joined_without_mixing():
    one = read_words([INVOICE], LettersEmbedder())
    two = read_words([INVOICE, INVOICE], LettersEmbedder())
    n = len(one)
    assert len(two) == 2 * n
    for name in ("left", "right", "above", "below"):
        values = getattr(two, name)
        expected = getattr(one, name)
        assert (values[:n] == expected).all()
        assert (values[n:] == np.where(expected < 0, -1, expected + n)).all()
    assert set(two.line[:n]).isdisjoint(two.line[n:])
    assert set(two.segment[:n]).isdisjoint(two.segment[n:])
    fields = word_fields(two, "number", LettersEmbedder()).matched
    assert np.allclose(fields[:n], fields[n:])


def test_an_empty_page_and_an_empty_question():
    empty = read_words([page_of()], LettersEmbedder())
    assert len(empty) == 0
    assert word_fields(empty, "number", LettersEmbedder()).matched.shape == (0, 2 * len(COLUMNS))
    with pytest.raises(DataError, match="no words"):
        word_fields(invoice(), "?!", LettersEmbedder())
    with pytest.raises(DataError, match="without pages"):
        read_words([], LettersEmbedder())
