"""The Worlds tab: run an episode of a world on this machine, watch it live, stop it, read its measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from apps.demo.context import DemoContext
from apps.demo.fields import DropdownField, NumberField, RadioField
from apps.demo.wiring import HIDDEN
from apps.demo.world_wiring import HOLD_RUN, Runner, connect
from apps.demo.worlds_catalogue import CHOICES, agents_for, choice_values, default_value, offered, usable
from apps.demo.worlds_run import PACES, read_request, run_world
from apps.demo.worlds_view import IDLE, remedies_html


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
    world = RadioField(names, value=first, label="World", elem_id="worlds-world")
    choice = _choice(first)
    option = DropdownField(**choice, allow_custom_value=True, elem_id="worlds-option")  # values are checked by the run
    seed = NumberField(0, label="Seed", precision=0, minimum=0, elem_id="worlds-seed", info="Same seed, same episode.")
    agents = agents_for(first) if first else []
    agent = RadioField(agents, value=agents[0] if agents else None, label="Agent", elem_id="worlds-agent")
    pace = RadioField(list(PACES), value=next(iter(PACES)), label="Pace", elem_id="worlds-pace")
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

    def watch(world: str, option: str, seed: float, agent: str, pace: str, request: gr.Request) -> Iterator[Any]:
        """Run one episode; streams status, pictures and measures as HTML."""
        owner = str(request.session_hash)
        yield from run_world(context, owner, lambda: read_request(world, option, seed, agent, pace))

    def fit(world: str, agent: str, request: gr.Request) -> tuple[Any, Any, Any]:
        agents = agents_for(world)
        agent = agent if agent in agents else agents[0]
        idle = not context.worlds.owned(str(request.session_hash))
        return gr.update(**_choice(world)), gr.update(choices=agents, value=agent), gr.update(interactive=idle)

    world.input(None, None, run, js=HOLD_RUN)  # type: ignore[attr-defined]
    world.input(fit, [world, agent], [option, agent, run], **HIDDEN)  # type: ignore[attr-defined]
    connect(context, Runner(watch, inputs, outputs, run, stop, str, "run_world"))
