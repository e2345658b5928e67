"""Where highway-env's other cars are foreseen to be: along their routes, at the speed they have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driving.worlds.body import Body
from driving.worlds.expert import Car, Driver, Foreseen
from driving.worlds.route import Floats, Route
from driving.worlds.traffic import Simulation, flipped

SIGHT_M = 120.0
LANE_M = 4.0  # highway-env's lanes


def foresee(simulation: Simulation, times: Floats) -> list[Foreseen]:
    """Every other car and obstacle within sight, once for the lane it is in and once for one it is changing to."""
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
        found.append(_foreseen(body, *along_lanes(simulation.network, vehicle, vehicle.lane_index, times)))
        target = vehicle.target_lane_index
        if target != vehicle.lane_index and target[0] == vehicle.lane_index[0]:  # not just the lane that comes next
            found.append(_foreseen(body, *along_lanes(simulation.network, vehicle, target, times)))
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


def along_lanes(network: Any, vehicle: Any, index: Any, times: Floats) -> tuple[Floats, Floats]:
    """World points (T, 2) and headings (T,) of a car that goes on in the lane ``index`` and its route at its speed."""
    lane = network.get_lane(index)
    s, lateral = lane.local_coordinates(vehicle.position)
    speed = float(vehicle.speed)
    route = _remaining(vehicle.route, index)
    places, headings = [], []
    for time in times.tolist():
        way = s + speed * time
        while way > lane.length:
            following = _next(network, index, route)
            if following is None:
                break
            way, s = way - lane.length, s - lane.length
            index, lane = following, network.get_lane(following)
        aside = lateral * math.exp(-time)  # cars keep to the middle
        places.append(lane.position(way, aside))
        headings.append(-float(lane.heading_at(way)))
    return flipped(places), np.array(headings)


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
