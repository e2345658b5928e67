"""MetaDrive's roads as plain lines, and routes along them. Runs in MetaDrive's interpreter.

Frame of all results: metres, x east, y north (MetaDrive's own y points south), moved by ``origin``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LOG_LANE_M, DRIVEN_LANE_M = 4.2, 9.0
SEEN_M = 220.0  # of a recorded map, what lies this near to the route
SAMPLE_M = 4.0
EDGE = 2  # of a marking's kinds: 0 solid, 1 dashed, and the solid edge of the road


def east_north(points: Any, origin: Any) -> Any:
    """Points (..., 2) of MetaDrive's frame in ours."""
    return np.asarray(points, np.float64) * (1.0, -1.0) - origin


def sample_lane(lane: Any, lateral: float, spacing: float) -> Any:
    """Points (N, 2) of MetaDrive's frame along a lane."""
    count = max(int(np.ceil(lane.length / spacing)), 1) + 1
    return np.array([lane.position(s, lateral) for s in np.linspace(0.0, lane.length, count)])


class Lines:
    """Lines of different lengths, packed into few arrays for the way to the client."""

    def __init__(self) -> None:
        """No lines yet."""
        self._points: list[Any] = []
        self._values: list[tuple[float, ...]] = []

    def add(self, points: Any, *values: float) -> None:
        """A line (N >= 2, 2) with the numbers that describe it."""
        if len(points) >= 2:
            self._points.append(np.asarray(points, np.float32))
            self._values.append(values)

    def packed(self) -> dict[str, Any]:
        """``points`` (sum of N, 2) float32, ``counts`` (K,) int32, ``values`` (K, V) float32."""
        return {
            "points": np.concatenate(self._points) if self._points else np.zeros((0, 2), np.float32),
            "counts": np.array([len(points) for points in self._points], np.int32),
            "values": np.array(self._values, np.float32),
        }


def generated_roads(network: Any, origin: Any) -> dict[str, Any]:
    """``strips`` (value: width) and ``markings`` (values: kind, yellow) of a generated map."""
    strips, markings = Lines(), Lines()
    for exits in network.graph.values():
        for lanes in exits.values():
            for lane in lanes:
                spacing = 8.0 if type(lane).__name__ == "StraightLane" else 2.0
                width = float(lane.width_at(0.0))
                strips.add(east_north(sample_lane(lane, 0.0, spacing), origin), width)
                for side, line, colour in zip((-0.5, 0.5), lane.line_types, lane.line_colors):  # noqa: B905
                    kind = {"continuous": 0, "broken": 1, "side": EDGE}.get(line)
                    if kind is None or (kind == 1 and side > 0):  # the neighbour to the right draws it as its left
                        continue
                    points = east_north(sample_lane(lane, side * width, spacing), origin)
                    markings.add(points, kind, float(colour[2] < 0.5 < colour[0]))
    return {"strips": strips.packed(), "markings": markings.packed()}


def recorded_roads(case: dict[str, Any], route: Any, origin: Any, driven: bool) -> dict[str, Any]:
    """The same for a recorded case; ``driven``: its lanes are only what was driven."""
    strips, markings = Lines(), Lines()
    for feature in case["map"].values():
        kind = feature.get("type")
        name = kind if isinstance(kind, str) else getattr(kind, "name", "")
        if "polyline" not in feature or len(feature["polyline"]) < 2:
            continue
        for line in _near(_thinned(feature["polyline"][:, :2] - origin), route):
            if name == "center_lane":
                strips.add(line, DRIVEN_LANE_M if driven else LOG_LANE_M)
            elif type(kind).__name__ == "RoadEdgeType":
                markings.add(line, EDGE, 0.0)
            elif type(kind).__name__ == "RoadLineType" and name != "UNKNOWN":
                markings.add(line, float("BROKEN" in name), float("YELLOW" in name))
    return {"strips": strips.packed(), "markings": markings.packed()}


def _thinned(points: Any) -> Any:
    """The line resampled every `SAMPLE_M`, for recorded lines have a point every half metre."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    places = np.linspace(0.0, along[-1], max(int(along[-1] / SAMPLE_M), 1) + 1)
    return np.stack([np.interp(places, along, points[:, i]) for i in (0, 1)], 1)


def _near(points: Any, route: Any) -> list[Any]:
    """The pieces of a line that lie within `SEEN_M` of the route."""
    coarse = route[:: max(len(route) // 40, 1)]
    near = np.hypot(*(points[:, None] - coarse[None]).transpose(2, 0, 1)).min(1) < SEEN_M
    cuts = np.flatnonzero(np.diff(near.astype(int))) + 1
    pieces = zip(np.split(points, cuts), np.split(near, cuts))  # noqa: B905 - Python 3.8 has no strict
    return [piece for piece, keep in pieces if keep[0] and len(piece) > 1]


def generated_route(vehicle: Any, network: Any, origin: Any) -> Any:
    """The middle of the lanes (N, 2) from the car to its destination: each the one nearest to where the last ended."""
    checkpoints = vehicle.navigation.checkpoints
    here = np.asarray(vehicle.position)
    pieces: list[Any] = []
    for start, end in zip(checkpoints[:-1], checkpoints[1:]):  # noqa: B905, RUF007
        lanes = network.graph[start][end]
        lane = min(lanes, key=lambda lane: float(np.hypot(*(np.asarray(lane.position(0.0, 0.0)) - here))))
        if not pieces:
            lane = min(lanes, key=lambda lane: abs(float(lane.local_coordinates(here)[1])))
        pieces.append(east_north(sample_lane(lane, 0.0, 1.0), origin))
        here = np.asarray(lane.position(lane.length, 0.0))
    return np.concatenate(pieces)


class Route:
    """A line to follow (N, 2), with the arc length where the car is, which never jumps to another part of the line."""

    def __init__(self, points: Any) -> None:
        """A route through ``points``, which are thinned to half a metre."""
        kept = [points[0]]
        for point in points[1:]:
            if np.hypot(*(point - kept[-1])) >= 0.5:
                kept.append(point)
        if len(kept) < 2:
            kept.append(kept[0] + (1.0, 0.0))
        self.points = np.array(kept)
        self.along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(self.points, axis=0).T))])
        self.length = float(self.along[-1])
        self.at = 0.0  # metres along
        self.offset = 0.0  # metres to the left of the line

    def follow(self, x: float, y: float) -> None:
        """Move `at` to the point nearest to (x, y) between 10 m behind and 40 m ahead of where it was."""
        low = max(int(np.searchsorted(self.along, self.at - 10.0)) - 1, 0)
        high = min(int(np.searchsorted(self.along, self.at + 40.0)) + 1, len(self.points) - 1)
        starts, ends = self.points[low:high], self.points[low + 1 : high + 1]
        along = ends - starts
        lengths = np.hypot(*along.T)
        place = np.array([x, y]) - starts
        part = np.clip((place * along).sum(1) / lengths**2, 0.0, 1.0)
        away = np.hypot(*(place - part[:, None] * along).T)
        k = int(away.argmin())
        self.at = float(self.along[low + k] + part[k] * lengths[k])
        side = along[k, 0] * place[k, 1] - along[k, 1] * place[k, 0]
        self.offset = float(np.copysign(away[k], side))

    def ahead(self, distances: Any) -> Any:
        """Points (N, 2) at ``distances`` metres from where the car is; straight on beyond the end."""
        places = self.at + np.asarray(distances, np.float64)
        points = np.stack([np.interp(places, self.along, self.points[:, i]) for i in (0, 1)], 1)
        last = self.points[-1] - self.points[-2]
        beyond = np.maximum(places - self.length, 0.0)[:, None]
        return points + beyond * last / np.hypot(*last)
