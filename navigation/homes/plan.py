"""The ground plan of a home: a rectangle cut into rooms, and doors that join all of them.

Two families: a corridor with rooms on both sides and perhaps one room across its end, and a cluster of rooms that open
into each other. Plans are mirrored and turned at random.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from backbone.errors import DataError

LEAVES = ("bathroom", "gym", "dressing_room")  # rooms nobody walks through
WIDTHS = {
    "living_room": (4.4, 6.0),
    "bedroom": (3.1, 4.4),
    "kitchen": (2.9, 4.0),
    "bathroom": (2.2, 3.0),
    "dining_room": (3.2, 4.4),
    "office": (2.7, 3.6),
    "gym": (3.0, 4.2),
    "dressing_room": (2.3, 3.0),
}
_FIRST = ("living_room", "bedroom", "bathroom", "kitchen")
_FURTHER = ("bedroom", "office", "dining_room", "gym", "dressing_room", "bathroom")


@dataclass(frozen=True)
class Cell:
    """A room with half of the walls around it: ``x0 < x1`` and ``z0 < z1``, metres."""

    kind: str
    x0: float
    z0: float
    x1: float
    z1: float

    @property
    def sides(self) -> tuple[float, float]:
        """Its extent along x and along z."""
        return self.x1 - self.x0, self.z1 - self.z0


@dataclass(frozen=True)
class Passage:
    """A door or opening between two cells (by index) of ``width``, about (x, z) on their common side."""

    cells: tuple[int, int]
    x: float
    z: float
    along: str
    width: float
    framed: bool


@dataclass(frozen=True)
class Plan:
    """Cells that tile a rectangle from (0, 0), and the passages between them."""

    cells: tuple[Cell, ...]
    passages: tuple[Passage, ...]


def common_side(a: Cell, b: Cell) -> tuple[str, float, float, float] | None:
    """The axis a common side runs along, its place on the other axis, and its two ends; None if there is none."""
    for first, second in ((a, b), (b, a)):
        if abs(first.x1 - second.x0) < 1e-6 and min(a.z1, b.z1) - max(a.z0, b.z0) > 1e-6:
            return "z", first.x1, max(a.z0, b.z0), min(a.z1, b.z1)
        if abs(first.z1 - second.z0) < 1e-6 and min(a.x1, b.x1) - max(a.x0, b.x0) > 1e-6:
            return "x", first.z1, max(a.x0, b.x0), min(a.x1, b.x1)
    return None


def room_kinds(random: Random, count: int) -> list[str]:
    """The kinds of ``count`` rooms: the usual ones first, then a mixture; 2 bedrooms and 2 bathrooms at most."""
    first = list(_FIRST[:3]) if count == 3 else list(_FIRST)
    if count == 3 and random.random() < 0.5:
        first[1] = "kitchen"
    further = list(_FURTHER)
    random.shuffle(further)
    return (first + further)[:count]


def make_plan(random: Random, rooms: int) -> Plan:
    """A plan with ``rooms`` rooms, 3 to 8; a corridor counts as one of them."""
    if not 3 <= rooms <= 8:
        raise DataError(f"a home has 3 to 8 rooms, got {rooms}")
    with_corridor = rooms >= 4 and random.random() < 0.65
    plan = _corridor_plan(random, rooms) if with_corridor else _cluster_plan(random, rooms)
    return _moved(plan, random.random() < 0.5, random.random() < 0.5, random.random() < 0.5)


def _corridor_plan(random: Random, rooms: int) -> Plan:
    kinds = room_kinds(random, rooms - 1)
    wide = random.uniform(1.35, 1.75)
    end = "living_room" if random.random() < 0.6 else ""
    rest = [k for k in kinds if k != end]
    random.shuffle(rest)
    half = (len(rest) + 1) // 2
    rows = [rest[:half], rest[half:]]
    deep = [random.uniform(3.1, 4.2), random.uniform(3.1, 4.2)]
    if not rows[1]:
        deep[1] = 0.0
    widths = [[random.uniform(*WIDTHS[k]) for k in row] for row in rows]
    length = max(sum(row) for row in widths)
    cells: list[Cell] = []
    for row, kinds_of_row, z in zip(widths, rows, (0.0, deep[0] + wide), strict=True):
        if not row:
            continue
        scale, x = length / sum(row), 0.0
        for kind, width in zip(kinds_of_row, row, strict=True):
            cells.append(Cell(kind, x, z, x + width * scale, z + (deep[0] if z == 0.0 else deep[1])))
            x += width * scale
    total = deep[0] + wide + deep[1]
    cells.append(Cell("corridor", 0.0, deep[0], length, deep[0] + wide))
    if end:
        cells.append(Cell(end, length, 0.0, length + random.uniform(*WIDTHS[end]), total))
    hub = next(i for i, c in enumerate(cells) if c.kind == "corridor")
    joined = [(i, hub) for i in range(len(cells)) if i != hub]
    return Plan(tuple(cells), _passages(random, cells, joined))


def _cluster_plan(random: Random, rooms: int) -> Plan:
    kinds = room_kinds(random, rooms)
    for _ in range(3000):
        random.shuffle(kinds)
        sizes = {k: sum(WIDTHS[k]) / 2 * (0.85 if k == "living_room" and rooms < 5 else 1.0) for k in kinds}
        areas = {k: side * side * random.uniform(0.8, 1.1) for k, side in sizes.items()}
        total = sum(areas[k] for k in kinds)
        x = (total * random.uniform(0.8, 1.3)) ** 0.5
        cells = _sliced(random, kinds, areas, (0.0, 0.0, x, total / x))
        hub = next(i for i, c in enumerate(cells) if c.kind == "living_room")
        tree = _tree(cells, hub)
        if tree is not None and all(min(c.sides) > 2.1 and max(c.sides) < 2.4 * min(c.sides) for c in cells):
            return Plan(tuple(cells), _passages(random, cells, tree))
    raise DataError(f"no plan found for the rooms {kinds}")


def _sliced(
    random: Random, kinds: list[str], areas: dict[str, float], area: tuple[float, float, float, float]
) -> list[Cell]:
    x0, z0, x1, z1 = area
    if len(kinds) == 1:
        return [Cell(kinds[0], x0, z0, x1, z1)]
    cut = random.randint(1, len(kinds) - 1)
    share = sum(areas[k] for k in kinds[:cut]) / sum(areas[k] for k in kinds)
    if x1 - x0 > z1 - z0:
        middle = x0 + (x1 - x0) * share
        halves = (x0, z0, middle, z1), (middle, z0, x1, z1)
    else:
        middle = z0 + (z1 - z0) * share
        halves = (x0, z0, x1, middle), (x0, middle, x1, z1)
    return _sliced(random, kinds[:cut], areas, halves[0]) + _sliced(random, kinds[cut:], areas, halves[1])


def _tree(cells: list[Cell], hub: int) -> list[tuple[int, int]] | None:
    """Pairs that join every cell to the hub, going through no leaf room; None where that cannot be."""
    reached, edges, queue = {hub}, [], [hub]
    while queue:
        here = queue.pop(0)
        if cells[here].kind in LEAVES:
            continue
        for other in range(len(cells)):
            side = common_side(cells[here], cells[other])
            if other not in reached and side and side[3] - side[2] > 1.5:
                reached.add(other)
                edges.append((other, here))
                queue.append(other)
    return edges if len(reached) == len(cells) else None


def _passages(random: Random, cells: list[Cell], joined: list[tuple[int, int]]) -> tuple[Passage, ...]:
    """A passage for every pair, and some more between rooms one may walk through."""
    pairs = list(joined)
    for i in range(len(cells)):
        for j in range(i):
            side = common_side(cells[i], cells[j])
            walkable = not {cells[i].kind, cells[j].kind} & {*LEAVES, "bedroom"}
            new = (i, j) not in pairs and (j, i) not in pairs
            if new and walkable and side and side[3] - side[2] > 1.8 and random.random() < 0.5:
                pairs.append((i, j))
    out = []
    for i, j in pairs:
        side = common_side(cells[i], cells[j])
        if side is None:
            raise DataError(f"plan: cells {cells[i]} and {cells[j]} do not touch")
        along, place, low, high = side
        social = not {cells[i].kind, cells[j].kind} & {*LEAVES, "bedroom", "office"}
        room = high - low - 0.5
        width = min(random.uniform(1.2, 1.7) if social and random.random() < 0.5 else random.uniform(0.85, 1.0), room)
        middle = random.uniform(low + 0.25 + width / 2, high - 0.25 - width / 2)
        x, z = (middle, place) if along == "x" else (place, middle)
        out.append(Passage((i, j), x, z, along, width, width < 1.1))
    return tuple(out)


def _moved(plan: Plan, swap: bool, flip_x: bool, flip_z: bool) -> Plan:
    """The plan mirrored along its axes, and with x and z exchanged."""
    right, low = max(c.x1 for c in plan.cells), max(c.z1 for c in plan.cells)

    def point(x: float, z: float) -> tuple[float, float]:
        x, z = right - x if flip_x else x, low - z if flip_z else z
        return (z, x) if swap else (x, z)

    cells = []
    for c in plan.cells:
        (xa, za), (xb, zb) = point(c.x0, c.z0), point(c.x1, c.z1)
        cells.append(Cell(c.kind, min(xa, xb), min(za, zb), max(xa, xb), max(za, zb)))
    passages = []
    for p in plan.passages:
        x, z = point(p.x, p.z)
        passages.append(replace(p, x=x, z=z, along={"x": "z", "z": "x"}[p.along] if swap else p.along))
    return Plan(tuple(cells), tuple(passages))
