"""`fovea read`: what is printed, written and returned, and that everything that can be known early is said early."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from apps import cli
from apps.demo.documents_examples import document_examples
from assets import DOCPARSE, SAMPLES
from docparse import pipeline
from docparse.documents import open_document
from docparse.pipeline import NOT_HERE
from tests.docparse.making_documents import changed, file_of, pdf, picture_of, write
from tests.docparse.untrained import untrained_folder

QUESTION = "What is the total amount?"


def two_lines(canvas: Canvas) -> None:
    write(canvas, "Invoice number 4711", 40, 250)
    write(canvas, "Total amount $12.50", 40, 200)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_folder(tmp_path_factory.mktemp("found"))


@pytest.fixture(scope="module")
def denying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_folder(tmp_path_factory.mktemp("denying"), found=False)


@pytest.fixture
def invoice(tmp_path: Path) -> Path:
    path = tmp_path / "invoice.pdf"
    path.write_bytes(pdf(two_lines, pages=2))
    return path


def run(*words: object) -> int:
    return cli.main(["read", *map(str, words)])


def read_json(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    code = run(*words, "--json")
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return json.loads(printed.out)


def test_the_answer_stands_on_words_whose_boxes_have_pixels_and_points(
    invoice: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = read_json(capsys, invoice, QUESTION, "--weights", weights)
    assert record["found"] is True
    assert record["pages"] == {"in_document": 2, "read": 2, "failed": 0}
    assert 0 < record["confidence"] <= 1
    with open_document(invoice) as document:
        for entry in record["evidence"]:
            page = document.page(entry["page"] - 1, picture=False)
            inside = [w for w in page.words if entry["box"][0] <= (w.box[0] + w.box[2]) / 2 <= entry["box"][2]
                      and entry["box"][1] <= (w.box[1] + w.box[3]) / 2 <= entry["box"][3]]  # fmt: skip
            assert entry["text"] == " ".join(word.text for word in inside)
            np.testing.assert_allclose(page.pixels(tuple(entry["points"])), entry["box"], atol=0.05)
    assert [step["name"] for step in record["steps"]][-1] == "words"
    assert record["config"]["limits"]["pages"] == 200
    assert record["config"]["reader"]["flow"]["levels"] == [8, 16, 32, 64]


def test_for_people_it_prints_answer_evidence_cost_and_files(
    invoice: Path, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    assert run(invoice, QUESTION, "--weights", weights, "--output", folder) == 0
    printed = capsys.readouterr().out
    written = json.loads((folder / "answer.json").read_text())
    assert printed.startswith(written["answer"])
    for wanted in (f"confidence {written['confidence']:.2f}", "left, bottom", "flow", "answer.json", "flow.png"):
        assert wanted in printed
    assert sorted(written["files"]) == sorted(path.name for path in folder.iterdir())
    named = {f"page-{entry['page']}.png" for entry in written["evidence"]}
    assert named
    assert set(written["files"]) == {"answer.json", "flow.png", *named}
    strip = np.asarray(Image.open(folder / "flow.png"))
    assert strip.shape[1] > 4 * 300, "four steps side by side"


def test_pictures_show_the_boxes_of_their_page(
    invoice: Path, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = read_json(capsys, invoice, QUESTION, "--weights", weights, "--output", tmp_path / "out")
    number = record["evidence"][0]["page"]
    shown = np.asarray(Image.open(tmp_path / "out" / f"page-{number}.png").convert("RGB")).astype(int)
    x0, y0, x1, _ = record["evidence"][0]["box"]
    line = shown[round(y0) - 1, round(x0) + 20 : round(x1) - 5]  # the first box's upper edge
    assert np.abs(line - (213, 94, 0)).max() < 3


def test_not_in_the_document_is_a_result(
    invoice: Path, denying: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = read_json(capsys, invoice, QUESTION, "--weights", denying, "--output", tmp_path / "out")
    assert (record["found"], record["answer"], record["evidence"]) == (False, NOT_HERE, [])
    assert record["files"] == ["answer.json", "flow.png"], "where it looked is shown all the same"
    assert run(invoice, QUESTION, "--weights", denying) == 0
    assert capsys.readouterr().out.startswith(NOT_HERE)


def test_scans_and_pages_left_out_are_told(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, _ = picture_of(["Total amount $12.50"])
    path = tmp_path / "scan.tiff"
    path.write_bytes(file_of(image, "TIFF", save_all=True, append_images=[image]))
    record = read_json(capsys, path, QUESTION, "--weights", weights, "--pages", 1, "--page-seconds", 300)
    assert record["evidence"][0]["points"] is None
    assert "text of 1 of 1 pages was read by OCR" in record["notes"]
    assert "only the first 1 of 2 pages are read" in record["notes"]
    record = read_json(capsys, path, QUESTION, "--weights", weights, "--no-ocr")
    assert record["found"] is False
    assert any("no words" in note for note in record["notes"])


def test_a_password_is_taken_from_the_line_or_the_environment(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "locked.pdf"
    path.write_bytes(changed(pdf(two_lines), password="sesame"))  # noqa: S106 - a document made here
    monkeypatch.setenv("DOCUMENT_PASSWORD", "sesame")
    for given in (["--password", "sesame"], ["--password-env", "DOCUMENT_PASSWORD"]):
        record = read_json(capsys, path, QUESTION, "--weights", weights, *given)
        assert record["found"]
        assert "sesame" not in json.dumps(record)
    for given, words in ([], "password"), (["--password", "wrong"], "password"):
        assert run(path, QUESTION, "--weights", weights, *given) == cli.FAILED
        assert words in capsys.readouterr().err


def hostile() -> dict[str, bytes]:
    good = pdf(two_lines)
    return {
        "empty": b"",
        "cut short": good[:200],
        "only a header": b"%PDF-1.7\n%%EOF",
        "noise": b"%PDF-1.4\n" + bytes(range(256)) * 40,
        "no pages": b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[2 0 R]/Count 9>>"
        b"endobj trailer<</Root 1 0 R>>",
        "a page of the web": b"<!doctype html><title>Sign in</title>",
        "an office file": b"PK\x03\x04" + bytes(100),
        "text": b"just some words",
    }


@pytest.mark.parametrize("kind", sorted(hostile()))
def test_a_hostile_document_is_one_clear_line(
    kind: str, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hostile.pdf"
    path.write_bytes(hostile()[kind])
    assert run(path, QUESTION, "--weights", weights) == cli.FAILED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fovea: hostile.pdf: ")
    assert printed.err.count("\n") == 1
    assert "internal error" not in printed.err


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be loaded."""

    def refuse(*_: object) -> None:
        pytest.fail("the reader was loaded")

    monkeypatch.setattr(pipeline.DocumentReader, "load", refuse)


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ([QUESTION, "--pages", "0"], cli.USAGE, "pages must be at least 1"),
        ([QUESTION, "--page-seconds", "-1"], cli.USAGE, "page_seconds"),
        ([QUESTION, "--output", "INVOICE"], cli.USAGE, "is a file"),
        ([QUESTION, "--weights", "nowhere"], cli.USAGE, "holds no config.json"),
        ([QUESTION, "--password", "a", "--password-env", "B"], cli.USAGE, "exclude each other"),
        ([QUESTION, "--password-env", "NOT_SET_ANYWHERE"], cli.USAGE, "--password-env NOT_SET_ANYWHERE"),
        ([], cli.USAGE, "QUESTION"),
        (["  "], cli.USAGE, "1 to 1000 characters"),
        (["x " * 501], cli.USAGE, "1 to 1000 characters"),
        (["?!"], cli.USAGE, "has no words"),
    ],
)
def test_what_can_be_checked_early_is(
    given: list[str], code: int, words: str, invoice: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(invoice, *[str(invoice) if word == "INVOICE" else word for word in given]) == code
    assert words in capsys.readouterr().err


@pytest.mark.usefixtures("unloaded")
def test_a_missing_document_is_found_missing_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "none.pdf", QUESTION) == cli.FAILED
    assert "none.pdf: no such file" in capsys.readouterr().err


def test_weights_that_are_none_say_so(invoice: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert run(invoice, QUESTION, "--weights", tmp_path) == cli.FAILED
    assert "holds no reader" in capsys.readouterr().err


def test_progress_goes_over_the_pages(invoice: Path, weights: Path) -> None:
    from apps.commands.read import _progress
    from apps.output import Output
    from docparse.pipeline import DocumentReader

    seen = []
    with open_document(invoice) as document, _progress(Output(False, io.StringIO())) as on_page:
        reader = DocumentReader.load(weights)
        reader.session(document, on_page=lambda done, total: (seen.append((done, total)), on_page(done, total))[0])
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.skipif(not (DOCPARSE / "config.json").is_file(), reason="the reader's weights are not shipped yet")
def test_the_shipped_reader_answers_half_of_the_demos_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """The one test here that asks how good the trained weights are."""
    asked = [json.loads(line) for line in (SAMPLES / "document.jsonl").read_text("utf-8").splitlines()]
    answers = {entry["question"]: entry["answers"] for entry in asked}
    right = []
    with open_document(SAMPLES / "document.pdf") as document:
        session = pipeline.DocumentReader.load().session(document)
        for _, question in document_examples():
            answer = session.ask(question)
            right.append(answer.text in answers[question] if answer.found else not answers[question])
    assert sum(right) >= len(right) / 2, right
    first = document_examples()[0]
    assert read_json(capsys, *first)["question"] == first[1]
