"""What a home is: rooms, doors, windows and things, as plain values that JSON can hold.

Frame: metres, y up, floor at y = 0; x and z span the plan. A thing stands at ``position``, the middle of its underside,
and is turned by ``yaw`` about y: at 0 its front looks along +z, at pi / 2 along +x. The description alone fixes the
mesh (`navigation.homes.meshes.home_mesh`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints

from backbone.errors import DataError

Vector = tuple[float, float, float]
Rgb = tuple[int, int, int]

FLOOR, WALL, CEILING = 1, 2, 3  # ids of the shell; doors, windows and things have ids from `FIRST_ID` on
FIRST_ID = 10


@dataclass(frozen=True)
class Material:
    """One tile of the atlas: a pattern of `navigation.homes.materials` in two colours; ``seed`` fixes its noise."""

    pattern: str
    colour: Rgb
    second: Rgb
    seed: int


@dataclass(frozen=True)
class Room:
    """The free rectangle between a room's walls, and the materials (indices) of its surfaces."""

    name: str
    kind: str
    x0: float
    z0: float
    x1: float
    z1: float
    floor: int
    wall: int
    ceiling: int
    lamp: Vector  # colour of its ceiling lamp

    def contains(self, x: float, z: float, margin: float = 0.0) -> bool:
        """Whether a point of the plan lies in the room, ``margin`` metres from its walls."""
        return self.x0 + margin <= x <= self.x1 - margin and self.z0 + margin <= z <= self.z1 - margin

    @property
    def area(self) -> float:
        """Square metres."""
        return (self.x1 - self.x0) * (self.z1 - self.z0)


@dataclass(frozen=True)
class Door:
    """An opening through a wall between two rooms; ``along`` is the axis the wall runs along.

    The opening spans ``width`` about (x, z), the middle of the wall, clear of its frame.
    """

    id: int
    rooms: tuple[str, str]
    x: float
    z: float
    along: str  # "x" or "z"
    width: float
    height: float
    framed: bool
    material: int


@dataclass(frozen=True)
class Window:
    """A window on an outer wall of ``room``: its middle on the wall, looking into the room along ``yaw``."""

    id: int
    room: str
    position: Vector
    yaw: float
    width: float
    height: float
    view: int
    frame: int
    curtain: int  # a material, or -1 for none


@dataclass(frozen=True)
class Thing:
    """A piece of furniture or clutter. ``size`` is width (x), height (y) and depth (z) before turning."""

    id: int
    category: str
    room: str
    position: Vector
    yaw: float
    size: Vector
    variant: int  # seeds the choices its builder makes
    materials: tuple[int, ...]
    on: int = 0  # the thing it lies on, 0 for the floor or a wall

    def corners(self) -> tuple[tuple[float, float], ...]:
        """The four corners (x, z) of its footprint."""
        w, d, c, s = self.size[0] / 2, self.size[2] / 2, math.cos(self.yaw), math.sin(self.yaw)
        x, z = self.position[0], self.position[2]
        return tuple((x + c * a + s * b, z - s * a + c * b) for a, b in ((-w, -d), (w, -d), (w, d), (-w, d)))

    def box(self) -> tuple[Vector, Vector]:
        """The upright box along the axes that holds it: its low and its high corner."""
        xs, zs = [c[0] for c in self.corners()], [c[1] for c in self.corners()]
        y = self.position[1]
        return (min(xs), y, min(zs)), (max(xs), y + self.size[1], max(zs))


@dataclass(frozen=True)
class Home:
    """A home. ``start`` is a free place in it (y = 0) where an agent may begin, looking along ``start_heading``.

    A heading is in radians: 0 looks along -z, and it grows to the left, as a rotation about y does.
    """

    seed: int
    split: str
    height: float  # of the rooms
    wall: float  # thickness
    rooms: tuple[Room, ...]
    doors: tuple[Door, ...]
    windows: tuple[Window, ...]
    things: tuple[Thing, ...]
    materials: tuple[Material, ...]
    sun: Vector  # direction towards it
    daylight: float  # 0 dark to 1 bright
    start: Vector
    start_heading: float

    def __post_init__(self) -> None:
        names = {r.name for r in self.rooms}
        ids = [d.id for d in self.doors] + [w.id for w in self.windows] + [t.id for t in self.things]
        if len(names) != len(self.rooms) or len(set(ids)) != len(ids) or min(ids, default=FIRST_ID) < FIRST_ID:
            raise DataError(f"home {self.seed}: room names and ids must be unique and ids start at {FIRST_ID}")
        used = [r for d in self.doors for r in d.rooms]
        used += [w.room for w in self.windows] + [t.room for t in self.things]
        if not names.issuperset(used):
            raise DataError(f"home {self.seed}: no room {sorted(set(used) - names)}; there are {sorted(names)}")

    def labels(self) -> dict[int, str]:
        """The category of every id in the mesh."""
        out = {FLOOR: "floor", WALL: "wall", CEILING: "ceiling"}
        out |= {d.id: "door" for d in self.doors} | {w.id: "window" for w in self.windows}
        return out | {t.id: t.category for t in self.things}

    def thing(self, thing_id: int) -> Thing:
        """The thing with this id; `DataError` if there is none."""
        for thing in self.things:
            if thing.id == thing_id:
                return thing
        raise DataError(f"home {self.seed} has no thing {thing_id}")

    def of(self, category: str) -> tuple[Thing, ...]:
        """All things of a category."""
        return tuple(t for t in self.things if t.category == category)

    def room(self, name: str) -> Room:
        """The room with this name; `DataError` if there is none."""
        for room in self.rooms:
            if room.name == name:
                return room
        raise DataError(f"home {self.seed} has no room {name!r}")

    def room_at(self, x: float, z: float) -> str:
        """The name of the room at a point of the plan; in a doorway, the nearest room's."""

        def away(room: Room) -> float:
            return math.hypot(max(room.x0 - x, 0.0, x - room.x1), max(room.z0 - z, 0.0, z - room.z1))

        return min(self.rooms, key=away).name

    def to_json(self) -> str:
        """One line of JSON that `from_json` turns into an equal home."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Home:
        """The home of a JSON text; `DataError` for anything that is not one."""
        try:
            values = json.loads(text)
            parts = {"rooms": Room, "doors": Door, "windows": Window, "things": Thing, "materials": Material}
            made = {name: tuple(_filled(kind, v) for v in values[name]) for name, kind in parts.items()}
            return _filled(cls, {**values, **made})  # type: ignore[no-any-return]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"this text describes no home: {type(error).__name__}: {error}") from error


def _filled(kind: Any, values: Mapping[str, Any]) -> Any:
    """An instance of a dataclass from JSON values; lists become tuples, numbers keep the field's type."""
    wanted = get_type_hints(kind)
    names = {f.name for f in fields(kind)}
    if unknown := set(values) - names:
        raise DataError(f"{kind.__name__} has no field {sorted(unknown)}; it has {sorted(names)}")

    def plain(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(tuple(v) if isinstance(v, list) else v for v in value)
        if wanted[name] is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        return value

    return kind(**{name: plain(name, value) for name, value in values.items()})
