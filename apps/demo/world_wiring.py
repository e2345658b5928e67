"""Connecting the buttons of a tab that runs episodes: run, stop, and what the page shows while it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from apps.demo.context import DemoContext
from apps.demo.wiring import HIDDEN, scroll_to, states
from apps.demo.worlds_view import status_html

# What depends on a newly made choice comes from the server; until then there is nothing sensible to run.
HOLD_RUN = "() => ({__type__: 'update', interactive: false})"
BUSY = "Too many runs are waiting. Try again in a moment."


@dataclass(frozen=True)
class Runner:
    """A tab's run: what is called with ``inputs``, fills ``outputs`` (its status first), and goes by ``owner``."""

    watch: Callable[..., Any]
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    run: gr.Button
    stop: gr.Button
    owner: Callable[[str], str]  # from a session to the name under which its runs wait
    api_name: str


def connect(context: DemoContext, runner: Runner) -> None:
    """A click runs; the other button stops it; a run that the queue refused says so."""
    status, run, stop, buttons = runner.outputs[0], runner.run, runner.stop, [runner.run, runner.stop]

    def halt(request: gr.Request) -> tuple[Any, Any]:
        context.worlds.cancel(runner.owner(str(request.session_hash)))
        return gr.skip(), gr.update(interactive=False)

    begun = run.click(lambda: (status_html("waiting"), *states(running=True)), None, [status, *buttons], **HIDDEN)
    ran = begun.then(
        runner.watch,
        list(runner.inputs),
        list(runner.outputs),
        api_name=runner.api_name,
        show_progress="hidden",
        concurrency_limit=context.config.max_worlds,
        concurrency_id="worlds",
    )
    # Gradio 6.31's page does not fire .then after a failure, so both ends are connected.
    ran.success(lambda: states(running=False), None, buttons, **HIDDEN)
    ran.failure(_after_failure, status, [status, *buttons], **HIDDEN)
    run.click(None, None, None, js=scroll_to(str(status.elem_id)))
    stop.click(halt, None, buttons, **HIDDEN)


def _after_failure(status: str) -> tuple[Any, ...]:
    """A run that failed before it showed anything was refused by the queue."""
    if 'data-phase="waiting"' in status:
        status = status_html("failed", message=BUSY)
    return status, *states(running=False)
