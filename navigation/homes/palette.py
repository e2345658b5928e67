"""The colours and surfaces of one home: a few materials for every role that furniture names."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, field
from random import Random

from navigation.homes.description import Material, Rgb

_WOODS: tuple[tuple[Rgb, Rgb], ...] = (
    ((168, 118, 72), (120, 78, 42)),
    ((206, 170, 120), (172, 132, 84)),
    ((110, 72, 48), (70, 44, 30)),
    ((226, 206, 172), (196, 172, 132)),
    ((140, 84, 56), (96, 52, 34)),
    ((88, 80, 74), (58, 52, 48)),
    ((236, 232, 224), (214, 208, 198)),
)
_FLOORS: dict[str, tuple[str, ...]] = {
    "bathroom": ("tiles", "checker", "tiles"),
    "kitchen": ("tiles", "checker", "planks"),
    "bedroom": ("planks", "carpet", "parquet"),
    "gym": ("carpet", "planks"),
}
_WALLS: dict[str, tuple[str, ...]] = {
    "bathroom": ("tiles", "tiles", "plaster"),
    "kitchen": ("plaster", "tiles", "plaster"),
    "living_room": ("plaster", "plaster", "bricks", "stripes"),
    "bedroom": ("plaster", "stripes", "diamonds"),
    "gym": ("plaster", "bricks"),
}


def _hsv(random: Random, saturation: tuple[float, float], value: tuple[float, float]) -> Rgb:
    r, g, b = colorsys.hsv_to_rgb(random.random(), random.uniform(*saturation), random.uniform(*value))
    return int(r * 255), int(g * 255), int(b * 255)


def _grey(random: Random, low: int, high: int) -> Rgb:
    v = random.randint(low, high)
    return v, v, min(255, v + random.randint(0, 6))


def _darker(colour: Rgb, share: float) -> Rgb:
    return int(colour[0] * share), int(colour[1] * share), int(colour[2] * share)


@dataclass
class Palette:
    """Collects the materials of a home; `pick` gives the index of one for a role."""

    random: Random
    materials: list[Material] = field(default_factory=list)
    _roles: dict[str, list[int]] = field(default_factory=dict)

    def add(self, pattern: str, colour: Rgb, second: Rgb) -> int:
        """A new material; its index."""
        self.materials.append(Material(pattern, colour, second, self.random.randrange(2**31)))
        return len(self.materials) - 1

    def pick(self, role: str) -> int:
        """One of the home's materials for a role; paintings and screens are new ones up to a number."""
        have = self._roles.setdefault(role, [])
        most = {
            "painting": 7,
            "screen": 3,
            "fabric": 5,
            "wood": 3,
            "towel": 3,
            "view": 2,
            "rug": 2,
            "front": 2,
            "books": 2,
        }
        if len(have) < most.get(role, 1):
            have.append(self._make(role))
            if role not in ("painting", "screen"):
                return self.random.choice(have)
            return have[-1]
        return self.random.choice(have)

    def wood(self) -> int:
        """One of the home's woods."""
        return self.pick("wood")

    def _make(self, role: str) -> int:
        r = self.random
        if role in ("wood", "frame", "leg"):
            light, dark = r.choice(_WOODS)
            return self.add("metal" if role == "leg" and r.random() < 0.4 else "grain", light, dark)
        if role == "front":
            if r.random() < 0.5:
                return self.add("plain", _hsv(r, (0.05, 0.5), (0.55, 0.95)), (0, 0, 0))
            return self.add("grain", *r.choice(_WOODS))
        if role in ("fabric", "towel", "linen", "shade", "rug"):
            low, high = {"linen": (0.0, 0.12), "shade": (0.05, 0.3), "towel": (0.1, 0.6)}.get(role, (0.2, 0.75))
            colour = _hsv(r, (low, high), (0.8, 0.97) if role in ("linen", "shade") else (0.35, 0.9))
            second = _hsv(r, (low, high), (0.5, 0.95))
            pattern = {"rug": "rug", "fabric": r.choice(("fabric", "fabric", "plaid", "stripes"))}.get(role, "fabric")
            return self.add(pattern, colour, second)
        fixed: dict[str, tuple[str, Rgb, Rgb]] = {
            "metal": ("metal", _grey(r, 150, 200), _grey(r, 90, 130)),
            "plate": ("metal", _grey(r, 50, 90), _grey(r, 30, 60)),
            "dark": ("plain", _grey(r, 18, 42), (0, 0, 0)),
            "white": ("plain", _grey(r, 225, 245), (0, 0, 0)),
            "ceramic": ("plain", r.choice(((244, 244, 242), (240, 236, 226), (226, 232, 236))), (0, 0, 0)),
            "water": ("marble", (176, 212, 222), (206, 232, 238)),
            "stone": ("marble", _grey(r, 60, 220), _grey(r, 120, 235)),
            "tiles": ("tiles", _hsv(r, (0.05, 0.45), (0.6, 0.95)), _grey(r, 140, 220)),
            "brick": ("bricks", _hsv(r, (0.1, 0.2), (0.5, 0.7)), _grey(r, 160, 210)),
            "fire": ("fire", (226, 88, 30), (255, 214, 96)),
            "leaves": ("leaves", (58, 116, 48), (104, 158, 72)),
            "pot": ("plaster", _hsv(r, (0.2, 0.7), (0.4, 0.8)), (0, 0, 0)),
            "earth": ("carpet", (74, 54, 38), (54, 40, 30)),
            "painting": ("painting", _hsv(r, (0.2, 0.8), (0.4, 0.9)), _hsv(r, (0.2, 0.8), (0.4, 0.9))),
            "screen": ("screen", _hsv(r, (0.3, 0.8), (0.3, 0.8)), _hsv(r, (0.2, 0.8), (0.4, 0.9))),
            "books": ("books", _hsv(r, (0.2, 0.7), (0.3, 0.8)), (90, 70, 50)),
            "appliance": ("metal", *r.choice((((236, 236, 236), (220, 220, 222)), ((168, 172, 178), (130, 134, 140))))),
            "hob": ("hob", (150, 60, 50), (0, 0, 0)),
            "glass": ("metal", (178, 198, 208), (214, 226, 232)),
            "card": ("plaster", (186, 146, 98), (150, 112, 70)),
            "view": ("view", (60, 104, 56), (108, 148, 78)),
        }
        if role == "brick":
            return self.add("bricks", r.choice(((160, 84, 62), (184, 178, 170), (140, 96, 74))), _grey(r, 150, 210))
        return self.add(*fixed[role])

    def floor(self, kind: str) -> int:
        """A floor for a kind of room; often shared between rooms."""
        pattern = self.random.choice(_FLOORS.get(kind, ("planks", "parquet", "planks", "carpet")))
        have = self._roles.setdefault(f"floor {pattern}", [])
        if have and self.random.random() < 0.6:
            return self.random.choice(have)
        if pattern in ("planks", "parquet"):
            colours = self.random.choice(_WOODS[:6])
        elif pattern == "carpet":
            colour = _hsv(self.random, (0.05, 0.45), (0.35, 0.75))
            colours = colour, _darker(colour, 0.8)
        else:
            colours = _hsv(self.random, (0.0, 0.25), (0.55, 0.92)), _grey(self.random, 90, 170)
        have.append(self.add(pattern, *colours))
        return have[-1]

    def wall(self, kind: str) -> int:
        """A wall's surface for a kind of room."""
        pattern = self.random.choice(_WALLS.get(kind, ("plaster",)))
        colour = _hsv(self.random, (0.02, 0.2), (0.8, 0.97))
        if pattern == "bricks":
            return self.add(
                pattern, self.random.choice(((170, 100, 76), (206, 200, 190))), _grey(self.random, 150, 210)
            )
        second = (
            _darker(colour, self.random.uniform(0.82, 0.93)) if pattern != "tiles" else _grey(self.random, 160, 225)
        )
        return self.add(pattern, colour, second)

    def ceiling(self) -> int:
        """The home's ceiling, the same in all rooms."""
        have = self._roles.setdefault("ceiling", [])
        if not have:
            have.append(self.add("plaster", _grey(self.random, 224, 246), (0, 0, 0)))
        return have[0]
