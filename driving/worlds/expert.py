"""A careful driver along a route: steering to the line, the Intelligent Driver Model, and yielding by foresight.

Speed is IDM's behind the leading car, slowed for bends ahead. Then the plan is tried against where every other car is
foreseen to be: of a few accelerations the highest is taken whose drive keeps clear of all of them for some seconds,
which is what waiting at a junction or before a roundabout comes down to. Frames, units: `driving.worlds.route`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driving.worlds.route import STEP_M, Floats, Route, wrap_angle


@dataclass(frozen=True)
class Driver:
    """How the expert drives; metres, seconds, m/s, m/s^2."""

    wheelbase: float = 5.0  # of highway-env's bicycle, whose middle is half of it from either axle
    length: float = 5.0
    width: float = 2.0
    max_steering: float = math.pi / 4
    heading_gain: float = 2.5  # 1/s
    lateral_gain: float = 0.8  # 1/s
    top_speed: float = 27.0
    acceleration: float = 2.5
    braking: float = 3.0  # comfortable
    hardest_braking: float = 5.0
    time_gap: float = 1.5
    standstill_gap: float = 4.0
    lateral_acceleration: float = 2.5
    horizon_s: float = 5.0
    step_s: float = 0.25
    side_margin: float = 0.4
    end_margin: float = 1.0
    doubt_per_s: float = 0.5  # how much longer a foreseen car grows with each second


@dataclass(frozen=True)
class Car:
    """The ego car: pose and speed, and the time for which an action is held."""

    x: float
    y: float
    heading: float
    speed: float
    control_s: float


@dataclass(frozen=True, eq=False)
class Foreseen:
    """Another car now and where it may be: ``points`` (T, 2), ``headings`` (T,) at the driver's steps ahead."""

    x: float
    y: float
    heading: float
    speed: float
    length: float
    width: float
    points: Floats
    headings: Floats


def future_times(driver: Driver) -> Floats:
    """The seconds ahead (T,) at which other cars must be foreseen."""
    return np.arange(1, round(driver.horizon_s / driver.step_s) + 1, dtype=np.float64) * driver.step_s


def steer(driver: Driver, car: Car, route: Route, s: float, lateral: float) -> float:
    """The steering angle, left positive, that brings the car to the line and keeps it there.

    The bend ahead gives the turning rate; what is missing in heading and offset is added. ``lateral`` is how far the
    car stands to the left of the line it should take.
    """
    speed = max(car.speed, 1.0)
    middle = s + speed * car.control_s / 2  # where the car is while the action is held
    heading = float(route.at(middle)[1])
    bend = route.value_at(route.curvatures, middle)
    slip = math.asin(max(-0.9, min(0.9, bend * driver.wheelbase / 2)))
    back = math.asin(max(-0.5, min(0.5, -driver.lateral_gain * lateral / max(speed, 4.0))))
    rate = speed * bend + driver.heading_gain * float(wrap_angle(heading - slip + back - car.heading))
    wanted = math.asin(max(-0.9, min(0.9, rate * driver.wheelbase / 2 / speed)))
    return max(-driver.max_steering, min(driver.max_steering, math.atan(2.0 * math.tan(wanted))))


def speed_limit(driver: Driver, route: Route, s: float) -> float:
    """How fast the car may be at ``s`` so that it can slow down comfortably for every bend and limit ahead."""
    reach = driver.top_speed**2 / (2 * driver.braking) + 10.0
    first = min(max(int(s / STEP_M), 0), len(route.points) - 2)
    bends = np.abs(route.curvatures[first : first + int(reach / STEP_M) + 1])
    limits = np.minimum(route.limits[first : first + len(bends)], driver.top_speed)
    allowed = np.minimum(limits, np.sqrt(driver.lateral_acceleration / np.maximum(bends, 1e-6)))
    ahead = np.arange(len(bends)) * STEP_M
    return float(np.sqrt(allowed**2 + 2 * driver.braking * ahead * 0.7).min())


def idm(driver: Driver, speed: float, wanted: float, gap: float, leader_speed: float) -> float:
    """The Intelligent Driver Model's acceleration; ``gap`` is bumper to bumper, infinite for a free road."""
    free = 1.0 - (speed / max(wanted, 0.1)) ** 4
    if not math.isfinite(gap):
        return max(driver.acceleration * free, -driver.braking)
    closing = speed * (speed - leader_speed) / (2 * math.sqrt(driver.acceleration * driver.braking))
    desired = driver.standstill_gap + max(0.0, speed * driver.time_gap + closing)
    return driver.acceleration * (free - (desired / max(gap, 0.1)) ** 2)


def drive(
    driver: Driver, car: Car, route: Route, s: float, lateral: float, others: Sequence[Foreseen], hold: float = 0.0
) -> tuple[float, float]:
    """The action ``(steering rad, acceleration m/s^2)``.

    ``s`` and ``lateral`` are the car's place on the route; ``hold`` is how far to the left of the route to drive (a
    neighbouring lane, until the gap for the change has come).
    """
    steering = steer(driver, car, route, s, lateral - hold)
    near = [o for o in others if math.hypot(o.x - car.x, o.y - car.y) < 15.0 + driver.horizon_s * (car.speed + o.speed)]
    gap, leader_speed, crossing = _leader(driver, car, route, s, lateral, near)
    wanted = speed_limit(driver, route, s)
    eager = idm(driver, car.speed, wanted, gap, leader_speed)
    eager = max(-driver.hardest_braking, min(driver.acceleration, eager))
    return steering, _clear(driver, car, route, s, lateral - hold, hold, eager, wanted, crossing)


def _leader(
    driver: Driver, car: Car, route: Route, s: float, lateral: float, others: Sequence[Foreseen]
) -> tuple[float, float, list[Foreseen]]:
    """The gap to the car ahead on the line and its speed, and those others that could cross the line."""
    gap, leader_speed, crossing = math.inf, 0.0, []
    for other in others:
        place, side = route.project(other.x, other.y, near=s, window=180.0)
        along = abs(float(wrap_angle(other.heading - float(route.at(place)[1])))) < 0.5
        beside = (driver.width + other.width) / 2 + 0.2
        in_lane = along and (abs(side) < beside or abs(side - lateral) < beside)
        if in_lane and place > s:
            room = place - s - (driver.length + other.length) / 2
            if idm(driver, car.speed, 30.0, room, other.speed) < idm(driver, car.speed, 30.0, gap, leader_speed):
                gap, leader_speed = room, other.speed
        elif not (in_lane and place < s - 1.0):  # who follows has to mind us
            crossing.append(other)
    return gap, leader_speed, crossing


def _clear(
    driver: Driver, car: Car, route: Route, s: float, off: float, hold: float, eager: float, wanted: float,
    others: Sequence[Foreseen],
) -> float:  # fmt: skip
    """The highest acceleration up to ``eager`` that keeps clear of the others; if none does, the one clear longest."""
    if not others:
        return eager
    tries = [eager, *(a for a in (1.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0) if a < eager - 0.2)]
    hits = _first_hits(driver, car, route, s, off, hold, np.array(tries), wanted, others)
    for acceleration, hit in zip(tries, hits.tolist(), strict=True):
        if hit > driver.horizon_s:
            return acceleration
    escape = _first_hits(driver, car, route, s, off, hold, np.array([4.0]), wanted + 4.0, others)
    if escape[0] > driver.horizon_s:
        return 4.0
    best = float(hits.max())
    return next(a for a, hit in zip(reversed(tries), reversed(hits.tolist()), strict=True) if hit >= best)


def _first_hits(
    driver: Driver, car: Car, route: Route, s: float, off: float, hold: float, tries: Floats, wanted: float,
    others: Sequence[Foreseen],
) -> Floats:  # fmt: skip
    """For each acceleration (C,) the first time its drive touches another car; infinite if it never does."""
    times = future_times(driver)
    top = max(wanted, car.speed)
    speeds = np.clip(car.speed + tries[:, None] * np.concatenate([[0.0], times]), 0.0, top)
    ways = s + np.cumsum((speeds[:, 1:] + speeds[:, :-1]) / 2 * driver.step_s, 1)  # (C, T)
    middles, headings = route.at(ways)
    aside = hold + off * np.exp(-driver.lateral_gain * times)
    middles = middles + aside[None, :, None] * np.stack([-np.sin(headings), np.cos(headings)], -1)
    first = np.full(len(tries), np.inf)
    for other in others:
        grown = other.length + 2 * driver.end_margin + driver.doubt_per_s * times
        touch = boxes_touch(
            (middles, headings, driver.length, driver.width),
            (other.points, other.headings, grown, other.width + 2 * driver.side_margin),
        )
        first = np.minimum(first, np.where(touch, times, np.inf).min(1))
    return first


Boxes = tuple[Floats, Floats, float | Floats, float | Floats]  # middles (..., 2), headings, lengths, widths


def boxes_touch(one: Boxes, two: Boxes) -> NDArray[np.bool_]:
    """Whether upright rectangles overlap, by the separating axes of both; shapes broadcast."""
    (p, a, length_1, width_1), (q, b, length_2, width_2) = one, two
    apart = q - p
    cos, sin = np.abs(np.cos(b - a)), np.abs(np.sin(b - a))
    clear = np.zeros(np.broadcast_shapes(a.shape, b.shape), bool)
    for angle, (l1, w1), (l2, w2) in ((a, (length_1, width_1), (length_2, width_2)),
                                      (b, (length_2, width_2), (length_1, width_1))):  # fmt: skip
        c, s = np.cos(angle), np.sin(angle)
        forward, sideways = np.abs(apart[..., 0] * c + apart[..., 1] * s), np.abs(apart[..., 1] * c - apart[..., 0] * s)
        clear |= forward > l1 / 2 + (l2 * cos + w2 * sin) / 2
        clear |= sideways > w1 / 2 + (l2 * sin + w2 * cos) / 2
    return ~clear
