"""highway-env's lanes as asphalt and paint of the driving world's scenery."""

from __future__ import annotations

from typing import Any

import numpy as np
from highway_env.road.lane import LineType, SineLane, StraightLane

from driving.worlds.body import Body
from driving.worlds.scenery import Marking, Strip
from driving.worlds.traffic import flipped

NEAR_M = 60.0
_LINES = {LineType.NONE: "none", LineType.STRIPED: "dashed"}  # the others are solid
BEHIND_M, AHEAD_M = 150.0, 1700.0  # of the highway's ten kilometres, what an episode can see


def highway_scene(network: Any, ego: Body, ahead_m: float = AHEAD_M) -> tuple[list[Strip], list[Marking]]:
    """Asphalt and markings of all lanes of a road network, cut to what the ego car can reach."""
    strips, markings = [], []
    for lane in network.lanes_list():
        places = _places(lane, ego, ahead_m)
        middle = flipped([lane.position(s, 0.0) for s in places])
        widths = np.array([float(lane.width_at(s)) for s in places])
        strips.append(Strip(middle, widths))
        for line, side in zip(lane.line_types, (-0.5, 0.5), strict=True):  # highway-env's left is negative
            if line != LineType.NONE:
                edge = flipped([lane.position(s, side * w) for s, w in zip(places, widths, strict=True)])
                markings.append(Marking(edge, dashed=line == LineType.STRIPED))
    return strips, markings


def _places(lane: Any, ego: Body, ahead_m: float) -> list[float]:
    """Where along a lane to sample it: every 2 m in bends, every 8 m on straights."""
    low, high, step = 0.0, float(lane.length), 2.0
    if isinstance(lane, StraightLane) and not isinstance(lane, SineLane):
        here = lane.local_coordinates(np.array([ego.x, -ego.y]))[0]
        low, high, step = max(low, here - BEHIND_M), min(high, here + ahead_m), 8.0
    count = max(int(np.ceil((high - low) / step)), 1) + 1
    return np.linspace(low, high, count).tolist()  # type: ignore[no-any-return]


def near_lanes(network: Any, ego: Body, reach_m: float) -> list[dict[str, Any]]:
    """The lanes within ``reach_m`` of the ego car as JSON values: middle (world frame), width, lines, speed limit."""
    found = []
    for (start, end, place), lane in network.lanes_dict().items():
        middle = flipped([lane.position(s, 0.0) for s in _places(lane, ego, reach_m)])
        near = np.hypot(*(middle - (ego.x, ego.y)).T) < reach_m
        if near.sum() < 2:
            continue
        left, right = (_LINES.get(line, "solid") for line in lane.line_types)
        found.append(
            {
                "name": f"{start}-{end}-{place}",
                "points": middle[near].tolist(),
                "width": float(lane.width_at(0.0)),
                "left": left,
                "right": right,
                "speed_limit": float(lane.speed_limit or 0.0),
            }
        )
    return found
