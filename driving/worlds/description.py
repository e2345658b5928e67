"""The driving scene in numbers, as JSON values, for labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from driving.worlds.body import Body
from driving.worlds.drive_log import DriveLog
from driving.worlds.expert import boxes_touch
from driving.worlds.lanes import NEAR_M, near_lanes
from driving.worlds.route import Route, to_ego
from driving.worlds.traffic import Simulation

TTC_HORIZON_S = 8.0
SIGHT_M = 150.0


def describe(
    simulation: Simulation, route: Route, log: DriveLog, ego: Body, *, s: float, lateral: float, steering: float,
    acceleration: float, yaw_rate: float, time_s: float,
) -> dict[str, Any]:  # fmt: skip
    """World frame unless a name says ego; metres, radians, seconds.

    ``ego``, ``vehicles`` (within 150 m, nearest first, each with its place in the ego frame and its time to collision
    at constant velocities, None beyond 8 s), ``lanes`` near by, ``route`` with its command and next 100 m, the same
    as ``future_route`` in the ego frame, ``time_to_collision_s`` of the most urgent, ``path`` driven so far.
    """
    vehicles = [_vehicle(b, ego) for b in simulation.bodies()]
    vehicles = sorted((v for v in vehicles if v["distance"] < SIGHT_M), key=lambda v: (v["distance"], v["id"]))
    ahead = route.at(s + np.arange(0.0, 101.0, 4.0))[0]
    urgent = [v["time_to_collision_s"] for v in vehicles if v["time_to_collision_s"] is not None]
    return {
        "scenario": simulation.scenario,
        "time_s": time_s,
        "ego": {**_pose(ego), "yaw_rate": yaw_rate, "steering": steering, "acceleration": acceleration},
        "vehicles": vehicles,
        "lanes": near_lanes(simulation.network, ego, NEAR_M),
        "route": {
            "command": route.command,
            "instruction": route.instruction,
            "s": s,
            "lateral": lateral,
            "goal_s": route.goal_s,
            "speed_limit": route.value_at(route.limits, s),
            "points": ahead.tolist(),
        },
        "future_route": to_ego(ahead, ego.x, ego.y, ego.heading).tolist(),
        "time_to_collision_s": min(urgent) if urgent else None,
        "collision": log.collision,
        "off_road": log.off_road,
        "path": {"dt_s": log.step_s, "rows": log.poses.tolist(), "columns": ["x", "y", "heading", "speed"]},
    }


def time_to_collision(one: Body, two: Body, horizon_s: float = TTC_HORIZON_S) -> float | None:
    """Seconds until the two would touch if both went straight on at their speeds; None if not within the horizon."""
    times = np.arange(0.0, horizon_s + 1e-9, 0.05)
    boxes = []
    for body in (one, two):
        ahead = body.speed * np.array([np.cos(body.heading), np.sin(body.heading)])
        middles = np.array([body.x, body.y]) + times[:, None] * ahead
        boxes.append((middles, np.full(len(times), body.heading), body.length, body.width))
    touch = boxes_touch(boxes[0], boxes[1])
    return float(times[int(np.argmax(touch))]) if touch.any() else None


def _pose(body: Body) -> dict[str, Any]:
    names = ("id", "kind", "x", "y", "heading", "speed", "length", "width", "height")
    return {name: getattr(body, name) for name in names}


def _vehicle(body: Body, ego: Body) -> dict[str, Any]:
    place = to_ego([body.x, body.y], ego.x, ego.y, ego.heading).tolist()
    return {
        **_pose(body),
        "braking": body.braking,
        "ego_x": place[0],
        "ego_y": place[1],
        "distance": float(np.hypot(*place)),
        "time_to_collision_s": time_to_collision(ego, body),
    }
