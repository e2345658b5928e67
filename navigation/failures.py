"""Why an episode failed, from what was measured of it: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from navigation.config import DataConfig
from navigation.stagnation import repeats

Failure = Literal[
    "success",
    "unreachable",  # no way leads to any goal
    "stopped_short",  # ended with the target in the picture, but too far away
    "misidentified",  # ended before something else (or out of sight of the target, which it had seen)
    "gave_up",  # ended before nothing, never having seen the target
    "timeout_stagnated",  # ran out of steps, having been where it was at least `stagnation_steps` before
    "timeout_wandering",  # ran out of steps without
]
ORDER: tuple[Failure, ...] = (
    "success",
    "misidentified",
    "stopped_short",
    "gave_up",
    "timeout_stagnated",
    "timeout_wandering",
    "unreachable",
)


def classify(measures: Mapping[str, float]) -> Failure:
    """The one name for how an episode ended.

    Needs ``success``, ``stopped`` and ``reachable`` of `navigation.metrics.outcome_metrics`, and ``stagnated``,
    ``target_seen``, ``target_ahead`` and ``object_ahead`` of `navigation.watching` (0 or 1); where a scene has no
    labels the last three are missing and every wrong end counts as misidentified, as in the paper (section 5.3).

    Raises:
        DataError: a measure that is always there is missing.
    """
    missing = [name for name in ("success", "stopped", "reachable", "stagnated") if name not in measures]
    if missing:
        raise DataError(
            f"an episode without {', '.join(missing)} cannot be classified; run it with fovea eval navigation"
        )
    if measures["success"]:
        return "success"
    if not measures["reachable"]:
        return "unreachable"
    if not measures["stopped"]:
        return "timeout_stagnated" if measures["stagnated"] else "timeout_wandering"
    if measures.get("target_ahead"):
        return "stopped_short"
    blind = measures.get("target_seen") == 0.0 and measures.get("object_ahead") == 0.0
    return "gave_up" if blind else "misidentified"


def taxonomy(rows: Sequence[Mapping[str, float]]) -> dict[str, int]:
    """How many episodes ended in each way; ``never_saw`` counts the failures in which the target was never in view."""
    counts: dict[str, int] = dict.fromkeys(ORDER, 0)
    for row in rows:
        counts[classify(row)] += 1
    never = sum(not row["success"] and row.get("target_seen") == 0.0 for row in rows)
    return {**counts, "never_saw": never}


def stagnated(places: NDArray[np.float64], config: DataConfig | None = None) -> bool:
    """Whether a walk (T, 2), metres, comes back to within ``stagnation_m`` of where it was ``stagnation_steps`` before.

    The test of repetition of section 5.1 over a whole episode: ``‖p_t - p_k‖ <= delta`` for some ``k <= t - T_stag``.
    """
    c = config or DataConfig()
    way = cast(Sequence[Sequence[float]], places)  # rows of numbers, which is all that is asked of it
    times = range(c.stagnation_steps, len(places))
    return any(repeats(way, t, steps=c.stagnation_steps, radius_m=c.stagnation_m) for t in times)
