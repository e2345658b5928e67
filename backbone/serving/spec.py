"""An action spec as plain values, in a server's metadata and in a robot's JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backbone.contracts import ActionSpec
from backbone.errors import DataError

FIELDS = ("names", "units", "low", "high", "control_hz", "kind", "choices", "meanings")
REQUIRED = ("names", "units", "low", "high", "control_hz")


def spec_to_plain(spec: ActionSpec) -> dict[str, Any]:
    """Lists, texts and numbers only; `spec_from_plain` gives the spec again."""
    values = {name: getattr(spec, name) for name in FIELDS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def spec_from_plain(values: Any, where: str) -> ActionSpec:
    """The spec that ``values`` describe; raises `DataError` naming ``where`` and what is missing, unknown or wrong."""
    if not isinstance(values, Mapping):
        raise DataError(f"{where}: an action spec must be an object with {', '.join(FIELDS)}, got {values!r:.80}")
    missing, unknown = [n for n in REQUIRED if n not in values], [str(n) for n in values if n not in FIELDS]
    if missing or unknown:
        raise DataError(
            f"{where}: action spec: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}; "
            f"the fields are {', '.join(FIELDS)}"
        )
    texts = {n: _tuple(values.get(n, ()), str, f"{where}: {n}") for n in ("names", "units", "choices", "meanings")}
    lows, highs = (_tuple(values[n], (int, float), f"{where}: {n}") for n in ("low", "high"))
    rate, kind = values["control_hz"], values.get("kind", "continuous")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or kind not in ("continuous", "discrete"):
        raise DataError(f"{where}: control_hz must be a number and kind continuous or discrete, got {rate!r}, {kind!r}")
    low, high = tuple(float(v) for v in lows), tuple(float(v) for v in highs)
    try:
        return ActionSpec(
            texts["names"], texts["units"], low, high, float(rate), kind, texts["choices"], texts["meanings"]
        )
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _tuple(values: Any, kinds: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple) or any(isinstance(v, bool) or not isinstance(v, kinds) for v in values):
        wanted = "texts" if kinds is str else "numbers"
        raise DataError(f"{where}: expected a list of {wanted}, got {values!r:.80}")
    return tuple(values)
