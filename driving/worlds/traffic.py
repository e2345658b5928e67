"""highway-env's five scenarios as one simulation: seeded, quick, without its pictures, rewards and observations.

The one place where frames change. highway-env draws y downwards; Fovea's driving world has x forward (east), y left
(north), z up, angles counter-clockwise seen from above. So y, headings and steering angles change their sign here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from highway_env.envs.highway_env import HighwayEnv
from highway_env.envs.intersection_env import IntersectionEnv
from highway_env.envs.merge_env import MergeEnv
from highway_env.envs.racetrack_env import RacetrackEnv
from highway_env.envs.roundabout_env import RoundaboutEnv
from highway_env.vehicle.behavior import IDMVehicle
from highway_env.vehicle.kinematics import Vehicle
from numpy.typing import NDArray

from driving.worlds.body import Body
from driving.worlds.quick_roads import Car, CrossingCar, Ego, quicken_road

SIMULATION_HZ = 15
MAX_STEERING_RAD = math.pi / 4  # ContinuousAction's own limits
MAX_ACCELERATION = 5.0  # m/s^2
BRAKE_LIGHT = -0.8  # m/s^2
_LIBRARY = {
    "highway": HighwayEnv,
    "merge": MergeEnv,
    "roundabout": RoundaboutEnv,
    "intersection": IntersectionEnv,
    "racetrack": RacetrackEnv,
}


def flipped(points: Any) -> NDArray[np.float64]:
    """highway-env's points (..., 2) in the world frame, or back: y changes its sign."""
    return np.asarray(points, np.float64) * (1.0, -1.0)


def library_config(scenario: str, control_hz: int, traffic: float) -> dict[str, Any]:
    """What highway-env is configured with; ``traffic`` scales the number of other vehicles, 1 for its usual."""
    config: dict[str, Any] = {
        "observation": {"type": "AttributesObservation", "attributes": []},
        "action": {"type": "ContinuousAction"},
        "simulation_frequency": SIMULATION_HZ,
        "policy_frequency": control_hz,
        "neighbour_vehicles_connected_lanes": scenario != "roundabout",
    }
    if scenario == "highway":
        config |= {"vehicles_count": round(20 * traffic), "vehicles_density": max(0.5, min(traffic, 1.5))}
    if scenario == "intersection":
        config |= {"initial_vehicle_count": max(1, round(10 * traffic)), "spawn_probability": min(0.6 * traffic, 1.0)}
    if scenario == "racetrack":
        config |= {"other_vehicles": round(4 * traffic)}
    return config


def _quick(library: Any, car: type) -> Any:
    """A subclass of a library environment with quick roads and ``car``s, and no reward or information."""

    class Quick(library):  # type: ignore[misc]
        def _create_road(self) -> None:
            super()._create_road()
            quicken_road(self.road)

        def _make_road(self) -> None:
            super()._make_road()
            quicken_road(self.road)

        def _reward(self, action: Any) -> float:
            return 0.0

        def _info(self, obs: Any, action: Any = None) -> dict[str, Any]:
            return {}

    return Quick


class Simulation:
    """One scenario's road, traffic and ego car. An episode is a function of its seed and actions alone."""

    def __init__(self, scenario: str, control_hz: int, traffic: float) -> None:
        """Open a scenario; an episode begins with `reset`."""
        self.scenario = scenario
        car = CrossingCar if scenario == "intersection" else Car
        self._car = car
        config = library_config(scenario, control_hz, traffic)
        config["other_vehicles_type"] = f"{car.__module__}.{car.__name__}"
        self._env = _quick(_LIBRARY[scenario], car)(config)
        self._control_s = 1.0 / control_hz
        self._ids: dict[int, int] = {}
        self._kept: list[Any] = []

    @property
    def network(self) -> Any:
        """highway-env's road network, in its own frame."""
        return self._env.road.network

    @property
    def ego(self) -> Any:
        """highway-env's ego vehicle, in its own frame."""
        return self._env.vehicle

    @property
    def others(self) -> list[Any]:
        """highway-env's other vehicles and obstacles, in its own frame."""
        return [v for v in self._env.road.vehicles + self._env.road.objects if v is not self.ego]

    def reset(self, seed: int) -> None:
        """Begin the episode of ``seed``."""
        self._env.reset(seed=seed)
        self.ego.__class__ = Ego
        self._ids, self._kept = {}, []
        self._enrol()

    def step(self, steering: float, acceleration: float) -> float:
        """Hold the wheel (rad, left positive) and the pedals (m/s^2) for one control period.

        The brake stops the car and does not drive it backwards: the acceleration is raised to what just stops it
        within the period. Returns the acceleration that was applied.
        """
        applied = max(acceleration, -max(float(self.ego.speed), 0.0) / self._control_s)
        self._env.step((applied / MAX_ACCELERATION, -steering / MAX_STEERING_RAD))
        self._enrol()
        return applied

    def body(self, vehicle: Any) -> Body:
        """A vehicle or obstacle in the world frame."""
        x, y = vehicle.position.tolist()
        car = isinstance(vehicle, Vehicle)
        return Body(
            self._ids[id(vehicle)],
            "car" if car else "obstacle",
            x,
            -y,
            -float(vehicle.heading),
            float(vehicle.speed),
            float(vehicle.LENGTH),
            float(vehicle.WIDTH),
            height=1.5 if car else 1.0,
            braking=car and (vehicle.crashed or vehicle.action["acceleration"] < BRAKE_LIGHT),
        )

    def bodies(self) -> list[Body]:
        """All others, in order of their ids (2 and up; the ego is 1)."""
        return [self.body(v) for v in self.others]

    def metres_off_road(self) -> float:
        """How far the ego's middle is outside the nearest lane; 0 or less on the road."""
        beyond = []
        for lane in self.network.lanes_list():
            along, lateral = lane.local_coordinates(self.ego.position)
            aside = abs(lateral) - lane.width_at(along) / 2
            beyond.append(max(aside, -along, along - lane.length))
        return float(min(beyond))

    def close(self) -> None:
        """Release the environment."""
        self._env.close()

    def _enrol(self) -> None:
        """Give new vehicles an id that no other of the episode has had; make each one a quick `Car`."""
        for vehicle in [self.ego, *self.others]:
            if id(vehicle) not in self._ids:
                self._kept.append(vehicle)  # a freed vehicle's id() could come again
                self._ids[id(vehicle)] = len(self._kept)
            if type(vehicle) is IDMVehicle:  # the racetrack does not ask for its cars' class
                vehicle.__class__ = self._car
