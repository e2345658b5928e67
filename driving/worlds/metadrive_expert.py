"""The expert of the `metadrive` world: keeps to its route, follows by IDM, gives way. Runs in MetaDrive's interpreter.

A pure function of the present state, so its action is the same whoever drove before. MetaDrive's own IDM policy follows
lanes in much the same way but looks only along its lane: it turns left into oncoming traffic.

Frame: metres, x east, y north, headings counter-clockwise from east.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

CRUISE = 8.3  # m/s, the 30 km/h of MetaDrive's policy
GAP_M, HEADWAY_S, COMFORT, BRAKE = 3.0, 1.2, 2.0, 3.0  # the Intelligent Driver Model's s0, T, a and b
CORRIDOR_M = 1.7  # to either side of the route: who is in it is ahead of us
SIGHT_M = 45.0
LOOK_S = np.arange(0.25, 3.6, 0.25)  # how far ahead crossing traffic is thought on
SIZE_M = 0.5  # that cars are thought longer and wider by
FULL_THROTTLE, FULL_BRAKE = 3.0, 6.0  # m/s2, roughly what MetaDrive's car reaches
WHEEL_RAD = math.radians(40.0)


def to_ego(points: Any, pose: tuple[float, float, float]) -> Any:
    """Points (..., 2) in the frame of a car at ``pose``: x forward, y left."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    return (np.asarray(points) - pose[:2]) @ np.array([[c, -s], [s, c]])


def overlap(a: Any, b: Any) -> bool:
    """Whether two rectangles (x, y, heading, length, width) touch: no axis of either separates them."""
    axes = [angle + turn for angle in (a[2], b[2]) for turn in (0.0, math.pi / 2)]
    for axis in axes:
        c, s = math.cos(axis), math.sin(axis)
        gap = abs((b[0] - a[0]) * c + (b[1] - a[1]) * s)
        reach = sum(
            abs(box[3] / 2 * math.cos(box[2] - axis)) + abs(box[4] / 2 * math.sin(box[2] - axis)) for box in (a, b)
        )
        if gap > reach:
            return False
    return True


def pedals(acceleration: float) -> float:
    """The action's second value for an acceleration in m/s2."""
    return max(-1.0, min(1.0, acceleration / (FULL_THROTTLE if acceleration > 0 else FULL_BRAKE)))


def steer_to(route: Any, pose: tuple[float, float, float], speed: float, length: float) -> float:
    """Pure pursuit of the route: the action's first value."""
    aim = to_ego(route.ahead([max(4.0, 0.7 * speed)])[0], pose)
    wheel = math.atan2(2.0 * 0.62 * length * float(aim[1]), float(aim @ aim))
    return max(-1.0, min(1.0, wheel / WHEEL_RAD))


def drive(pose: Any, speed: float, size: tuple[float, float], route: Any, bodies: Any, turning: Any) -> list[float]:
    """Steering and pedals. ``bodies`` (N, 10) as the worker's, ``turning`` (N,) their yaw rates in rad/s."""
    gap, lead_speed = _leader(route, size[0], bodies)
    wanted = GAP_M + max(0.0, speed * HEADWAY_S + speed * (speed - lead_speed) / (2 * math.sqrt(COMFORT * BRAKE)))
    follow = COMFORT * (1.0 - (speed / CRUISE) ** 4 - (wanted / max(gap, 0.5)) ** 2)
    free_m = _free_way(pose, speed, size, route, bodies, turning)
    if free_m is not None:
        follow = min(follow, -(speed**2) / (2.0 * max(free_m - 1.5, 0.3)) - 0.5)
    return [steer_to(route, pose, speed, size[0]), pedals(follow)]


def _leader(route: Any, length: float, bodies: Any) -> tuple[float, float]:
    """Metres to the one ahead on the route, and its speed along it; far away and fast where there is none."""
    places = np.arange(0.0, SIGHT_M, 1.0)
    line = route.ahead(places)
    best = (1e3, CRUISE)
    for row in bodies.tolist():
        away = np.hypot(line[:, 0] - row[2], line[:, 1] - row[3])
        k = int(away.argmin())
        if away[k] > CORRIDOR_M + 0.3 * row[7] or not 0 < k < len(places) - 1:
            continue
        gap = places[k] - (length + row[6]) / 2
        if gap < best[0]:
            course = math.atan2(*(line[k + 1] - line[k - 1])[::-1])
            best = (float(gap), max(0.0, row[5] * math.cos(row[4] - course)))
    return best


def _free_way(pose: Any, speed: float, size: Any, route: Any, bodies: Any, turning: Any) -> float | None:
    """How far the route is free of those who will cross it, or None: everybody goes on as now, we as we would."""
    rows = [(row, rate) for row, rate in zip(bodies.tolist(), turning) if _matters(row, pose)]  # noqa: B905
    if not rows:
        return None
    reach = np.minimum(speed * LOOK_S + 0.5 * COMFORT * LOOK_S**2, max(speed, CRUISE) * LOOK_S)
    line = route.ahead(reach)
    before = route.ahead(reach - 1.0)
    headings = np.arctan2(*(line - before).T[::-1])
    for k, t in enumerate(LOOK_S.tolist()):
        ours = (*line[k], headings[k], size[0] + SIZE_M, size[1] + SIZE_M)
        for row, rate in rows:
            middle = row[4] + rate * t / 2  # the chord of its arc
            x, y = row[2] + row[5] * t * math.cos(middle), row[3] + row[5] * t * math.sin(middle)
            if overlap(ours, (x, y, row[4] + rate * t, row[6] + SIZE_M, row[7] + SIZE_M)):
                return float(reach[k]) - float(size[0]) / 2
    return None


def _matters(row: list[float], pose: Any) -> bool:
    """Whether a body may cross our way: it moves, is near, is not behind us and does not drive along with us."""
    ahead, _ = to_ego([row[2], row[3]], pose)
    along = math.cos(row[4] - pose[2]) > 0.8
    return row[5] > 0.5 and -2.0 < ahead < SIGHT_M + 15.0 and not along


def keep_to_log(pose: Any, speed: float, length: float, route: Any, lead: float, recorded: float) -> list[float]:
    """Follow a recorded drive that is ``lead`` metres ahead of us and now goes ``recorded`` m/s."""
    wanted = max(0.0, recorded + lead)
    accelerate = 0.6 * (wanted - speed) if wanted > 0.15 or speed > 0.5 else -1.0
    return [steer_to(route, pose, speed, length), max(-1.0, min(1.0, accelerate))]
