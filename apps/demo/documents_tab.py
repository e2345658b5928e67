"""The Documents tab: ask a document, see the evidence sharpen from page to box, and where the answer stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from apps.demo.context import DemoContext
from apps.demo.documents_examples import document_examples
from apps.demo.documents_input import READABLE, DocumentInput
from apps.demo.documents_run import read_request, run_document, view_document
from apps.demo.documents_view import IDLE, Course
from apps.demo.fields import DropdownField, SliderField
from apps.demo.search_view import message_html
from apps.demo.wiring import HIDDEN, after_refusal, scroll_to, states


def build(context: DemoContext) -> None:
    """Lay out the tab inside the open `gr.Blocks` and connect it."""
    with gr.Row(elem_classes="fv-columns"):
        with gr.Column(scale=4, min_width=320):
            inputs = _form(context)
            with gr.Row(elem_classes="fv-buttons"):
                ask = gr.Button("Ask", variant="primary", elem_id="documents-ask", scale=3, min_width=120)
                cancel = gr.Button("Cancel", interactive=False, elem_id="documents-cancel", scale=1, min_width=90)
            _examples(inputs)
        with gr.Column(scale=8, min_width=320):
            outputs = _results()
    _connect(context, inputs, outputs, ask, cancel)


def _form(context: DemoContext) -> list[gr.components.Component]:
    config = context.config
    document = DocumentInput(
        label="Document", file_count="single", file_types=list(READABLE), type="filepath", elem_id="documents-file"
    )
    limits = f"Up to {config.max_upload_mb:g} MB; the first {config.max_document_pages} pages are read."
    gr.HTML(
        f'<p class="fv-limits fv-muted">{limits} PDF or picture, with text or scanned. It stays on this machine.</p>'
    )
    question = gr.Textbox(
        label="Question", lines=2, max_lines=4, placeholder="When is the payment due?", elem_id="documents-question"
    )
    with gr.Accordion("Password", open=False, elem_id="documents-settings"):
        password = gr.Textbox(label="Of an encrypted PDF", type="password", elem_id="documents-password")
    return [document, question, password]


def _examples(inputs: list[gr.components.Component]) -> None:
    rows = document_examples()
    if not rows:
        return
    gr.Examples(
        rows,
        inputs=inputs[:2],
        label="Examples",
        elem_id="documents-examples",
        cache_examples=False,
        preload=False,
        api_visibility="private",
    )


def _results() -> list[gr.components.Component]:
    stages = gr.HTML(IDLE, elem_id="documents-stages")
    answer = gr.HTML(elem_id="documents-answer")
    with gr.Row():
        page = DropdownField([], label="Page", visible=False, elem_id="documents-page", scale=1, min_width=160)
        step = SliderField(
            1,
            2,
            value=2,
            step=1,
            label="Step of the flow, coarse to fine; at the end the page as it is",
            visible=False,
            elem_id="documents-step",
            scale=2,
            min_width=200,
        )
    view = gr.Image(
        label="Where it stands",
        interactive=False,
        visible=False,
        format="jpeg",
        buttons=["fullscreen", "download"],
        elem_id="documents-view",
    )
    caption = gr.HTML(elem_id="documents-caption")
    evidence = gr.HTML(elem_id="documents-evidence")
    ledger = gr.HTML(elem_id="documents-ledger")
    notes = gr.HTML(elem_id="documents-notes")
    return [stages, answer, page, step, view, caption, evidence, ledger, notes]  # in the order of OUTPUTS


def _connect(
    context: DemoContext,
    inputs: list[gr.components.Component],
    outputs: list[gr.components.Component],
    ask: gr.Button,
    cancel: gr.Button,
) -> None:
    stages, buttons = outputs[0], [ask, cancel]
    page, step, view, caption = outputs[2:6]

    def read(document: str | None, question: str | None, password: str | None, request: gr.Request) -> Iterator[Any]:
        """Answer a question about a document; streams stages, then answer, page, evidence, times and notes."""
        owner = str(request.session_hash)
        yield from run_document(context, owner, lambda: read_request(context, document, question, password))

    def look(page: Any, step: Any, request: gr.Request) -> tuple[Any, str]:
        """A page (from 0) of the document that was asked last, at a step (from 1) of the flow, and its caption."""
        return view_document(context, str(request.session_hash), page, step)

    def stop(request: gr.Request) -> tuple[Any, ...]:
        context.documents.jobs.cancel(str(request.session_hash))
        return message_html("cancelled", "Cancelled."), *states(running=False)

    begun = gr.on(
        [ask.click, inputs[1].submit],  # type: ignore[attr-defined]
        lambda: (Course().html(), *states(running=True)),
        None,
        [stages, *buttons],
        **HIDDEN,
    )
    asked = begun.then(
        read,
        inputs,
        outputs,
        api_name="read",
        show_progress="hidden",
        concurrency_limit=1,
        concurrency_id="documents",
    )
    # Gradio 6.31's page does not fire .then after a failure, so both ends are connected.
    asked.success(lambda: states(running=False), None, buttons, **HIDDEN)
    asked.failure(after_refusal, stages, [stages, *buttons], **HIDDEN)
    ask.click(None, None, None, js=scroll_to("documents-stages"))
    cancel.click(stop, None, [stages, *buttons], cancels=asked, **HIDDEN)
    gr.on(
        [page.input, step.input],  # type: ignore[attr-defined]
        look,
        [page, step],
        [view, caption],
        api_name="look",
        queue=False,
        show_progress="hidden",
        trigger_mode="always_last",
    )
