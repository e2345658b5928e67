"""Generated documents: what is asked in vain, how much they vary, their pages, misreading, speed and files."""

import re
import time
from collections import Counter

import numpy as np
import pytest

from backbone.errors import ConfigError, DataError
from docparse.generator import KINDS, MAXIMUM_PAGES, SPLITS, Question, make_document, misread
from docparse.generator.document import Region
from docparse.generator.fields import composed
from docparse.generator.values import Values
from tests.docparse.generated_cases import many, shares

# In vain


def test_unanswerable_questions_come_in_their_share() -> None:
    counted = Counter(bool(q.answers) for d in many(150) for q in d.questions)
    assert counted[False] / counted.total() == pytest.approx(0.1, abs=0.025)
    assert all(q.answers for d in many(20, unanswerable=0.0) for q in d.questions)
    assert not any(q.answers for d in many(20, unanswerable=1.0) for q in d.questions)


def test_what_is_asked_in_vain_is_not_on_the_pages() -> None:
    for document in many(20, unanswerable=1.0):
        printed = " ".join(w.text for p in document.pages for w in p.words).lower()
        for question in document.questions:
            named = re.search(r"(?:the|my) ([a-z' -]+?)[?.]*$", question.text.lower())
            of_a_row = re.search(
                r" (of|for|against) |state its", question.text
            )  # a known column of a row that is not there
            if question.kind == "unanswerable" and named and not of_a_row and len(named.group(1).split()) > 1:
                assert named.group(1) not in printed, question


def test_a_question_has_answers_and_evidence_or_neither() -> None:
    with pytest.raises(DataError, match="neither"):
        Question("Who?", ("x",), (), "value")
    with pytest.raises(DataError, match="neither"):
        Question("Who?", ("x",), (Region(0, (0.0, 0.0, 1.0, 1.0)),), "unanswerable")
    with pytest.raises(DataError, match="is empty"):
        Question(" ", (), (), "unanswerable")


# Variety


def test_evidence_is_of_every_size() -> None:
    found = np.array([share for document in many(150) for share in shares(document)])
    assert found.min() < 0.0002
    assert found.max() > 0.2
    counts = np.histogram(found, [0, 0.005, 0.02, 0.1, 1])[0] / found.size
    assert (counts > 0.01).all(), counts
    assert 0.5 < counts[0] < 0.9


def test_every_kind_of_document_and_question_occurs() -> None:
    documents = many(150)
    assert {d.kind for d in documents} == set(KINDS)
    kinds = Counter(q.kind for d in documents for q in d.questions)
    assert set(kinds) == {
        "value", "cell", "row", "address", "sentence", "paragraph", "figure", "two", "unanswerable",
    }  # fmt: skip
    assert {len(d.pages) for d in documents} >= {1, 2, 3, 4}
    pages_of_two = {len({p for p, _ in q.evidence}) for d in documents for q in d.questions if q.kind == "two"}
    assert pages_of_two == {1, 2}


def test_composed_labels_are_thousands_and_held_out_words_stay_out_of_training() -> None:
    labels = {}
    for split in SPLITS:
        values = Values.drawn(np.random.default_rng(1), split)
        labels[split] = [composed(values, set()).label for _ in range(3000)]
    assert len(set(labels["train"])) > 500
    seen = set(labels["train"])
    assert sum(label not in seen for label in labels["held_out"]) > 0.4 * len(labels["held_out"])


# Pages


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_pages_as_asked_for(kind: str) -> None:
    for pages in (1, 3):
        document = make_document(2, "train", kind=kind, pages=pages, render=False)
        assert pages <= len(document.pages) <= pages + (1 if kind == "invoice" else 0)
    for seed in range(6):
        assert 2 <= len(make_document(seed, "held_out", kind="report", pages=(2, 4), render=False).pages) <= 4
    assert MAXIMUM_PAGES == 40
    assert max(len(make_document(seed, "train", kind="letter", render=False).pages) for seed in range(40)) <= 8


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"split": "test"}, "train and held_out"),
        ({"kind": "poem"}, "no kind of document 'poem'"),
        ({"pages": 0}, "1 to 40"),
        ({"pages": (3, 2)}, "1 to 40"),
        ({"pages": 41}, "1 to 40"),
        ({"unanswerable": 1.5}, "share of unanswerable"),
        ({"most_questions": 0}, "at least 1 question"),
        ({"seed": -1}, "seed >= 0"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        make_document(**{"seed": 1, **options})  # type: ignore[arg-type]


def test_missing_fonts_are_named_with_what_to_install() -> None:
    from docparse.generator.fonts import folder

    with pytest.raises(ConfigError, match=r"package no_such_font are missing.*pip install -e '\.\[fonts\]'"):
        folder("no_such_font")


# Misread


def test_misreading_is_repeatable_and_as_frequent_as_asked() -> None:
    document = make_document(3, "train", kind="report", pages=2, render=False)
    a, b = misread(document, 0.3), misread(document, 0.3)
    assert [p.words for p in a.pages] == [p.words for p in b.pages]
    assert a.questions == document.questions
    before = Counter(w.text for p in document.pages for w in p.words)
    after = Counter(w.text for p in a.pages for w in p.words)
    assert (before - after).total() / before.total() == pytest.approx(0.3, abs=0.08)
    assert [p.words for p in misread(document, 0.0).pages] == [p.words for p in document.pages]
    with pytest.raises(ConfigError, match="0 to 1"):
        misread(document, 2.0)


# Speed


def test_words_alone_are_fast() -> None:
    make_document(0, "train", render=False)
    start = time.process_time()
    pages = sum(len(make_document(s, "train", render=False).pages) for s in range(1000, 1040))
    assert pages / (time.process_time() - start) > 15  # on one core, with all faces still to be measured


def test_pictures_are_fast_enough() -> None:
    make_document(0, "train", pages=1)
    start = time.process_time()
    pages = sum(len(make_document(s, "train", pages=1).pages) for s in range(2000, 2012))
    assert pages / (time.process_time() - start) > 5


# Files


def test_written_documents_are_read_back(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from docparse.benchmarks import load_benchmark
    from docparse.documents import open_document
    from docparse.generator.writing import write_documents

    made = [make_document(seed, "held_out", pages=1, kind="invoice") for seed in (1, 2)]
    counts = write_documents(made, tmp_path)
    asked = [q for d in made for q in d.questions]
    assert counts == {"documents": 2, "pages": sum(len(d.pages) for d in made), "questions": len(asked)}
    benchmark = load_benchmark("generated", tmp_path)
    assert (benchmark.split, benchmark.counts["loaded"], benchmark.counts["skipped"]) == ("held_out", len(asked), 0)
    for item, question in zip(benchmark.items, asked, strict=True):
        truth = item.truth()
        assert (item.question, item.answers) == (question.text, question.answers)
        assert [p for p, _ in truth.evidence or ()] == [r.page for r in question.evidence]
        for (_, box), region in zip(truth.evidence or (), question.evidence, strict=True):
            assert box == pytest.approx(region.box, abs=0.01)
    item = benchmark.items[0]
    assert np.array_equal(item.pages[0].load().array, made[0].pages[0].image)  # type: ignore[arg-type]
    assert item.path is not None
    with open_document(item.path) as document:
        page = document.page(0, picture=False)
        scale = made[0].pages[0].width / page.width
        found = {(w.text, round(w.box[0] * scale / 8), round(w.box[1] * scale / 8)) for w in page.words}
    wanted = [(w.text, round(w.box[0] / 8), round(w.box[1] / 8)) for w in made[0].pages[0].words]
    near = sum(any((t, x + i, y + j) in found for i in (-1, 0, 1) for j in (-1, 0, 1)) for t, x, y in wanted)
    assert near / len(wanted) > 0.97


def test_pages_without_pictures_make_no_pdf(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from docparse.generator.pdf import write_pdf

    with pytest.raises(DataError, match="render=True"):
        write_pdf(make_document(1, "train", render=False).pages, tmp_path / "a.pdf")
