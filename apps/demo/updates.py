"""What a tab's callback gives back to the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr


def row(outputs: Sequence[str], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """One value for each of ``outputs``; those that ``values`` does not name stay as they are on the page."""
    unknown = set(values) - set(outputs)
    if unknown:
        raise KeyError(f"no such outputs: {sorted(unknown)}")
    return tuple(values.get(name, gr.skip()) for name in outputs)
