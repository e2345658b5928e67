"""Cutting a trajectory where it is to look around: after every so many actions of the body (section 4.2)."""

from __future__ import annotations

from backbone.errors import DataError


def looks(steps: int, segment: int = 16) -> list[int]:
    """Before which actions (numbered from 0) an episode of ``steps`` motor actions looks around.

    A segment is ``segment - 1`` motor actions and ``obs``; the episode begins with a look around, and none is made
    where only the end is left.
    """
    if segment < 2 or steps < 0:
        raise DataError(f"segments need at least 2 steps and a trajectory none below 0, got {segment} and {steps}")
    return [0, *range(segment - 1, steps, segment - 1)]


def due(since_look: int, segment: int = 16) -> bool:
    """Whether it is time to look around, so many motor actions after the last time."""
    return since_look >= segment - 1
