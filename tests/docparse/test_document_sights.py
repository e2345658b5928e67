"""What has no words: found in the pixels, asked for in words, answered through captions and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reportlab.pdfgen.canvas import Canvas

from backbone.errors import ConfigError, DataError
from docparse.benchmarks import load_benchmark, of_kinds
from docparse.config import DocparseConfig
from docparse.documents import Page, Sight, Sights, Word, open_document
from docparse.documents.ink import find_sights
from docparse.fields.words import read_words
from docparse.generator import make_document
from docparse.generator.writing import write_documents
from docparse.pipeline import NOT_HERE, NOT_LOOKED, DocumentReader
from docparse.sights.beside import speakers
from docparse.sights.law import pages_to_see, sight_law, things_of
from docparse.sights.wish import wish_of
from tests.docparse.making_documents import changed, pdf, write
from tests.docparse.reading import LettersEmbedder
from tests.docparse.untrained import EMBEDDER, untrained_reader

NO_WORDS = np.zeros((0, 4))
A5 = (400.0, 560.0)


def iou(a: Any, b: Any) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared = float(np.prod(np.clip(np.subtract(high, low), 0, None)))
    area = [float(np.prod(np.subtract(box[2:], box[:2]))) for box in (a, b)]
    return shared / (sum(area) - shared)


def paper(width: int = 900, height: int = 1200, level: int = 255) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full((height, width, 3), level, np.uint8)


# ink --------------------------------------------------------------------------------------------------------------


def test_an_empty_page_and_a_page_of_words_show_nothing() -> None:
    assert find_sights(paper(), NO_WORDS)[0] == []
    image = paper()
    image[100:120, 100:400] = 0  # a line of text, and the box of its word around it
    assert find_sights(image, np.array([[98, 98, 402, 122]], float))[0] == []


def test_a_photograph_is_told_from_a_coloured_area() -> None:
    rng = np.random.default_rng(0)
    image = paper()
    coarse = rng.integers(20, 200, (30, 40, 3), np.uint8)
    image[300:600, 200:600] = np.kron(coarse, np.ones((10, 10, 1), np.uint8))
    image[800:1000, 200:600] = (70, 110, 190)
    (found,), _ = find_sights(image, NO_WORDS)
    assert found.look == "photograph"
    assert iou(found.box, (200, 300, 600, 600)) > 0.97


@pytest.mark.parametrize("shade", [0.0, 40.0])
def test_boxes_keep_their_place_on_large_and_on_shaded_pages(shade: float) -> None:
    image = paper(1800, 2400)
    for x in (400, 700):
        image[1000:1030, x : x + 30] = 0
        image[1004:1026, x + 4 : x + 26] = 255
    image = np.clip(image - shade * np.linspace(1, 0, 1800)[None, :, None] ** 3, 0, 255).astype(np.uint8)
    words = np.array([[440, 1000, 520, 1030], [740, 1000, 820, 1030]], float)
    found, _ = find_sights(image, words)
    assert [s.look for s in found] == ["box", "box"]
    for sight, x in zip(sorted(found, key=lambda s: s.box), (400, 700), strict=True):
        assert iou(sight.box, (x, 1000, x + 30, 1030)) > 0.75


def test_rules_are_no_sights_and_are_told_apart_from_a_drawing() -> None:
    image = paper()
    image[200:202, 100:800] = 0
    found, rules = find_sights(image, NO_WORDS)
    assert found == []
    assert len(rules) == 1
    assert iou(rules[0], (100, 200, 800, 202)) > 0.5
    for y in (400, 700):
        image[y : y + 3, 100:500] = 0
    for x in (100, 300, 500):
        image[400:703, x : x + 3] = 0
    (drawing,), _ = find_sights(image, NO_WORDS)
    assert drawing.look == "drawing"
    assert iou(drawing.box, (100, 400, 503, 703)) > 0.95


def test_a_ruled_table_with_words_is_no_drawing() -> None:
    image, words = paper(), []
    for y in (400, 450, 500, 550):
        image[y : y + 2, 100:700] = 0
    for x in (100, 300, 500, 700):
        image[400:552, x : x + 2] = 0
    for y in (415, 465, 515):
        for x in (110, 310, 510):
            image[y : y + 18, x : x + 90] = 0
            words.append((x, y, x + 90, y + 18))
    assert find_sights(image, np.array(words, float))[0] == []
    assert [s.look for s in find_sights(image[:, :, :], NO_WORDS)[0]] != []  # it is the words that tell


@pytest.mark.parametrize("kind", ["report", "letter", "form", "slides"])
def test_most_of_what_generated_pages_show_is_found(kind: str) -> None:
    scores = []
    for seed in range(30):
        if len(scores) >= 3:
            break
        document = make_document(seed, "train", kind=kind, pages=1, sights=True, unanswerable=0.0)
        for question in document.questions:
            if question.kind in ("signature", "stamp", "box", "picture"):
                page = document.pages[question.evidence[0].page]
                found, _ = find_sights(page.image, np.array([w.box for w in page.words]))  # type: ignore[arg-type]
                scores.append(max((iou(s.box, question.evidence[0].box) for s in found), default=0.0))
    assert len(scores) >= 3
    assert np.mean(np.array(scores) > 0.5) >= 0.7


def test_a_sight_needs_a_box() -> None:
    with pytest.raises(DataError, match="box must be finite"):
        Sight((3.0, 1.0, 3.0, 2.0), "stamp")
    half = Sights((Sight((2.0, 4.0, 6.0, 8.0), "stamp"),), np.array([[0.0, 2.0, 8.0, 3.0]])).scaled(0.5)
    assert half.found[0].box == (1.0, 2.0, 3.0, 4.0)
    np.testing.assert_array_equal(half.rules, [[0.0, 1.0, 4.0, 1.5]])


# wishes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "kind", "tokens", "page"),
    [
        ("Where is the signature?", "signature", (), None),
        ("Could you show me the signature on sheet 3", "signature", (), 2),
        ("Which figure shows the old bridge?", "figure", ("old", "bridge"), None),
        ("On page 2, find the chart of net sales.", "figure", ("net", "sales"), 1),
        ("Where is the east wing pictured?", "figure", ("east", "wing"), None),
        ("Where is Revenue shown in a chart?", "figure", ("revenue",), None),
        ("Locate the check box for renewal.", "box", ("renewal",), None),
        ("Where was it stamped?", "stamp", (), None),
        ("Which box stands for A?", "box", ("a",), None),
    ],
)
def test_questions_that_want_to_see(question: str, kind: str, tokens: tuple[str, ...], page: int | None) -> None:
    wish = wish_of(question)
    assert wish is not None
    assert (wish.kind, wish.tokens, wish.page) == (kind, tokens, page)


@pytest.mark.parametrize(
    "question",
    ['In the section "holder", which box stands for large?', "Which box stands for large in section Holder?"],
)
def test_the_section_a_question_names_is_no_part_of_what_is_looked_for(question: str) -> None:
    wish = wish_of(question)
    assert wish is not None
    assert (wish.tokens, wish.scope) == (("large",), ("holder",))


@pytest.mark.parametrize(
    "question",
    [
        "What is the date of the signature?",
        "Where is the date of signature?",
        "What is the signature date?",
        "Find the figure for 2019.",
        "What was the figure for EBIT in 2019?",
        "What figure is given for EBIT in 2020?",
        "Show me the stamp duty.",
        "Who signed the letter?",
        "Where is the company located?",
        "Which company issued the stamp?",
    ],
)
def test_questions_that_want_words(question: str) -> None:
    assert wish_of(question) is None


def test_generated_questions_without_sights_never_want_to_see() -> None:
    asked = [q for s in range(60) for q in make_document(s, "train", render=False).questions if q.kind != "figure"]
    assert [q.text for q in asked if wish_of(q.text)] == []
    shown = [q for s in range(60) for q in make_document(s, "held_out", render=False, sights=True).questions]
    shown = [q for q in shown if q.kind in ("picture", "signature", "stamp", "box")]
    assert len(shown) > 20
    assert all(wish_of(q.text) for q in shown)


# law --------------------------------------------------------------------------------------------------------------


def word(text: str, x: float, y: float, line: int, block: int = 0) -> Word:
    return Word(text, (x, y, x + 9 * len(text), y + 16), line, block)


def two_figures() -> tuple[Any, dict[int, Sights]]:
    """Two photographs in a column, each with its caption below; the first caption is also near the second picture."""
    rows = [("Photo 1: harbour wall", 330), ("Photo 2: brass valve", 630)]
    words = []
    for line, (text, y) in enumerate(rows):
        x = 100.0
        for part in text.split():
            words.append(word(part, x, y, line, line))
            x += 9 * len(part) + 6
    page = Page(0, 800, 1000, None, tuple(words), "text layer")
    found = (Sight((0.1, 0.1, 0.4, 0.32), "photograph"), Sight((0.1, 0.36, 0.4, 0.62), "photograph"))
    return read_words([page], LettersEmbedder()), {0: Sights(found, np.zeros((0, 4)))}


def law_of(question: str, words: Any, sights: dict[int, Sights], mass: Any = None) -> Any:
    wish = wish_of(question)
    assert wish is not None
    mass = np.zeros(len(words)) if mass is None else mass
    return sight_law(words, things_of(words, sights, wish), wish, mass, LettersEmbedder())


@pytest.mark.parametrize(("question", "best"), [("harbour wall", 0), ("brass valve", 1)])
def test_the_caption_says_which_figure_is_meant(question: str, best: int) -> None:
    words, sights = two_figures()
    law = law_of(f"Which photo shows the {question}?", words, sights)
    assert law.best == best
    assert law.convinced
    assert law.law.sum() == pytest.approx(1)
    assert law.law[best] > 0.9
    caption = [words.texts[i] for i in law.things[best].words.caption]
    assert caption[:2] == ["Photo", f"{best + 1}:"]
    assert law.things[best].box[3] == pytest.approx((346, 646)[best] / 1000)  # down to the caption's foot


def test_what_no_caption_says_is_not_believed_unless_the_flow_heard_it() -> None:
    words, sights = two_figures()
    assert not law_of("Which photo shows the moon?", words, sights).convinced
    mass = np.zeros(len(words))
    mass[list(words.texts).index("brass")] = 0.9
    law = law_of("Which photo shows the moon?", words, sights, mass)
    assert law.convinced
    assert law.best == 1


def test_a_look_that_does_not_fit_is_left_out() -> None:
    words, sights = two_figures()
    assert law_of("Where is the check box for valve?", words, sights).things == ()
    assert not law_of("Where is the check box for valve?", words, sights).convinced


def test_a_box_is_spoken_for_by_the_words_behind_it_up_to_the_next() -> None:
    texts = [("new", 130), ("licence", 163), ("renewal", 330)]
    page = Page(0, 800, 1000, None, tuple(word(t, x, 500, 0) for t, x in texts), "text layer")
    words = read_words([page], LettersEmbedder())
    boxes = np.array([[0.1, 0.5, 0.116, 0.516], [0.3, 0.5, 0.316, 0.516]])
    first, second = speakers(words, 0, boxes, "box")
    assert [words.texts[i] for i in first.caption] == ["new", "licence"]
    assert [words.texts[i] for i in second.caption] == ["renewal"]


@pytest.mark.parametrize(("section", "best"), [("tenant", 0), ("landlord", 1)])
def test_of_two_boxes_with_one_label_the_named_section_has_it(section: str, best: int) -> None:
    words = []
    for line, (heading, y) in enumerate((("Tenant", 100), ("Landlord", 300))):
        words.append(Word(heading, (100.0, y, 100.0 + 16 * len(heading), y + 32.0), 2 * line, 2 * line))
        words.append(word("large", 130, y + 60, 2 * line + 1, 2 * line + 1))
    page = Page(0, 800, 1000, None, tuple(words), "text layer")
    boxes = (Sight((0.1, 0.16, 0.116, 0.176), "box"), Sight((0.1, 0.36, 0.116, 0.376), "box"))
    found = {0: Sights(boxes, np.zeros((0, 4)))}
    law = law_of(f"Which box stands for large in section {section}?", read_words([page], LettersEmbedder()), found)
    assert law.best == best
    assert law.law[best] > 0.8


def test_of_a_long_document_only_some_pages_are_looked_at() -> None:
    pages = [Page(i, 800, 1000, None, (word("plain", 100, 100, 0),), "text layer") for i in range(40)]
    pages[33] = Page(33, 800, 1000, None, (word("lighthouse", 100, 100, 0),), "text layer")
    words = read_words(pages, LettersEmbedder())
    wish = wish_of("Which photo shows the lighthouse?")
    assert wish is not None
    chosen = pages_to_see(words, wish, np.zeros(len(words)), LettersEmbedder())
    assert 33 in chosen
    assert len(chosen) == 12
    assert chosen == sorted(chosen)
    named = wish_of("Which photo on page 7 shows the lighthouse?")
    assert named is not None
    assert pages_to_see(words, named, np.zeros(len(words)), LettersEmbedder()) == [6]


# from a file ------------------------------------------------------------------------------------------------------


def form(canvas: Canvas) -> None:
    """A text, a crossed square with its label, and a signature above a line."""
    write(canvas, "Lease of the garden house", 40, 500, 16)
    write(canvas, "The rent is due on the third of each month.", 40, 460)
    canvas.rect(40, 400, 9, 9)
    write(canvas, "renewal", 54, 400)
    canvas.rect(140, 400, 9, 9)
    write(canvas, "cancellation", 154, 400)
    canvas.setLineWidth(1.2)
    path = canvas.beginPath()
    path.moveTo(60, 120)
    for i in range(1, 60):
        path.lineTo(60 + i * 1.5 + 4 * np.sin(i), 120 + 9 * np.sin(i * 0.9))
    canvas.drawPath(path)
    canvas.line(40, 100, 200, 100)
    write(canvas, "Signature of the tenant", 40, 85, 9)


@pytest.fixture(scope="module")
def reader() -> DocumentReader:
    return untrained_reader()


@pytest.mark.parametrize("turned", [0, 90])
def test_a_signature_is_found_where_it_stands(reader: DocumentReader, turned: int) -> None:
    data = changed(pdf(form, size=A5), rotate=turned)
    with open_document(data) as document:
        session = reader.session(document)
        answer = session.ask("Where is the signature?")
        page = session.pages[0]
    assert answer.found
    (evidence,) = answer.evidence
    left, bottom, right, top = page.points(evidence.box.corners)
    assert iou((left, bottom, right, top), (56, 110, 153, 130)) > 0.6
    assert answer.steps[-1].name == "pictures"
    assert answer.steps[-1].mass.sum() == pytest.approx(1)
    assert answer.ledger.stages[-1].name == "sights"
    assert 0 < answer.confidence <= 1
    if not turned:
        assert "Signature" in answer.text


def test_the_box_of_a_choice_is_the_one_before_its_word(reader: DocumentReader) -> None:
    with open_document(pdf(form, size=A5)) as document:
        session = reader.session(document)
        answer = session.ask("Where is the check box for cancellation?")
        left, bottom, *_ = session.pages[0].points(answer.evidence[0].box.corners)
    assert answer.text == "cancellation"
    assert (left, bottom) == pytest.approx((140, 400), abs=2)


def test_a_page_without_any_word_still_shows_what_it_shows(reader: DocumentReader) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.circle(200, 200, 60)
        canvas.line(140, 200, 260, 260)

    with open_document(pdf(draw, size=A5)) as document:
        session = reader.session(document)
        drawing = session.ask("Where is the drawing?")
        assert (drawing.found, drawing.text) == (True, "drawing without a caption")
        assert not session.ask("What is the total?").found
        assert session.ask("What is the total?").text == NOT_HERE


def test_a_closed_document_answers_from_words_and_says_so(reader: DocumentReader) -> None:
    with open_document(pdf(form, size=A5)) as document:
        session = reader.session(document)
    answer = session.ask("Where is the signature?")
    assert any("closed" in note and "page 1 was not looked at" in note for note in answer.notes)
    assert answer.steps[-1].name != "pictures"
    words_alone = type(session)(reader, session.pages, session.words, session.reading, ())
    assert NOT_LOOKED in words_alone.ask("Where is the signature?").notes


def test_sights_can_be_switched_off() -> None:
    blind = untrained_reader(config=DocparseConfig(sights=False))
    with open_document(pdf(form, size=A5)) as document:
        answer = blind.session(document).ask("Where is the signature?")
    assert [step.name for step in answer.steps][-1] == "words"
    assert "sights" not in [stage.name for stage in answer.ledger.stages]


def test_sights_are_found_once_and_refused_after_closing() -> None:
    with open_document(pdf(form, size=A5)) as document:
        first = document.sights(0)
        assert document.sights(0) is first
        with pytest.raises(DataError, match="no page 2"):
            document.sights(1)
    with pytest.raises(DataError, match="closed"):
        document.sights(0)


def test_kinds_of_a_benchmark_are_chosen_and_unknown_ones_refused(tmp_path: Any) -> None:
    made = [make_document(seed, "held_out", kind="letter", pages=1, sights=True) for seed in range(2)]
    write_documents(made, tmp_path, pdf=False)
    whole = load_benchmark("generated", tmp_path)
    kinds = {item.kind for item in whole.items}
    assert "signature" in kinds
    chosen = of_kinds(whole, ["signature"])
    assert {item.kind for item in chosen.items} == {"signature"}
    assert chosen.expected == len(chosen.items) == sum(item.kind == "signature" for item in whole.items)
    assert of_kinds(whole, ()) is whole
    with pytest.raises(ConfigError, match="no question of kind 'chart'"):
        of_kinds(whole, ["chart"])


def test_the_embedder_of_the_reader_is_used_for_captions(reader: DocumentReader) -> None:
    """A caption that says it in another number of the word still speaks for its picture."""
    _, sights = two_figures()
    wish = wish_of("Which photo shows the valves?")
    assert wish is not None
    real = read_words(
        [Page(0, 800, 1000, None, (word("Photo", 100, 330, 0), word("valve", 160, 330, 0)), "text layer")], EMBEDDER
    )
    law = sight_law(
        real, things_of(real, {0: Sights(sights[0].found[:1], np.zeros((0, 4)))}, wish), wish, np.zeros(2), EMBEDDER
    )
    assert law.convinced
