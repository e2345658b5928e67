"""highway-env's lanes and road network with scalar arithmetic; see `driving.worlds.quick_roads`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from highway_env.road.lane import CircularLane, SineLane, StraightLane
from highway_env.road.road import RoadNetwork

FEW_LANES = 8  # so few are measured faster than looked for


def wrapped(angle: float) -> float:
    """The angle in [-pi, pi)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


class _Quick:
    """What all quick lanes share."""

    def distance_with_heading(self: Any, position: Any, heading: float | None, heading_weight: float = 1.0) -> float:
        """Metres to the lane, an angle's difference in radians counted as metres."""
        s, r = self.local_coordinates(position)
        distance = abs(r) + max(s - self.length, 0.0) + max(-s, 0.0)
        if heading is None:
            return float(distance)
        return float(distance + heading_weight * abs(wrapped(heading - self.heading_at(s))))


class QuickStraightLane(_Quick, StraightLane):  # type: ignore[misc]
    """A straight lane."""

    def local_coordinates(self, position: Any) -> tuple[float, float]:
        """Metres along and to the right."""
        x, y = position.tolist()
        x0, y0, dx, dy = self.quick
        return (x - x0) * dx + (y - y0) * dy, (y - y0) * dx - (x - x0) * dy


class QuickSineLane(_Quick, SineLane):  # type: ignore[misc]
    """A sinusoidal lane."""

    def local_coordinates(self, position: Any) -> tuple[float, float]:
        """Metres along and to the right."""
        x, y = position.tolist()
        x0, y0, dx, dy = self.quick
        s = (x - x0) * dx + (y - y0) * dy
        swing = self.amplitude * math.sin(self.pulsation * s + self.phase)
        return s, (y - y0) * dx - (x - x0) * dy - swing

    def heading_at(self, longitudinal: float) -> float:
        """The lane's direction."""
        slope = self.amplitude * self.pulsation * math.cos(self.pulsation * longitudinal + self.phase)
        return float(self.heading) + math.atan(slope)


class QuickCircularLane(_Quick, CircularLane):  # type: ignore[misc]
    """An arc."""

    def local_coordinates(self, position: Any) -> tuple[float, float]:
        """Metres along and to the right."""
        x, y = position.tolist()
        x0, y0 = self.quick
        turned = wrapped(math.atan2(y - y0, x - x0) - self.start_phase)
        r = math.hypot(x - x0, y - y0)
        return self.direction * turned * self.radius, self.direction * (self.radius - r)


def quicken_lane(lane: Any) -> None:
    """Give a lane the quick methods of its kind; kinds without any (splines) keep their own."""
    if type(lane) in (StraightLane, SineLane):
        lane.quick = (*lane.start.tolist(), *lane.direction.tolist())
        lane.__class__ = QuickSineLane if type(lane) is SineLane else QuickStraightLane
        lane.length, lane.heading = float(lane.length), float(lane.heading)
    elif type(lane) is CircularLane:
        lane.quick = tuple(lane.center.tolist())
        lane.start_phase, lane.length = float(lane.start_phase), float(lane.length)
        lane.radius = float(lane.radius)
        lane.__class__ = QuickCircularLane


class QuickNetwork(RoadNetwork):  # type: ignore[misc]
    """A network that measures only those lanes of which a vehicle may be closest."""

    boxes: np.ndarray[Any, Any]  # (L, 4): low x, low y, high x, high y

    def get_closest_lane_index(self, position: Any, heading: float | None = None) -> Any:
        """The lane with the least distance, the first of equals.

        A lane's distance is never less than that to the box around it, so lanes are measured in the order of their
        boxes until the next box is too far.
        """
        if len(self.lanes) <= FEW_LANES:
            distances = [lane.distance_with_heading(position, heading) for lane in self.lanes]
            return self.indices[distances.index(min(distances))]
        outside = np.maximum(np.maximum(self.boxes[:, :2] - position, position - self.boxes[:, 2:]), 0.0)
        bounds = np.hypot(outside[:, 0], outside[:, 1])
        order = np.argsort(bounds, kind="stable")
        best, least = 0, math.inf
        for place, bound in zip(order.tolist(), bounds[order].tolist(), strict=True):
            if bound > least:
                break
            distance = self.lanes[place].distance_with_heading(position, heading)
            if distance < least or (distance == least and place < best):
                best, least = place, distance
        return self.indices[best]

    def prepare(self) -> None:
        """Measure the boxes."""
        self.indices, self.lanes = list(self.lanes_dict()), self.lanes_list()
        boxes = []
        for lane in self.lanes:
            count = 2 if type(lane) is QuickStraightLane else max(int(lane.length), 2)
            line = np.array([lane.position(s, 0.0) for s in np.linspace(0.0, lane.length, count)])
            beyond = 0.5 + 2.0 * getattr(lane, "amplitude", 0.0)  # a sine goes on swinging beyond its ends
            boxes.append([*(line.min(0) - beyond), *(line.max(0) + beyond)])
        self.boxes = np.array(boxes)


def quicken_network(network: Any) -> None:
    """Give a road network and its lanes, in place, the quick methods."""
    for lane in network.lanes_list():
        quicken_lane(lane)
    network.__class__ = QuickNetwork
    network.prepare()
