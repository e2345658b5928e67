"""Light and sky of a scene: one sun, light from above and below, a few lamps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backbone.errors import DataError

Colour = tuple[float, float, float]  # red, green, blue; 1 leaves the atlas colour as it is
MAX_LAMPS = 12


def _check(values: Sequence[float], where: str, lowest: float = -math.inf) -> None:
    if len(values) != 3 or not all(math.isfinite(v) and v >= lowest for v in values):
        raise DataError(f"{where}: expected three finite numbers{' >= 0' if lowest == 0 else ''}, got {tuple(values)}")


@dataclass(frozen=True)
class Lamp:
    """A point light at ``position`` (metres) that fades to nothing at ``reach`` metres."""

    position: tuple[float, float, float]
    colour: Colour
    reach: float

    def __post_init__(self) -> None:
        _check(self.position, "lamp position")
        _check(self.colour, "lamp colour", 0.0)
        if not (math.isfinite(self.reach) and self.reach > 0):
            raise DataError(f"lamp reach must be positive metres, got {self.reach}")


@dataclass(frozen=True)
class Lighting:
    """A surface's light, at its corners: ``above`` or ``below`` by where it faces, the sun and the lamps, summed.

    ``to_sun`` points from the scene to the sun; its length does not matter. The driving worlds, whose z is up, give
    ``up`` as (0, 0, 1).
    """

    to_sun: tuple[float, float, float] = (0.4, 0.8, 0.45)
    sun: Colour = (0.45, 0.44, 0.42)
    above: Colour = (0.62, 0.63, 0.65)
    below: Colour = (0.42, 0.41, 0.40)
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)
    lamps: tuple[Lamp, ...] = ()

    def __post_init__(self) -> None:
        for name in ("to_sun", "up"):
            _check(getattr(self, name), f"lighting {name}")
            if math.hypot(*getattr(self, name)) < 1e-6:
                raise DataError(f"lighting {name} must not be the zero vector")
        for name in ("sun", "above", "below"):
            _check(getattr(self, name), f"lighting {name}", 0.0)
        if len(self.lamps) > MAX_LAMPS:
            raise DataError(f"lighting: at most {MAX_LAMPS} lamps, got {len(self.lamps)}; pass the nearest ones")


@dataclass(frozen=True)
class Sky:
    """What is seen where nothing is: a gradient over the direction of view, 0 to 255 a channel."""

    zenith: Colour = (96.0, 150.0, 214.0)
    horizon: Colour = (205.0, 221.0, 235.0)
    ground: Colour = (120.0, 116.0, 108.0)

    def __post_init__(self) -> None:
        for name in ("zenith", "horizon", "ground"):
            _check(getattr(self, name), f"sky {name}", 0.0)

    @classmethod
    def plain(cls, colour: Colour) -> Sky:
        """The same colour in every direction."""
        return cls(colour, colour, colour)
