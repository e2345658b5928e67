"""Fields of a form whose values arrive as they were sent, and checks that say what is wrong with which of them.

Gradio's own fields round 1.5 to 2 and take true for 1 before a tab sees it, and fail on null without a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gradio as gr

from apps.demo.picture_input import NoStubs
from backbone.errors import DataError

SHOWN = 80  # characters of a wrong value


class NumberField(gr.Number, metaclass=NoStubs):
    """`gr.Number` that leaves checking to `whole` or `number`."""

    is_template = True  # the page shows gr.Number's own widget

    def preprocess(self, payload: Any) -> Any:
        """The value as it was sent."""
        return payload


class SliderField(gr.Slider, metaclass=NoStubs):
    """`gr.Slider` that leaves checking to `whole` or `number`."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """The value as it was sent."""
        return payload


class RadioField(gr.Radio, metaclass=NoStubs):
    """`gr.Radio` that leaves checking to `one_of`."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """The value as it was sent."""
        return payload


class DropdownField(gr.Dropdown, metaclass=NoStubs):
    """`gr.Dropdown` that leaves checking to `one_of`, or to what only the run knows."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """The value as it was sent."""
        return payload


class Page(gr.Blocks):
    """`gr.Blocks` that tells a script which values it left out."""

    def validate_inputs(self, block_fn: Any, inputs: list[Any]) -> None:
        """Refuse too few values; Gradio's own message does not reach the script."""
        names = [getattr(block, "label", None) or type(block).__name__ for block in block_fn.inputs]
        if len(inputs) < len(names):
            missing = ", ".join(names[len(inputs) :])
            raise gr.Error(
                f"{len(names)} values were expected, in this order: {', '.join(names)}; got {len(inputs)}, so there is "
                f"none for {missing}.",
                print_exception=False,
            )
        super().validate_inputs(block_fn, inputs)


def whole(field: str, value: Any, least: int, most: int) -> int:
    """``value`` as an integer; raises `DataError` for all but a whole number from ``least`` to ``most``."""
    if not _is_number(value, least, most) or value % 1:
        raise DataError(f"{field} must be a whole number from {least} to {most}, got {given(value)}")
    return int(value)


def number(field: str, value: Any, least: float, most: float) -> float:
    """``value`` as a float; raises `DataError` for all but a number from ``least`` to ``most``."""
    if not _is_number(value, least, most):
        raise DataError(f"{field} must be a number from {least:g} to {most:g}, got {given(value)}")
    return float(value)


def one_of(field: str, value: Any, known: Iterable[Any]) -> Any:
    """``value``; raises `DataError` unless it is one of ``known`` and of its type (true is not 1)."""
    names = [*known]
    if not any(type(value) is type(name) and value == name for name in names):
        raise DataError(f"{field} must be one of {', '.join(map(str, names))}, got {given(value)}")
    return value


def given(value: Any) -> str:
    """A wrong value as messages quote it."""
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _is_number(value: Any, least: float, most: float) -> bool:
    """Whether it is a number in the range; NaN and infinities are in none, true and false are no numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(least <= value <= most)
