"""A world's privileged description as named numbers, and as one line of JSON. Pure and the same for every world."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

MAX_LABELS = 1024  # numbers a frame; a longer description is whole in the JSON only


def flatten(description: Mapping[str, Any]) -> dict[str, float]:
    """Every number and truth value of nested JSON, by its path: ``{"goal": {"at": [1, 2]}}`` -> goal.at.0, goal.at.1.

    Keys are taken in sorted order and entries of lists by their place, so equal structures give equal names in equal
    order. A dot or backslash inside a key is escaped, so two paths never share a name. Texts and nulls are left out;
    NaN and infinities become NaN.
    """
    return {".".join(path): number for path, number in _walk(description, ())}


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool | int | float):
        yield path, _finite(value)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _walk(value[key], (*path, str(key).replace("\\", "\\\\").replace(".", "\\.")))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for place, item in enumerate(value):
            yield from _walk(item, (*path, str(place)))


def _finite(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the floats
        return math.nan
    return number if math.isfinite(number) else math.nan


def label_names(description: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that a data set keeps as numbers: those of its first frame, `MAX_LABELS` at most."""
    return tuple(flatten(description))[:MAX_LABELS]


def label_values(description: Mapping[str, Any], names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The values of ``names`` in this description, float64 (N,); NaN for what it does not have."""
    found = flatten(description)
    return np.array([found.get(name, math.nan) for name in names], np.float64)


def to_json(description: Mapping[str, Any]) -> str:
    """The whole description as one line of JSON with sorted keys; NaN and infinities become null."""
    return json.dumps(_plain(description), sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value
