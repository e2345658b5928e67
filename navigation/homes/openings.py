"""Which rooms can be seen from a place: sight passes from room to room through their doors alone.

Seen from above, every door lets an angle pass; what is seen of a room is seen through the common angle of all doors on
the way to it. No room that shows a pixel is left out; a few that show none may be in.
"""

from __future__ import annotations

import math

from navigation.homes.description import Door, Home

_BESIDE = 0.1  # metres that an opening is taken wider and deeper, for frames that stand out of the wall

Angles = tuple[float, float]


def _opening(home: Home, door: Door, x: float, z: float, heading: float) -> Angles | None:
    """From which to which angle, left of the heading, an opening is seen; None for one that the viewer stands in."""
    half, deep = door.width / 2 + _BESIDE, home.wall / 2 + _BESIDE
    w, d = (half, deep) if door.along == "x" else (deep, half)
    if abs(x - door.x) <= w and abs(z - door.z) <= d:
        return None
    toward = math.atan2(-(door.x - x), -(door.z - z))
    corners = [(door.x + a * w - x, door.z + b * d - z) for a in (-1, 1) for b in (-1, 1)]
    offs = [math.remainder(math.atan2(-dx, -dz) - toward, 2 * math.pi) for dx, dz in corners]
    middle = math.remainder(toward - heading, 2 * math.pi)
    return middle + min(offs), middle + max(offs)


def _common(seen: Angles, opening: Angles) -> list[Angles]:
    """The common parts of two ranges of angles, the second one taken modulo a full turn."""
    out = []
    for turn in (-2 * math.pi, 0.0, 2 * math.pi):
        low, high = max(seen[0], opening[0] + turn), min(seen[1], opening[1] + turn)
        if low < high:
            out.append((low, high))
    return out


def rooms_in_sight(home: Home, x: float, z: float, heading: float, half_view: float) -> list[str]:
    """The names of the rooms that may show in a view ``half_view`` radians to each side, the nearest first."""
    doors: dict[str, list[Door]] = {r.name: [d for d in home.doors if r.name in d.rooms] for r in home.rooms}
    found: dict[str, int] = {}
    here = home.room_at(x, z)
    queue: list[tuple[str, Angles, tuple[int, ...]]] = [(here, (-half_view, half_view), ())]
    for name, seen, passed in queue:  # grows while it is read
        found.setdefault(name, len(passed))
        for door in doors[name]:
            if door.id in passed:
                continue
            other = door.rooms[0] if door.rooms[1] == name else door.rooms[1]
            opening = _opening(home, door, x, z, heading)
            parts = [seen] if opening is None else _common(seen, opening)
            queue += [(other, part, (*passed, door.id)) for part in parts]
    return list(found)
