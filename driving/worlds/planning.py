"""Where the ego car should go in each of highway-env's scenarios, as a `Route` with its driving command."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driving.worlds.route import Route
from driving.worlds.traffic import Simulation, flipped

LANE_CHANGE_SHARE = 0.4  # of the highway's episodes
MERGE_END_M = 370.0  # where highway-env's merge ends
PHRASES = {
    "keep_lane": ("Keep your lane.", "Stay in this lane.", "Drive on in your lane."),
    "change_left": ("Change to the lane on your left.", "Move one lane to the left.", "Take the next lane left."),
    "change_right": ("Change to the lane on your right.", "Move one lane to the right.", "Take the next lane right."),
    "pass_merge": (
        "Stay on the highway and mind the traffic merging from the right.",
        "Keep your lane past the slip road on the right.",
    ),
    "exit_first": ("Take the first exit of the roundabout.", "Turn right at the roundabout."),
    "exit_second": ("Take the second exit of the roundabout.", "Go straight on at the roundabout."),
    "exit_third": ("Take the third exit of the roundabout.", "Turn left at the roundabout."),
    "turn_left": ("Turn left at the junction.", "Take a left at the crossing."),
    "turn_right": ("Turn right at the junction.", "Take a right at the crossing."),
    "go_straight": ("Go straight on at the junction.", "Cross the junction."),
    "follow_track": ("Follow the track.", "Drive along the track."),
}
_RING = ("se", "ex", "ee", "nx", "ne", "wx", "we", "sx", "se")
_EXITS = {"exit_first": "e", "exit_second": "n", "exit_third": "w"}
_TURNS = {"turn_left": "o1", "go_straight": "o2", "turn_right": "o3"}


def lane_line(lane: Any, start: float = 0.0, end: float | None = None, step: float = 1.0) -> NDArray[np.float64]:
    """The middle (N, 2) of one of highway-env's lanes in the world frame, from ``start`` to ``end`` metres."""
    last = float(lane.length) if end is None else end
    count = max(int(np.ceil((last - start) / step)), 1) + 1
    return flipped([lane.position(s, 0.0) for s in np.linspace(start, last, count)])


def plan(simulation: Simulation, seed: int, duration_s: float) -> Route:
    """The route of an episode; what is left open by the scenario is drawn from ``seed``."""
    draw = np.random.default_rng([seed, 0x726F])  # a stream of its own: the traffic's draws stay the library's
    planner = {
        "highway": _highway,
        "merge": _merge,
        "roundabout": _roundabout,
        "intersection": _intersection,
        "racetrack": _racetrack,
    }[simulation.scenario]
    return planner(simulation, draw, duration_s)


def _text(draw: np.random.Generator, command: str) -> str:
    choices = PHRASES[command]
    return choices[int(draw.integers(len(choices)))]


def _pieces(simulation: Simulation, indices: list[tuple[str, str, int]]) -> list[tuple[Any, float]]:
    lanes = [simulation.network.get_lane(index) for index in indices]
    return [(lane_line(lane), float(lane.speed_limit or 30.0)) for lane in lanes]


def _highway(simulation: Simulation, draw: np.random.Generator, duration_s: float) -> Route:
    start, end, place = simulation.ego.lane_index
    count = len(simulation.network.graph[start][end])
    sides = [side for side, there in (("change_left", place > 0), ("change_right", place < count - 1)) if there]
    change = draw.random() < LANE_CHANGE_SHARE
    command = sides[int(draw.integers(len(sides)))] if change and sides else "keep_lane"
    place += {"keep_lane": 0, "change_left": -1, "change_right": 1}[command]  # highway-env counts from the left
    lane = simulation.network.get_lane((start, end, place))
    here = lane.local_coordinates(simulation.ego.position)[0]
    line = lane_line(lane, here - 20.0, here + 40.0 * duration_s + 200.0)
    return Route.through([(line, float(lane.speed_limit))], command, _text(draw, command))


def _merge(simulation: Simulation, draw: np.random.Generator, duration_s: float) -> Route:
    place = simulation.ego.lane_index[2]
    pieces = _pieces(simulation, [("a", "b", place), ("b", "c", place), ("c", "d", place)])
    goal = (MERGE_END_M, pieces[0][0][0][1])
    return Route.through(pieces, "pass_merge", _text(draw, "pass_merge"), goal=goal)


def _roundabout(simulation: Simulation, draw: np.random.Generator, duration_s: float) -> Route:
    command = list(_EXITS)[int(draw.integers(len(_EXITS)))]
    arm = _EXITS[command]
    ring = list(itertools.pairwise(_RING[: _RING.index(f"{arm}x") + 1]))
    indices = [("ser", "ses", 0), ("ses", "se", 0), *((a, b, 1) for a, b in ring)]
    indices += [(f"{arm}x", f"{arm}xs", 0), (f"{arm}xs", f"{arm}xr", 0)]
    pieces = _pieces(simulation, indices)
    return Route.through(pieces, command, _text(draw, command), goal=pieces[-2][0][-1], smooth_m=2.5)


def _intersection(simulation: Simulation, draw: np.random.Generator, duration_s: float) -> Route:
    command = list(_TURNS)[int(draw.integers(len(_TURNS)))]
    path = simulation.network.shortest_path("o0", _TURNS[command])
    pieces = _pieces(simulation, [(a, b, 0) for a, b in itertools.pairwise(path)])
    return Route.through(pieces, command, _text(draw, command), goal=pieces[-1][0][25])


def _racetrack(simulation: Simulation, draw: np.random.Generator, duration_s: float) -> Route:
    network, place = simulation.network, simulation.ego.lane_index[2]
    lap: list[tuple[str, str, int]] = []
    node = "a"
    while not lap or node != "a":
        following = next(iter(network.graph[node]))
        lap.append((node, following, place))
        node = following
    around = sum(float(network.get_lane(index).length) for index in lap)
    laps = int(np.ceil((20.0 * duration_s + 150.0) / around)) + 1
    return Route.through(_pieces(simulation, lap * laps), "follow_track", _text(draw, "follow_track"))
