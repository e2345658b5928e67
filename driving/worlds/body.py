"""Anything that stands or moves on the road, in the driving world's frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["car", "truck", "cyclist", "pedestrian", "obstacle"]


@dataclass(frozen=True)
class Body:
    """Pose of its middle on the ground (m, rad from east counter-clockwise), speed (m/s), size (m).

    ``id`` is its number in the id images; ``braking`` lights the brake lights.
    """

    id: int
    kind: Kind
    x: float
    y: float
    heading: float
    speed: float
    length: float
    width: float
    height: float = 1.5
    braking: bool = False
