"""One run of the Documents tab: from what the page sends to the updates it shows."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from apps.demo.config import DemoConfig
from apps.demo.context import DemoContext
from apps.demo.documents_desk import Desk, OpenDocument
from apps.demo.documents_input import read_upload
from apps.demo.documents_view import (
    Course,
    answer_html,
    evidence_html,
    first_page,
    page_choices,
    page_picture,
    positions,
    times_html,
)
from apps.demo.fields import whole
from apps.demo.jobs import Done, Tick
from apps.demo.search_view import notes_html
from apps.demo.sentences import Ending, sentence, told
from apps.demo.updates import row
from backbone.errors import CancelledError, DataError
from docparse.documents import Limits, open_document
from docparse.question import MAX_QUESTION, check_question

if TYPE_CHECKING:
    from docparse.pipeline import DocumentReader

OUTPUTS = ("stages", "answer", "page", "step", "view", "caption", "evidence", "ledger", "notes")
MAX_PASSWORD = 200  # characters


@dataclass(frozen=True)
class DocumentRequest:
    """What the page sends, checked."""

    content: bytes
    name: str
    question: str
    password: str | None
    limits: Limits

    @property
    def key(self) -> str:
        """Tells documents apart, so that a second question about one does not read it again."""
        return hashlib.sha256(self.content + b"\0" + (self.password or "").encode()).hexdigest()


def read_request(context: DemoContext, path: str | None, question: str | None, password: str | None) -> DocumentRequest:
    """Check everything a page or a script can send; an empty field may come as None.

    Raises:
        DataError: no document or one over the limit, no question, or too long a text.
    """
    question = (question or "").strip()
    if not question:
        raise DataError("write a question first")
    if len(question) > MAX_QUESTION or len(password or "") > MAX_PASSWORD:
        raise DataError(
            f"the question may have {MAX_QUESTION} characters and the password {MAX_PASSWORD}; shorten them"
        )
    check_question(question)
    content, name = read_upload(path, context.config)
    return DocumentRequest(content, name, question, password or None, document_limits(context.config))


def document_limits(config: DemoConfig) -> Limits:
    """What a document of the page may cost."""
    pixels = min(Limits.page_pixels, config.image_limits.max_pixels)
    return Limits(pages=config.max_document_pages, page_pixels=pixels, file_bytes=config.max_upload_bytes)


def update(**values: Any) -> tuple[Any, ...]:
    """A full row of outputs in which only the named ones change."""
    return row(OUTPUTS, values)


def run_document(context: DemoContext, owner: str, read: Callable[[], DocumentRequest]) -> Iterator[Any]:
    """Updates of the page while one question is answered; ends with an error toast when it cannot be.

    Args:
        context: settings, reader and turn-taking.
        owner: the session, for cancelling and for what it has open.
        read: gives the checked request; called here so that its errors are shown like all others.
    """
    course = Course()

    def show(phase: Ending, message: str) -> tuple[Any, ...]:
        course.finish(phase, message)
        return update(stages=course.html())

    yield from told(_updates(context.documents, owner, course, read), show, "Cancelled.")


def _updates(desk: Desk, owner: str, course: Course, read: Callable[[], DocumentRequest]) -> Iterator[Any]:
    yield _cleared(course)
    stream = desk.jobs.stream(_work(desk, owner, read()), owner)
    try:
        yield from _follow(course, stream)
    finally:
        stream.close()


def _cleared(course: Course) -> tuple[Any, ...]:
    hidden = gr.update(visible=False)
    empty = dict.fromkeys(("answer", "caption", "evidence", "ledger", "notes"), "")
    return update(stages=course.html(), page=hidden, step=hidden, view=gr.update(value=None, visible=False), **empty)


def _work(
    desk: Desk, owner: str, request: DocumentRequest
) -> Callable[[threading.Event, Callable[[Any], None]], OpenDocument]:
    def work(stop: threading.Event, emit: Callable[[Any], None]) -> OpenDocument:
        emit("reading")
        opened = desk.shelf.get(owner)
        if opened is None or opened.key != request.key:
            opened = _open(desk.reader(), request, stop, emit)
            if stop.is_set():  # the user may have left: nobody would close it
                opened.document.close()
                raise CancelledError("cancelled after reading")
            desk.shelf.put(owner, opened)
        emit("locating")
        answer = opened.session.ask(request.question, cancel=stop)
        desk.shelf.answered(owner, opened, answer)
        return replace(opened, answer=answer)

    return work


def _open(
    reader: DocumentReader, request: DocumentRequest, stop: threading.Event, emit: Callable[[Any], None]
) -> OpenDocument:
    document = open_document(request.content, request.limits, password=request.password, name=request.name)
    try:
        session = reader.session(document, on_page=lambda done, total: emit((done, total)), cancel=stop)
    except BaseException:
        document.close()
        raise
    return OpenDocument(request.key, document, session)


def _follow(course: Course, stream: Iterator[Any]) -> Iterator[Any]:
    for item in stream:
        if isinstance(item, Done):
            course.settle(item.result.answer.ledger)
            course.finish("done")
            yield _final(course, item.result)
        elif isinstance(item, tuple):
            course.pages = item
            yield update(stages=course.html())
        else:
            if not isinstance(item, Tick):
                course.enter(item)
            yield update(stages=course.html())


def _final(course: Course, opened: OpenDocument) -> tuple[Any, ...]:
    answer, session = opened.answer, opened.session
    if answer is None:
        raise RuntimeError("a run ended without an answer")
    page, last = first_page(answer), positions(answer)
    picture, caption = page_picture(opened, page, last)
    return update(
        stages=course.html(),
        answer=answer_html(answer),
        page=gr.update(choices=page_choices(answer, len(session.pages)), value=page, visible=True),
        step=gr.update(maximum=max(last, 2), value=last, visible=last > 1),
        view=gr.update(value=picture, visible=True),
        caption=caption,
        evidence=evidence_html(answer, session),
        ledger=times_html(answer.ledger),
        notes=notes_html(answer.notes),
    )


def view_document(context: DemoContext, owner: str, page: Any, position: Any) -> tuple[Any, str]:
    """The picture and caption of what this user has open, at a page and a slider position.

    Raises:
        gr.Error: nothing is open, or a page or position that there is not.
    """
    opened = context.documents.shelf.get(owner)
    if opened is None or opened.answer is None:
        raise gr.Error("This document is no longer open; ask again.", print_exception=False)
    last = max(positions(opened.answer), 2)  # a slider has two ends
    try:
        page = whole("page (0 is the first)", page, 0, len(opened.session.pages) - 1)
        return page_picture(opened, page, whole("step of the flow", position, 1, last))
    except DataError as error:
        raise gr.Error(escape(sentence(error), quote=False), print_exception=False) from error
