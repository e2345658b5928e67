"""Placing things in a room: each wish of its program tries some spots and takes the first that leaves the ways free."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from navigation.homes.description import Thing, Vector
from navigation.homes.furniture import KINDS, ROUND
from navigation.homes.palette import Palette
from navigation.homes.program import Wish
from navigation.homes.space import SIDES, YAWS, Rect, Space, ahead, around

_TALL = 0.85  # things higher than this hide what hangs behind them, and stand before no window
_TRIES = 24
# Where on a thing others may lie: share of its width and depth, and height as a share of its own (0: see `_level`).
_SURFACES = {"sofa": 0.42, "bed": 0.5, "seating": 0.42}
_SIT = {"chair", "stool"}
_FRONT = {"toilet": 0.55, "sink": 0.55, "counter": 0.6, "stove": 0.6, "refrigerator": 0.6, "cabinet": 0.55}


@dataclass(frozen=True)
class Spot:
    """A place tried: the thing's middle, its yaw, the wall it stands or hangs on, what it touches and lies on."""

    x: float
    z: float
    yaw: float
    side: str | None = None
    y: float = 0.0
    touching: tuple[Rect, ...] = ()
    on: int = 0
    solid: bool = True


class Furnisher:
    """Fills one room; ``next_id`` numbers the things of the whole home."""

    def __init__(self, random: Random, palette: Palette, space: Space, next_id: int) -> None:
        """Begin with an empty room."""
        self.random, self.palette, self.space, self.next_id = random, palette, space, next_id
        self.things: list[Thing] = []
        self._rects: dict[int, Rect] = {}
        self._taken: dict[int, list[Rect]] = {}  # what lies on a thing already

    def fill(self, wishes: tuple[Wish, ...]) -> None:
        """Try to fulfil every wish, in order; what finds no spot is left out."""
        for wish in wishes:
            if self.random.random() < wish.chance:
                like: Thing | None = None
                for _ in range(self.random.randint(*wish.times)):
                    placed = self.place(wish, like)
                    like = placed if wish.place.startswith("around") else None  # chairs of one table are a set

    def place(self, wish: Wish, like: Thing | None = None) -> Thing | None:
        """Place one thing, a copy of ``like`` if given, or nothing if no spot fits."""
        size, variant = (like.size, like.variant) if like else (self._size(wish), self.random.randrange(2**31))
        for spot in self._spots(wish, size):
            rect = around(spot.x, spot.z, size[0], size[2], spot.yaw)
            if not self.space.holds(rect):
                continue
            if spot.solid:
                far = _FRONT.get(wish.category, 0.0)
                access = ahead(rect, spot.yaw, far) if far else None
                tall = spot.side if size[1] > _TALL else None
                if not self.space.fits(rect, access=access, touching=spot.touching, tall=tall):
                    continue
                self.space.occupy(rect, access, tall)
            roles = KINDS[wish.category].roles
            materials = like.materials if like else tuple(self.palette.pick(role) for role in roles)
            name = self.space.room.name
            thing = Thing(
                self.next_id, wish.category, name, (spot.x, spot.y, spot.z), spot.yaw, size, variant, materials, spot.on
            )
            self.next_id += 1
            self.things.append(thing)
            self._rects[thing.id] = rect
            if spot.on:
                self._taken.setdefault(spot.on, []).append(rect)
            return thing
        return None

    def _size(self, wish: Wish) -> Vector:
        kind = KINDS[wish.category]
        ranges = (kind.width, kind.height, kind.depth)
        drawn = [
            self.random.uniform(*r) if s == 0 else s * self.random.uniform(0.92, 1.08)
            for s, r in zip(wish.size, ranges, strict=True)
        ]
        if wish.category in ROUND:
            drawn[2] = drawn[0]
        return round(drawn[0], 3), round(drawn[1], 3), round(drawn[2], 3)

    def _spots(self, wish: Wish, size: Vector) -> Iterator[Spot]:
        place, _, anchor = wish.place.partition(":")
        if anchor:
            found = [t for t in self.things if t.category == anchor]
            if found:
                yield from getattr(self, f"_{place}")(
                    found[-1] if place != "on" else self.random.choice(found), size, wish
                )
            return
        yield from getattr(self, f"_{place}")(size, wish)

    def _wall(self, size: Vector, wish: Wish) -> Iterator[Spot]:
        for _ in range(_TRIES):
            side = self.random.choice(SIDES)
            if size[0] + 0.02 > self.space.length(side):
                continue
            share = self.random.choice((0.0, 1.0, self.random.random(), self.random.random()))
            yield Spot(*self.space.against(side, share, size[0], size[2]), YAWS[side], side)

    def _corner(self, size: Vector, wish: Wish) -> Iterator[Spot]:
        sides = [(side, share) for side in SIDES for share in (0.0, 1.0)]
        self.random.shuffle(sides)
        for side, share in sides:
            if size[0] + 0.02 <= self.space.length(side):
                yield Spot(*self.space.against(side, share, size[0], size[2], 0.03), YAWS[side], side)

    def _centre(self, size: Vector, wish: Wish) -> Iterator[Spot]:
        x0, z0, x1, z1 = self.space.rect
        for _ in range(_TRIES):
            yaw = self.random.choice((0.0, math.pi / 2))
            w, d = (size[0], size[2]) if yaw == 0.0 else (size[2], size[0])
            margin = 0.25 if wish.category == "rug" else 1.0
            if w + 2 * margin > x1 - x0 or d + 2 * margin > z1 - z0:
                margin = 0.55
            if w + 2 * margin > x1 - x0 or d + 2 * margin > z1 - z0:
                continue
            x = self.random.uniform(x0 + margin + w / 2, x1 - margin - w / 2)
            z = self.random.uniform(z0 + margin + d / 2, z1 - margin - d / 2)
            yield Spot(x, z, yaw, solid=wish.category != "rug")

    def _front(self, anchor: Thing, size: Vector, wish: Wish) -> Iterator[Spot]:
        far = anchor.size[2] / 2 + size[2] / 2 + 0.58
        x, z = anchor.position[0] + math.sin(anchor.yaw) * far, anchor.position[2] + math.cos(anchor.yaw) * far
        yield Spot(x, z, anchor.yaw)

    def _around(self, anchor: Thing, size: Vector, wish: Wish) -> Iterator[Spot]:
        w, d = anchor.size[0], anchor.size[2]
        slots = []
        for sign in (1, -1):
            count = 2 if w > 1.25 else 1
            slots += [
                ((i - (count - 1) / 2) * 0.62, sign * (d / 2 + size[2] / 2 - 0.16), (sign + 1) / 2 * math.pi)
                for i in range(count)
            ]
            if d > 0.75:
                slots.append((sign * (w / 2 + size[2] / 2 - 0.16), 0.0, -sign * math.pi / 2))
        self.random.shuffle(slots)
        rect, c, s = self._rects[anchor.id], math.cos(anchor.yaw), math.sin(anchor.yaw)
        for x, z, yaw in slots:
            place = anchor.position[0] + c * x + s * z, anchor.position[2] - s * x + c * z
            chairs = tuple(r for i, r in self._rects.items() if self._is(i, "chair"))
            if any(abs(place[0] - (r[0] + r[2]) / 2) + abs(place[1] - (r[1] + r[3]) / 2) < 0.4 for r in chairs):
                continue
            yield Spot(*place, anchor.yaw + yaw, touching=(rect, *chairs))

    def _is(self, thing_id: int, category: str) -> bool:
        return any(t.id == thing_id and t.category == category for t in self.things)

    def _beside(self, anchor: Thing, size: Vector, wish: Wish) -> Iterator[Spot]:
        c, s = math.cos(anchor.yaw), math.sin(anchor.yaw)
        signs = [1, -1]
        self.random.shuffle(signs)
        for sign in signs:
            x = sign * (anchor.size[0] / 2 + size[0] / 2 + self.random.uniform(0.02, 0.06))
            z = -anchor.size[2] / 2 + size[2] / 2
            side = next(k for k in SIDES if abs(math.remainder(YAWS[k] - anchor.yaw, 2 * math.pi)) < 0.1)
            yield Spot(anchor.position[0] + c * x + s * z, anchor.position[2] - s * x + c * z, anchor.yaw, side)

    def _on(self, anchor: Thing, size: Vector, wish: Wish) -> Iterator[Spot]:
        level = _SURFACES.get(anchor.category, anchor.size[1])
        w, d = anchor.size[0], anchor.size[2]
        soft = anchor.category in _SURFACES
        if level > 1.3:
            return
        c, s = math.cos(anchor.yaw), math.sin(anchor.yaw)
        for _ in range(_TRIES):
            room_x, room_z = (
                w / 2 - size[0] / 2 - (0.18 if anchor.category != "bed" and soft else 0.04),
                d / 2 - size[2] / 2 - 0.03,
            )
            if room_x < 0 or room_z < 0:
                return
            x, z = self.random.uniform(-room_x, room_x), self.random.uniform(-room_z, room_z)
            if wish.category == "cushion":
                z = -d / 2 + (0.4 if anchor.category == "sofa" else 0.62) if soft else z
            elif wish.category == "tv_monitor":
                x, z = x * 0.3, -d / 2 + size[2] / 2 + 0.04
            elif wish.category == "sink":
                z = -d / 2 + size[2] / 2 + 0.1
            elif anchor.category == "bed":
                z = self.random.uniform(0.0, room_z)
            place = anchor.position[0] + c * x + s * z, anchor.position[2] - s * x + c * z
            rect = around(*place, size[0], size[2], anchor.yaw)
            if not any(
                r[0] < rect[2] and rect[0] < r[2] and r[1] < rect[3] and rect[1] < r[3]
                for r in self._taken.get(anchor.id, [])
            ):
                y = anchor.position[1] + level - (0.02 if soft else 0.0)
                yield Spot(*place, anchor.yaw, y=y, on=anchor.id, solid=False)

    def _hung(self, size: Vector, wish: Wish) -> Iterator[Spot]:
        for _ in range(_TRIES):
            side = self.random.choice(SIDES)
            if size[0] + 0.3 > self.space.length(side):
                continue
            x, z = self.space.against(side, self.random.uniform(0.05, 0.95), size[0], size[2], 0.002)
            middle = x if side in ("north", "south") else z
            if self.space.wall_free(side, middle - size[0] / 2 - 0.05, middle + size[0] / 2 + 0.05):
                self.space.hung[side].append((middle - size[0] / 2 - 0.05, middle + size[0] / 2 + 0.05))
                y = 1.0 if wish.category == "towel" else 1.62 - size[1] / 2 + self.random.uniform(-0.08, 0.12)
                yield Spot(x, z, YAWS[side], side, y=max(y, 1.0), solid=False)
                return

    def _above(self, anchor: Thing, size: Vector, wish: Wish) -> Iterator[Spot]:
        back = anchor.size[2] / 2 + 0.018 - size[2] / 2
        x, z = anchor.position[0] - math.sin(anchor.yaw) * back, anchor.position[2] - math.cos(anchor.yaw) * back
        side = next(k for k in SIDES if abs(math.remainder(YAWS[k] - anchor.yaw, 2 * math.pi)) < 0.1)
        middle = x if side in ("north", "south") else z
        if not any(a < middle + size[0] / 2 and middle - size[0] / 2 < b for a, b in self.space.hung[side]):
            self.space.hung[side].append((middle - size[0] / 2, middle + size[0] / 2))
            yield Spot(x, z, anchor.yaw, side, y=1.15, solid=False)
