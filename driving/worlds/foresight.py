"""Where highway-env's other cars are foreseen to be: along their routes, at their speed and as they speed up now."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driving.worlds.body import Body
from driving.worlds.expert import Car, Driver, Foreseen
from driving.worlds.route import Floats, Route
from driving.worlds.traffic import Simulation, flipped

SIGHT_M = 120.0
CHANGING_S = 2.5
STEP_M = 3.0
LANE_M = 4.0  # highway-env's lanes


def foresee(simulation: Simulation, times: Floats) -> list[Foreseen]:
    """Every other car and obstacle within sight, in the lane it is in and in one that it is changing to."""
    here = simulation.body(simulation.ego)
    found = []
    for vehicle in simulation.others:
        body = simulation.body(vehicle)
        if math.hypot(body.x - here.x, body.y - here.y) > SIGHT_M:
            continue
        if body.kind == "obstacle" or vehicle.crashed:
            still = np.broadcast_to([body.x, body.y], (len(times), 2)).astype(np.float64)
            found.append(_foreseen(body, still, np.full(len(times), body.heading)))
            continue
        indices = [vehicle.lane_index]
        target = vehicle.target_lane_index
        if target != vehicle.lane_index and target[0] == vehicle.lane_index[0]:  # not just the lane that comes next
            indices.append(target)
        for index in indices:
            ways = _ways(vehicle, times)
            found += [_foreseen(body, *along_lanes(simulation.network, vehicle, index, times, way)) for way in ways]
    return found


def lane_to_hold(driver: Driver, car: Car, route: Route, s: float, lateral: float, others: list[Foreseen]) -> float:
    """How far to the left of the route to drive: 0, or the lane the car is in until there is room in the route's."""
    if abs(lateral) < LANE_M / 2 - 0.5 or abs(lateral) > 1.5 * LANE_M:
        return 0.0
    own = round(lateral / LANE_M) * LANE_M
    if abs(lateral - own) > 0.6:
        return 0.0  # on its way already
    for other in others:
        place, side = route.project(other.x, other.y, near=s, window=100.0)
        if abs(side) > LANE_M / 2 + 0.3:
            continue
        room = abs(place - s) - (driver.length + other.length) / 2
        closing = (car.speed - other.speed) if place > s else (other.speed - car.speed)
        if room < 5.0 + 0.3 * car.speed + 2.5 * max(closing, 0.0):
            return own
    return 0.0


def _foreseen(body: Body, points: Floats, headings: Floats) -> Foreseen:
    return Foreseen(body.x, body.y, body.heading, body.speed, body.length, body.width, points, headings)


def _ways(vehicle: Any, times: Floats) -> list[Floats]:
    """How far a car gets (T,) metres: at its speed, and if it goes on speeding up or slowing down for a while."""
    speed, acceleration = float(vehicle.speed), float(vehicle.action["acceleration"])
    ways = [speed * times]
    if abs(acceleration) > 0.4:
        steps = np.diff(times, prepend=0.0)
        speeds = np.clip(speed + np.clip(acceleration, -4.0, 3.0) * np.minimum(times, CHANGING_S), 0.0, 30.0)
        ways.append(np.cumsum(speeds * steps))
    return ways


def along_lanes(network: Any, vehicle: Any, index: Any, times: Floats, ways: Floats) -> tuple[Floats, Floats]:
    """World points (T, 2) and headings (T,) of a car that drives ``ways`` (T,) on in the lane ``index`` and its route.

    Lanes need not meet (an exit of the roundabout starts beside the inner ring); cars cut across, and so does this.
    """
    line = _line(network, vehicle, index, max(float(ways[-1]), 0.0) + STEP_M)
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    points = np.stack([np.interp(ways, along, line[:, i]) for i in (0, 1)], 1)
    pieces = np.arctan2(*np.diff(line, axis=0).T[::-1])
    headings = pieces[np.clip(np.searchsorted(along, ways, side="right") - 1, 0, len(pieces) - 1)]
    headings = np.where(ways < 0.5, -float(vehicle.heading), headings)
    return points, headings


def _line(network: Any, vehicle: Any, index: Any, reach: float) -> Floats:
    """The way ahead (N >= 2, 2) of at least ``reach`` metres, from where the car is; straight on where lanes end."""
    lane = network.get_lane(index)
    route = _remaining(vehicle.route, index)
    places = [vehicle.position]
    direction = vehicle.direction
    s = lane.local_coordinates(vehicle.position)[0] + max(STEP_M, 0.5 * float(vehicle.speed))
    length = 0.0
    while length < reach:
        if s > lane.length:
            following = _next(network, index, route)
            if following is None:
                places.append(places[-1] + direction * reach)
                break
            s, index, lane = max(s - lane.length, 0.0), following, network.get_lane(following)
        place = lane.position(s, 0.0)
        ahead = place - places[-1]
        size = math.hypot(*ahead.tolist())
        if size > 0.5 and float(ahead @ direction) > 0.0:  # what lies behind on a lane that overlaps is left out
            places.append(place)
            direction, length = ahead / size, length + size
        s += STEP_M
    return flipped(places)


def _remaining(route: Any, index: Any) -> list[Any]:
    """What of a car's route lies behind the road of ``index``."""
    roads = [step[:2] for step in route or []]
    if index[:2] in roads:
        return list(route[roads.index(index[:2]) + 1 :])
    return list(route or [])


def _next(network: Any, index: Any, route: list[Any]) -> Any:
    """The lane after ``index``: the route's, else the nearest; None where the road ends."""
    end = index[1]
    if end not in network.graph:
        return None
    lane = network.get_lane(index)
    tip = lane.position(lane.length, 0.0)
    onwards = [end, route.pop(0)[1]] if route and route[0][0] == end else [end, None]
    roads = [onwards[1]] if onwards[1] is not None else list(network.graph[end])
    lanes = [(end, road, k) for road in roads for k in range(len(network.graph[end][road]))]
    return min(lanes, key=lambda following: network.get_lane(following).distance(tip))
