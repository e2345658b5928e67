"""Single frames of generated homes with all that is known about them: what nano's own curriculum asks about.

A glimpse is a pure function of the generator that draws it. Homes cost a hundred times what a frame costs, so frames
come in runs: generators whose seeds differ by little in their last number look into the same few homes.
"""

from __future__ import annotations

import hashlib
import math
import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import shapely
from numpy.random import Generator
from numpy.typing import NDArray

from backbone.contracts import FloatArray, Image
from backbone.rendering.projection import focal_length
from navigation.homes.description import FIRST_ID, Door
from navigation.homes.furniture import CATEGORIES
from navigation.homes.generate import HomeRules, Split
from navigation.worlds.navigation_world import ahead, wrapped
from navigation.worlds.rooms_scene import Scene, generated_scene
from navigation.worlds.rooms_view import View

HFOV_DEG, EYE = 79.0, 0.88
HOMES: dict[Split, int] = {"train": 20_000, "val": 2_000}  # seeds of homes that glimpses are taken from
RUN = 128  # neighbouring seeds that share homes
OPEN = 4  # homes of a run
REACH_M = 3.0  # how far ahead the free way is measured
_LEAST = 0.0005  # share of the picture below which a thing is not counted as seen
_FAR_DOOR = 8.0  # metres


@dataclass(frozen=True)
class Seen:
    """A thing in a picture: its id, category, box (x0, y0, x1, y1) in pixels, share of the pixels, metres, bearing.

    ``distance`` is that of its visible part over the floor (the median), ``bearing`` radians left of straight ahead.
    """

    id: int
    category: str
    box: tuple[float, float, float, float]
    share: float
    distance: float
    bearing: float


@dataclass(frozen=True)
class DoorSeen:
    """A doorway in sight: the door, metres over the floor to its middle, radians left of straight ahead."""

    door: Door
    distance: float
    bearing: float


@dataclass(frozen=True, eq=False)
class Glimpse:
    """One frame: ``rgb`` (H, W, 3), ``depth`` (H, W) metres along the axis, ``ids`` (H, W), and the pose."""

    scene: Scene
    place: NDArray[np.float64]  # (x, z)
    heading: float
    rgb: Image
    depth: FloatArray
    ids: NDArray[np.int32]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.rgb.shape[1], self.rgb.shape[0]

    @cached_property
    def focal(self) -> float:
        """Focal length in pixels."""
        return focal_length(self.size[0], HFOV_DEG)

    @cached_property
    def seen(self) -> tuple[Seen, ...]:
        """The things in the picture, the largest first; neither the shell nor doors and windows."""
        home, width = self.scene.home, self.size[0]
        found, counts = np.unique(self.ids, return_counts=True)
        labels, out = home.labels(), []
        for number, count in zip(found.tolist(), counts.tolist(), strict=True):
            category = labels.get(number, "")
            if number < FIRST_ID or category in ("door", "window") or count < _LEAST * self.ids.size:
                continue
            rows, columns = np.nonzero(self.ids == number)
            side = (columns + 0.5 - width / 2) / self.focal
            metres = float(np.median(self.depth[rows, columns] * np.hypot(1.0, side)))
            box = (float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1))
            bearing = -math.atan(float(np.median(side)))
            out.append(Seen(number, category, box, count / self.ids.size, metres, bearing))
        return tuple(sorted(out, key=lambda s: -s.share))

    @cached_property
    def doors(self) -> tuple[DoorSeen, ...]:
        """Doorways whose middle, at the height of the eye, is in sight; the nearest first."""
        out = []
        for door in self.scene.home.doors:
            dx, dz = door.x - self.place[0], door.z - self.place[1]
            distance, bearing = math.hypot(dx, dz), self.bearing(door.x, door.z)
            if abs(bearing) >= math.radians(HFOV_DEG / 2) - 0.02 or not 0.3 < distance < _FAR_DOOR:
                continue
            column = int(self.size[0] / 2 - math.tan(bearing) * self.focal)
            if self.depth[self.size[1] // 2, column] > distance * math.cos(bearing) - 0.05:
                out.append(DoorSeen(door, distance, bearing))
        return tuple(sorted(out, key=lambda d: d.distance))

    @cached_property
    def free_m(self) -> float:
        """Metres that the body can go straight ahead, at most `REACH_M`."""
        end, _ = self.scene.floor.walk(self.place, self.place + REACH_M * np.array(ahead(self.heading)))
        return float(np.linalg.norm(end - self.place))

    @cached_property
    def ahead(self) -> tuple[str, float]:
        """What lies straight ahead at the height of the eye (a category, ``door`` for a doorway), and its metres."""
        width, height = self.size
        rows = slice(height // 2 - height // 16, height // 2 + height // 16 + 1)
        columns = slice(width // 2 - width // 16, width // 2 + width // 16 + 1)
        metres = float(np.median(self.depth[rows, columns]))
        through = [d for d in self.doors if abs(math.sin(d.bearing)) * d.distance < d.door.width / 2]
        if through and through[0].distance < metres:
            return "door", through[0].distance
        found, counts = np.unique(self.ids[rows, columns], return_counts=True)
        return self.scene.home.labels().get(int(found[counts.argmax()]), "wall"), metres

    def bearing(self, x: float, z: float) -> float:
        """Radians to a place, left of straight ahead."""
        return wrapped(math.atan2(-(x - self.place[0]), -(z - self.place[1])) - self.heading)

    @cached_property
    def categories(self) -> NDArray[np.int64]:
        """Each pixel's category (H, W): its index in `CATEGORIES`, -1 for nothing."""
        out: NDArray[np.int64] = self.scene.category_numbers[self.ids].astype(np.int64) - 1
        return out


_threads = threading.local()


def glimpse(rng: Generator, size: tuple[int, int], split: Split = "train", rules: HomeRules | None = None) -> Glimpse:
    """A frame of ``size`` = (width, height) pixels in a home of a split, from a place and heading drawn with ``rng``.

    Raises:
        WorldError: no OpenGL here.
    """
    slot = int(rng.integers(OPEN))
    scene = generated_scene(home_of(rng, slot, split), split, rules or HomeRules())
    place, heading = pose(rng, scene)
    view = _view(slot, size)
    view.show(scene)
    frame = view.render(place, heading, depth=True, ids=True)
    if frame.depth is None or frame.ids is None:
        raise RuntimeError("the renderer was asked for depth and ids")
    return Glimpse(scene, place, heading, frame.rgb, frame.depth, frame.ids)


def glimpses_around(
    scene: Scene, place: NDArray[np.float64], heading: float, size: tuple[int, int] = (160, 128)
) -> tuple[Glimpse, ...]:
    """What is seen ahead, to the left, behind and to the right of a pose."""
    view = _view(OPEN, size)  # beside those of `glimpse`
    view.show(scene)
    out = []
    for quarter in range(4):
        turned = wrapped(heading + quarter * math.pi / 2)
        frame = view.render(place, turned, depth=True, ids=True)
        if frame.depth is None or frame.ids is None:
            raise RuntimeError("the renderer was asked for depth and ids")
        out.append(Glimpse(scene, place, turned, frame.rgb, frame.depth, frame.ids))
    return tuple(out)


def home_of(rng: Generator, slot: int, split: Split) -> int:
    """The home of a slot: of the seed that ``rng`` was made from, not of what was drawn from it since.

    Seeds that agree but for their last number, and in that up to the multiple of `RUN` below it, share their homes.
    """
    sequence = rng.bit_generator.seed_seq
    entropy = np.atleast_1d(np.asarray(getattr(sequence, "entropy", 0) or 0, dtype=object)).tolist()
    numbers = [int(n) for n in (*entropy, *getattr(sequence, "spawn_key", ()))]
    key = repr((*numbers[:-1], numbers[-1] // RUN, slot, split)).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") % HOMES[split]


def _view(slot: int, size: tuple[int, int]) -> View:
    """This thread's camera of a slot and size; each keeps the home it drew last."""
    views: dict[tuple[int, int, int], View] = _threads.__dict__.setdefault("views", {})
    key = (slot, *size)
    if key not in views:
        views[key] = View(*size, HFOV_DEG, EYE)
    return views[key]


def pose(rng: Generator, scene: Scene) -> tuple[NDArray[np.float64], float]:
    """A free place and a heading: mostly towards a thing, sometimes towards a doorway, sometimes anywhere."""
    kind = rng.random()
    target: NDArray[np.float64] | None = None
    reach = (0.5, 4.5)
    if kind < 0.6:
        names = sorted({t.category for t in scene.home.things})
        of = scene.home.of(names[int(rng.integers(len(names)))])  # rare categories as often as common ones
        thing = of[int(rng.integers(len(of)))]
        target = np.array([thing.position[0], thing.position[2]])
    elif kind < 0.8 and scene.home.doors:
        door = scene.home.doors[int(rng.integers(len(scene.home.doors)))]
        target, reach = np.array([door.x, door.z]), (0.5, 4.0)
    if target is not None:
        place = _near(rng, scene, target, reach)
        if place is not None:
            toward = math.atan2(-(target[0] - place[0]), -(target[1] - place[1]))
            return place, wrapped(toward + math.radians(20.0) * float(np.clip(rng.standard_normal(), -2.0, 2.0)))
    return _anywhere(rng, scene), float(rng.uniform(-math.pi, math.pi))


def _near(
    rng: Generator, scene: Scene, target: NDArray[np.float64], reach: tuple[float, float]
) -> NDArray[np.float64] | None:
    """A free place some metres from ``target`` in the same room, if a few tries find one."""
    angle, metres = rng.uniform(-math.pi, math.pi, 16), rng.uniform(*reach, 16)
    places = target + np.stack([np.sin(angle) * metres, np.cos(angle) * metres], 1)
    room = scene.home.room_at(*target.tolist())
    free = [p for p in places[scene.floor.contains(places)] if scene.home.room_at(*p.tolist()) == room]
    return np.asarray(free[0]) if free else None


def _anywhere(rng: Generator, scene: Scene) -> NDArray[np.float64]:
    x0, z0, x1, z1 = scene.floor.free.bounds
    for _ in range(16):
        places = rng.uniform((x0, z0), (x1, z1), (32, 2))
        places = places[scene.floor.contains(places)]
        if len(places):
            return np.asarray(places[0])
    inside = shapely.point_on_surface(scene.floor.free)
    return np.array([inside.x, inside.y])


DOOR = CATEGORIES.index("door")
