"""The Search tab: ask about a picture, see where the model looked and what the answer cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from apps.demo.context import DemoContext
from apps.demo.examples import search_examples
from apps.demo.fields import RadioField
from apps.demo.picture_input import PictureInput
from apps.demo.search_run import METHODS, REGIMES, SAMPLES, drawn_method, read_request, run_search
from apps.demo.search_view import IDLE, StageTimes, message_html
from apps.demo.wiring import HIDDEN, after_refusal, scroll_to, states
from backbone.image_files import READABLE


def build(context: DemoContext) -> None:
    """Lay out the tab inside the open `gr.Blocks` and connect it."""
    with gr.Row(elem_classes="fv-columns"):
        with gr.Column(scale=5, min_width=320):
            inputs = _input_column(context)
            with gr.Row(elem_classes="fv-buttons"):
                ask = gr.Button("Ask", variant="primary", elem_id="search-ask", scale=3, min_width=120)
                cancel = gr.Button("Cancel", interactive=False, elem_id="search-cancel", scale=1, min_width=90)
            _examples(inputs)
        with gr.Column(scale=7, min_width=320):
            outputs = _output_column()
    _connect(context, inputs, outputs, ask, cancel)


def _input_column(context: DemoContext) -> list[gr.components.Component]:
    config = context.config
    limits = f"Up to {config.max_upload_mb:g} MB and {config.max_megapixels:g} megapixels: {READABLE}."
    picture = PictureInput(
        type="filepath",
        sources=["upload", "clipboard"],
        label="Picture",
        height=280,
        format="png",  # of the examples; uploads are kept as they come
        buttons=[],
        elem_id="search-picture",
        alt_text="your picture",
    )
    gr.HTML(f'<p class="fv-limits fv-muted">{limits} It stays on this machine.</p>')
    question = gr.Textbox(
        label="Question",
        lines=2,
        max_lines=4,
        placeholder="What is written on the small sign?",
        elem_id="search-question",
    )
    with gr.Accordion("Options, method and samples", open=False, elem_id="search-settings"):
        options = gr.Textbox(
            label="Options",
            info="Multiple choice: one a line, 2 to 10. Leave empty for a free answer.",
            lines=3,
            elem_id="search-options",
        )
        method = RadioField(
            list(METHODS),
            value="SPARC",
            label="Method",
            info="SPARC looks, then answers. Native answers at once. Zoom lets the model ask for close-ups in turns.",
            elem_id="search-method",
        )
        regime = RadioField(
            list(REGIMES),
            value="256",
            label="Regime",
            info="Longest side of the whole picture as the model sees it, in pixels. Close-ups come from the original.",
            elem_id="search-regime",
        )
        samples = RadioField(
            list(SAMPLES),
            value=1,
            label="Perception samples",
            info="SPARC only: how often it proposes regions before they are fused.",
            elem_id="search-samples",
        )
    return [picture, question, options, method, regime, samples]


def _examples(inputs: list[gr.components.Component]) -> None:
    gr.Examples(
        [[str(example.picture), example.question, "\n".join(example.options)] for example in search_examples()],
        inputs=inputs[:3],
        visible_columns=[0, 1],
        label="Examples",
        elem_id="search-examples",
        cache_examples=False,
        preload=False,
        api_visibility="private",
    )


def _output_column() -> list[gr.components.Component]:
    stages = gr.HTML(IDLE, elem_id="search-stages")
    answer = gr.HTML(elem_id="search-answer")
    picture = gr.Image(
        label="Where it looked",
        interactive=False,
        format="jpeg",
        buttons=["fullscreen", "download"],
        elem_id="search-boxes",
        alt_text="the picture with numbered boxes",
    )
    regions = gr.HTML(elem_id="search-regions")
    crops = gr.Gallery(
        label="Close-ups from the original",
        columns=3,
        height="auto",
        object_fit="contain",
        format="png",
        interactive=False,
        buttons=["fullscreen"],
        elem_id="search-crops",
    )
    ledger = gr.HTML(elem_id="search-ledger")
    notes = gr.HTML(elem_id="search-notes")
    return [stages, picture, regions, crops, answer, ledger, notes]  # in the order of OUTPUTS


def _connect(
    context: DemoContext,
    inputs: list[gr.components.Component],
    outputs: list[gr.components.Component],
    ask: gr.Button,
    cancel: gr.Button,
) -> None:
    stages, buttons = outputs[0], [ask, cancel]

    def search(
        picture: str | None,
        question: str | None,
        options: str | None,
        method: str,
        regime: str,
        samples: int,
        request: gr.Request,
    ) -> Iterator[Any]:
        """Answer a question about a picture; streams stages, regions, close-ups, answer, ledger and notes as HTML."""
        owner = str(request.session_hash)
        yield from run_search(
            context,
            owner,
            method,
            lambda: read_request(context, picture, question, options, method, regime, samples),
        )

    def stop(request: gr.Request) -> tuple[Any, ...]:
        context.jobs.cancel(str(request.session_hash))
        return message_html("cancelled", "Cancelled."), *states(running=False)

    begun = gr.on(
        [ask.click, inputs[1].submit],  # type: ignore[attr-defined]
        lambda method: (StageTimes(drawn_method(method)).html(), *states(running=True)),
        inputs[3],
        [stages, *buttons],
        **HIDDEN,
    )
    asked = begun.then(
        search, inputs, outputs, api_name="search", show_progress="hidden", concurrency_limit=1, concurrency_id="model"
    )
    # Gradio 6.31's page does not fire .then after a failure, so both ends are connected.
    asked.success(lambda: states(running=False), None, buttons, **HIDDEN)
    asked.failure(after_refusal, stages, [stages, *buttons], **HIDDEN)
    ask.click(None, None, None, js=scroll_to("search-stages"))
    cancel.click(stop, None, [stages, *buttons], cancels=asked, **HIDDEN)
