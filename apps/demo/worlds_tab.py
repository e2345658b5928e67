"""The Worlds tab: run an episode of a world on this machine, watch it live, stop it, read its measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from apps.demo.context import DemoContext
from apps.demo.worlds_catalogue import CHOICES, agents_for, choice_values, default_value, offered, usable
from apps.demo.worlds_run import PACES, read_request, run_world
from apps.demo.worlds_view import IDLE, remedies_html, status_html

# On a phone the world is below the form.
SCROLL_TO_WORLD = """() => {
  const status = document.querySelector("#worlds-status");
  if (status.getBoundingClientRect().bottom > window.innerHeight) status.scrollIntoView({behavior: "smooth"});
}"""
# The option and the agents of a newly chosen world come from the server; until then there is nothing sensible to run.
HOLD_RUN = "() => ({__type__: 'update', interactive: false})"
BUSY = "Too many runs are waiting. Try again in a moment."


def build(context: DemoContext) -> None:
    """Lay out the tab inside the open `gr.Blocks` and connect it."""
    states = offered()
    names = usable(states)
    with gr.Row(elem_classes="fv-columns"):
        with gr.Column(scale=4, min_width=300):
            inputs = _form(names)
            with gr.Row(elem_classes="fv-buttons"):
                run = gr.Button(
                    "Run", variant="primary", interactive=bool(names), elem_id="worlds-run", scale=3, min_width=120
                )
                stop = gr.Button("Stop", interactive=False, elem_id="worlds-stop", scale=1, min_width=90)
            gr.HTML(remedies_html(states))
        with gr.Column(scale=8, min_width=320):
            view = gr.HTML(elem_id="worlds-view")
            status = gr.HTML(IDLE, elem_id="worlds-status")
            metrics = gr.HTML(elem_id="worlds-metrics")
    _connect(context, inputs, [status, view, metrics], run, stop)


def _form(names: list[str]) -> list[gr.components.Component]:
    first = names[0] if names else None
    world = gr.Radio(names, value=first, label="World", elem_id="worlds-world")
    choice = _choice(first)
    option = gr.Dropdown(**choice, allow_custom_value=True, elem_id="worlds-option")  # values are checked by the run
    seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="worlds-seed", info="Same seed, same episode.")
    agents = agents_for(first) if first else []
    agent = gr.Radio(agents, value=agents[0] if agents else None, label="Agent", elem_id="worlds-agent")
    pace = gr.Radio(list(PACES), value=next(iter(PACES)), label="Pace", elem_id="worlds-pace")
    return [world, option, seed, agent, pace]


def _choice(world: str | None) -> dict[str, Any]:
    """What the dropdown of a world's one setting shows; it is hidden for worlds without one."""
    if world is None or world not in CHOICES:
        return {"choices": [], "value": None, "visible": False, "label": "Option"}
    values = {"choices": list(choice_values(world)), "value": default_value(world)}
    return {**values, "visible": True, "label": CHOICES[world].label}


def _connect(
    context: DemoContext,
    inputs: list[gr.components.Component],
    outputs: list[gr.components.Component],
    run: gr.Button,
    stop: gr.Button,
) -> None:
    world, option, _, agent, _ = inputs
    status, buttons = outputs[0], [run, stop]

    def watch(world: str, option: str, seed: float, agent: str, pace: str, request: gr.Request) -> Iterator[Any]:
        """Run one episode; streams status, pictures and measures as HTML."""
        owner = str(request.session_hash)
        yield from run_world(context, owner, lambda: read_request(world, option, seed, agent, pace))

    def fit(world: str, agent: str, request: gr.Request) -> tuple[Any, Any, Any]:
        agents = agents_for(world)
        agent = agent if agent in agents else agents[0]
        idle = not context.worlds.owned(str(request.session_hash))
        return gr.update(**_choice(world)), gr.update(choices=agents, value=agent), gr.update(interactive=idle)

    def halt(request: gr.Request) -> tuple[Any, Any]:
        context.worlds.cancel(str(request.session_hash))
        return gr.skip(), gr.update(interactive=False)

    hidden: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    world.input(None, None, run, js=HOLD_RUN)  # type: ignore[attr-defined]
    world.input(fit, [world, agent], [option, agent, run], **hidden)  # type: ignore[attr-defined]
    begun = run.click(lambda: (status_html("waiting"), *_buttons(running=True)), None, [status, *buttons], **hidden)
    ran = begun.then(
        watch,
        inputs,
        outputs,
        api_name="run_world",
        show_progress="hidden",
        concurrency_limit=context.config.max_worlds,
        concurrency_id="worlds",
    )
    # Gradio 6.31's page does not fire .then after a failure, so both ends are connected.
    ran.success(lambda: _buttons(running=False), None, buttons, **hidden)
    ran.failure(_after_failure, status, [status, *buttons], **hidden)
    run.click(None, None, None, js=SCROLL_TO_WORLD)
    stop.click(halt, None, buttons, **hidden)


def _buttons(*, running: bool) -> tuple[Any, Any]:
    return gr.update(interactive=not running), gr.update(interactive=running)


def _after_failure(status: str) -> tuple[Any, ...]:
    """A run that failed before it showed anything was refused by the queue."""
    if 'data-phase="waiting"' in status:
        status = status_html("failed", message=BUSY)
    return status, *_buttons(running=False)
