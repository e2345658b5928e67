"""Questions that need two looks: what they ask is there, is known, and is not named in the question."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from backbone.errors import ConfigError
from docparse.data import GeneratedConfig, load_document, make_records
from docparse.generator import make_document
from docparse.generator.document import GeneratedDocument, Question, Region
from docparse.generator.hop_words import LINK, LINKS, RECORD, ROW
from tests.docparse.reading import LettersEmbedder

HOPS = ("link", "row_near", "record")
SEEDS = range(40)


@pytest.fixture(scope="module", params=["train", "held_out"])
def documents(request: pytest.FixtureRequest) -> list[GeneratedDocument]:
    return [make_document(seed, request.param, render=False, hops=6) for seed in SEEDS]


def asked(documents: list[GeneratedDocument], kind: str) -> list[tuple[GeneratedDocument, Question]]:
    return [(d, q) for d in documents for q in d.questions if q.kind == kind]


def printed(document: GeneratedDocument, region: Region) -> str:
    x0, y0, x1, y1 = region.box
    inside = [
        w.text
        for w in document.pages[region.page].words
        if x0 - 0.5 <= w.box[0] and w.box[2] <= x1 + 0.5 and y0 - 0.5 <= w.box[1] and w.box[3] <= y1 + 0.5
    ]
    return " ".join(inside)


@pytest.mark.parametrize("kind", HOPS)
def test_every_kind_is_asked_and_its_evidence_spells_the_answer(documents: list[GeneratedDocument], kind: str) -> None:
    questions = asked(documents, kind)
    assert len(questions) >= 10
    for document, question in questions:
        assert len(question.evidence) == len(question.via) == 1
        if document.pages[question.evidence[0].page].angle == 0:
            assert printed(document, question.evidence[0]) == question.answers[0]


def test_a_link_leads_over_a_name_that_the_question_does_not_say(documents: list[GeneratedDocument]) -> None:
    for document, question in asked(documents, "link"):
        via, found = question.via[0], question.evidence[0]
        if document.pages[via.page].angle or document.pages[found.page].angle:
            continue
        name = printed(document, via)
        assert name
        assert name.lower() not in question.text.lower()
        top, bottom = found.box[1], found.box[3]
        row = [w for w in document.pages[found.page].words if w.box[1] < bottom and top < w.box[3]]
        assert name.split()[0] in [w.text for w in row]


def test_a_near_row_is_as_far_away_as_asked(documents: list[GeneratedDocument]) -> None:
    for document, question in asked(documents, "row_near"):
        via, found = question.via[0], question.evidence[0]
        assert via.page == found.page
        away = int(question.note.split()[0])
        assert away == (2 if re.search(r"\btwo (rows|lines)\b", question.text.lower()) else 1)
        down = any(side in question.text.lower().split() for side in ("below", "under", "after", "beneath"))
        if document.pages[via.page].angle == 0:
            assert (found.box[1] > via.box[1]) == down


def test_without_hops_documents_are_as_before() -> None:
    for seed in range(8):
        plain, more = (make_document(seed, "held_out", render=False, hops=h) for h in (0, 4))
        assert all(q.kind not in HOPS and not q.via for q in plain.questions)
        for page, same in zip(plain.pages[:-1], more.pages, strict=False):  # page numbers apart
            assert [w.text for w in page.words][:20] == [w.text for w in same.words][:20]


def test_wordings_and_columns_of_the_splits_differ() -> None:
    for table in (LINK, RECORD):
        assert not set(table["train"]) & set(table["held_out"])
    assert not set(ROW["train"][0]) & set(ROW["held_out"][0])
    columns = {split: {c for link in LINKS[split] for c, _ in link.columns} for split in LINKS}
    assert not columns["train"] & columns["held_out"]


def test_records_keep_what_is_found_on_the_way(tmp_path: Path) -> None:
    paths = list(make_records(GeneratedConfig(tmp_path, "train", 3, 4, hops=4), LettersEmbedder()))
    examples = [e for path in paths for e in load_document(path)]
    ways = [e for e in examples if len(e.truth.via_boxes)]
    assert len(ways) >= 8
    assert {e.truth.kind for e in ways} <= set(HOPS)
    assert all(not len(e.truth.via_boxes) for e in examples if e.truth.kind not in HOPS)
    for example in ways:
        centres = (example.words.boxes[:, :2] + example.words.boxes[:, 2:]) / 2
        low, high = example.truth.via_boxes[0, :2] - 2e-3, example.truth.via_boxes[0, 2:] + 2e-3
        inside = (example.words.page == example.truth.via_pages[0]) & (centres >= low).all(1) & (centres <= high).all(1)
        assert inside.any()
        assert not np.array_equal(inside, example.truth.evidence_words)


def test_many_pages_can_be_asked_for() -> None:
    document = make_document(1, "held_out", pages=20, kind="invoice", render=False, hops=2)
    assert len(document.pages) >= 20


def test_tables_of_long_invoices_stay_on_their_sheets() -> None:
    document = make_document(5043, "held_out", pages=(10, 40), render=False)
    assert len(document.pages) >= 10
    for page in document.pages:
        for word in page.words:
            assert 0 <= word.box[0] < word.box[2] <= page.width
            assert 0 <= word.box[1] < word.box[3] <= page.height


@pytest.mark.parametrize("hops", [-1, 65, 10**12])
def test_impossible_numbers_of_hops_are_refused(hops: int) -> None:
    with pytest.raises(ConfigError, match="hops must be 0 to 64"):
        make_document(1, "train", render=False, hops=hops)
