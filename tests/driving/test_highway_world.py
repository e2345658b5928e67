"""The highway world as its users meet it: every rule of a world, each kind of road, the same episode twice."""

import json

import numpy as np
import pytest

from backbone.checks.world import check_world
from backbone.errors import ConfigError, WorldError
from driving.worlds.highway import HighwayConfig, HighwayWorld

pytest.importorskip("highway_env", reason="highway-env is not installed")
SCENARIOS = ("highway", "merge", "roundabout", "intersection", "racetrack")


@pytest.fixture(scope="module")
def world():
    try:
        made = HighwayConfig(width=48, height=32, duration_s=4.0).make()
    except WorldError as error:
        pytest.skip(f"no off-screen OpenGL here: {error}")
    yield made
    made.close()


def drive(world: HighwayWorld, seed: int, scenario: str, steps: int) -> list[np.ndarray]:
    observation, _ = world.reset(seed=seed, options={"scenario": scenario})
    seen = [observation.state, *observation.images.values()]
    for _ in range(steps):
        observation, _, terminated, truncated, _ = world.step(world.expert_action())
        seen += [observation.state, *observation.images.values()]
        if terminated or truncated:
            break
    return seen


def test_it_keeps_every_rule_of_a_world(world):
    report = check_world(HighwayConfig(width=48, height=32, duration_s=3.0))
    assert report.ok, [f"{finding.name}: {finding.message}" for finding in report.failed]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_episode_does_not_depend_on_what_ran_before(world, scenario):
    first = drive(world, 11, scenario, 6)
    drive(world, 3, SCENARIOS[0], 4)
    again = drive(world, 11, scenario, 6)
    assert len(first) == len(again)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    other = drive(world, 12, scenario, 6)
    assert not all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(first, other, strict=False))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_three_cameras_and_labels(world, scenario):
    observation, info = world.reset(seed=5, options={"scenario": scenario})
    assert list(observation.images) == ["front_left", "front", "front_right"]
    views = list(observation.images.values())
    assert all(view.shape == (32, 48, 3) and view.std() > 1 for view in views)
    assert not np.array_equal(views[0], views[2])
    assert info["success"] is False
    json.dumps(world.describe(), allow_nan=False)
    assert world.draw().ndim == 3


def test_the_car_steers_left_for_a_positive_angle(world):
    headings = {}
    for angle in (-0.05, 0.05):
        world.reset(seed=2, options={"scenario": "highway"})
        for _ in range(2):
            observation, *_ = world.step(np.array([angle, 0.0], np.float32))
        headings[angle] = float(observation.state[1])  # yaw rate, left positive
    assert headings[-0.05] < 0 < headings[0.05]


def test_impossible_settings_and_actions_are_refused(world):
    with pytest.raises(ConfigError, match="scenario"):
        HighwayConfig(scenario="motorway")
    world.reset(seed=0)
    for action in ([9.0, 0.0], [np.nan, 0.0], [0.0]):
        with pytest.raises(WorldError):
            world.step(np.array(action, np.float32))
