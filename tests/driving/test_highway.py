"""The highway world: the form of a world, determinism, success and its refusals, what it describes, its expert."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("highway_env", reason="highway-env is not installed: pip install -e '.[worlds]'")
pytest.importorskip("moderngl", reason="moderngl is not installed: pip install -e '.[worlds]'")

from apps.worlds import world_config_class
from backbone.errors import ConfigError, WorldError
from driving.worlds.body import Body
from driving.worlds.description import time_to_collision
from driving.worlds.highway import AHEAD_M, SCENARIOS, STATE_NAMES, HighwayConfig, HighwayWorld

SMALL = {"width": 32, "height": 24}


@pytest.fixture(scope="module")
def world() -> Iterator[HighwayWorld]:
    try:
        opened = HighwayConfig(duration_s=20.0, **SMALL).make()
    except WorldError as error:
        pytest.skip(f"no renderer here: {error}")
    yield opened
    opened.close()


def run(world: HighwayWorld, scenario: str, seed: int, steps: int) -> list[Any]:
    """An expert's drive as comparable numbers and pictures."""
    observation, info = world.reset(seed=seed, options={"scenario": scenario})
    rows: list[Any] = [observation.images["front"], observation.state, info["command"]]
    for _ in range(steps):
        observation, reward, *_, info = world.step(world.expert_action())
        rows += [*(observation.images[name] for name in sorted(observation.images)), observation.state, reward]
    return rows


def test_the_registered_config_is_this_one() -> None:
    assert world_config_class("highway") is HighwayConfig
    assert [HighwayConfig().options(k)["scenario"] for k in range(6)] == [*SCENARIOS, "highway"]
    assert HighwayConfig("merge").options(3) == {"scenario": "merge"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_observations_have_the_stated_form(world: HighwayWorld, scenario: str) -> None:
    observation, info = world.reset(seed=3, options={"scenario": scenario})
    assert set(observation.images) == {"front_left", "front", "front_right"}
    assert all(image.shape == (24, 32, 3) and image.std() > 5 for image in observation.images.values())
    assert observation.state is not None
    assert observation.state.shape == (len(STATE_NAMES),)
    assert observation.instruction.endswith(".")
    assert info["success"] is False
    ahead = observation.state[4:].reshape(-1, 2)
    assert (np.hypot(*ahead.T) <= np.array(AHEAD_M) + 4.5).all()  # no further than along the road, from the lane beside
    assert ahead[0, 0] > 0  # the route goes forward


def test_the_same_seed_and_actions_give_the_same_pixels_whatever_was_driven_before(world: HighwayWorld) -> None:
    first = run(world, "racetrack", 6, 4)
    run(world, "intersection", 1, 3)
    run(world, "racetrack", 7, 2)
    again = run(world, "racetrack", 6, 4)
    other = HighwayConfig(duration_s=20.0, **SMALL).make()
    fresh = run(other, "racetrack", 6, 4)
    other.close()
    for a, b, c in zip(first, again, fresh, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


def test_seeds_draw_different_traffic_and_commands(world: HighwayWorld) -> None:
    commands = set()
    for seed in range(8):
        _, info = world.reset(seed=seed, options={"scenario": "roundabout"})
        commands.add(info["command"])
    assert commands == {"exit_first", "exit_second", "exit_third"}


@pytest.mark.parametrize("scenario", ["merge", "intersection", pytest.param("roundabout", marks=pytest.mark.slow)])
def test_the_expert_arrives(world: HighwayWorld, scenario: str) -> None:
    world.reset(seed=1, options={"scenario": scenario})
    terminated = truncated = False
    while not (terminated or truncated):
        _, reward, terminated, truncated, info = world.step(world.expert_action())
    assert terminated
    assert info["success"]
    assert reward > 10.0
    metrics = world.metrics()
    assert metrics["success"] == metrics["arrived"] == metrics["route_completion"] == 1.0
    assert metrics["path_length"] > 50.0
    assert all(math.isfinite(v) for v in metrics.values())
    with pytest.raises(WorldError, match="call reset first"):
        world.step(np.zeros(2, np.float32))


def test_a_car_that_parks_has_not_succeeded() -> None:
    world = HighwayConfig("racetrack", traffic=0.0, duration_s=4.0, **SMALL).make()
    world.reset(seed=0)
    for _ in range(world.max_steps):
        _, _, terminated, truncated, info = world.step(np.array([0.0, -5.0], np.float32))
    world.close()
    assert (terminated, truncated, info["success"]) == (False, True, False)
    assert world.max_steps == 20


def test_leaving_the_road_ends_the_episode(world: HighwayWorld) -> None:
    world.reset(seed=0, options={"scenario": "merge"})
    terminated, info, reward = False, {}, 0.0
    for _ in range(40):
        _, reward, terminated, _, info = world.step(np.array([0.3, 0.0], np.float32))
        if terminated:
            break
    assert terminated
    assert info["off_road"]
    assert not info["success"]
    assert reward < 0


def test_driving_into_the_car_ahead_is_a_collision() -> None:
    world = HighwayConfig("racetrack", duration_s=60.0, **SMALL).make()
    world.reset(seed=0)
    info: dict[str, Any] = {}
    for _ in range(world.max_steps):
        steering = world.expert_action()[0]
        _, _, terminated, _, info = world.step(np.array([steering, 1.0], np.float32))
        if terminated:
            break
    described = world.describe()
    world.close()
    assert info["collision"] or info["off_road"]
    assert described["collision"] == info["collision"]


def test_a_description_is_json_and_agrees_with_itself(world: HighwayWorld) -> None:
    world.reset(seed=2, options={"scenario": "intersection"})
    for _ in range(5):
        world.step(world.expert_action())
    told = json.loads(json.dumps(world.describe()))
    assert told["scenario"] == "intersection"
    assert len(told["path"]["rows"]) == 6
    assert told["future_route"][0][0] == pytest.approx(0.0, abs=1.0)
    for vehicle in told["vehicles"]:
        assert vehicle["distance"] == pytest.approx(math.hypot(vehicle["ego_x"], vehicle["ego_y"]))
    assert {lane["left"] for lane in told["lanes"]} <= {"none", "dashed", "solid"}


def test_history_is_in_the_present_ego_frame(world: HighwayWorld) -> None:
    world.reset(seed=2, options={"scenario": "highway"})
    assert np.abs(world.history()).max() == 0.0  # before the start the first pose stands
    for _ in range(10):
        world.step(np.zeros(2, np.float32))
    past = world.history(1.0, 0.5)
    assert past.shape == (3, 3)
    np.testing.assert_allclose(past[-1], 0.0, atol=1e-6)
    assert past[0, 0] == pytest.approx(-world.metrics()["mean_speed"], rel=0.02)


def test_ids_and_depth_show_the_described_cars(world: HighwayWorld) -> None:
    world.reset(seed=3, options={"scenario": "highway"})
    frames = world.views()
    cars = {v["id"]: v for v in world.describe()["vehicles"]}
    seen = set(np.unique(np.concatenate([f.ids.ravel() for f in frames.values() if f.ids is not None])).tolist()) - {0}
    assert seen
    assert seen <= set(cars)
    front = frames["front"]
    assert front.ids is not None
    assert front.depth is not None
    for number in seen & set(np.unique(front.ids).tolist()):
        depth = float(np.median(front.depth[front.ids == number]))
        assert abs(depth + 0.8 - cars[number]["ego_x"]) < 3.5  # its nearest side, seen from the windscreen


def test_time_to_collision_by_hand() -> None:
    ego = Body(1, "car", 0.0, 0.0, 0.0, 10.0, 5.0, 2.0)
    ahead = Body(2, "car", 25.0, 0.0, 0.0, 5.0, 5.0, 2.0)
    assert time_to_collision(ego, ahead) == pytest.approx(4.0, abs=0.06)  # 20 m of gap at 5 m/s
    assert time_to_collision(ego, Body(2, "car", 25.0, 4.0, 0.0, 5.0, 5.0, 2.0)) is None
    assert time_to_collision(ego, Body(2, "car", 25.0, 0.0, 0.0, 10.0, 5.0, 2.0)) is None
    crossing = Body(2, "car", 20.0, -20.0, math.pi / 2, 10.0, 5.0, 2.0)
    assert time_to_collision(ego, crossing) == pytest.approx(1.65, abs=0.06)  # noses meet 3.5 m before the middles do


def test_drawing_shows_road_and_cars(world: HighwayWorld) -> None:
    world.reset(seed=3, options={"scenario": "roundabout"})
    picture = world.draw()
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 6


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.array([np.nan, 0.0]), "NaN"),
        (np.array([1.0, 0.0]), "steering = 1 not in"),
        (np.zeros(3), "shape"),
    ],
)
def test_impossible_actions_are_refused(world: HighwayWorld, action: np.ndarray, message: str) -> None:
    world.reset(seed=0, options={"scenario": "merge"})
    with pytest.raises(WorldError, match=message):
        world.step(action.astype(np.float32))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scenario": "parking"}, "parking"),
        ({"control_hz": 10}, "divide 15"),
        ({"width": 4}, "width"),
        ({"duration_s": 0.0}, "duration"),
        ({"traffic": -1.0}, "traffic"),
        ({"hfov_deg": 180.0}, "hfov"),
    ],
)
def test_impossible_configs_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HighwayConfig(**fields)


def test_use_out_of_order_is_told(world: HighwayWorld) -> None:
    closed = HighwayConfig(**SMALL).make()
    for method in (closed.describe, closed.expert_action, closed.metrics, closed.draw, closed.history):
        with pytest.raises(WorldError, match="before the first reset"):
            method()
    closed.close()
    closed.close()
    with pytest.raises(WorldError, match="closed"):
        closed.reset(seed=0)
    with pytest.raises(WorldError, match="no scenario"):
        world.reset(seed=0, options={"scenario": "parking"})


def test_a_missing_simulator_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith("driving.worlds.traffic")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "highway_env.envs.highway_env", None)
    with pytest.raises(WorldError, match=r"pip install -e '\.\[worlds\]'"):
        HighwayConfig(**SMALL).make()
