"""highway-env's roads and cars with scalar arithmetic: the same motion to rounding, several times faster.

The library computes with NumPy on two numbers at a time, where the call costs more than the sum. The classes below
do the same with Python floats, look each vehicle up once a frame, and predict the ego's motion without copying the
whole road. A test holds them to the library's own steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from highway_env.road.regulation import RegulatedRoad
from highway_env.road.road import Road
from highway_env.utils import rotated_rectangles_intersect
from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.kinematics import Vehicle
from highway_env.vehicle.objects import Landmark

from driving.worlds.quick_lanes import quicken_network, wrapped

BODY_MARGIN_M = 1.0  # highway-env looks for neighbours this far beyond a lane's edge
END_MARGIN_M = 5.0  # ... and this far beyond its ends


class Car(IDMVehicle):  # type: ignore[misc]
    """A car of the traffic. Its constants are its own: an intersection rewrites those of its class for good."""

    DISTANCE_WANTED = 10.0
    COMFORT_ACC_MAX = 3.0
    COMFORT_ACC_MIN = -5.0

    def act(self, action: Any = None) -> None:
        """Decide on lane, wheel and speed."""
        if self.crashed:
            return
        self.follow_road()
        if self.enable_lane_change:
            self.change_lane_policy()
        wheel = _clip(self.steering_control(self.target_lane_index), self.MAX_STEERING_ANGLE)
        indices = {self.lane_index, self.target_lane_index}  # while it changes lanes it minds both
        pedal = min(self.acceleration(self, *self.road.neighbour_vehicles(self, index)) for index in indices)
        Vehicle.act(self, {"steering": wheel, "acceleration": _clip(pedal, self.ACC_MAX)})

    def steering_control(self, target_lane_index: Any) -> float:
        """The wheel's angle that keeps to a lane."""
        lane = self.road.network.get_lane(target_lane_index)
        s, lateral = lane.local_coordinates(self.position)
        speed = _not_zero(self.speed)
        towards = math.asin(_clip(-self.KP_LATERAL * lateral / speed, 1.0))
        wanted = lane.heading_at(s + self.speed * self.TAU_PURSUIT) + _clip(towards, math.pi / 4)
        rate = self.KP_HEADING * wrapped(wanted - self.heading)
        slip = math.asin(_clip(self.LENGTH / 2 / speed * rate, 1.0))
        return _clip(math.atan(2 * math.tan(slip)), self.MAX_STEERING_ANGLE)

    def acceleration(self, ego_vehicle: Any, front_vehicle: Any = None, rear_vehicle: Any = None) -> float:
        """The Intelligent Driver Model's acceleration of any vehicle."""
        if not ego_vehicle or not isinstance(ego_vehicle, Vehicle):
            return 0.0
        target = float(getattr(ego_vehicle, "target_speed", 0.0))
        limit = ego_vehicle.lane.speed_limit if ego_vehicle.lane else None
        if limit is not None:
            target = min(max(target, 0.0), limit)
        ratio = max(float(ego_vehicle.speed), 0.0) / abs(_not_zero(target))
        acceleration = self.COMFORT_ACC_MAX * (1.0 - ratio**self.DELTA)
        if front_vehicle:
            gap = _not_zero(ego_vehicle.lane_distance_to(front_vehicle))
            acceleration -= self.COMFORT_ACC_MAX * (self.desired_gap(ego_vehicle, front_vehicle) / gap) ** 2
        return float(acceleration)

    def desired_gap(self, ego_vehicle: Any, front_vehicle: Any = None, projected: bool = True) -> float:
        """The gap the model wants."""
        speed = float(ego_vehicle.speed)
        closing = speed - float(front_vehicle.speed)
        if projected:
            closing = speed - float(front_vehicle.speed) * math.cos(ego_vehicle.heading - front_vehicle.heading)
        braking = 2.0 * math.sqrt(-self.COMFORT_ACC_MAX * self.COMFORT_ACC_MIN)
        return float(self.DISTANCE_WANTED + speed * self.TIME_WANTED + speed * closing / braking)


class CrossingCar(Car):
    """A car of the intersection: closer gaps, as highway-env's intersection wants them."""

    DISTANCE_WANTED = 7.0
    COMFORT_ACC_MAX = 6.0
    COMFORT_ACC_MIN = -3.0


class Ego(Vehicle):  # type: ignore[misc]
    """The driven car: highway-env's bicycle model."""

    def predict_trajectory_constant_speed(self, times: Any) -> tuple[list[Any], list[float]]:
        """Positions and headings if the wheel is held; the library copies car and road for each of the times."""
        x, y = self.position.tolist()
        heading, speed = float(self.heading), float(self.speed)
        steering = 0.0 if self.crashed else float(self.action["steering"])
        slip = math.atan(math.tan(steering) / 2)
        turn = speed * math.sin(slip) / (self.LENGTH / 2)
        pushed = (0.0, 0.0) if self.impact is None else tuple(self.impact.tolist())
        positions, headings, before = [], [], 0.0
        for time in times.tolist():
            dt, before = time - before, time
            x += speed * math.cos(heading + slip) * dt + pushed[0]
            y += speed * math.sin(heading + slip) * dt + pushed[1]
            heading, pushed = heading + turn * dt, (0.0, 0.0)
            positions.append(np.array([x, y]))
            headings.append(heading)
        return positions, headings


class QuickRoad(Road):  # type: ignore[misc]
    """A road that finds neighbours and possible collisions with one look at each vehicle a frame."""

    _seen: dict[Any, list[tuple[Any, float]]] | None = None  # who is where along a lane and those that adjoin it

    def act(self) -> None:
        """Let everybody decide."""
        self._seen = {}  # nobody moves while all decide
        super().act()
        self._seen = None

    def neighbour_vehicles(self, vehicle: Any, lane_index: Any = None) -> tuple[Any, Any]:
        """Who is next ahead and behind on a lane and those that adjoin it."""
        lane_index = lane_index or vehicle.lane_index
        if not lane_index:
            return None, None
        here = self.network.get_lane(lane_index).local_coordinates(vehicle.position)[0]
        ahead, behind = None, None
        nearest, furthest = math.inf, -math.inf
        for body, s in self._along(lane_index):
            if body is vehicle:
                continue
            if here <= s <= nearest:
                ahead, nearest = body, s
            if furthest < s < here:
                behind, furthest = body, s
        return ahead, behind

    def _along(self, index: Any) -> list[tuple[Any, float]]:
        """Everybody on the lane or those that adjoin it, in the road's order, and where along the lane."""
        if self._seen is not None and index in self._seen:
            return self._seen[index]
        chain = [(lane, offset, lane.width_at(0.0) / 2 + BODY_MARGIN_M) for lane, offset in self._chain(index)]
        found = []
        for body in self.vehicles + self.objects:
            if isinstance(body, Landmark):
                continue
            for lane, offset, half in chain:  # the first lane that a vehicle is on counts
                s, lateral = lane.local_coordinates(body.position)
                if abs(lateral) <= half and -END_MARGIN_M <= s < lane.length + END_MARGIN_M:
                    found.append((body, s + offset))
                    break
        if self._seen is not None:
            self._seen[index] = found
        return found

    def _chain(self, index: Any) -> list[tuple[Any, float]]:
        """The lane of ``index`` and those before and after it, each with where it starts along the first."""
        start, end, place = index
        lane = self.network.get_lane(index)
        chain = [(lane, 0.0)]
        if self.neighbour_vehicles_connected_lanes:
            following = self.network.graph.get(end, {}).values()
            chain += [(lanes[place if place < len(lanes) else 0], lane.length) for lanes in following if lanes]
            before = [ends[start] for ends in self.network.graph.values() if start in ends]
            previous = [lanes[place if place < len(lanes) else 0] for lanes in before if lanes]
            chain += [(other, -other.length) for other in previous]
        return chain

    def step(self, dt: float) -> None:
        """Move everybody, then look for collisions among those near enough."""
        for vehicle in self.vehicles:
            vehicle.step(dt)
        bodies = self.vehicles + self.objects
        places = np.array([body.position for body in bodies])
        sizes = np.array([body.diagonal for body in bodies]) / 2
        for i, vehicle in enumerate(self.vehicles):
            apart = np.hypot(*(places[i + 1 :] - places[i]).T)
            near = apart <= sizes[i + 1 :] + sizes[i] + vehicle.speed * dt + 1e-6
            for j in np.flatnonzero(near).tolist():
                vehicle.handle_collisions(bodies[i + 1 + j], dt)


class QuickRegulatedRoad(QuickRoad, RegulatedRoad):  # type: ignore[misc]
    """The same with priorities, each vehicle's future computed once for all its possible conflicts."""

    def step(self, dt: float) -> None:
        """Apply the rules at their own rate, then move everybody."""
        self.steps += 1
        if self.steps % int(1 / dt / self.REGULATION_FREQUENCY) == 0:
            self.enforce_road_rules()
        QuickRoad.step(self, dt)

    def enforce_road_rules(self) -> None:
        """Tell those to yield whose futures meet another's with priority."""
        self._futures: dict[int, tuple[Any, Any]] = {}
        super().enforce_road_rules()

    def is_conflict_possible(self, v1: Any, v2: Any, horizon: float = 3, step: float = 0.25) -> bool:
        """Whether two vehicles' boxes meet within the horizon."""
        times = np.arange(step, horizon, step)
        (here, facing), (there, towards) = self._future(v1, times), self._future(v2, times)
        for k in np.flatnonzero(np.hypot(*(there - here).T) <= v1.LENGTH).tolist():
            one = (here[k], 1.5 * v1.LENGTH, 0.9 * v1.WIDTH, facing[k])
            two = (there[k], 1.5 * v2.LENGTH, 0.9 * v2.WIDTH, towards[k])
            if rotated_rectangles_intersect(one, two):
                return True
        return False

    def _future(self, vehicle: Any, times: Any) -> tuple[Any, Any]:
        if id(vehicle) not in self._futures:
            positions, headings = vehicle.predict_trajectory_constant_speed(times)
            self._futures[id(vehicle)] = (np.array(positions), headings)
        return self._futures[id(vehicle)]


def quicken_road(road: Any) -> Any:
    """The same road, vehicles and objects with the quick methods; `road`'s own lanes are changed in place."""
    quicken_network(road.network)
    road.__class__ = QuickRegulatedRoad if isinstance(road, RegulatedRoad) else QuickRoad
    return road


def _clip(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _not_zero(value: float, least: float = 1e-2) -> float:
    value = float(value)
    if abs(value) > least:
        return value
    return least if value >= 0 else -least
