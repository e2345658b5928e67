"""Leading a robot to a place in steps and turns: in generated homes by the world's own expert, elsewhere by trying."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from navigation.actions import LEFT, MOVE, RIGHT, word_of
from navigation.exploration import Distance
from navigation.records import Pose
from navigation.worlds.navigation_world import ahead, wrapped
from navigation.worlds.rooms_episode import Episode, Start
from navigation.worlds.rooms_expert import Expert
from navigation.worlds.rooms_scene import Goals, Scene

REACH_M = 0.4  # a waypoint is passed when so near
TURN, STEP_M = math.radians(30.0), 0.25
_WAYPOINT = "waypoint"  # stands for a category: there is no thing there


class Follower(Protocol):
    """Leads to one place."""

    def action(self, pose: Pose) -> str | None:
        """The next action from a pose; None once it is reached, or where no action leads on."""
        ...


class HomeFollower:
    """To a place of a generated home, with the search of `rooms`' expert. Works for the same home in habitat too."""

    def __init__(self, scene: Scene, place: ArrayLike, pose: Pose) -> None:
        """``pose`` is where the way begins."""
        goal = np.asarray(place, np.float64).reshape(1, 2)
        self._scene, self._way = scene, scene.floor.field(goal)
        goals = Goals(_WAYPOINT, (), goal, np.zeros(1, np.int64), self._way)
        start = scene.floor.nearest(np.array(pose[:2]))
        at = Start((float(start[0]), float(start[1])), pose[2], _WAYPOINT)
        self._expert = Expert(Episode(scene, goals, at, "view_points", REACH_M), TURN, STEP_M)

    def action(self, pose: Pose) -> str | None:
        """See `Follower.action`."""
        place = self._scene.floor.nearest(np.array(pose[:2]))
        if self._scene.floor.distance_in(self._way, place) < REACH_M:
            return None
        name = self._expert.action_at(place, pose[2])
        return None if name == "stop" else word_of(name)


class ProbeFollower:
    """To a place of any scene: towards the step that leaves least to go, as measured by the scene's path finder.

    A step that did not move the robot is not tried again from there.
    """

    def __init__(self, distance: Distance) -> None:
        """``distance`` is that to the place."""
        self._distance = distance
        self._barred: set[tuple[float, float, int]] = set()
        self._last: tuple[float, float, int] | None = None

    def action(self, pose: Pose) -> str | None:
        """See `Follower.action`."""
        place: NDArray[np.float64] = np.array(pose[:2])
        key = (round(pose[0], 3), round(pose[1], 3))
        left = self._distance(place)
        if left < REACH_M:
            return None
        if self._last is not None and self._last[:2] == key:
            self._barred.add(self._last)
        self._last = None
        best: tuple[float, int] | None = None
        for k in range(-5, 7):
            heading = wrapped(pose[2] + k * TURN)
            number = round(heading / math.radians(1.0))
            if (*key, number) in self._barred:
                continue
            there = self._distance(place + STEP_M * np.array(ahead(heading)))
            if there < left - 0.02 and (best is None or (there, abs(k)) < (best[0], abs(best[1]))):
                best = there, k
        if best is None:
            return None
        if best[1] == 0:
            self._last = (*key, round(pose[2] / math.radians(1.0)))
            return MOVE
        return LEFT if best[1] > 0 else RIGHT
