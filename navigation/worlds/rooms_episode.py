"""Choosing the episode of a seed, and keeping count of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backbone.errors import WorldError
from navigation import metrics
from navigation.worlds.navigation_world import ahead, wrapped
from navigation.worlds.rooms_scene import Goals, Scene, needs

Points = NDArray[np.float64]
Rule = Literal["view_points", "object"]
NEAREST_START, FARTHEST_START = 2.0, 30.0  # metres of the shortest way, where the home allows it


@dataclass(frozen=True)
class Start:
    """Where an episode begins and what it asks for."""

    place: tuple[float, float]
    heading: float
    category: str


def choose_start(scene: Scene, seed: int, category: str | None) -> Start:
    """The episode of a seed in a scene: a category, if none is given, and a place from which it is a way to go.

    Raises `WorldError` where the home has nothing of the category.
    """
    random = np.random.default_rng([seed, 0x600D])
    if category is None:
        category = next((c for c in random.permutation(scene.present()) if scene.goals(str(c)) is not None), None)
        if category is None:
            raise WorldError(f"home {scene.home.seed} of {scene.home.split} has nothing that could be looked for")
        category = str(category)
    goals = needs(scene.goals(category), scene.home, category)
    x0, z0, x1, z1 = scene.floor.free.bounds
    best: tuple[float, Points] | None = None
    for _ in range(64):
        places = random.uniform((x0, z0), (x1, z1), (32, 2))
        places = places[scene.floor.contains(places)]
        for place in places[:4]:
            far = scene.floor.distance_in(goals.way, place)
            if NEAREST_START <= far <= FARTHEST_START:
                return _start(place, random, category)
            if math.isfinite(far) and (best is None or far > best[0]):
                best = far, place
        if best is not None and best[0] > 0.5 and _ > 8:
            break
    if best is None:
        raise WorldError(f"home {scene.home.seed} of {scene.home.split}: no start found for {category!r}")
    return _start(best[1], random, category)


def _start(place: Points, random: np.random.Generator, category: str) -> Start:
    return Start((float(place[0]), float(place[1])), float(random.uniform(-math.pi, math.pi)), category)


@dataclass
class Episode:
    """The episode under way: pose, counts and distances."""

    scene: Scene
    goals: Goals
    start: Start
    rule: Rule
    success_distance: float
    place: Points = field(init=False)
    heading: float = field(init=False)
    tilt: float = 0.0
    steps: int = 0
    moves: int = 0
    turns: int = 0
    panoramas: int = 0
    collisions: int = 0
    walked: float = 0.0
    stopped: bool = False
    expert_actions: metrics.Actions | None = None  # what the expert needs from the start, once it was asked for

    def __post_init__(self) -> None:
        self.place, self.heading = np.array(self.start.place), self.start.heading
        self.way: list[tuple[float, float]] = [self.start.place]
        self.shortest = self.closest = self.distance = self.distance_from(self.place)

    def distance_from(self, place: Points) -> float:
        """Metres of the shortest way from a place to the nearest view point."""
        return self.scene.floor.distance_in(self.goals.way, place)

    @property
    def object_distance(self) -> float:
        """Metres over the floor, straight, to the nearest goal's box."""
        return self.scene.object_distance(self.start.category, float(self.place[0]), float(self.place[1]))

    @property
    def success(self) -> bool:
        """Whether a stop was called within the rule's distance."""
        return self.stopped and metrics.success(True, self.rule_distance, self.success_distance)

    @property
    def rule_distance(self) -> float:
        """The distance that the rule of success asks for."""
        return self.distance if self.rule == "view_points" else self.object_distance

    def turn(self, angle: float) -> None:
        """Turn left by ``angle`` radians."""
        self.heading = wrapped(self.heading + angle)
        self.turns += 1

    def forward(self, metres: float) -> bool:
        """Go ahead until ``metres`` or contact, without sliding; whether there was contact."""
        toward = np.array(ahead(self.heading)) * metres
        place, collided = self.scene.floor.walk(self.place, self.place + toward)
        self.moves += 1
        self.collisions += collided
        self.walked += float(np.linalg.norm(place - self.place))
        if not np.array_equal(place, self.place):
            self.place = place
            self.distance = self.distance_from(place)
            self.closest = min(self.closest, self.distance)
            self.way.append((float(place[0]), float(place[1])))
        return collided

    def measures(self, expert: metrics.Actions, step_m: float) -> dict[str, float]:
        """All measures so far. ``success`` and ``spl`` follow the rule of this world; both rules are named beside."""
        near = self.object_distance
        outcome = metrics.Outcome(
            shortest_m=self.shortest,
            walked_m=self.walked,
            distance_m=self.distance,
            object_m=near,
            closest_m=self.closest,
            stopped=self.stopped,
            actions=metrics.Actions(self.moves, self.turns, self.panoramas, int(self.stopped)),
            expert=expert,
            steps=self.steps,
            collisions=self.collisions,
            step_m=step_m,
        )
        return metrics.outcome_metrics(outcome, self.rule, self.success_distance)
