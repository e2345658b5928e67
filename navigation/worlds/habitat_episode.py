"""One episode in habitat-sim: its counts and distances by Habitat's own rules, and its expert.

Part of `habitat_worker`, with its needs: Python 3.8 or newer, NumPy and the habitat_sim module it is handed.
"""

from __future__ import annotations

import importlib.util
import math
import os
from typing import Any

import numpy as np

MOVED, MOVED_SHARE = 1e-4, 1e-5  # in metres, and of a coordinate: below it Habitat's measure keeps its last distance
CLOSE = 0.01  # metres; the follower is not to stop before the expert's own rule does
STOP_INSIDE = 0.95  # the expert stops within this part of the success radius


def beside(name: str) -> Any:
    """The module ``name``.py next to this file, which is on no path of this interpreter."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("fovea_" + name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cameras = beside("habitat_cameras")
WALKER, HEAD = cameras.WALKER, cameras.HEAD


class Goal:
    """The view points (N, 3) of an episode, and distances to the nearest one by Habitat's own query.

    ``faces`` (N, 3) or none: where the object of each view point is.
    """

    def __init__(self, hs: Any, sim: Any, view_points: Any, faces: Any, radius: float) -> None:
        """Goals in the open scene of ``sim``; a stop strictly within ``radius`` metres of one succeeds."""
        self.view_points = np.asarray(view_points, np.float32).reshape(-1, 3)
        self.faces = np.asarray([] if faces is None else faces, np.float32).reshape(-1, 3)
        self.radius = radius
        self._hs, self._sim = hs, sim
        self._query: Any = None  # kept between calls: it remembers which view points cannot be nearest

    def distance(self, position: Any) -> float:
        """Metres along the mesh to the nearest view point, infinite for none."""
        finder = self._sim.pathfinder
        distance, self._query = distance_to(self._hs, finder, position, self.view_points, self._query)
        return distance

    def nearest(self, position: Any) -> Any:
        """The view point (3,) at the end of the shortest path from ``position``, which must exist."""
        return self.path(position)[-1]

    def path(self, position: Any) -> Any:
        """The corners (K, 3) of the shortest path from ``position``, both ends included; none where there is none."""
        self.distance(position)
        return np.asarray(self._query.points, np.float32).reshape(-1, 3)

    def face(self, position: Any) -> Any:
        """What to look at (3,) from the view point that is nearest in a straight line; None if that is not known."""
        if not len(self.faces):
            return None
        return self.faces[int(np.linalg.norm(self.view_points - position, axis=1).argmin())]


class Episode:
    """Counts and distances of one episode, by Habitat's own rules."""

    def __init__(self, hs: Any, sim: Any, options: dict[str, Any], settings: dict[str, Any]) -> None:
        """Begin where the walker stands."""
        self._hs, self._sim, self._settings = hs, sim, settings
        self.instruction = str(options["instruction"])
        self.goal = Goal(hs, sim, options["view_points"], options.get("faces"), float(settings["success_radius_m"]))
        self.steps = self.moves = self.turns = self.panoramas = self.collisions = 0
        self.stopped = False
        self.walked = 0.0
        self.start = pose_of(sim, WALKER)
        self._counts: tuple[int, int] | None = None
        self.position = self._measured = self.start[0]
        self.way = [self.position.tolist()]
        self.distance = self.closest = self.shortest = self.goal.distance(self.position)
        self.expert = Expert(hs, sim, settings, self.goal, WALKER)

    def succeeded(self) -> bool:
        """Stopped strictly within the radius of a view point."""
        return bool(self.stopped and self.distance < self.goal.radius)

    def stop(self) -> None:
        """The agent says it is there."""
        self.stopped = True
        self.steps += 1

    def moved(self, name: str, collided: bool) -> None:
        """Take note of an executed action."""
        self.steps += 1
        self.expert.done(name)
        if name == "move_forward":
            self.moves += 1
        else:
            self.turns += 1
        self.collisions += collided
        position = pose_of(self._sim, WALKER)[0]
        if np.array_equal(position, self.position):
            return
        # a turn, too, moves a body that stood off the mesh (as starts may) to the nearest point of it
        self.walked += float(np.linalg.norm(position - self.position))
        self.position = position
        self.way.append(position.tolist())
        if (np.abs(self._measured - position) > MOVED + MOVED_SHARE * np.abs(position)).any():
            self.distance = self.goal.distance(position)
            self._measured = position
            self.closest = min(self.closest, self.distance)

    def outcome(self) -> dict[str, Any]:
        """Raw numbers of the episode so far, among them what the expert would have needed from the start."""
        if self._counts is None:
            self._counts = self._expert_counts()
        return {
            "path_length": self.walked,
            "shortest": finite(self.shortest),
            "distance": finite(self.distance),
            "closest": finite(self.closest),
            "position": self.position.tolist(),
            "stopped": self.stopped,
            "steps": self.steps,
            "moves": self.moves,
            "turns": self.turns,
            "panoramas": self.panoramas,
            "collisions": self.collisions,
            "expert_moves": self._counts[0],
            "expert_turns": self._counts[1],
        }

    def _expert_counts(self) -> tuple[int, int]:
        """Moves and turns of the expert from the start, walked by a body that nobody looks through."""
        place(self._hs, self._sim, HEAD, *self.start)
        expert = Expert(self._hs, self._sim, self._settings, self.goal, HEAD)
        names: list[str] = []
        while len(names) < self._settings["max_steps"] and (name := expert.action()) != "stop":
            self._sim.get_agent(HEAD).act(name)
            expert.done(name)
            names.append(name)
        return names.count("move_forward"), len(names) - names.count("move_forward")


class Expert:
    """Habitat's greedy geodesic follower to the nearest view point, and a search where that one gives up."""

    def __init__(self, hs: Any, sim: Any, settings: dict[str, Any], goal: Goal, body: int) -> None:
        """Lead ``body`` to ``goal``."""
        self._hs, self._sim, self._goal, self._body = hs, sim, goal, body
        self._turn, self._step = math.radians(settings["turn_deg"]), settings["forward_m"]
        self._follower = sim.make_greedy_follower(body, CLOSE, stop_key="stop")
        self._reach = STOP_INSIDE * goal.radius
        self._target: Any = None
        self._from: Any = None  # where the target was chosen
        self._plan: list[str] = []
        self._expected: Any = None  # the pose at which the plan goes on

    def action(self) -> str:
        """The next action's name; asking twice in the same place gives the same answer."""
        pose = pose_of(self._sim, self._body)
        if self._plan and np.array_equal(pose[0], self._expected[0]) and np.allclose(pose[1], self._expected[1]):
            return self._plan[0]
        self._plan = []
        distance = self._goal.distance(pose[0])
        if not math.isfinite(distance):
            return "stop"
        if distance < self._reach:
            return self._face(pose)
        if self._from is None or not np.array_equal(self._from, pose[0]):
            self._target, self._from = self._goal.nearest(pose[0]), pose[0]
        try:
            name = str(self._follower.next_action_along(self._target))
        except self._hs.errors.GreedyFollowerError:
            name = "stop"
        return name if name != "stop" else self._search(pose)

    def done(self, name: str) -> None:
        """Take note of an executed action, ours or another's."""
        if self._plan and name == self._plan[0]:
            self._plan, self._expected = self._plan[1:], pose_of(self._sim, self._body)
        else:
            self._plan = []

    def _face(self, pose: Any) -> str:
        """Turn until the object is as near to the middle of the picture as turns can bring it, then stop."""
        at = self._goal.face(pose[0])
        if at is None:
            return "stop"
        off = math.atan2(pose[0][0] - at[0], pose[0][2] - at[2]) - 2 * math.atan2(pose[1][1], pose[1][3])
        off = math.remainder(off, 2 * math.pi)
        if abs(off) <= self._turn / 2 + 1e-3:
            return "stop"
        return "turn_left" if off > 0 else "turn_right"

    def _search(self, pose: Any) -> str:
        """The first action of a plan that ends within reach of any view point; ``stop`` where there is none."""
        heading = 2 * math.atan2(pose[1][1], pose[1][3])
        found = beside("approach").approach(
            pose[0], heading, self._ahead, self._goal.distance, self._reach, self._turn, self._step
        )
        self._plan, self._expected = found or [], pose
        return self._plan[0] if self._plan else "stop"

    def _ahead(self, place: Any, heading: float) -> Any:
        toward = np.array([-math.sin(heading), 0.0, -math.cos(heading)], np.float32) * np.float32(self._step)
        return np.asarray(self._sim.step_filter(place, place + toward), np.float32)


def distance_to(hs: Any, pathfinder: Any, start: Any, ends: Any, query: Any = None) -> tuple[float, Any]:
    """Metres along the mesh from ``start`` to the nearest of ``ends`` (N, 3), and the query, for use again."""
    if query is None:
        query = hs.MultiGoalShortestPath()
        query.requested_ends = np.asarray(ends, np.float32)
    query.requested_start = np.asarray(start, np.float32)
    pathfinder.find_path(query)
    return float(query.geodesic_distance), query


def place(hs: Any, sim: Any, body: int, position: Any, rotation_xyzw: Any) -> None:
    """Put a body somewhere, its cameras level."""
    state = hs.AgentState()
    state.position = np.asarray(position, np.float32)
    state.rotation = hs.utils.common.quat_from_coeffs(np.asarray(rotation_xyzw, np.float32))
    sim.get_agent(body).set_state(state, reset_sensors=True)


def pose_of(sim: Any, body: int) -> tuple[Any, list[float]]:
    """Position (3,) float32 and rotation ``x, y, z, w`` of a body.

    Read from its scene node: the agent's own state gathers every camera's as well, ten times slower.
    """
    node = sim.get_agent(body).scene_node
    place, turned = node.translation, node.rotation
    vector = turned.vector
    return np.array([place.x, place.y, place.z], np.float32), [
        float(v) for v in (vector.x, vector.y, vector.z, turned.scalar)
    ]


def tilt_of(sim: Any, body: int) -> float:
    """Degrees by which the body's camera looks up."""
    state = sim.get_agent(body).get_state()
    relative = state.rotation.inverse() * state.sensor_states["rgb"].rotation
    return math.degrees(2 * math.atan2(relative.x, relative.w))


def xyzw(rotation: Any) -> list[float]:
    """The entries of a numpy-quaternion, which calls itself ``w, x, y, z``."""
    return [float(v) for v in (rotation.x, rotation.y, rotation.z, rotation.w)]


def finite(distance: float) -> float | None:
    """None for an infinite distance, which cannot be sent."""
    return float(distance) if math.isfinite(distance) else None


def labelled_objects(sim: Any) -> list[dict[str, Any]]:
    """Id in the label picture, category, centre and size of every object of the scene; empty without labels."""
    scene = sim.semantic_scene
    found = []
    for entry in scene.objects if scene is not None else []:
        if entry is None or entry.category is None:
            continue
        box = entry.aabb
        place = {"center": [float(v) for v in box.center], "size": [float(v) for v in box.sizes]}
        found.append(dict({"id": int(entry.semantic_id), "category": str(entry.category.name())}, **place))
    return found
