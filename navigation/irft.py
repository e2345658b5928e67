"""Stage 3: what becomes of a rollout. Successes are kept, failures cut where they went wrong and led to the target.

Algorithm 2 of the paper. A rollout is judged by its actions and its distances to the target alone, so the decision is a
pure function; carrying it out needs a world and is done by `navigation.repairing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from backbone.errors import DataError
from navigation.config import DataConfig

Outcome = Literal["success", "misidentified", "timeout"]
Fate = Literal["keep", "repair", "drop"]


@dataclass(frozen=True)
class Judgement:
    """What a rollout came to, what is done with it, and for a repair the time at which it is cut."""

    outcome: Outcome
    fate: Fate
    at: int | None = None
    why: str = ""


def outcome_of(ended: bool, distance_m: float, config: DataConfig) -> Outcome:
    """Success within ``success_m`` of the target, misidentification farther away, timeout without an end.

    ``distance_m`` is that of the rule of section 5.3, from the object itself.
    """
    if not ended:
        return "timeout"
    return "success" if distance_m <= config.success_m else "misidentified"


def judge(
    ended: bool, object_m: float, distances: Sequence[float], stagnant: Sequence[int], config: DataConfig
) -> Judgement:
    """Keep, or repair and where.

    Args:
        ended: whether the robot itself said ``end``.
        object_m: metres to the nearest object of the category when it was over.
        distances: metres of the shortest way left at times 0 ... T, the last one where the rollout was over.
        stagnant: the times at which it was found stagnant.
        config: the radius of success.

    Raises:
        DataError: no distances, or a stagnant time outside them.
    """
    if not distances or any(not 0 <= t < len(distances) for t in stagnant):
        raise DataError(
            f"a rollout needs distances, and stagnant times within them: {len(distances)}, {list(stagnant)}"
        )
    outcome = outcome_of(ended, object_m, config)
    if outcome == "success":
        return Judgement(outcome, "keep")
    if outcome == "misidentified":
        return Judgement(outcome, "repair", len(distances) - 1)
    times = list(stagnant) or list(range(len(distances)))
    return Judgement(outcome, "repair", min(times, key=lambda t: (distances[t], t)))


def accept(judgement: Judgement, steps: int, object_m: float, config: DataConfig) -> Judgement:
    """The judgement once the repair is made: dropped if it is too long or does not end at the target.

    Args:
        judgement: of the rollout.
        steps: actions of the body in the repaired trajectory, its beginning included.
        object_m: metres to the object at its end.
        config: the limits, ``repaired_steps`` (400) and ``success_m`` (1.0).
    """
    if judgement.fate != "repair":
        return judgement
    if steps > config.repaired_steps:
        return Judgement(judgement.outcome, "drop", judgement.at, f"{steps} steps, more than {config.repaired_steps}")
    if object_m > config.success_m:
        return Judgement(judgement.outcome, "drop", judgement.at, f"ends {object_m:.2f} m from the object")
    return judgement


def look_due(since_look: int, config: DataConfig) -> bool:
    """Whether the corrective part looks around now, so many motor actions after the last time."""
    return since_look >= config.repaired_obs_every
