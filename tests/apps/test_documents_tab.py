"""The Documents tab through its own interface: progress, views, cancelling, limits, and users who never meet."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image as PillowModule

pytest.importorskip("gradio", reason="the demo needs the extra 'demo'")

import gradio as gr
from gradio import FileData
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from apps.demo.app import build_demo, serve
from apps.demo.config import DemoConfig
from apps.demo.context import DemoContext
from apps.demo.documents_desk import Desk, OpenDocument, Shelf
from apps.demo.documents_examples import document_examples
from apps.demo.documents_input import DocumentInput
from apps.demo.documents_run import DocumentRequest, document_limits, read_request, run_document
from apps.demo.documents_view import IDLE, Course, answer_html, caption_html, evidence_html, page_picture
from apps.demo.jobs import Jobs
from apps.demo.sentences import sentence
from assets import SAMPLES
from backbone.contracts import Box, Evidence, Ledger
from backbone.errors import ConfigError, DataError
from docparse.documents import Limits, open_document
from docparse.drawing import PALETTE
from docparse.pipeline import NOT_HERE, DocumentAnswer
from tests.apps.conftest import LIMIT_BYTES, free_port, wait_until
from tests.apps.documents_helpers import PacedReader, closed, document_file
from tests.apps.fakes import ScriptedVLM
from tests.docparse.making_documents import changed, pdf, write

QUESTION = "What is the total amount?"
LINES = ["Invoice number 4711", "Total amount $12.50"]


@pytest.fixture(scope="module")
def reader() -> PacedReader:
    return PacedReader()


@pytest.fixture(scope="module")
def address(reader: PacedReader) -> Iterator[str]:
    port = free_port()
    config = DemoConfig(port=port, max_upload_mb=LIMIT_BYTES / 1e6, max_document_pages=40)
    demo = build_demo(ScriptedVLM(), config, lambda: reader)
    serve(demo, config, block=False)
    yield f"http://127.0.0.1:{port}"
    demo.close()


@pytest.fixture(scope="module")
def client(address: str) -> Client:
    return Client(address, verbose=False)


@pytest.fixture
def invoice(tmp_path: Path) -> Path:
    return document_file(tmp_path, LINES, pages=2)


def ask(path: Path, question: str = QUESTION, password: str = "") -> list[Any]:
    return [handle_file(path), question, password]


def shown(view: Any) -> np.ndarray:
    path = view["value"] if "value" in view else view["path"]
    return np.asarray(PillowModule.open(path).convert("RGB")).astype(int)


def test_progress_is_streamed_and_the_answer_has_its_place(client: Client, invoice: Path) -> None:
    job = client.submit(*ask(invoice), api_name="/read")
    stages, answer, page, step, view, caption, evidence, ledger, notes = job.result(timeout=30)
    seen = [update[0] for update in job.outputs() if isinstance(update[0], str)]
    assert any("Page 1 of 2 is read" in update for update in seen)
    assert 'data-phase="done"' in stages
    assert re.findall(r'fv-done" data-stage="(\w+)"', stages) == ["reading", "locating", "answering"]
    assert 'data-found="true"' in answer
    assert [value for _, value in page["choices"]] == [0, 1]
    assert sum(float(share) for label, _ in page["choices"] for share in re.findall(r"(\d+)%", label)) >= 98
    assert step == {"maximum": 5, "value": 5, "visible": True, "__type__": "update"}
    assert f"Page {page['value'] + 1} of 2 as it is" in caption
    assert "left, bottom, right, top in points" in evidence
    assert "Total amount" in evidence
    assert ledger.count("fv-bar") == 4
    assert notes == ""
    assert shown(view).min() < 100, "the page is not the document's"


def test_the_slider_shows_the_flow_and_the_chooser_other_pages(client: Client, invoice: Path) -> None:
    client.predict(*ask(invoice), api_name="/read")
    pictures, captions = [], []
    for position in range(1, 6):
        view, caption = client.predict(0, position, api_name="/look")
        pictures.append(np.asarray(PillowModule.open(view).convert("RGB")).astype(int))
        captions.append(caption)
    assert "step 1 of 4 on 8 cells a side" in captions[0]
    assert "step 4 of 4 on words" in captions[3]
    assert "as it is" in captions[4]
    painted = [(np.ptp(p, axis=2) > 60).sum() for p in pictures[:4]]
    assert painted[0] > painted[2] > 0, "the mass does not narrow"
    assert (pictures[4] > 250).all(2).mean() > 0.9, "the page as it is should be mostly white"
    assert "Page 2 of 2" in client.predict(1, 5, api_name="/look")[1]


@pytest.mark.parametrize(("page", "step"), [(2, 1), (-1, 1), (0, 0), (0, 6), (0.5, 1), (None, 1), ("x", 1), (True, 1)])
def test_pages_and_steps_that_there_are_not(client: Client, invoice: Path, page: Any, step: Any) -> None:
    client.predict(*ask(invoice), api_name="/read")
    with pytest.raises(AppError):
        client.predict(page, step, api_name="/look")


def test_a_second_question_does_not_read_again(client: Client, reader: PacedReader, tmp_path: Path) -> None:
    first = document_file(tmp_path, ["First 1234567"], name="a.pdf")
    client.predict(*ask(first), api_name="/read")
    count = len(reader.documents)
    client.predict(*ask(first, "Which number is the first?"), api_name="/read")
    assert len(reader.documents) == count
    before = reader.documents[-1]
    namesake = document_file(tmp_path, ["Second 7654321"], name="a.pdf")
    client.predict(*ask(namesake), api_name="/read")
    assert len(reader.documents) == count + 1, "another file of the same name is taken for the first"
    assert closed(before), "the first document stays open"


def test_users_never_see_each_others_documents(client: Client, address: str, tmp_path: Path) -> None:
    other = Client(address, verbose=False)
    client.predict(*ask(document_file(tmp_path, ["Alpha 1111"], pages=1, name="a.pdf")), api_name="/read")
    with pytest.raises(AppError, match=r"no longer open|not in the list"):
        other.predict(0, 1, api_name="/look")
    result = other.predict(*ask(document_file(tmp_path, ["Beta 2222"], pages=3, name="b.pdf")), api_name="/read")
    assert "Alpha" not in result[6]
    assert "of 1" in client.predict(0, 5, api_name="/look")[1]
    assert "of 3" in other.predict(2, 5, api_name="/look")[1]
    with pytest.raises(AppError):
        client.predict(2, 5, api_name="/look")


def test_a_script_that_cancels_ends_the_reading(client: Client, reader: PacedReader, tmp_path: Path) -> None:
    reader.page_s = 0.2
    try:
        job = client.submit(*ask(document_file(tmp_path, ["Long"], pages=40)), api_name="/read")
        wait_until(lambda: any("Page 2 of 40" in str(update[0]) for update in job.outputs()), 20)
        job.cancel()
        wait_until(lambda: reader.active == 0, 3)
    finally:
        reader.page_s = 0.0
    wait_until(lambda: closed(reader.documents[-1]), 3)


def test_encrypted_documents_open_with_their_password(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "locked.pdf"
    path.write_bytes(changed(pdf(lambda canvas: write(canvas, LINES[1], 40, 200) and None), password="sesame"))  # noqa: S106
    for wrong in ("", "guess"):
        with pytest.raises(AppError, match=r"(?i)password"):
            client.predict(*ask(path, password=wrong), api_name="/read")
    assert "data-found" in client.predict(*ask(path, password="sesame"), api_name="/read")[1]  # noqa: S106
    with pytest.raises(AppError, match=r"(?i)password"):  # although it is open
        client.predict(*ask(path, password="guess"), api_name="/read")  # noqa: S106


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"%PDF-1.7\n%%EOF", "hostile.pdf"),
        (b"%PDF-1.4\n" + bytes(range(256)) * 40, "hostile.pdf"),
        (b"<!doctype html><title>Sign in</title>", "web page"),
        (b"PK\x03\x04" + bytes(50), "office file"),
        (b"words", "hostile.pdf"),
    ],
)
def test_broken_documents_get_a_friendly_error(client: Client, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "hostile.pdf"
    path.write_bytes(content)
    with pytest.raises(AppError, match=message) as failure:
        client.predict(*ask(path), api_name="/read")
    assert "Traceback" not in str(failure.value)
    assert "/gradio" not in str(failure.value), "it says where the server keeps the upload"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({0: None}, r"(?i)choose a document"),
        ({1: "  "}, "question"),
        ({1: "x " * 501}, "1000"),
        ({1: "?!"}, "no words"),
        ({2: "x" * 201}, "200"),
    ],
)
def test_impossible_requests_say_why(client: Client, invoice: Path, changes: dict[int, Any], message: str) -> None:
    inputs = ask(invoice)
    for index, value in changes.items():
        inputs[index] = value
    with pytest.raises(AppError, match=message):
        client.predict(*inputs, api_name="/read")


@pytest.mark.parametrize("kind", ["path", "address", "address only", "inline", "upload"])
def test_only_uploads_are_read(address: str, reader: PacedReader, invoice: Path, kind: str) -> None:
    """By hand, since Gradio's client would upload a path itself."""
    inline = "data:application/pdf;base64," + base64.b64encode(invoice.read_bytes()).decode()
    uploaded = httpx.post(f"{address}/gradio_api/upload", files={"files": invoice.read_bytes()}).json()[0]
    payload = {
        "path": {"path": str(invoice)},
        "address": {"path": f"{address}/gradio_api/file={uploaded}"},
        "address only": {"url": f"{address}/gradio_api/file={uploaded}"},
        "inline": {"url": inline},
        "upload": {"path": uploaded},
    }[kind]
    count, data = len(reader.documents), [payload | {"meta": {"_type": "gradio.FileData"}}, QUESTION, ""]
    event = httpx.post(f"{address}/gradio_api/call/read", json={"data": data})
    if event.status_code == 200:
        reply = httpx.get(f"{address}/gradio_api/call/read/{event.json()['event_id']}", timeout=20).text
        assert ("event: error" in reply) == (kind != "upload")
    assert len(reader.documents) == count + (kind == "upload")


def test_addresses_and_inline_data_are_refused_by_the_field_itself() -> None:
    field = DocumentInput(type="filepath")
    for address in ("http://example.org/a.pdf", "HTTPS://example.org/a.pdf", "//example.org/a.pdf", "data:x"):
        with pytest.raises(gr.Error, match="not fetched"):
            asyncio.run(field.async_move_resource_to_block_cache(address))
    for wrong in (FileData(path="/tmp/a.pdf", url="data:application/pdf;base64,AA"), FileData(path="")):  # noqa: S108
        with pytest.raises(gr.Error, match="uploads only"):
            field.preprocess(wrong)
    assert field.preprocess(FileData(path="a.pdf")) == "a.pdf"
    assert field.preprocess(None) is None


# --- parts ---------------------------------------------------------------------------------------------------------


def desk_of(reader: PacedReader, deadline_s: float = 60.0) -> DemoContext:
    return DemoContext(ScriptedVLM(), DemoConfig(), Jobs(60), Jobs(60), Desk(lambda: reader, Jobs(deadline_s, 0.02)))


def request_of(path: Path, question: str = QUESTION) -> DocumentRequest:
    return DocumentRequest(path.read_bytes(), path.name, question, None, Limits())


def test_not_in_the_document_is_shown_as_an_answer(invoice: Path) -> None:
    context = desk_of(PacedReader(found=False))
    *_, last = run_document(context, "me", lambda: request_of(invoice))
    assert 'data-phase="done"' in last[0]
    assert f'data-found="false">{NOT_HERE}' in last[1]
    assert last[6] == ""


def test_too_slow_a_document_is_given_up(tmp_path: Path) -> None:
    reader = PacedReader(page_s=0.1)
    context = desk_of(reader, deadline_s=0.3)
    updates, last = run_document(context, "me", lambda: request_of(document_file(tmp_path, ["Long"], pages=60))), None
    with pytest.raises(Exception, match=r"(?i)no answer within"):
        for last in updates:  # noqa: B007
            pass
    assert last is not None
    assert 'data-phase="failed"' in last[0]
    wait_until(lambda: reader.active == 0)
    wait_until(lambda: closed(reader.documents[-1]))
    assert len(context.documents.shelf) == 0


def test_leaving_stops_and_closes(invoice: Path) -> None:
    reader = PacedReader()
    context = desk_of(reader)
    list(run_document(context, "me", lambda: request_of(invoice)))
    assert not closed(reader.documents[-1])
    context.documents.leave("you")
    assert not closed(reader.documents[-1])
    context.documents.leave("me")
    assert closed(reader.documents[-1])


def test_leaving_while_the_last_page_is_read_leaves_nothing_open(invoice: Path) -> None:
    class Leaving(PacedReader):
        def session(self, document: Any, *, on_page: Any = None, cancel: Any = None) -> Any:
            session = super().session(document, on_page=on_page, cancel=cancel)
            context.documents.leave("me")
            return session

    reader = Leaving()
    context = desk_of(reader)
    *_, last = run_document(context, "me", lambda: request_of(invoice))
    assert 'data-phase="cancelled"' in last[0]
    assert closed(reader.documents[-1])
    assert len(context.documents.shelf) == 0


def test_boxes_are_drawn_at_the_end_of_the_flow_and_on_the_page_as_it_is(invoice: Path) -> None:
    context = desk_of(PacedReader())
    list(run_document(context, "me", lambda: request_of(invoice)))
    opened = context.documents.shelf.get("me")
    assert opened is not None
    assert opened.answer is not None
    outlined = []
    for position in range(1, 6):
        picture, _ = page_picture(opened, opened.answer.evidence[0].page, position)
        assert picture is not None
        outlined.append(int((picture == PALETTE[0]).all(2).sum()))
    assert outlined[:3] == [0, 0, 0]
    assert min(outlined[3:]) > 100


def test_a_missing_reader_is_said(invoice: Path) -> None:
    def none() -> PacedReader:
        raise DataError("there are no weights; train some")

    context = DemoContext(ScriptedVLM(), DemoConfig(), Jobs(60), Jobs(60), Desk(none, Jobs(60, 0.02)))
    updates, last = run_document(context, "me", lambda: request_of(invoice)), None
    with pytest.raises(Exception, match="no weights"):
        for last in updates:  # noqa: B007
            pass
    assert last is not None
    assert "There are no weights; train some." in last[0]


def test_the_shelf_keeps_the_last_few_and_closes_the_others(invoice: Path) -> None:
    shelf, opened = Shelf(most=2), []
    for user in ("a", "b"):
        opened.append(OpenDocument(user, open_document(invoice), session=None))  # type: ignore[arg-type]
        shelf.put(user, opened[-1])
    assert shelf.get("a") is opened[0]
    shelf.put("c", OpenDocument("c", open_document(invoice), session=None))  # type: ignore[arg-type]
    assert [closed(o.document) for o in opened] == [False, True], "b was not used for the longest"
    assert shelf.get("b") is None
    answer = DocumentAnswer("x", True, 1.0, (), (), Ledger())
    shelf.answered("b", opened[1], answer)
    assert shelf.get("b") is None
    shelf.answered("a", opened[0], answer)
    kept = shelf.get("a")
    assert kept is not None
    assert kept.answer is answer
    shelf.put("a", kept)
    assert not closed(kept.document)
    shelf.drop("a")
    shelf.drop("a")
    assert closed(kept.document)
    assert len(shelf) == 1


def test_what_a_document_says_never_becomes_markup(invoice: Path) -> None:
    bad = "<script>alert(1)</script>"
    reader = PacedReader()
    with open_document(invoice) as document:
        session = reader.session(document)
    answer = DocumentAnswer(bad, True, 1.0, (Evidence(0, Box(1, 1, 9, 9), 0.5, bad),), (), Ledger())
    for html in (answer_html(answer), evidence_html(answer, session), caption_html(bad)):
        assert "<script" not in html
    course = Course(message=bad)
    assert "<script" not in course.html()
    assert sentence(DataError("no such page")) == "No such page."
    assert sentence(DataError("a.pdf: is empty!")) == "a.pdf: is empty!"
    assert 'data-phase="idle"' in IDLE


def test_examples_come_from_the_sample_or_say_what_is_wrong(tmp_path: Path) -> None:
    rows = document_examples()
    assert len(rows) >= 3
    assert all(Path(file).is_file() and question for file, question in rows)
    asked = {
        e["question"]: e["answers"] for e in map(json.loads, (SAMPLES / "document.jsonl").read_text().splitlines())
    }
    assert asked[rows[-1][1]] == [], "the last example is one that the document does not answer"
    assert (SAMPLES / "document.pdf").stat().st_size <= 200_000
    with open_document(SAMPLES / "document.pdf") as document:
        assert {document.page(i, picture=False).source for i in range(len(document))} == {"text layer"}
    broken = tmp_path / "document.jsonl"
    assert document_examples(broken) == []
    broken.write_text('{"question": "What?"}\n')
    with pytest.raises(DataError, match="make it again"):
        document_examples(broken)
    broken.write_text('{"document": "x.pdf", "question": "What?", "answers": []}\n')
    with pytest.raises(DataError, match=r"x\.pdf is missing"):
        document_examples(broken)


def test_limits(tmp_path: Path) -> None:
    for wrong in ({"max_document_pages": 0}, {"document_deadline_s": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            DemoConfig(**wrong)  # type: ignore[arg-type]
    config = DemoConfig(max_upload_mb=0.001, max_document_pages=3)
    assert document_limits(config).pages == 3
    path = tmp_path / "large.pdf"
    path.write_bytes(b"%PDF" + bytes(1000))
    context = DemoContext(ScriptedVLM(), config, Jobs(1), Jobs(1))
    with pytest.raises(DataError, match=r"over the limit of 0\.001 MB"):
        read_request(context, str(path), QUESTION, None)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="empty"):
        read_request(context, str(path), QUESTION, None)
