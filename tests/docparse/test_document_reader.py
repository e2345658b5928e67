"""Questions to documents from end to end: sessions that do not meet, partial documents, turned pages, strange text."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter

from backbone.contracts import Stage
from backbone.errors import CancelledError, ConfigError, DataError, ModelError
from docparse.documents import Document, Limits, Page, Word, open_document
from docparse.fields.words import read_words
from docparse.pipeline import NOT_HERE, DocumentAnswer, DocumentReader, DocumentSession
from docparse.question import MAX_QUESTION, check_question
from tests.docparse.making_documents import Drawn, changed, file_of, pdf, picture_of, scan_of, write
from tests.docparse.untrained import EMBEDDER, untrained_folder, untrained_reader

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "What is the total amount?"
LINES = (("Invoice number 4711", 40, 250), ("Total amount $12.50", 40, 200), ("Payable by 3 May 2026", 200, 60))


@pytest.fixture(scope="module")
def reader() -> DocumentReader:
    return untrained_reader()


def lines_pdf(lines: Sequence[tuple[str, float, float]] = LINES, pages: int = 1) -> bytes:
    return pdf(lambda canvas: [write(canvas, *line) for line in lines] and None, pages)


def ask(reader: DocumentReader, data: bytes, question: str = QUESTION, **options: Any) -> DocumentAnswer:
    with open_document(data, **options) as document:
        return reader.session(document).ask(question)


def same(a: DocumentAnswer, b: DocumentAnswer) -> None:
    """Equal to the last bit, times apart."""
    one, other = a.to_dict(), b.to_dict()
    one.pop("ledger")
    other.pop("ledger")
    assert one == other
    for left, right in zip(a.steps, b.steps, strict=True):
        for name in ("pages", "boxes", "mass"):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


def session_of(
    reader: DocumentReader, pages: Sequence[Sequence[Word]], size: tuple[int, int] = (800, 1000)
) -> DocumentSession:
    """A session over words that no file has to hold."""
    made = [Page(i, *size, None, tuple(words), "text layer") for i, words in enumerate(pages)]
    return DocumentSession(reader, made, read_words(made, EMBEDDER), Stage("pages"), ())


def row(texts: Sequence[str], y: float = 100, line: int = 0, width: float = 60) -> list[Word]:
    return [Word(text, (20 + i * width, y, 20 + (i + 0.8) * width, y + 14), line, line) for i, text in enumerate(texts)]


def check_laws(answer: DocumentAnswer, session: DocumentSession) -> None:
    json.dumps(answer.to_dict(), allow_nan=False)
    for step in answer.steps:
        assert np.isfinite(step.mass).all()
        assert (step.mass >= 0).all()
        assert step.mass.sum() == pytest.approx(1, abs=1e-5)
        assert 0 <= step.dropped < 1
        sizes = np.array([(page.width, page.height) for page in session.pages])[step.pages]
        assert (step.boxes[:, :2] >= -1e-3).all()
        assert (step.boxes[:, 2:] <= sizes + 1e-2 * sizes.max()).all()


# sessions ----------------------------------------------------------------------------------------------------------


def test_interleaved_sessions_give_what_each_gives_alone(reader: DocumentReader) -> None:
    files = [lines_pdf(), lines_pdf([("Rent 900 euro a month", 60, 220), ("Deposit 2700 euro", 60, 120)], pages=3)]
    questions = (QUESTION, "How much is the deposit?", "When is it payable?")
    alone = [[ask(reader, data, question) for question in questions] for data in files]
    with open_document(files[0]) as first, open_document(files[1]) as second:
        sessions = [reader.session(first), reader.session(second)]
        for number, question in enumerate(questions):
            for which in (1, 0):
                same(sessions[which].ask(question), alone[which][number])
        same(sessions[0].ask(questions[0]), alone[0][0])


def test_sessions_in_threads_do_not_meet(reader: DocumentReader) -> None:
    files = [lines_pdf(pages=n) for n in (1, 2)]
    alone = [ask(reader, data) for data in files]
    got: dict[int, list[DocumentAnswer]] = {0: [], 1: []}

    def work(which: int) -> None:
        with open_document(files[which]) as document:
            session = reader.session(document)
            got[which] = [session.ask(QUESTION) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(which,)) for which in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for which, answers in got.items():
        assert len(answers) == 3
        for answer in answers:
            same(answer, alone[which])


def test_a_saved_reader_answers_as_before(reader: DocumentReader, tmp_path: Any) -> None:
    loaded = DocumentReader.load(untrained_folder(tmp_path))
    a, b = ask(reader, lines_pdf()), ask(loaded, lines_pdf())
    assert a.text == b.text
    np.testing.assert_allclose(a.steps[-1].mass, b.steps[-1].mass, atol=5e-3)  # weights are stored as float16
    with pytest.raises(ModelError, match="holds no reader"):
        DocumentReader.load(tmp_path / "nowhere")


def test_the_flow_goes_from_cells_to_words_and_keeps_its_mass(reader: DocumentReader) -> None:
    with open_document(lines_pdf(pages=2)) as document:
        session = reader.session(document)
        answer = session.ask(QUESTION)
    assert [step.name for step in answer.steps] == ["8 cells a side", "16 cells a side", "32 cells a side", "words"]
    check_laws(answer, session)
    areas = [float(np.prod(step.boxes[:, 2:] - step.boxes[:, :2], 1).mean()) for step in answer.steps[:3]]
    np.testing.assert_allclose(np.divide(areas[:-1], areas[1:]), 4, rtol=0.01)
    assert [step.boxes.shape for step in answer.steps] == [(len(step.mass), 4) for step in answer.steps]
    assert answer.ledger.total().forward_passes == 4
    assert [stage.name for stage in answer.ledger.stages] == ["pages", "fields", "flow", "answer"]
    assert sum(entry.mass for entry in answer.evidence) <= 1 + 1e-6


# documents in every condition ---------------------------------------------------------------------------------------


def test_a_document_without_words_holds_no_answer(reader: DocumentReader) -> None:
    answer = ask(reader, pdf(lambda canvas: None, pages=3))
    assert (answer.found, answer.text, answer.evidence, answer.steps) == (False, NOT_HERE, (), ())
    assert any("no words" in note for note in answer.notes)
    white = file_of(Image.new("RGB", (300, 200), "white"), "PNG")
    assert not ask(reader, white).found


def test_not_settled_is_no_answer_whatever_the_mass() -> None:
    answer = ask(untrained_reader(found=False), lines_pdf())
    assert (answer.found, answer.text, answer.evidence) == (False, NOT_HERE, ())
    assert len(answer.steps) == 4
    assert answer.confidence > 0.99


def test_a_scanned_page_among_others_is_read_and_said(reader: DocumentReader) -> None:
    image, drawn = picture_of(["Total amount $12.50"])
    writer = PdfWriter()
    for data in (lines_pdf(), scan_of(image)):
        for page in PdfReader(io.BytesIO(data)).pages:
            writer.add_page(page)
    buffer = io.BytesIO()
    writer.write(buffer)
    with open_document(buffer.getvalue(), Limits(page_seconds=300)) as document:  # also on a machine that is busy
        session = reader.session(document)
    assert [page.source for page in session.pages] == ["text layer", "ocr"]
    answer = session.ask(QUESTION)
    assert "text of 1 of 2 pages was read by OCR" in answer.notes
    check_laws(answer, session)
    words = answer.steps[-1]
    on_scan = words.boxes[words.pages == 1]
    scale = session.pages[1].width / image.width
    for _, (x0, y0, x1, y1) in drawn:
        centre = scale * (x0 + x1) / 2, scale * (y0 + y1) / 2
        inside = (on_scan[:, :2] <= centre).all(1) & (on_scan[:, 2:] >= centre).all(1)
        assert inside.sum() <= 1
    assert len(on_scan) >= 1


def test_pages_that_fail_are_noted_and_the_others_answer(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Document.page

    def page(self: Document, index: int, picture: bool = True) -> Page:
        if index in broken:
            return Page(index, 8, 8, None, (), "none", error="the page is damaged")
        return honest(self, index, picture)

    monkeypatch.setattr(Document, "page", page)
    broken = {1}
    answer = ask(reader, lines_pdf(pages=3))
    assert answer.found
    assert "page 2: the page is damaged" in answer.notes
    assert all(entry.page != 1 for entry in answer.evidence)
    broken = {0, 1, 2}
    with pytest.raises(DataError, match="no page could be read; page 1: the page is damaged"):
        ask(reader, lines_pdf(pages=3))


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_boxes_of_turned_pages_lead_back_to_the_words_of_the_file(reader: DocumentReader, turn: int) -> None:
    drawn: list[Drawn] = []
    data = pdf(lambda canvas: [drawn.extend(write(canvas, *line)) for line in LINES] and None)
    with open_document(changed(data, rotate=turn)) as document:
        session = reader.session(document)
        answer = session.ask(QUESTION)
        page = document.page(0, picture=False)
    assert (page.width > page.height) == (turn in (0, 180))
    assert answer.evidence
    for entry in answer.evidence:
        left, bottom, right, top = page.points(entry.box.corners)
        told = entry.text.split()
        found = [word for word in drawn if left - 2 <= (word.left + word.right) / 2 <= right + 2
                 and bottom - 3 <= word.baseline + word.size / 4 <= top + 3]  # fmt: skip
        assert sorted(word.text for word in found) == sorted(told)
        assert left == pytest.approx(min(word.left for word in found), abs=2)
        assert right == pytest.approx(max(word.right for word in found), abs=3)


# stopping -----------------------------------------------------------------------------------------------------------


def test_reading_is_told_page_by_page_and_stops(reader: DocumentReader) -> None:
    stop, seen = threading.Event(), []

    def on_page(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 2:
            stop.set()

    with open_document(lines_pdf(pages=5)) as document, pytest.raises(CancelledError, match="after 2 of 5 pages"):
        reader.session(document, on_page=on_page, cancel=stop)
    assert seen == [(1, 5), (2, 5)]


def test_asking_stops(reader: DocumentReader) -> None:
    stop = threading.Event()
    with open_document(lines_pdf()) as document:
        session = reader.session(document)
    stop.set()
    with pytest.raises(CancelledError):
        session.ask(QUESTION, cancel=stop)
    assert session.ask(QUESTION).steps, "a stopped question spoils the session"


# questions and texts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("", "1 to 1000"),
        (" \n\t", "1 to 1000"),
        ("a" * (MAX_QUESTION + 1), "1 to 1000"),
        ("?!", "no words"),
        ("🙂", "no words"),
    ],
)
def test_what_is_no_question_is_refused(reader: DocumentReader, question: str, words: str) -> None:
    session = session_of(reader, [row(["Total", "12.50"])])
    for check in (check_question, session.ask):
        with pytest.raises(ConfigError, match=words):
            check(question)


@pytest.mark.parametrize(
    "question", ["a", "x " * 500, "What is the 🙂 total?", "מה הסכום הכולל?", "is it", "a\0b\u202ec"]
)
def test_any_other_question_gets_an_answer(reader: DocumentReader, question: str) -> None:
    session = session_of(reader, [row(["Total", "12.50"]), row(["Other", "page"])])
    check_laws(session.ask(question), session)


STRANGE = {
    "emoji": row(["🙂", "👩‍👩‍👧", "Total", "💶", "12"]),
    "right to left": row(["סכום", "לתשלום", "١٢٫٥٠", "‏שקל"]),
    "one character": row(["x"]),
    "marks alone": row(["—", "...", "::", "|", "•"]),
    "controls": row(["\x00\x01", "\u202etotal", "a\u0301\u0301\u0301", "\ufeff"]),
    "one long word": row(["z" * 20_000]),
    "one place": [Word(f"w{i}", (100, 100, 100.5, 100.5), 0, 0) for i in range(30)],
    "the whole page": [Word("All", (0, 0, 800, 1000), 0, 0)],
    "hair lines": [Word("thin", (0, 500, 800, 500.001), 0, 0), Word("tall", (10, 0, 10.001, 1000), 1, 1)],
}


@pytest.mark.parametrize("kind", sorted(STRANGE))
def test_strange_text_gives_numbers(reader: DocumentReader, kind: str) -> None:
    session = session_of(reader, [STRANGE[kind]])
    answer = session.ask(QUESTION)
    check_laws(answer, session)
    assert answer.found
    assert answer.evidence[0].box.area > 0


def test_a_page_of_five_thousand_words(reader: DocumentReader) -> None:
    words = [word for line in range(250) for word in row([f"w{line}x{i}" for i in range(20)], 4 * line, line, width=38)]
    session = session_of(reader, [words])
    answer = session.ask("Which number has w17x3?")
    check_laws(answer, session)
    assert max(len(step.mass) for step in answer.steps) <= reader.config.flow.max_particles


def test_pages_without_words_between_others(reader: DocumentReader) -> None:
    session = session_of(reader, [[], row(["Total", "12.50"]), [], []])
    answer = session.ask(QUESTION)
    check_laws(answer, session)
    assert {entry.page for entry in answer.evidence} == {1}


def test_long_documents_start_coarser_and_still_end_on_words(reader: DocumentReader) -> None:
    session = session_of(reader, [row(["Sheet", str(i), "total", f"{i}.50"], y=100 + i) for i in range(200)])
    answer = session.ask("What is the total of sheet 117?")
    cells = int(answer.steps[0].name.split()[0])
    assert cells < 8
    assert 200 <= len(answer.steps[0].mass) <= reader.config.flow.max_particles
    assert answer.steps[-1].name == "words"
    check_laws(answer, session)
    short = session_of(reader, [row(["Total", "12.50"])])
    assert short.ask(QUESTION).steps[0].name == "8 cells a side", "a long document changed the reader's settings"


def test_a_document_larger_than_its_limit_says_so(reader: DocumentReader) -> None:
    answer = ask(reader, lines_pdf(pages=4), limits=Limits(pages=2))
    assert "only the first 2 of 4 pages are read" in answer.notes
    assert max(int(step.pages.max()) for step in answer.steps) == 1


@pytest.mark.slow
def test_time_and_memory_of_one_page_and_of_two_hundred() -> None:
    """Seconds of the processors, not by the clock, so that a busy machine does not decide."""
    command = [sys.executable, "-m", "tests.docparse.reader_speed", "--scan", "--times", "1"]
    done = subprocess.run(  # noqa: S603 - a module of these tests
        command, capture_output=True, text=True, check=True, timeout=900, cwd=ROOT
    )
    measured = json.loads(done.stdout)
    assert measured["one page"]["processor_seconds"] <= 2
    assert measured["one scanned page"]["source"] == "ocr"
    assert measured["one scanned page"]["processor_seconds"] <= 12, "6 s on two cores"
    assert measured["long"]["words"] == 200 * 45 * 8
    assert measured["long"]["processor_seconds"] <= 40
    assert int(measured["long"]["steps"][0].split()[0]) < 8
    assert measured["peak_megabytes"]["program"] <= 2000
