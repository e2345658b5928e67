"""From a seed to a home. The same seed, split and rules give the same home everywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, get_args

from shapely.geometry import Point, box

from backbone.errors import ConfigError, DataError
from navigation.homes.description import FIRST_ID, Door, Home, Room, Thing, Vector, Window
from navigation.homes.furnish import Furnisher
from navigation.homes.furniture import GOAL_CATEGORIES
from navigation.homes.geodesic import free_floor
from navigation.homes.palette import Palette
from navigation.homes.plan import WIDTHS, Plan, make_plan
from navigation.homes.program import wishes_for
from navigation.homes.space import SIDES, YAWS, Space, merged

Split = Literal["train", "val"]
WALL = 0.14
DOOR_HEIGHT = 2.05
_ROOM_FLOOR = 0.4  # square metres of every room that an agent must be able to reach
_OFFSETS = {"train": 0, "val": 1_000_000_007}  # seeds of different splits never meet


@dataclass(frozen=True)
class HomeRules:
    """What a family of homes is like. ``unusual`` puts categories where other homes never have them.

    Each pair is (category, kind of room): the category then stands in rooms of these kinds and nowhere else, for
    testing what an agent expects against what it sees.
    """

    rooms: tuple[int, int] = (3, 8)
    unusual: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        least, most = self.rooms
        if not 3 <= least <= most <= 8:
            raise ConfigError(f"homes have 3 to 8 rooms, got the range {self.rooms}")
        for category, kind in self.unusual:
            if category not in GOAL_CATEGORIES or kind not in (*WIDTHS, "corridor"):
                raise ConfigError(
                    f"unusual: ({category!r}, {kind!r}) needs one of {', '.join(GOAL_CATEGORIES)} "
                    f"and one of {', '.join((*WIDTHS, 'corridor'))}"
                )


def generate_home(seed: int, split: Split = "train", rules: HomeRules | None = None) -> Home:
    """The home of a seed (0 to 1e9). Homes of ``train`` and ``val`` are drawn from disjoint seeds.

    Raises `ConfigError` for a seed or split outside these.
    """
    if split not in get_args(Split) or not 0 <= seed < 1_000_000_000:
        raise ConfigError(f"homes: split must be train or val and seed in [0, 1e9), got {split!r}, {seed}")
    rules = rules or HomeRules()
    for attempt in range(20):
        random = Random((_OFFSETS[split] + seed) * 64 + attempt)  # noqa: S311 - homes, not secrets
        home = _generate(random, seed, split, rules)
        if home is not None:
            return home
    raise DataError(f"home {seed} of {split}: 20 attempts gave none whose rooms are all joined")


def _generate(random: Random, seed: int, split: str, rules: HomeRules) -> Home | None:
    plan, palette = make_plan(random, random.randint(*rules.rooms)), Palette(random)
    height = round(random.uniform(2.5, 2.75), 2)
    rooms, next_id = _rooms(random, plan, palette), FIRST_ID
    doors = _doors(plan, palette, rooms, next_id)
    next_id += len(doors)
    windows = _windows(random, plan, palette, rooms, next_id)
    next_id += len(windows)
    things: list[Thing] = []
    for room in rooms:
        space = Space(
            room, tuple(d for d in doors if room.name in d.rooms), tuple(w for w in windows if w.room == room.name)
        )
        if not space.passable([]):
            return None
        furnisher = Furnisher(random, palette, space, next_id)
        furnisher.fill(wishes_for(room.kind, rules.unusual))
        next_id = furnisher.next_id
        things += furnisher.things
    angle = random.uniform(0, 2 * math.pi)
    sun = (round(math.cos(angle), 3), round(random.uniform(0.6, 1.2), 3), round(math.sin(angle), 3))
    home = Home(
        seed=seed,
        split=split,
        height=height,
        wall=WALL,
        rooms=rooms,
        doors=doors,
        windows=windows,
        things=tuple(things),
        materials=tuple(palette.materials),
        sun=sun,
        daylight=round(random.uniform(0.35, 1.0), 3),
        start=(0.0, 0.0, 0.0),
        start_heading=round(random.uniform(-math.pi, math.pi), 4),
    )
    start = _start(random, home)
    return None if start is None else replace(home, start=start)


def _rooms(random: Random, plan: Plan, palette: Palette) -> tuple[Room, ...]:
    counts: dict[str, int] = {}
    out = []
    for cell in plan.cells:
        counts[cell.kind] = counts.get(cell.kind, 0) + 1
        name = cell.kind if counts[cell.kind] == 1 else f"{cell.kind}_{counts[cell.kind]}"
        half, bright, warm = WALL / 2, random.uniform(0.5, 1.1), random.uniform(-0.12, 0.12)
        lamp = (round(bright * (1 + warm), 3), round(bright, 3), round(bright * (1 - 1.3 * warm), 3))
        x0, z0, x1, z1 = (round(v, 3) for v in (cell.x0 + half, cell.z0 + half, cell.x1 - half, cell.z1 - half))
        surfaces = palette.floor(cell.kind), palette.wall(cell.kind), palette.ceiling()
        out.append(Room(name, cell.kind, x0, z0, x1, z1, *surfaces, lamp))
    return tuple(out)


def _doors(plan: Plan, palette: Palette, rooms: tuple[Room, ...], next_id: int) -> tuple[Door, ...]:
    return tuple(
        Door(
            next_id + i,
            (rooms[p.cells[0]].name, rooms[p.cells[1]].name),
            round(p.x, 3),
            round(p.z, 3),
            p.along,
            round(p.width, 3),
            DOOR_HEIGHT if p.framed else 2.2,
            p.framed,
            palette.pick("front" if p.framed else "frame"),
        )
        for i, p in enumerate(plan.passages)
    )


def _windows(random: Random, plan: Plan, palette: Palette, rooms: tuple[Room, ...], next_id: int) -> tuple[Window, ...]:
    """On every outer wall with room for it a window, more often than not; corridors have none."""
    right, far = max(c.x1 for c in plan.cells), max(c.z1 for c in plan.cells)
    out: list[Window] = []
    for cell, room in zip(plan.cells, rooms, strict=True):
        outer = {
            "north": cell.z0 < 1e-6,
            "south": cell.z1 > far - 1e-6,
            "west": cell.x0 < 1e-6,
            "east": cell.x1 > right - 1e-6,
        }
        for side in SIDES:
            if not outer[side] or room.kind == "corridor" or random.random() < 0.35:
                continue
            across = side in ("north", "south")
            low, high = (room.x0, room.x1) if across else (room.z0, room.z1)
            width = 0.6 if room.kind == "bathroom" else min(random.uniform(1.0, 1.8), high - low - 1.2)
            spans = merged([], low + 0.5, high - 0.5)
            if width < 0.55 or high - low < width + 1.0 or not spans:
                continue
            middle = random.uniform(low + 0.5 + width / 2, high - 0.5 - width / 2)
            wall = {"north": room.z0, "south": room.z1, "west": room.x0, "east": room.x1}[side]
            sill = 1.35 if room.kind == "bathroom" else random.uniform(0.95, 1.1)
            place: Vector = (middle, sill, wall) if across else (wall, sill, middle)
            curtain = (
                palette.pick("towel") if room.kind not in ("bathroom", "kitchen") and random.random() < 0.5 else -1
            )
            out.append(
                Window(
                    next_id + len(out),
                    room.name,
                    (round(place[0], 3), round(place[1], 3), round(place[2], 3)),
                    YAWS[side],
                    round(width, 3),
                    0.6 if room.kind == "bathroom" else round(random.uniform(1.0, 1.25), 3),
                    palette.pick("view"),
                    palette.pick("white"),
                    curtain,
                )
            )
    return tuple(out)


def _start(random: Random, home: Home) -> Vector | None:
    """A place on the free floor; None if that floor does not reach into every room."""
    floor = free_floor(home)
    if any(floor.intersection(box(r.x0, r.z0, r.x1, r.z1)).area < _ROOM_FLOOR for r in home.rooms):
        return None
    roomy = floor.buffer(-0.05)
    for _ in range(500):
        room = random.choice(home.rooms)
        x, z = round(random.uniform(room.x0, room.x1), 3), round(random.uniform(room.z0, room.z1), 3)
        if roomy.contains(Point(x, z)):
            return x, 0.0, z
    return None
