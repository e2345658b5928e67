"""The quick traffic against highway-env's own steps, frames, and independence from what was driven before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("highway_env", reason="highway-env is not installed: pip install -e '.[worlds]'")

from highway_env.vehicle.behavior import IDMVehicle

from driving.worlds.highway import SCENARIOS
from driving.worlds.traffic import _LIBRARY, MAX_ACCELERATION, MAX_STEERING_RAD, Simulation, flipped, library_config

CONSTANTS = {"DISTANCE_WANTED": 10.0, "COMFORT_ACC_MAX": 3.0, "COMFORT_ACC_MIN": -5.0}  # highway-env's own


@pytest.fixture(autouse=True)
def _library_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """highway-env's intersection rewrites its cars' constants for good; give them back after each test."""
    for name, value in CONSTANTS.items():
        monkeypatch.setattr(IDMVehicle, name, value)


def plain(scenario: str, seed: int) -> Any:
    """highway-env's own environment; only its rewards are left out, which cannot take continuous actions."""
    library = _LIBRARY[scenario]
    without = {"_reward": lambda self, action: 0.0, "_info": lambda self, obs, action=None: {}}
    env = type("Plain", (library,), without)(library_config(scenario, 5, 1.0))
    env.reset(seed=seed)
    return env


def actions(seed: int, count: int) -> list[tuple[float, float]]:
    draw = np.random.default_rng(seed)
    return [(float(draw.uniform(-0.02, 0.02)), float(draw.uniform(-1.5, 1.5))) for _ in range(count)]


def states(vehicles: list[Any]) -> np.ndarray:
    return np.array([[*v.position, v.heading, v.speed] for v in vehicles])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_car_moves_as_in_highway_env(scenario: str) -> None:
    simulation = Simulation(scenario, 5, 1.0)
    simulation.reset(4)
    env = plain(scenario, 4)
    for steering, acceleration in actions(1, 12 if scenario == "intersection" else 30):
        applied = simulation.step(steering, acceleration)
        env.step((applied / MAX_ACCELERATION, -steering / MAX_STEERING_RAD))
        ours, theirs = states(simulation._env.road.vehicles), states(env.road.vehicles)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert simulation.ego.crashed == env.vehicle.crashed


def test_the_comparison_bites() -> None:
    simulation = Simulation("highway", 5, 1.0)
    simulation.reset(4)
    env = plain("highway", 4)
    simulation._env.road.vehicles[3].TIME_WANTED = 1.4
    for steering, acceleration in actions(1, 10):
        simulation.step(steering, acceleration)
        env.step((acceleration / MAX_ACCELERATION, -steering / MAX_STEERING_RAD))
    assert np.abs(states(simulation._env.road.vehicles) - states(env.road.vehicles)).max() > 1e-6


def test_left_is_left() -> None:
    simulation = Simulation("highway", 5, 0.0)
    simulation.reset(0)
    before = simulation.body(simulation.ego)
    for _ in range(3):
        simulation.step(0.05, 0.0)
    after = simulation.body(simulation.ego)
    assert after.x > before.x + 5
    assert after.y > before.y + 0.1
    assert after.heading > 0.05
    assert flipped([[1.0, 2.0]]).tolist() == [[1.0, -2.0]]


def test_the_brake_stops_and_does_not_reverse() -> None:
    simulation = Simulation("racetrack", 5, 0.0)
    simulation.reset(0)
    applied = [simulation.step(0.0, -5.0) for _ in range(20)]
    assert simulation.ego.speed == pytest.approx(0.0, abs=1e-9)
    assert applied[0] == -5.0
    assert applied[-1] == pytest.approx(0.0, abs=1e-9)
    assert math.isfinite(simulation.metres_off_road())


def test_episodes_do_not_depend_on_earlier_ones_nor_on_the_librarys_rewritten_constants() -> None:
    def drive(simulation: Simulation, seed: int) -> np.ndarray:
        simulation.reset(seed)
        for steering, acceleration in actions(2, 15):
            simulation.step(steering, acceleration)
        return states(simulation._env.road.vehicles)

    fresh = drive(Simulation("racetrack", 5, 1.0), 5)
    drive(Simulation("intersection", 5, 1.0), 1)
    IDMVehicle.DISTANCE_WANTED = 7.0  # what a plain intersection in the same process leaves behind
    used = Simulation("racetrack", 5, 1.0)
    drive(used, 9)
    np.testing.assert_array_equal(drive(used, 5), fresh)


def test_our_intersection_leaves_the_librarys_constants_alone() -> None:
    before = [getattr(IDMVehicle, name) for name in CONSTANTS]
    Simulation("intersection", 5, 1.0).reset(0)
    assert [getattr(IDMVehicle, name) for name in CONSTANTS] == before


def test_ids_are_never_reused_in_an_episode() -> None:
    simulation = Simulation("intersection", 5, 0.5)
    simulation.reset(2)
    before = {body.id for body in simulation.bodies()}
    assert min(before) >= 2  # the ego is 1
    gone = simulation.body(simulation.others[0]).id
    simulation._env.road.vehicles.remove(simulation.others[0])
    for _ in range(15):
        simulation.step(0.0, -5.0)
        if new := {body.id for body in simulation.bodies()} - before:
            break
    assert new == {max(before) + 1}
    assert gone not in {body.id for body in simulation.bodies()}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_closest_lane_is_the_librarys(scenario: str) -> None:
    quick = Simulation(scenario, 5, 0.0)
    quick.reset(0)
    library = plain(scenario, 0).road.network
    draw = np.random.default_rng(3)
    centre = quick.ego.position
    for _ in range(150):
        place, heading = centre + draw.uniform(-90, 90, 2), float(draw.uniform(-4, 4))
        ours, theirs = (n.get_closest_lane_index(place, heading) for n in (quick.network, library))
        if ours != theirs:  # two lanes that start at one point are equally near, to rounding
            nearest = [library.get_lane(i).distance_with_heading(place, heading) for i in (ours, theirs)]
            assert nearest[0] == pytest.approx(nearest[1], abs=1e-9)
