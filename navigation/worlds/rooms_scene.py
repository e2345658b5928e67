"""A home made ready for episodes: its floor, its triangles, and the goals of every category; shared between worlds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import shapely
from numpy.typing import NDArray

from backbone.contracts import Image
from backbone.errors import WorldError
from backbone.rendering.mesh import Mesh
from navigation.homes.description import Home
from navigation.homes.furniture import CATEGORIES, GOAL_CATEGORIES
from navigation.homes.generate import HomeRules, Split, generate_home
from navigation.homes.geodesic import AGENT_RADIUS, MESH_MARGIN, MESH_NECK, FloorMap, GoalField
from navigation.homes.meshes import home_pieces
from navigation.homes.viewpoints import Sight, footprint, view_points

Points = NDArray[np.float64]
_KEPT = 16  # homes kept ready in a process; one is 2 to 5 MB


@dataclass(frozen=True, eq=False)
class Goals:
    """All things of a category: their view points (N, 2) with the thing each belongs to, and the way to them."""

    category: str
    things: tuple[int, ...]
    views: Points
    owner: NDArray[np.int64]
    way: GoalField


@dataclass(eq=False)
class Scene:
    """A home with what is computed of it once. Worlds may share one: after it is made, nothing in it changes."""

    home: Home
    floor: FloorMap
    pieces: list[tuple[str, Mesh]]
    atlas: Image
    _goals: dict[str, Goals | None] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, home: Home) -> Scene:
        """The scene of a home, for a body that keeps as far from things as Habitat's would, and gets as far."""
        pieces, atlas = home_pieces(home, doors_twice=True)
        return cls(home, FloorMap(home, AGENT_RADIUS + MESH_MARGIN, MESH_NECK), pieces, atlas)

    @cached_property
    def sight(self) -> Sight:
        """What blocks the view."""
        return Sight(self.home)

    @cached_property
    def category_numbers(self) -> NDArray[np.int32]:
        """For every id of the mesh (and 0) the number of its category: its index in `CATEGORIES` plus one."""
        labels = self.home.labels()
        table = np.zeros(max(labels) + 1, np.int32)
        for object_id, category in labels.items():
            table[object_id] = CATEGORIES.index(category) + 1
        return table

    def present(self) -> tuple[str, ...]:
        """The categories of this home that are among those looked for."""
        return tuple(c for c in GOAL_CATEGORIES if self.home.of(c))

    def goals(self, category: str) -> Goals | None:
        """The goals of a category; None if no place on the floor is a view point of one."""
        with self._lock:
            if category not in self._goals:
                self._goals[category] = self._find(category)
            return self._goals[category]

    def _find(self, category: str) -> Goals | None:
        found = [(t.id, view_points(t, self.floor, self.sight)) for t in self.home.of(category)]
        found = [(thing_id, views) for thing_id, views in found if len(views)]
        if not found:
            return None
        views = np.concatenate([v for _, v in found])
        owner = np.repeat([i for i, _ in found], [len(v) for _, v in found])
        return Goals(category, tuple(i for i, _ in found), views, owner, self.floor.field(views))

    def object_distance(self, category: str, x: float, z: float) -> float:
        """Metres over the floor, straight, to the box of the nearest thing of a category."""
        point = shapely.Point(x, z)
        return min(float(shapely.distance(footprint(t), point)) for t in self.home.of(category))


_scenes: OrderedDict[tuple[int, str, HomeRules], Scene] = OrderedDict()
_lock = threading.Lock()


@lru_cache(maxsize=256)
def generated_home(seed: int, split: Split, rules: HomeRules) -> Home:
    """The home of a seed; much cheaper than its scene."""
    return generate_home(seed, split, rules)


def generated_scene(seed: int, split: Split, rules: HomeRules) -> Scene:
    """The scene of a generated home; the `_KEPT` last ones stay ready."""
    key = (seed, split, rules)
    with _lock:
        if key in _scenes:
            _scenes.move_to_end(key)
            return _scenes[key]
    scene = Scene.of(generated_home(seed, split, rules))
    with _lock:
        _scenes[key] = scene
        while len(_scenes) > _KEPT:
            _scenes.popitem(last=False)
    return scene


def needs(found: Goals | None, home: Home, category: str) -> Goals:
    """The goals, or a `WorldError` that says what this home has instead."""
    if found is None:
        have = sorted({t.category for t in home.things} & set(GOAL_CATEGORIES))
        raise WorldError(f"home {home.seed} of {home.split} has no reachable {category!r}; it has {', '.join(have)}")
    return found
