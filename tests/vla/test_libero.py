"""LIBERO: settings and rotations anywhere; pictures, signs, episodes and success where its environment is installed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from backbone.errors import ConfigError, UnsupportedError, WorldError
from backbone.worlds.environments import environment_python
from vla.worlds.libero import INITIAL_STATES, STATE_NAMES, TASKS, LiberoConfig
from vla.worlds.libero_worker import STEPS, axis_angle

OPEN, CLOSE = np.array([0, 0, 0, 0, 0, 0, -1], np.float32), np.array([0, 0, 0, 0, 0, 0, 1], np.float32)
WIDTH, HEIGHT = 96, 72
SOUP, BASKET = "alphabet_soup_1", "basket_1"


# anywhere ------------------------------------------------------------------------------------------------------------


def test_episodes_play_all_tasks_and_then_the_next_initial_state():
    config = LiberoConfig(suite="libero_goal")
    assert [config.options(k) for k in (0, 9, 10, 499, 500)] == [
        {"task": 0, "init": 0},
        {"task": 9, "init": 0},
        {"task": 0, "init": 1},
        {"task": 9, "init": 49},
        {"task": 0, "init": 0},
    ]
    assert LiberoConfig(task=3).options(7) == {"task": 3, "init": 7}
    assert LiberoConfig(init=4).options(11) == {"task": 1, "init": 4}
    assert set(TASKS) == set(STEPS)
    assert sum(TASKS.values()) == 130


@pytest.mark.parametrize(
    "wrong",
    [
        {"suite": "libero_all"},
        {"task": 10},
        {"init": 50},
        {"cameras": ("frontview",)},
        {"cameras": ()},
        {"height": 4},
        {"max_steps": 0},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigError):
        LiberoConfig(**wrong)


def test_a_missing_environment_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("FOVEA_WORLDS", str(tmp_path))
    with pytest.raises(WorldError, match="fovea worlds install libero"):
        LiberoConfig().make()


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1))
def test_axis_times_angle_is_the_same_rotation(values):
    quaternion = np.array(values) / np.linalg.norm(values)
    turn = axis_angle(quaternion)
    assert 0 <= np.linalg.norm(turn) <= 2 * np.pi + 1e-9
    difference = Rotation.from_rotvec(turn) * Rotation.from_quat(quaternion).inv()
    assert difference.magnitude() < 1e-6


def test_no_rotation_is_zeros():
    assert axis_angle(np.array([0.0, 0, 0, 1])).tolist() == [0, 0, 0]
    assert axis_angle(np.array([1.0, 0, 0, 0])) == pytest.approx([np.pi, 0, 0])


# with LIBERO ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    try:
        environment_python("libero")
    except WorldError as error:
        pytest.skip(f"LIBERO is not installed: {error}")
    world = LiberoConfig(suite="libero_object", width=WIDTH, height=HEIGHT).make()
    yield world
    world.close()


def test_the_first_observation_is_settled_and_complete(world):
    observation, info = world.reset(seed=0)
    assert observation.instruction == "pick up the alphabet soup and place it in the basket"
    assert info == {"success": False, "success_now": False, "task": 0, "init": 0}
    assert {name: image.shape for name, image in observation.images.items()} == {
        "agentview": (HEIGHT, WIDTH, 3),
        "robot0_eye_in_hand": (HEIGHT, WIDTH, 3),
    }
    assert observation.state.shape == (len(STATE_NAMES),)
    assert observation.state.dtype == np.float32
    assert observation.time_s == 0.0
    assert observation.state[6] == pytest.approx(0.04, abs=0.002)  # ten steps with an open gripper have passed
    assert observation.state[7] == pytest.approx(-observation.state[6], abs=1e-3)
    assert world.max_steps == 280
    assert world.action_spec.control_hz == 20.0
    told = world.describe()
    assert told["goal"] == [{"predicate": ["in", SOUP, "basket_1_contain_region"], "holds": False}]
    json.dumps(told, allow_nan=False)


def test_pictures_are_right_side_up_and_not_mirrored(world):
    """An object that is moved changes the picture where the camera's numbers say it is, and nowhere else."""
    world.reset(seed=0)
    camera = world.describe()["cameras"]["agentview"]
    seen = []
    for place in ([-0.1, -0.25, 0.3], [-0.1, -0.25, 5.0]):  # high to one side, then out of the picture
        world.call("move_object", name=SOUP, position_m=place)
        observation, *_ = world.step(OPEN)
        seen.append(observation.images["agentview"].astype(int))
        if len(seen) == 1:
            column, row = world._pixel(camera, world.describe()["objects"][SOUP]["position_m"])
    rows, columns = np.nonzero(np.abs(seen[0] - seen[1]).sum(2) > 60)
    assert len(rows) > 4
    assert np.hypot(rows.mean() - row, columns.mean() - column) < 6
    assert abs(column - WIDTH / 2) > 8  # a mirror would be noticed
    assert abs(row - HEIGHT / 2) > 8  # and so would a flip


def test_axes_and_gripper_mean_what_is_stated(world):
    state = world.reset(seed=0)[0].state
    for axis in range(3):
        action = OPEN.copy()
        action[axis] = 1.0
        before = state
        for _ in range(6):
            state = world.step(action)[0].state
        way = state[:3] - before[:3]
        assert way.argmax() == axis
        assert 0.03 < way[axis] < 6 * 0.05
        state = world.step(OPEN)[0].state  # come to rest
    widths = []
    for action in (CLOSE, OPEN):
        for _ in range(14):
            state = world.step(action)[0].state
        widths.append(float(state[6] - state[7]))
    assert widths[0] < 0.01
    assert widths[1] > 0.07


def test_the_object_in_the_basket_is_success_and_ends_the_episode(world):
    world.reset(seed=0)
    basket = world.describe()["objects"][BASKET]["position_m"]
    world.call("move_object", name=SOUP, position_m=[basket[0], basket[1], basket[2] + 0.12])
    ended, steps = False, 0
    while not ended and steps < 20:
        _, reward, ended, truncated, info = world.step(OPEN)
        steps += 1
    assert ended
    assert not truncated
    assert reward == 1.0
    assert info["success"] is True
    assert world.describe()["goal"][0]["holds"] is True
    metrics = world.metrics()
    assert metrics["success"] == 1.0
    assert metrics["steps"] == steps
    assert world.draw().shape == (256, 768, 3)
    with pytest.raises(WorldError, match="reset"):
        world.step(OPEN)


def test_an_episode_depends_on_its_seed_and_options_alone(world):
    def play(seed, init):
        observation, _ = world.reset(seed=seed, options={"init": init, "task": 0})
        states, images = [observation.state], [observation.images["agentview"]]
        for k in range(4):
            observation, *_ = world.step(np.array([0.3, -0.2, -0.5, 0, 0.1, 0, 1 if k % 2 else -1], np.float32))
            states.append(observation.state)
            images.append(observation.images["agentview"])
        return np.stack(states), np.stack(images)

    states, images = play(5, 3)
    other, _ = play(5, 4)
    again, images_again = play(5, 3)
    assert np.array_equal(states, again)
    assert np.array_equal(images, images_again)
    assert not np.array_equal(states[0], other[0])


def test_wrong_episodes_and_actions_are_typed_errors(world):
    worker = world.worker_pid
    for options in ({"task": 10}, {"init": INITIAL_STATES}, {"home": 1}, {"task": "0"}):
        with pytest.raises(WorldError, match="reset takes"):
            world.reset(seed=0, options=options)
    assert world.worker_pid == worker
    world.reset(seed=0)
    for wrong in (np.zeros(4), np.full(7, np.nan), np.full(7, 1.5)):
        with pytest.raises(WorldError):
            world.step(wrong)
    with pytest.raises(UnsupportedError, match="no expert"):
        world.expert_action()


@pytest.mark.slow
@pytest.mark.parametrize("suite", sorted(TASKS))
def test_every_suite_opens_and_steps(world, suite):
    del world  # only to skip without LIBERO
    last = TASKS[suite] - 1
    opened = LiberoConfig(suite=suite, width=64, height=64).make()
    assert opened.max_steps == STEPS[suite]
    assert len(set(opened.call("tasks"))) >= TASKS[suite] - 20  # libero_90 says the same words in several scenes
    first = []
    for options in ({"task": 0, "init": 0}, {"task": 0, "init": 1}, {"task": last, "init": INITIAL_STATES - 1}):
        observation, info = opened.reset(seed=1, options=options)
        assert (info["task"], info["init"]) == (options["task"], options["init"])
        assert observation.instruction
        first.append(opened.describe()["objects"])
        observation, *_ = opened.step(OPEN)
        assert observation.images["agentview"].std() > 10
    assert first[0] != first[1]
    opened.close()
