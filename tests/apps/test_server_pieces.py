"""What goes in and out of the server, in pieces: observations by declared keys, the gate, robots from files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from serving_helpers import LAYOUT, SPEC, observation

from apps.server.config import ServerConfig
from apps.server.gate import ActionGate, UnsafeActionError
from apps.server.observations import Camera, ObservationLayout, read_request
from apps.server.robot import FIRST, FOREIGN_NAMES, Robot, robot_from_file
from backbone.contracts import ActionSpec
from backbone.errors import ConfigError, DataError
from backbone.serving.errors import RequestError


def test_chw_is_turned_only_where_declared():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 3), np.uint8)  # its height looks like channels
    message = {"images/front": pixels.transpose(2, 0, 1), "prompt": ""}
    declared = ObservationLayout({"front": Camera(3, 5, "CHW")})
    assert np.array_equal(read_request(message, declared).observation.images["front"], pixels)
    with pytest.raises(RequestError, match=r"expected uint8 \(3, 5, 3\) RGB \(HWC\), got uint8 \(3, 3, 5\)"):
        read_request(message, ObservationLayout({"front": Camera(3, 5)}))


def test_a_state_in_parts_is_joined_in_the_declared_order():
    parts = ("observation/joint_position", "observation/gripper_position")
    layout = ObservationLayout({"front": Camera()}, state=3, state_parts=parts)
    message = {
        "observation/gripper_position": np.array([9.0]),
        "observation/joint_position": np.array([1.0, 2.0]),
        "images/front": np.zeros((4, 4, 3), np.uint8),
        "prompt": "",
    }
    state = read_request(message, layout).observation.state
    assert state is not None
    assert state.tolist() == [1.0, 2.0, 9.0]
    del message["observation/gripper_position"]
    with pytest.raises(RequestError, match="missing observation/gripper_position"):
        read_request(message, layout)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": 1}, "unknown key 'extra'; expected images/front, state, prompt"),
        ({"images/front": None}, "expected uint8 (8, 12, 3)"),
        ({"images/front": np.zeros((8, 12, 3), np.float32)}, "got float32 (8, 12, 3)"),
        ({"images/front": np.zeros((12, 8, 3), np.uint8)}, "got uint8 (12, 8, 3)"),
        ({"images/front": np.zeros((8, 12, 4), np.uint8)}, "got uint8 (8, 12, 4)"),
        ({"observation/image": np.zeros((8, 12, 3), np.uint8)}, "comes twice"),
        ({"state": np.zeros(3, np.float32)}, "expected shape (2,), got (3,)"),
        ({"state": np.array([np.nan, 0], np.float32)}, "NaN"),
        ({"state": ["1", "2"]}, "something else"),
        ({"state": "12"}, "expected 2 numbers"),
        ({"prompt": 5}, "must be text"),
        ({"instruction": "other"}, "different things"),
        ({"reset": 1}, "true or false"),
        ({"seed": -1}, "seed: expected a whole number from 0 to 9223372036854775807, got int -1"),
        ({"seed": 2**63}, "from 0 to 9223372036854775807, got int 9223372036854775808"),
        ({"seed": True}, "whole number"),
        ({"time_s": "now"}, "a number"),
    ],
)
def test_wrong_observations_are_named(change, said):
    with pytest.raises(RequestError) as caught:
        read_request({**observation(), **change}, LAYOUT)
    assert said in str(caught.value)
    assert caught.value.code == "bad_observation"


@pytest.mark.parametrize("gone", ["images/front", "state", "prompt"])
def test_missing_keys_are_named(gone):
    message = observation()
    del message[gone]
    with pytest.raises(RequestError, match=f"missing {gone}"):
        read_request(message, LAYOUT)


def test_the_gate_checks_finite_then_shape_then_bounds():
    gate = ActionGate(SPEC, "clip")
    assert gate.check([[0.5, 0.5]], None).clipped == 0
    passed = gate.check(np.array([[2.0, -3.0], [0.5, 0.0]]), None)
    assert (passed.values.tolist(), passed.clipped) == ([[1.0, -1.0], [0.5, 0.0]], 2)
    for values, said in (
        ([[np.nan, 5.0, 5.0]], "1 of 3 action values as NaN"),
        ([[np.inf, 0.0]], "NaN or infinite"),
        ([[0.0, 0.0, 0.0]], r"shape \(1, 3\)"),
        ([0.0, 0.0], r"shape \(2,\)"),
        (np.zeros((0, 2)), r"shape \(0, 2\)"),
        (None, "NaN|NoneType"),
        ("far", "str"),
        ([[1.0], [1.0, 2.0]], "list"),
    ):
        with pytest.raises(UnsafeActionError, match=said):
            gate.check(values, None)
    with pytest.raises(UnsafeActionError, match=r"turn = 1e\+09 at step 1, outside \[-1, 1\]"):
        ActionGate(SPEC, "refuse").check([[0.0, 0.0], [0.0, 1e9]], None)
    choices = ActionGate(ActionSpec.discrete(("a", "b"), 1.0), "clip")
    assert choices.check([[1.0]], None).values.tolist() == [[1.0]]
    for wrong in (0.5, 2.0):  # a choice is never moved to another one
        with pytest.raises(UnsafeActionError):
            choices.check([[wrong]], None)


def test_the_gate_limits_the_step_against_what_was_sent():
    gate = ActionGate(SPEC, "clip", (0.1, 0.5))
    first = gate.check([[1.0, 1.0], [1.0, 1.0]], None)
    assert first.values.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    second = gate.check([[0.0, 0.0], [0.0, 0.0]], first.values[-1])
    np.testing.assert_allclose(second.values, [[0.9, 0.5], [0.8, 0.0]], atol=1e-6)
    assert second.slowed == 3
    with pytest.raises(ConfigError, match="1 numbers for 2"):
        ActionGate(SPEC, "clip", (1.0,))


@pytest.mark.parametrize(
    "wrong", [{"port": 70000}, {"deadline_s": 0}, {"workers": 0}, {"token": "short"}, {"out_of_range": "wrap"}]
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigError):
        ServerConfig(**wrong)


def test_a_robots_file_comes_back_and_its_faults_are_named(tmp_path):
    layout = replace(LAYOUT, state_parts=("a", "b"), default_prompt="go", depths={"front": Camera(4, 4)})
    robot, path = Robot("arm", SPEC, layout), tmp_path / "arm.json"
    path.write_text(json.dumps(robot.to_plain()))
    assert robot_from_file(path) == robot
    good = robot.to_plain()
    for change, said in (
        ({"action": {}}, "missing"),
        ({"observation": {"cameras": {}}}, "unknown cameras"),
        ({"observation": {"images": {}}}, "at least one camera"),
        ({"observation": {"images": {"a": {"height": -1}}}}, "whole numbers"),
        ({"observation": {"images": {"a": {}}, "aliases": {"x": "images/b"}}}, "lead to nothing"),
        ({"more": 1}, "expected an object with `action` and `observation`"),
    ):
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(DataError, match=said):
            robot_from_file(path)
    path.write_text('{"action": {}, "observation": {}, "action": {}}')
    with pytest.raises(DataError, match=r"arm\.json: the key 'action' comes 2 times"):
        robot_from_file(path)
    path.write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        robot_from_file(path)


def test_the_foreign_names_of_cameras_lead_to_cameras_the_worlds_have():
    from apps.worlds import WORLDS
    from vla.worlds.libero import CAMERAS as LIBERO
    from vla.worlds.metaworld import CAMERAS as METAWORLD

    there = {"libero": set(LIBERO), "metaworld": set(METAWORLD)}
    for world, names in FOREIGN_NAMES.items():
        assert world in WORLDS
        assert set(names.values()) - {FIRST} <= there.get(world, set())
