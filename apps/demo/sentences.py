"""Errors as the page says them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import Any, Literal

import gradio as gr

from backbone.errors import CancelledError, FoveaError

Ending = Literal["cancelled", "failed"]
CRASHED = "The program failed; its terminal shows how. Please report it."


def told(updates: Iterator[Any], show: Callable[[Ending, str], Any], cancelled: str) -> Iterator[Any]:
    """``updates``, and what ended them early as ``show`` draws it.

    A run that was cancelled ends there, with the words ``cancelled``; one that failed ends with an error toast as well.
    """
    try:
        yield from updates
    except CancelledError:
        yield show("cancelled", cancelled)
    except FoveaError as error:
        message = sentence(error)
        yield show("failed", message)
        raise gr.Error(escape(message, quote=False), print_exception=False) from error
    except Exception:
        yield show("failed", CRASHED)
        raise


def sentence(error: BaseException) -> str:
    """The error's message as a sentence; a file's name at its beginning stays as it is."""
    text = str(error).strip() or type(error).__name__
    begun = text if "." in text.split()[0] else text[0].upper() + text[1:]
    return begun + ("" if text.endswith((".", "!", "?")) else ".")
