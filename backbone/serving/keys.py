"""Maps in which every key stands once: of a key that comes twice, readers keep the first or the last as they please."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backbone.errors import FoveaError


def without_twins(pairs: Sequence[tuple[Any, Any]], error: Callable[[str], FoveaError]) -> dict[Any, Any]:
    """The pairs of a map as a dict; raises ``error`` for a key that comes twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        shown = twice.decode("utf-8", "replace") if isinstance(twice, bytes) else twice
        raise error(f"the key {shown!r:.60} comes {names.count(twice)} times in one map; give every key once")
    return found
