"""What the simulator knows of a look around, as JSON: the privileged state that thoughts are written from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backbone.errors import WorldError
from backbone.worlds.world import World
from navigation.glimpses import Glimpse, glimpses_around
from navigation.records import Pose
from navigation.worlds.habitat import HabitatWorld
from navigation.worlds.habitat_views import visible
from navigation.worlds.navigation_world import rotation_xyzw
from navigation.worlds.rooms import RoomsWorld
from navigation.worlds.rooms_scene import Scene, generated_scene

LEAST_SHARE = 0.004  # of a picture, for a thing to be spoken of
MOST_THINGS = 4  # a view, the largest
SHELL = ("floor", "wall", "ceiling", "door", "window")
Known = dict[str, Any]


def scene_of(world: World, told: Mapping[str, Any]) -> Scene | None:
    """The generated home that a world shows, from its description; None in other scenes."""
    if isinstance(world, HabitatWorld):
        return world.task.home
    if isinstance(world, RoomsWorld):
        home = told["home"]
        return generated_scene(home["seed"], home["split"], world.config.rules())
    raise WorldError(f"{world.name}: thoughts are written in rooms and habitat only")


def surroundings(world: World, scene: Scene | None, pose: Pose, category: str) -> Known:
    """What is around a pose: ``room`` (its kind, empty where unknown), and for each of four ``views`` the ``things``.

    A thing is ``[category, metres]``; ``doors`` are metres to the doorways in a view, ``goals`` those to things of the
    category that is looked for, small ones too.
    """
    if scene is not None:
        shown = glimpses_around(scene, np.array(pose[:2]), pose[2])
        room = scene.home.room(scene.home.room_at(pose[0], pose[1])).kind
        return {"room": room, "views": [_of_glimpse(g, category) for g in shown]}
    if not isinstance(world, HabitatWorld):
        raise WorldError(f"{world.name}: this scene's labels cannot be read")
    return {"room": "", "views": [_of_scene(world, pose, quarter, category) for quarter in range(4)]}


def _of_glimpse(shown: Glimpse, category: str) -> Known:
    return {
        "things": listed([(s.category, s.distance, s.share) for s in shown.seen]),
        "doors": [round(d.distance, 1) for d in shown.doors[:2]],
        "goals": [round(s.distance, 1) for s in shown.seen if s.category == category],
    }


def _of_scene(world: HabitatWorld, pose: Pose, quarter: int, category: str) -> Known:
    """A view in a scene of habitat-sim, from its label picture and the boxes of its objects."""
    told = world.call("describe")
    heading = pose[2] + quarter * math.pi / 2
    position = [pose[0], told["position"][1], pose[1]]
    ids = world.call("look", position=position, rotation_xyzw=list(rotation_xyzw(heading)))["ids"]
    labels = {int(o["id"]): str(o["category"]) for o in told["objects"]}
    centres = {int(o["id"]): o["center"] for o in told["objects"]}
    found = []
    for entry in visible(labels, ids):
        x, _, z = centres[entry["id"]]
        found.append((str(entry["category"]), math.hypot(x - pose[0], z - pose[1]), float(entry["share"])))
    doors = sorted(metres for name, metres, _ in found if name == "door")
    goals = [round(metres, 1) for name, metres, _ in found if name == category]
    return {"things": listed(found), "doors": [round(d, 1) for d in doors[:2]], "goals": goals}


def listed(found: Sequence[tuple[str, float, float]]) -> list[list[Any]]:
    """The largest things ``(category, metres, share)``, each category once: ``[category, metres]``."""
    out: dict[str, float] = {}
    for name, metres, share in sorted(found, key=lambda f: -f[2]):
        if share >= LEAST_SHARE and name not in SHELL and name not in out:
            out[name] = round(metres, 1)
    return [[name, metres] for name, metres in list(out.items())[:MOST_THINGS]]
