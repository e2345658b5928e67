"""What connecting a tab's buttons needs in every tab: two buttons of which one can be pressed, and where to look."""

from __future__ import annotations

from typing import Any

import gradio as gr

from apps.demo.search_view import message_html

HIDDEN: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}


def states(*, running: bool) -> tuple[Any, Any]:
    """The button that starts and the one that stops: only one of them can be pressed."""
    return gr.update(interactive=not running), gr.update(interactive=running)


def scroll_to(element: str) -> str:
    """JavaScript that brings an element into view: on a phone the results are below the form."""
    return f"""() => {{
  const element = document.querySelector("#{element}");
  if (element.getBoundingClientRect().bottom > window.innerHeight) element.scrollIntoView({{behavior: "smooth"}});
}}"""


def after_refusal(stages: str) -> tuple[Any, ...]:
    """Stages and buttons after a failure; one before anything was shown came from the queue or the upload field."""
    if 'data-phase="waiting"' in stages:
        stages = message_html("failed", "Too many runs are waiting, or the input was refused. Try again in a moment.")
    return stages, *states(running=False)
