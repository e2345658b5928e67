"""Errors as the page says them."""

from __future__ import annotations


def sentence(error: BaseException) -> str:
    """The error's message as a sentence; a file's name at its beginning stays as it is."""
    text = str(error).strip() or type(error).__name__
    begun = text if "." in text.split()[0] else text[0].upper() + text[1:]
    return begun + ("" if text.endswith((".", "!", "?")) else ".")
