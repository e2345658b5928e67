"""Generated documents: exact, repeatable, unambiguous, fast, the splits apart."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from docparse.generator import KINDS, SPLITS, GeneratedDocument, Question, make_document
from docparse.generator.document import Region
from docparse.generator.draft import Draft, new_draft
from docparse.generator.draw import CLEAN, Scan, drawn, scanned, turned
from docparse.generator.fields import KNOWN
from docparse.generator.fonts import FAMILIES, Face, Family, font, measure
from docparse.generator.questions import questions
from docparse.generator.sheet import Sheet, union
from docparse.generator.templates import TEMPLATES
from tests.docparse.generated_cases import many

CASES = [(kind, split) for kind in KINDS for split in SPLITS]
seeds = st.integers(0, 2**40)


# Repeatable


@pytest.mark.parametrize(("kind", "split"), CASES)
def test_the_same_arguments_give_the_same_document(kind: str, split: str) -> None:
    a, b = (make_document(11, split, kind=kind, pages=1, scan=True) for _ in range(2))  # type: ignore[arg-type]
    assert a.questions == b.questions
    for p, q in zip(a.pages, b.pages, strict=True):
        assert p.words == q.words
        assert p.image is not None
        assert q.image is not None
        assert np.array_equal(p.image, q.image)


@settings(max_examples=10)
@given(seeds, st.sampled_from(SPLITS))
def test_without_pictures_all_else_is_the_same(seed: int, split: str) -> None:
    a, b = (make_document(seed, split, pages=1, render=render) for render in (True, False))  # type: ignore[arg-type]
    assert a.questions == b.questions
    assert [p.words for p in a.pages] == [p.words for p in b.pages]
    assert all(p.image is None for p in b.pages)
    assert all(p.image is not None and p.image.shape == (p.height, p.width, 3) for p in a.pages)


def test_seeds_and_splits_give_different_documents() -> None:
    texts = {" ".join(w.text for p in d.pages for w in p.words) for d in many(150)}
    assert len(texts) == 300


def test_scanning_changes_pictures_and_boxes_but_no_text() -> None:
    plain, scan = (make_document(5, "train", kind="letter", pages=1, scan=scan) for scan in (False, True))
    assert [w.text for w in plain.pages[0].words] == [w.text for w in scan.pages[0].words]
    assert plain.pages[0].angle == 0
    assert not np.array_equal(plain.pages[0].image, scan.pages[0].image)  # type: ignore[arg-type]


def test_words_and_evidence_turn_with_the_page() -> None:
    pairs = [
        [make_document(s, "train", kind="letter", render=False, scan=scan) for scan in (False, True)] for s in range(6)
    ]
    assert any(page.angle for _, scan in pairs for page in scan.pages)
    for plain, scan in pairs:
        for before, after in zip(plain.pages, scan.pages, strict=True):
            boxes = [turned(w.box, after.angle, before.width, before.height) for w in before.words]
            assert [w.box for w in after.words] == boxes
        for question, same in zip(plain.questions, scan.questions, strict=True):
            for (page, box), region in zip(question.evidence, same.evidence, strict=True):
                sheet = scan.pages[page]
                assert region.box == turned(box, sheet.angle, sheet.width, sheet.height)


# Apart


def test_splits_share_neither_fonts_nor_templates() -> None:
    train, held = ({f.name for f in FAMILIES[s]} for s in SPLITS)
    assert not train & held
    for kind in KINDS:
        assert not TEMPLATES[kind]["train"].keys() & TEMPLATES[kind]["held_out"].keys()
    for document in many(150):
        assert set(document.fonts) <= {f.name for f in FAMILIES[document.split]}
        assert document.template in TEMPLATES[document.kind][document.split]


def test_part_of_the_wording_is_held_out() -> None:
    for group, known in KNOWN["train"].items():
        for key, field in known.items():
            held = KNOWN["held_out"][group][key]
            assert held.labels
            assert held.asks
            if held.labels != field.labels:
                assert not set(held.labels[:-1]) & set(field.labels)  # the last is the one they share
    train, held = ({q.text for d in many(150) if d.split == s for q in d.questions} for s in SPLITS)
    assert 0 < len(train & held) < 0.06 * len(held)


# Exact


@pytest.mark.parametrize("family", [f for s in SPLITS for f in FAMILIES[s]], ids=lambda f: f.name)
def test_measures_are_the_ink_that_is_drawn(family: Family) -> None:
    for size in (8, 11, 16, 31):
        for bold, italic in ((False, False), (True, False), (False, True)):
            face = Face(family, size, bold, italic)
            for word in ("Total:", "AVAToj", "1,234.50", "€7", "f.fi", "Ty,", "-", "q'l"):
                page = Image.new("L", (400, 90), 0)
                ImageDraw.Draw(page).text((50, 20), word, 255, font(face))
                advance, (x0, y0, x1, y1) = measure(face, word)
                assert page.getbbox() == (50 + x0, 20 + y0, 50 + x1, 20 + y1), (face, word)
                assert advance == font(face).getlength(word)


@pytest.mark.parametrize(("kind", "split"), CASES)
def test_boxes_hold_exactly_the_ink_of_their_word(kind: str, split: str) -> None:
    """Words drawn alone on white, as on the page: what is dark is what the boxes say."""
    draft = laid_out(3, split, kind)
    for sheet in draft.sheets:
        texts = [m for m in sheet.marks if hasattr(m, "face")]
        assert [m.text for m in texts] == [w.text for w in sheet.words]
        for mark, word in list(zip(texts, sheet.words, strict=True))[::7]:
            alone = Sheet(0, sheet.width, sheet.height, sheet.dpi, [mark._replace(colour=(0, 0, 0))])
            rows, columns = np.nonzero(drawn(alone)[:, :, 0] < 255)
            assert word.box == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1), word


def laid_out(seed: int, split: str, kind: str) -> Draft:
    draft = new_draft(np.random.default_rng(seed), split, kind, 1)  # type: ignore[arg-type]
    next(iter(TEMPLATES[kind][split].values()))(draft)  # type: ignore[index]
    draft.finish()
    return draft


@settings(max_examples=25)
@given(st.floats(-1, 1), st.integers(20, 500), st.integers(20, 700))
def test_a_turned_box_holds_the_turned_ink(angle: float, x: int, y: int) -> None:
    picture = np.full((800, 600, 3), 255, np.uint8)
    picture[y : y + 12, x : x + 60] = 0
    box = (float(x), float(y), float(min(x + 60, 600)), float(min(y + 12, 800)))
    rows, columns = np.nonzero(scanned(picture, Scan(angle=angle))[:, :, 0] < 128)
    x0, y0, x1, y1 = turned(box, angle, 600, 800)
    assert (columns.min(), columns.max() + 1) == (pytest.approx(x0, abs=1.5), pytest.approx(x1, abs=1.5))
    assert (rows.min(), rows.max() + 1) == (pytest.approx(y0, abs=1.5), pytest.approx(y1, abs=1.5))


def test_a_clean_scan_is_the_picture_itself() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    assert scanned(picture, CLEAN) is picture
    assert not np.array_equal(scanned(picture, Scan(noise=5.0)), picture)
    grey = scanned(picture, Scan(grey=True))
    assert (grey == grey[:, :, :1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_words_lie_on_the_page_and_not_on_each_other(kind: str) -> None:
    for document in many(4, kind=kind, pages=2, scan=False):
        for page in document.pages:
            boxes = np.array([w.box for w in page.words])
            assert (boxes[:, :2] >= 0).all()
            assert (boxes[:, 2] <= page.width).all()
            assert (boxes[:, 3] <= page.height).all()
            assert (boxes[:, 2:] > boxes[:, :2]).all()
            low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
            high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
            common = np.clip(high - low, 0, None).prod(axis=2)
            np.fill_diagonal(common, 0)
            area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
            assert (common / np.minimum(area[:, None], area[None, :])).max() < 0.3  # italics may touch


@pytest.mark.parametrize("kind", KINDS)
def test_the_evidence_spells_the_answer(kind: str) -> None:
    for document in many(6, kind=kind, scan=False):
        for question in document.questions:
            if question.answers:
                assert spelled(document, question), question


def spelled(document: GeneratedDocument, question: Question) -> bool:
    inside = Counter(
        word.text.strip(".,")
        for page, (x0, y0, x1, y1) in question.evidence
        for word in document.pages[page].words
        if word.box[0] >= x0 and word.box[1] >= y0 and word.box[2] <= x1 and word.box[3] <= y1
    )
    return any(not Counter(t.strip(".,") for t in a.split()) - inside for a in question.answers)


def test_lines_and_blocks_count_in_reading_order() -> None:
    for document in many(150)[:60]:
        for page in document.pages:
            lines = [w.line for w in page.words]
            assert lines == sorted(lines)
            assert lines[0] == 0
            tops: dict[int, list[float]] = {}
            for word in page.words:
                tops.setdefault(word.line, []).append(word.box[3])
            assert all(max(v) - min(v) < 60 for v in tops.values())


# Unambiguous


def ambiguous(sections: tuple[str, str], on_two_pages: bool) -> Draft:
    """A draft with one field twice, with different values."""
    draft = new_draft(np.random.default_rng(0), "train", "form", 2)
    for index, section in enumerate(sections):
        if index == 0 or on_two_pages:
            draft.new_sheet()
        draft.section = section
        span, _ = draft.sheet.text(50, 100 + 200 * index, f"value{index}", draft.look.face())
        draft.fact(
            "key", ("date of birth",), ("When was the person born?",), (f"value{index}",), (span,), "value", "date"
        )
    return draft


def test_what_stands_twice_is_asked_for_by_section_or_page() -> None:
    draft = ambiguous(("section Buyer", "section Seller"), on_two_pages=True)
    for seed in range(40):
        for question in questions(draft, np.random.default_rng(seed), 3, 0.0):
            asked = question.text.lower()
            for index, words in enumerate((("buyer", "page 1"), ("seller", "page 2"))):
                if f"value{index}" in question.answers[0]:
                    assert any(w in asked for w in words), question
            assert "1 asked for alike" in question.note


def test_a_phrase_that_a_line_break_parts_is_a_region_a_line() -> None:
    draft = new_draft(np.random.default_rng(0), "train", "letter", 1)
    draft.new_sheet()
    face = draft.look.face()
    span, _ = draft.sheet.text(100, 100, "one two\nthree four", face)
    words = [w.box for w in draft.sheet.words]
    draft.fact("f", ("phrase",), (), ("two three",), (span.__class__(0, 1, 3),), "sentence")
    draft.fact("g", ("block",), (), ("one two three four",), (span,), "address")
    made = {q.kind: q for s in range(9) for q in questions(draft, np.random.default_rng(s), 2, 0.0)}
    assert [r.box for r in made["sentence"].evidence] == [words[1], words[2]]
    assert made["address"].evidence == (Region(0, union(words)),)


def test_what_nothing_tells_apart_is_not_asked() -> None:
    draft = ambiguous(("", ""), on_two_pages=False)
    assert not [q for s in range(20) for q in questions(draft, np.random.default_rng(s), 4, 0.0)]


def test_no_question_of_a_document_has_two_answers() -> None:
    for document in many(150):
        texts = [re.sub(r"\W+", " ", q.text.lower()).strip() for q in document.questions]
        assert len(set(texts)) == len(texts)
