"""The expert of `rooms`: along the shortest way in whole turns and steps, then turn to the object, then stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from navigation.homes.geodesic import GoalField
from navigation.metrics import Actions
from navigation.worlds.approach import approach
from navigation.worlds.navigation_world import ahead, wrapped
from navigation.worlds.rooms_episode import Episode

Points = NDArray[np.float64]
_TURN_COST = 0.012  # metres that a turn counts as: of nearly equal ways the one with fewer turns
_CONTACT = 0.1  # metres that a step into something counts as besides: the next one is often barred too
_HEADINGS = 3  # headings tried, nearest to the way first
_BEAM = 6  # poses kept after each step of the search
_GRAIN = 0.04  # metres: poses nearer than this, with the same heading, are one
_PAST = 0.6  # metres nearer to the goal that a search goes past what no single step passes
_INSIDE = 0.95  # the expert stops within this part of the success radius


@dataclass(frozen=True, eq=False)
class _Node:
    """A pose of the beam search: metres left from it, the cost of getting there, and the turns to the left before."""

    left: float
    spent: float
    place: Points
    heading: float
    turns: int
    before: _Node | None


def _key(place: Points, heading: float) -> tuple[float, float, float]:
    return round(float(place[0]), 6), round(float(place[1]), 6), round(wrapped(heading), 6)


class Expert:
    """Plans from the pose it is asked about and keeps to the plan; others' actions in between make it plan anew."""

    def __init__(self, episode: Episode, turn: float, step: float) -> None:
        """``turn`` radians and ``step`` metres of one action."""
        self._episode, self._turn, self._step = episode, turn, step
        self._way, self._views, self._owner = self._goals()
        self._reach = _INSIDE * (episode.success_distance if episode.rule == "view_points" else 0.1)
        self._plans: dict[tuple[float, float, float], str] = {}  # by pose

    def action(self) -> str:
        """The next action's name."""
        e = self._episode
        return self.action_at(e.place, e.heading)

    def action_at(self, place: Points, heading: float) -> str:
        """The action for an agent at ``place`` with ``heading``."""
        left = self._left(place)
        if left < self._reach:
            return self._face(place, heading)
        key = _key(place, heading)
        if key not in self._plans:
            end = self._ahead_of_all(place, heading)
            if end is None:
                self._search(place, heading, max(self._reach, left - _PAST))
            else:
                self._keep(end, place, heading)
        return self._plans.get(key, "stop")

    def _goals(self) -> tuple[GoalField, Points, NDArray[np.int64]]:
        """The way to the view points, the points (N, 2), and the thing each belongs to.

        Where the rule asks for the object, only those well within its distance of it, if there are any.
        """
        e = self._episode
        goals = e.goals
        if e.rule == "view_points":
            return goals.way, goals.views, goals.owner
        near = np.array([e.scene.object_distance(goals.category, *v) for v in goals.views.tolist()])
        keep = near < _INSIDE * e.success_distance - 0.1
        if not keep.any():
            return goals.way, goals.views, goals.owner
        return e.scene.floor.field(goals.views[keep]), goals.views[keep], goals.owner[keep]

    def _left(self, place: Points) -> float:
        """Metres of the shortest way that are left from a place."""
        return self._episode.scene.floor.distance_in(self._way, place)

    def _face(self, place: Points, heading: float) -> str:
        """Turn towards the object whose view point is nearest; stop when no turn would bring it nearer."""
        e = self._episode
        nearest = int(np.linalg.norm(self._views - place, axis=1).argmin())
        thing = e.scene.home.thing(int(self._owner[nearest]))
        bearing = math.atan2(-(thing.position[0] - place[0]), -(thing.position[2] - place[1]))
        off = wrapped(bearing - heading)
        if abs(off) <= self._turn / 2 + 1e-6:
            return "stop"
        return "turn_left" if off > 0 else "turn_right"

    def _ahead(self, place: Points, heading: float) -> Points:
        return self._episode.scene.floor.walk(place, place + np.array(ahead(heading)) * self._step)[0]

    def _ahead_of_all(self, place: Points, heading: float) -> _Node | None:
        """The cheapest way to a place within reach by a beam search over steps, or as far as that leads; or None."""
        beam = [_Node(self._left(place), 0.0, place, heading, 0, None)]
        first, best, nearest = beam[0], None, beam[0]
        while beam:
            found: dict[tuple[int, int, int], _Node] = {}
            for node in beam:
                for k, there, cost, left in self._steps(node.place, node.heading):
                    facing, spent = wrapped(node.heading + k * self._turn), node.spent + cost
                    child = _Node(left, spent, there, facing, k, node)
                    if left < self._reach:
                        best = child if best is None or spent < best.spent else best
                        continue
                    nearest = child if left < nearest.left else nearest
                    key = round(there[0] / _GRAIN), round(there[1] / _GRAIN), round(facing / self._turn * 4)
                    if key not in found or spent + left < found[key].spent + found[key].left:
                        found[key] = child
            beam = sorted(found.values(), key=lambda n: n.spent + n.left)[:_BEAM]
            if best is not None and (not beam or beam[0].spent + beam[0].left - self._reach >= best.spent):
                return best
        return nearest if nearest is not first else None

    def _keep(self, end: _Node, place: Points, heading: float) -> None:
        """Remember the actions that lead from a pose to the end of a search."""
        nodes = []
        node: _Node | None = end
        while node is not None and node.before is not None:
            nodes.append(node)
            node = node.before
        around = round(2 * math.pi / self._turn)
        names: list[str] = []
        for node in reversed(nodes):
            names += (
                ["turn_left"] * node.turns
                if node.turns <= around - node.turns
                else ["turn_right"] * (around - node.turns)
            )
            names.append("move_forward")
        self._remember(names, place, heading)

    def _remember(self, names: Sequence[str], place: Points, heading: float) -> None:
        for name in names:
            self._plans[_key(place, heading)] = name
            place, heading = self.after(place, heading, name)

    def _steps(self, place: Points, heading: float) -> list[tuple[int, Points, float, float]]:
        """The three steps nearest to the shortest way that lead on: turns to the left, place, cost, metres left."""
        e = self._episode
        here, target = e.scene.floor.first_in(self._way, place)
        wanted = math.atan2(-(target[0] - place[0]), -(target[1] - place[1]))
        around = round(2 * math.pi / self._turn)
        found: list[tuple[int, Points, float, float]] = []
        for rank, k in enumerate(sorted(range(around), key=lambda k: abs(wrapped(heading + k * self._turn - wanted)))):
            if rank >= _HEADINGS and found:
                break
            there = self._ahead(place, heading + k * self._turn)
            moved = float(np.linalg.norm(there - place))
            if moved < self._step / 2:
                continue
            left = self._left(there)
            if here - left >= 0.3 * self._step:
                contact = _CONTACT if moved < self._step - 1e-6 else 0.0
                found.append((k, there, moved + contact + _TURN_COST * min(k, around - k), left))
        return found

    def _search(self, place: Points, heading: float, within: float) -> None:
        """Remember a plan, found by `approach`, to the nearest place that is ``within`` so many metres of a goal."""
        names = approach(
            (float(place[0]), float(place[1])),
            heading,
            lambda p, h: tuple(self._ahead(np.asarray(p), h).tolist()),
            lambda p: self._left(np.asarray(p)),
            within,
            self._turn,
            self._step,
        )
        self._remember(names or (), place, heading)

    def after(self, place: Points, heading: float, name: str) -> tuple[Points, float]:
        """The pose that an action leads to."""
        if name == "move_forward":
            return self._ahead(place, heading), heading
        return place, wrapped(heading + (self._turn if name == "turn_left" else -self._turn))

    def whole(self, most: int) -> Actions:
        """What the expert would do from the start: moves, turns, and one stop if it gets there in ``most`` steps."""
        e = self._episode
        place, heading = np.array(e.start.place), e.start.heading
        moves = turns = 0
        while moves + turns < most:
            name = self.action_at(place, heading)
            if name == "stop":
                return Actions(moves, turns, 0, 1)
            moves, turns = moves + (name == "move_forward"), turns + (name != "move_forward")
            place, heading = self.after(place, heading, name)
        return Actions(moves, turns)
