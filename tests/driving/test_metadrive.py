"""MetaDrive in its own interpreter, and the parts of its worker that need none."""

from __future__ import annotations

import math
import os
import pickle
import signal
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import affinity, box

from apps.environments.install import environment_state
from backbone.errors import ConfigError, WorldError
from driving.worlds.body import Body
from driving.worlds.metadrive import MetaDriveConfig, MetaDriveWorld
from driving.worlds.metadrive_expert import drive, overlap, to_ego
from driving.worlds.metadrive_roads import Lines, Route
from driving.worlds.overhead import EGO, SIDE, draw_overhead
from driving.worlds.scenery_meshes import Strip

SMALL = MetaDriveConfig(blocks="S", width=32, height=24, max_steps=400)
installed = pytest.mark.skipif(
    environment_state("metadrive")[0] != "ready",
    reason="MetaDrive's environment is missing: fovea worlds install metadrive",
)


# without MetaDrive ---------------------------------------------------------------------------------------------------

rectangles = st.tuples(
    st.floats(-6, 6), st.floats(-6, 6), st.floats(-math.pi, math.pi), st.floats(0.5, 8), st.floats(0.3, 3)
)


def polygon(rectangle: tuple[float, float, float, float, float]) -> Any:
    x, y, heading, length, width = rectangle
    flat = box(-length / 2, -width / 2, length / 2, width / 2)
    return affinity.translate(affinity.rotate(flat, heading, (0, 0), use_radians=True), x, y)


@given(rectangles, rectangles)
@settings(max_examples=200, deadline=None)
def test_touching_rectangles_against_shapely(a: Any, b: Any) -> None:
    first, second = polygon(a), polygon(b)
    if abs(first.distance(second)) > 1e-6 or first.intersection(second).area > 1e-6:
        assert overlap(a, b) == first.intersects(second)


def test_points_of_the_ego_frame() -> None:
    ahead_left = to_ego([[3.0, 5.0]], (3.0, 2.0, math.pi / 2))
    assert ahead_left == pytest.approx(np.array([[3.0, 0.0]]))
    assert to_ego([[2.0, 2.0]], (3.0, 2.0, math.pi / 2)) == pytest.approx(np.array([[0.0, 1.0]]))


def body(x: float, y: float, heading: float, speed: float) -> list[float]:
    return [1.0, 0.0, x, y, heading, speed, 4.5, 1.9, 1.5, 0.0]


def expert(speed: float, *bodies: list[float], turn: bool = False) -> list[float]:
    """The expert's action at the origin, heading east, on a straight road or before a turn to the left."""
    corner = [[0.0, 0.0], [15.0, 0.0], [20.0, 2.0], [22.0, 7.0], [22.0, 60.0]]
    route = Route(np.array(corner if turn else [[0.0, 0.0], [200.0, 0.0]]))
    others = np.array(bodies).reshape(-1, 10)
    return drive((0.0, 0.0, 0.0), speed, (4.5, 1.85), route, others, [0.0] * len(others))


def test_the_expert_follows_stops_and_gives_way() -> None:
    assert expert(2.0) == pytest.approx([0.0, 0.66], abs=0.02)  # a free road: near the model's 2 m/s2, of 3
    assert expert(8.3)[1] == pytest.approx(0.0, abs=0.02)  # the wanted speed
    assert expert(8.0, body(14.0, 0.0, 0.0, 0.0))[1] < -0.8  # somebody stands in the way
    assert expert(7.0, body(25.0, 0.0, 0.0, 7.0))[1] > -0.1  # somebody drives ahead as fast
    assert expert(2.0, body(14.0, 3.5, 0.0, 0.0)) == expert(2.0)  # somebody stands on the next lane
    oncoming = body(48.0, 4.0, math.pi, 8.0)
    assert expert(8.0, oncoming)[1] > 0.0  # it passes on its own lane
    assert expert(8.0, oncoming, turn=True)[1] < -0.2  # it would hit us in the turn
    crossing = body(20.0, -20.0, math.pi / 2, 8.0)
    assert expert(8.0, crossing)[1] < -0.2
    assert expert(8.0, body(20.0, 20.0, math.pi / 2, 8.0))[1] > 0.0  # it has crossed
    assert expert(5.0, turn=True)[0] == pytest.approx(0.0, abs=0.02)


def test_a_route_is_followed_where_it_crosses_itself() -> None:
    turn = np.linspace(0, 2 * math.pi, 200)
    eight = np.stack([40 * np.sin(turn), 40 * np.sin(2 * turn)], 1)  # through (0, 0) at its beginning, middle and end
    route = Route(eight)
    for k, point in enumerate(eight):
        route.follow(*point)
        assert route.at == pytest.approx(route.length * k / 199, abs=0.1 * route.length)
    assert route.at == pytest.approx(route.length, abs=0.01)
    straight = Route(np.array([[0.0, 0.0], [10.0, 0.0]]))
    straight.follow(4.0, 1.5)
    assert (straight.at, straight.offset) == pytest.approx((4.0, 1.5))  # left of the line
    assert straight.ahead([3.0, 16.0]) == pytest.approx(np.array([[7.0, 0.0], [20.0, 0.0]]))


def test_lines_are_packed_without_those_that_are_none() -> None:
    lines = Lines()
    lines.add(np.zeros((3, 2)), 1.0)
    lines.add(np.zeros((1, 2)), 2.0)
    lines.add(np.ones((2, 2)), 3.0)
    packed = lines.packed()
    assert packed["counts"].tolist() == [3, 2]
    assert packed["values"].tolist() == [[1.0], [3.0]]
    assert Lines().packed()["points"].shape == (0, 2)


def test_the_map_from_above_has_the_heading_upwards() -> None:
    ego = Body(0, "car", 5.0, 7.0, 1.0, 0.0, 4.5, 1.9)
    ahead = Body(1, "truck", 5 + 20 * math.cos(1.0), 7 + 20 * math.sin(1.0), 1.0, 0.0, 8.0, 2.5)
    line = np.array([[5.0, 7.0], [5 + 50 * math.cos(1.0), 7 + 50 * math.sin(1.0)]])
    picture = draw_overhead(ego, [ahead], [Strip(line, 6.0)], [], line, [(5.0, 7.0)])
    reds = np.argwhere((picture == EGO).all(2))
    assert reds.mean(0) == pytest.approx([SIDE * 2 / 3, SIDE / 2], abs=1.5)
    trucks = np.argwhere((picture == (120, 84, 150)).all(2))
    assert trucks.mean(0) == pytest.approx([SIDE * 2 / 3 - 20 * SIDE / 120, SIDE / 2], abs=1.5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "nuscenes"}, {"blocks": "0"}, {"blocks": "Q"}, {"blocks": ""}, {"traffic_density": 2.0}, {"log": 0},
        {"source": "waymo", "log": 3}, {"width": 1}, {"max_steps": 0},
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="metadrive"):
        MetaDriveConfig(**wrong)


def test_the_config_is_plain_and_names_its_episodes() -> None:
    config = MetaDriveConfig(source="waymo")
    assert MetaDriveConfig(**asdict(config)) == pickle.loads(pickle.dumps(config)) == config  # noqa: S301
    assert [config.options(k) for k in range(4)] == [{"log": 0}, {"log": 1}, {"log": 2}, {"log": 0}]
    assert replace(config, log=2).options(0) == {"log": 2}
    assert MetaDriveConfig().options(5) == {}


def test_a_missing_environment_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("FOVEA_WORLDS", str(tmp_path))
    with pytest.raises(WorldError, match="run: fovea worlds install metadrive"):
        MetaDriveConfig().make()


# with MetaDrive ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated() -> Iterator[MetaDriveWorld]:
    world = SMALL.make()
    yield world
    world.close()


def finish(world: MetaDriveWorld) -> dict[str, float]:
    while True:
        _, _, terminated, truncated, info = world.step(world.expert_action())
        if terminated or truncated:
            metrics = world.metrics()
            assert metrics["success"] == info["success"]
            return metrics


@installed
def test_a_generated_map_is_a_function_of_its_seed(generated: MetaDriveWorld) -> None:
    def episode(seed: int) -> list[Any]:
        found: list[Any] = [generated.reset(seed=seed)[0]]
        found += [generated.step(np.array([0.05 * math.sin(k), 0.6], np.float32))[0] for k in range(12)]
        return [(o.state.tolist(), {name: image.tobytes() for name, image in o.images.items()}) for o in found]

    first, other, again = episode(3), episode(4), episode(3)
    assert first == again
    assert first != other


@installed
def test_frames_and_units(generated: MetaDriveWorld) -> None:
    generated.reset(seed=1)
    poses, yaw_rates = [], []
    for _ in range(40):
        observation, _, ended, *_ = generated.step(
            np.array([0.1, 0.8], np.float32)
        )  # to the left, at last off the road
        ego = generated.describe()["ego"]
        poses.append((ego["x"], ego["y"], ego["heading"], ego["speed"]))
        assert observation.state is not None
        yaw_rates.append(float(observation.state[1]))
        if ended:
            break
    x, y, heading, speed = np.array(poses).T
    assert speed[1:] == pytest.approx(np.hypot(np.diff(x), np.diff(y)) / 0.1, abs=0.6)
    moving = speed[1:] > 2.0
    course = np.arctan2(np.diff(y), np.diff(x))
    assert (course - heading[1:])[moving] == pytest.approx(0.0, abs=0.12)
    assert heading[-1] > 0.1  # counter-clockwise
    assert yaw_rates[-1] > 0.05
    generated.reset(seed=1)
    observation = generated.step(np.zeros(2, np.float32))[0]
    assert observation.state is not None
    ahead = observation.state[5:].reshape(10, 2)
    assert ahead[:4, 0] == pytest.approx([5, 10, 15, 20], abs=0.8)  # the map begins with a straight road
    assert np.abs(ahead[:4, 1]).max() < 0.5
    assert {name: image.shape for name, image in observation.images.items()} == dict.fromkeys(
        ("front_left", "front", "front_right"), (24, 32, 3)
    )


@installed
def test_the_expert_arrives_and_a_blind_driver_does_not(generated: MetaDriveWorld) -> None:
    generated.reset(seed=2)
    done = finish(generated)
    assert (done["success"], done["collision"], done["route_completion"]) == (1.0, 0.0, 1.0)
    assert done["path_length"] > 50.0
    assert generated.draw().shape == (SIDE, SIDE, 3)
    generated.reset(seed=2)
    info: dict[str, Any] = {}
    for _ in range(SMALL.max_steps):
        *_, terminated, truncated, info = generated.step(np.array([0.3, 1.0], np.float32))
        if terminated or truncated:
            break
    assert info["out_of_road"] or info["collision"]
    assert not info["success"]


@installed
def test_a_killed_metadrive_is_started_again(generated: MetaDriveWorld) -> None:
    generated.reset(seed=0)
    assert generated.worker_pid is not None
    os.kill(generated.worker_pid, signal.SIGKILL)
    with pytest.raises(WorldError, match="killed by SIGKILL"):
        generated.step(np.zeros(2, np.float32))
    generated.reset(seed=0)
    generated.step(np.zeros(2, np.float32))
    with pytest.raises(ConfigError, match="no reset options"):
        generated.reset(seed=0, options={"log": 1})


def replay(source: Any, log: int) -> dict[str, float]:
    world = MetaDriveConfig(source=source, log=log, width=16, height=16).make()
    try:
        world.reset(seed=0, options=world.config.options(0))
        state = world.describe()
        assert state["ego"]["x"] == pytest.approx(0.0, abs=0.05)
        assert len(state["bodies"]) >= 3
        return finish(world)
    finally:
        world.close()


@installed
@pytest.mark.parametrize(
    ("source", "log"),
    [
        ("argoverse", 0), ("waymo", 1), pytest.param("waymo", 0, marks=pytest.mark.slow),
        pytest.param("waymo", 2, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_recorded_drives_replay_to_their_end(source: str, log: int) -> None:
    done = replay(source, log)
    assert (done["log_replayed"], done["success"]) == (1.0, 1.0)
    assert done["log_l2_mean"] < 0.5
    assert done["log_l2_last"] < 1.0


@installed
def test_standing_still_among_recorded_traffic_fails() -> None:
    world = MetaDriveConfig(source="waymo", log=1, width=16, height=16).make()
    try:
        world.reset(seed=0, options={"log": 1})
        info: dict[str, Any] = {}
        for _ in range(250):
            *_, terminated, _, info = world.step(np.array([0.0, -1.0], np.float32))
            if terminated:
                break
        assert not info["success"]  # the record's end is far away, or somebody drove into the standing car
        assert world.metrics()["route_completion"] < 0.2
    finally:
        world.close()
