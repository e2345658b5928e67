"""What navigation worlds share: Habitat's actions, frames and words.

Positions are metres, y up; a heading is radians about y, 0 looking along -z, growing to the left; rotations are
``x, y, z, w``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from backbone.contracts import FloatArray, Image

ACTIONS = ("stop", "move_forward", "turn_left", "turn_right")
LOOKS = ("look_up", "look_down")
LOOK_AROUND = "look_around"  # the next observation holds the whole `PANORAMA`; the body does not move
PANORAMA = ("front", "left", "back", "right")  # the order of a look around, each a quarter turn to the left


def instruction_for(category: str) -> str:
    """What an agent is told: ``tv_monitor`` -> ``find the tv monitor``."""
    return f"find the {category.replace('_', ' ')}"


def with_panorama(front: Image, around: Mapping[str, Image] | None) -> dict[str, Image]:
    """The cameras of a world that can look around: ``front``, and the others, which are black unless it just did."""
    dark = np.zeros_like(front)
    return {name: front if name == PANORAMA[0] else (around[name] if around else dark) for name in PANORAMA}


def rotation_xyzw(heading: float) -> tuple[float, float, float, float]:
    """The rotation of a body with this heading."""
    return 0.0, math.sin(heading / 2), 0.0, math.cos(heading / 2)


def heading_of(rotation: tuple[float, float, float, float]) -> float:
    """The heading of a body with this rotation ``x, y, z, w``, which must be about y."""
    return 2.0 * math.atan2(rotation[1], rotation[3])


def ahead(heading: float) -> tuple[float, float]:
    """The unit step (x, z) that a heading leads along."""
    return -math.sin(heading), -math.cos(heading)


def bearing(here: Sequence[float], there: Sequence[float]) -> float:
    """The heading that leads from one place (x, z, ...) to another."""
    return math.atan2(-(there[0] - here[0]), -(there[1] - here[1]))


def wrapped(angle: float) -> float:
    """An angle in (-pi, pi]."""
    return math.pi - (math.pi - angle) % (2.0 * math.pi)


def gps_compass(
    start: tuple[float, float], start_heading: float, here: tuple[float, float], heading: float
) -> FloatArray:
    """Habitat's EpisodicGPS and EpisodicCompass (3,): metres ahead and right of the start, radians to the left."""
    x, z = here[0] - start[0], here[1] - start[1]
    forward = ahead(start_heading)
    return np.array(
        [x * forward[0] + z * forward[1], -x * forward[1] + z * forward[0], wrapped(heading - start_heading)],
        np.float32,
    )
