"""Cutting a trajectory where it is to look around: after every so many actions of the body (section 4.2), or sooner.

A way from one place to another is a row of straight legs. What lies beyond the end of a leg is mostly out of sight at
its beginning, so a plan can only be made for one; segments of the kind ``legs`` end where a leg does.
"""

from __future__ import annotations

import math

from backbone.errors import DataError
from navigation.actions import LEFT, RIGHT
from navigation.config import DataConfig
from navigation.records import Pose
from navigation.worlds.navigation_world import bearing, wrapped

TURN = math.radians(30.0)
_OFF = math.radians(40.0)  # from a leg's direction: more than what one turn corrects
_LEAST_M = 0.75  # a shorter way has no direction to leave


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


def turns_off(first: Pose, here: Pose, wanted: str) -> bool:
    """Whether ``wanted`` is a turn away from the straight line along which the robot came here from ``first``."""
    if wanted not in (LEFT, RIGHT) or math.dist(first[:2], here[:2]) < _LEAST_M:
        return False
    after = here[2] + (TURN if wanted == LEFT else -TURN)
    return abs(wrapped(after - bearing(first, here))) > _OFF


def leg_ends(since_look: int, first: Pose, here: Pose, wanted: str, config: DataConfig) -> bool:
    """Whether it is time to look around because the way turns off; never where segments have a fixed length."""
    return config.segments == "legs" and since_look >= config.least_leg and turns_off(first, here, wanted)
