"""ObjectNav episodes of generated homes, in Habitat's schema: for `rooms`, for `habitat` and for habitat-lab alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backbone.errors import ConfigError
from navigation.episodes import Episode, EpisodeSet, ObjectGoal
from navigation.homes.description import Home, Thing
from navigation.homes.furniture import CATEGORIES, GOAL_CATEGORIES
from navigation.worlds.habitat_export import WALK_HEIGHT
from navigation.worlds.navigation_world import rotation_xyzw
from navigation.worlds.rooms_episode import choose_start
from navigation.worlds.rooms_scene import Goals, Scene


def make_episodes(home: Home | Scene, seed: int, n: int, scene_id: str | None = None) -> EpisodeSet:
    """``n`` episodes of a home; episode ``i`` starts and asks as `rooms` does in this home for the seed ``seed + i``.

    Args:
        home: the home, or its `Scene` where one is at hand.
        seed: of the first episode.
        n: how many; at least 1.
        scene_id: the scene's file below the scene folder; `habitat_export.export_home` names it.

    Raises:
        ConfigError: ``n`` below 1.
        WorldError: the home has nothing that can be looked for.
    """
    if n < 1:
        raise ConfigError(f"make_episodes: n must be at least 1, got {n}")
    scene = home if isinstance(home, Scene) else Scene.of(home)
    name = scene_id or f"{scene.home.split}_{scene.home.seed}.stage_config.json"
    episodes = []
    goals: dict[str, tuple[ObjectGoal, ...]] = {}
    for i in range(n):
        start = choose_start(scene, seed + i, None)
        found = scene.goals(start.category)
        assert found is not None  # noqa: S101 - choose_start has found its goals
        info = {"geodesic_distance": scene.floor.distance_in(found.way, np.array(start.place)), "seed": seed + i}
        fields: dict[str, Any] = {
            "scene_dataset_config": "default",
            "additional_obj_config_paths": [],
            "info": info,
            "start_room": None,
            "shortest_paths": None,
        }
        place = (start.place[0], WALK_HEIGHT, start.place[1])
        episode = Episode(str(i), name, start.category, place, rotation_xyzw(start.heading), fields)
        episodes.append(episode)
        if episode.goals_key not in goals:
            goals[episode.goals_key] = object_goals(scene.home, found)
    task = {category: number for number, category in enumerate(GOAL_CATEGORIES)}
    shown = {category: CATEGORIES.index(category) + 1 for category in GOAL_CATEGORIES}
    return EpisodeSet(tuple(episodes), goals, task, shown, source=f"home {scene.home.seed} of {scene.home.split}")


def object_goals(home: Home, found: Goals) -> tuple[ObjectGoal, ...]:
    """The goals of a category as records, each view point turned towards its object."""
    return tuple(_goal(home.thing(i), found.views[found.owner == i].tolist()) for i in found.things)


def _goal(thing: Thing, views: Sequence[Sequence[float]]) -> ObjectGoal:
    x, y, z = thing.position
    turned = [rotation_xyzw(math.atan2(v[0] - x, v[1] - z)) for v in views]
    fields = {
        "radius": None,
        "object_name": f"{thing.category}_{thing.id}",
        "object_name_id": thing.id,
        "room_id": None,
        "room_name": thing.room,
    }
    return ObjectGoal(
        category=thing.category,
        object_id=thing.id,
        position=(x, y + thing.size[1] / 2, z),
        view_positions=np.array([(v[0], WALK_HEIGHT, v[1]) for v in views]),
        view_rotations_xyzw=np.array(turned),
        view_ious=np.full(len(views), math.nan),
        fields=fields,
    )
