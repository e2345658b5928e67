"""The text embedder: unit rows, meaning, memory, and what is said when its package is missing."""

from __future__ import annotations

import importlib.util
import threading

import numpy as np
import pytest

from backbone.errors import ConfigError, DataError, ModelError
from docparse.documents import TextEmbedder, embedding

pytest.importorskip("wordllama", reason="wordllama is not installed: pip install -e '.[documents]'")


@pytest.fixture(scope="module")
def embedder():
    return TextEmbedder()


def test_rows_are_unit_vectors_in_the_order_of_the_texts(embedder):
    texts = ["Invoice date", "total", "Invoice date", "größe 12,50 €", "☃"]
    rows = embedder.embed(texts)
    assert rows.shape == (5, 256)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(rows[0], rows[2])
    np.testing.assert_allclose(embedder.embed(["total"])[0], rows[1])
    np.testing.assert_allclose(TextEmbedder().embed(texts[::-1])[::-1], rows, atol=1e-6)
    assert not embedder.embed(["", "a"])[0].any()
    assert embedder.embed([]).shape == (0, 256)


@pytest.mark.parametrize(
    ("question", "label", "others"),
    [
        ("When was the invoice issued?", "Invoice date", ("Total", "Bill to", "Phone", "Quantity")),
        ("When was the invoice issued?", "Invoice date", ("Due date", "Invoice number", "Subtotal")),
        ("How much does the customer have to pay in total?", "Amount due", ("Subtotal", "Tax rate", "Due date")),
        ("Where was she born?", "Place of birth", ("Employer", "Amount due", "Signature", "Height")),
        ("What is the surname?", "Last name", ("Street", "Total", "Date", "Country")),
        ("How heavy is the parcel?", "Weight", ("Height", "Carrier", "Tracking number", "Price")),
        ("What does she do for a living?", "Occupation", ("Phone", "Invoice number", "City", "Tax")),
    ],
)
def test_a_question_is_nearest_to_the_label_that_answers_it(embedder, question, label, others):
    rows = embedder.embed([question, label, *others])
    assert int((rows[1:] @ rows[0]).argmax()) == 0


def test_capitals_do_not_matter(embedder):
    rows = embedder.embed(["AMOUNT DUE", "amount due"])
    np.testing.assert_allclose(rows[0], rows[1])


def test_texts_are_remembered_up_to_the_limit():
    embedder = TextEmbedder(remembered=3)
    first = embedder.embed(["a", "b", "c", "d", "e"])
    assert len(embedder._known) == 3
    model, embedder._model = embedder._model, None
    np.testing.assert_array_equal(embedder.embed(["e", "d", "c"]), first[[4, 3, 2]])
    assert embedder._model is None  # nothing had to be embedded anew
    embedder._model = model
    np.testing.assert_array_equal(embedder.embed(["a"])[0], first[0])


def test_several_threads_may_share_one():
    embedder, texts = TextEmbedder(remembered=10), [f"text {i}" for i in range(40)]
    truth, wrong = TextEmbedder().embed(texts), []

    def work(seed):
        order = np.random.default_rng(seed).permutation(40)
        rows = embedder.embed([texts[i] for i in order])
        if not np.allclose(rows, truth[order], atol=1e-6):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"'\.\[documents\]'"):
        TextEmbedder().embed(["a"])


def test_another_table_is_refused(monkeypatch):
    monkeypatch.setattr(embedding, "TABLE", "other.weight")
    with pytest.raises(ModelError, match=r"expected other\.weight"):
        TextEmbedder().embed(["a"])


def test_wrong_uses_are_refused():
    with pytest.raises(DataError, match="list of texts"):
        TextEmbedder().embed("one text")
    with pytest.raises(ConfigError):
        TextEmbedder(remembered=0)
