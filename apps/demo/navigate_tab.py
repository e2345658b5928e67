"""The Navigate tab: send a robot through a generated home to find an object, watch it think, compare ways to decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from apps.demo.context import DemoContext
from apps.demo.fields import DropdownField, NumberField, RadioField, SliderField, whole
from apps.demo.navigate_choices import (
    MOST_STEPS,
    NOBODY,
    SETTINGS,
    STRATEGIES,
    USUAL_STEPS,
    objects_in,
    read_request,
    usual_object,
    worlds_here,
)
from apps.demo.navigate_run import owner_of, run_navigation
from apps.demo.navigate_view import IDLE
from apps.demo.wiring import HIDDEN
from apps.demo.world_wiring import HOLD_RUN, Runner, connect
from apps.demo.worlds_run import MAX_SEED, PACES
from apps.demo.worlds_view import remedies_html
from backbone.errors import FoveaError

RUN, COMPARE = "Run", "Compare"
FIRST_HOME = 0


def build(context: DemoContext) -> None:
    """Lay out the tab inside the open `gr.Blocks` and connect it."""
    names, states = worlds_here()
    with gr.Row(elem_classes="fv-columns"):
        with gr.Column(scale=3, min_width=280):
            inputs = _form(names)
            with gr.Row(elem_classes="fv-buttons"):
                run = gr.Button(
                    RUN, variant="primary", interactive=bool(names), elem_id="navigate-run", scale=3, min_width=120
                )
                stop = gr.Button("Stop", interactive=False, elem_id="navigate-stop", scale=1, min_width=90)
            gr.HTML(remedies_html(states))
        with gr.Column(scale=9, min_width=320):
            status = gr.HTML(IDLE, elem_id="navigate-status")
            view = gr.HTML(elem_id="navigate-view")
            thoughts = gr.HTML(elem_id="navigate-thoughts")
            results = gr.HTML(elem_id="navigate-results")
    _follow(context, inputs, run)
    _connect(context, inputs, [status, view, thoughts, results], run, stop)


def _form(names: list[str]) -> list[gr.components.Component]:
    first = names[0] if names else None
    world = RadioField(names, value=first, label="World", visible=len(names) > 1, elem_id="navigate-world")
    with gr.Row():
        home = NumberField(FIRST_HOME, label="Home", precision=0, minimum=0, elem_id="navigate-home", min_width=90)
        start = NumberField(0, label="Start", precision=0, minimum=0, elem_id="navigate-start", min_width=90)
    objects = _objects(FIRST_HOME) if names else {"choices": [], "value": None}
    find = DropdownField(**objects, label="Find", allow_custom_value=True, elem_id="navigate-object")
    ways = [(words, name) for name, words in STRATEGIES.items()]
    strategy = DropdownField(ways, value="learned", label="When to think", elem_id="navigate-strategy")
    value = NumberField(**_setting("learned"), elem_id="navigate-value")
    others = [("nothing", NOBODY), *ways]
    rival = DropdownField(others, value=NOBODY, label="Compared with", elem_id="navigate-rival")
    rival_value = NumberField(**_setting(NOBODY), elem_id="navigate-rival-value")
    limit = SliderField(10, MOST_STEPS, value=USUAL_STEPS, step=10, label="Steps at most", elem_id="navigate-limit")
    pace = RadioField(list(PACES), value=next(iter(PACES)), label="Pace", elem_id="navigate-pace")
    return [world, home, find, start, strategy, value, rival, rival_value, limit, pace]


def _objects(home: int, wanted: Any = None) -> dict[str, Any]:
    """What the dropdown of objects shows for a home; ``wanted`` stays chosen if it is there."""
    found = objects_in(home)
    return {"choices": [(o.replace("_", " "), o) for o in found], "value": usual_object(found, wanted)}


def _setting(strategy: str) -> dict[str, Any]:
    """What the number of a strategy shows; it is hidden for those without one."""
    setting = SETTINGS.get(strategy)
    if setting is None:
        return {"value": None, "label": "Setting", "visible": False}
    return {"value": setting.usual, "label": setting.words, "step": setting.step, "visible": True}


def _follow(context: DemoContext, inputs: list[gr.components.Component], run: gr.Button) -> None:
    """What a choice means for the others: a home has its objects, a strategy its number, a rival another button."""
    home, find, strategy, value, rival, rival_value = (inputs[i] for i in (1, 2, 4, 5, 6, 7))

    def furnish(home: Any, wanted: Any, request: gr.Request) -> tuple[Any, Any]:
        idle = not context.worlds.owned(owner_of(str(request.session_hash)))
        try:
            objects = gr.update(**_objects(whole("home", home, 0, MAX_SEED), wanted))
        except FoveaError:  # a home that is none, or cannot be built, says so when it is run
            objects = gr.skip()
        return objects, gr.update(interactive=idle)

    home.input(None, None, run, js=HOLD_RUN)  # type: ignore[attr-defined]
    home.input(furnish, [home, find], [find, run], trigger_mode="always_last", **HIDDEN)  # type: ignore[attr-defined]
    for chosen, number in ((strategy, value), (rival, rival_value)):
        chosen.input(lambda name: gr.update(**_setting(name)), chosen, number, **HIDDEN)  # type: ignore[attr-defined]
    rival.input(  # type: ignore[attr-defined]
        lambda name: gr.update(value=RUN if name == NOBODY else COMPARE), rival, run, **HIDDEN
    )


def _connect(
    context: DemoContext,
    inputs: list[gr.components.Component],
    outputs: list[gr.components.Component],
    run: gr.Button,
    stop: gr.Button,
) -> None:
    def watch(
        world: str,
        home: float,
        find: str,
        start: float,
        strategy: str,
        value: float | None,
        rival: str,
        rival_value: float | None,
        limit: float,
        pace: str,
        request: gr.Request,
    ) -> Iterator[Any]:
        """Search for an object in a home, two ways at once if ``rival`` is one; streams status, pictures, thoughts."""
        ways = ((strategy, value), (rival, rival_value))
        yield from run_navigation(
            context,
            owner_of(str(request.session_hash)),
            lambda: read_request(world, home, find, start, ways, limit, pace),
        )

    connect(context, Runner(watch, inputs, outputs, run, stop, owner_of, "navigate"))
