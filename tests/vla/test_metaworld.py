"""Meta-World: upright pictures, units and signs as stated, episodes by seed alone, one expert in two forms."""

import json
import threading

import numpy as np
import pytest

from backbone.contracts import Observation
from backbone.errors import ConfigError, DataError, InstructionError, WorldError
from vla.worlds.metaworld import CAMERAS, MetaWorldConfig
from vla.worlds.metaworld_expert import MetaWorldPolicyAgent, scripted_action
from vla.worlds.metaworld_tasks import ACTION_SPEC, INSTRUCTIONS, STATE_NAMES, TASK_OF_INSTRUCTION, check_task, task_of

env_dict = pytest.importorskip("metaworld.env_dict", reason="needs the worlds extra: pip install -e '.[worlds]'")
SIZE = 96
SMALL = MetaWorldConfig(width=SIZE, height=SIZE)
OPEN, CLOSE = np.array([0, 0, 0, -1], np.float32), np.array([0, 0, 0, 1], np.float32)


@pytest.fixture(scope="module")
def world():
    world = SMALL.make()
    yield world
    world.close()


def play(world, seed, actions, **options):
    """States and pictures of an episode under given actions, or of the expert's first ``actions`` steps."""
    observation, _ = world.reset(seed=seed, options=options or None)
    seen = [observation]
    for step in range(actions if isinstance(actions, int) else len(actions)):
        action = world.expert_action() if isinstance(actions, int) else actions[step]
        observation, _, terminated, truncated, _ = world.step(action)
        seen.append(observation)
        if terminated or truncated:
            break
    return np.stack([o.state for o in seen]), np.stack([o.images["corner2"] for o in seen])


# tasks ---------------------------------------------------------------------------------------------------------------


def test_every_task_has_one_instruction_and_back():
    from metaworld.policies import ENV_POLICY_MAP

    assert set(INSTRUCTIONS) == set(env_dict.ALL_V3_ENVIRONMENTS) == set(ENV_POLICY_MAP)
    assert len(INSTRUCTIONS) == len(TASK_OF_INSTRUCTION) == 50
    assert all(task_of(INSTRUCTIONS[task]) == task for task in INSTRUCTIONS)
    assert len(STATE_NAMES) == len(set(STATE_NAMES)) == 39


def test_an_unknown_task_or_instruction_names_the_closest():
    with pytest.raises(ConfigError, match="did you mean 'drawer-open-v3'"):
        check_task("drawer-open")
    with pytest.raises(DataError, match="the closest is 'pull the drawer open'"):
        task_of("pull the drawers open")
    with pytest.raises(InstructionError) as long:
        task_of("x" * 1_000_000)
    assert len(str(long.value)) < 500


def test_episodes_play_the_tasks_in_turn():
    config = MetaWorldConfig(task="reach-v3, push-v3")
    assert [config.options(k)["task"] for k in range(3)] == ["reach-v3", "push-v3", "reach-v3"]
    assert [MetaWorldConfig(task="all").options(k)["task"] for k in range(50)] == list(INSTRUCTIONS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"task": "fly-v3"},
        {"task": ""},
        {"task": "push-v3,push-v3"},
        {"cameras": ("corner9",)},
        {"cameras": ()},
        {"width": 8},
        {"max_steps": 501},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigError):
        MetaWorldConfig(**wrong)


# pictures ------------------------------------------------------------------------------------------------------------


def test_only_cameras_that_hang_are_turned(world):
    world.reset(seed=0)
    data, model = world._simulator.data, world._simulator.model
    for name, turned in CAMERAS.items():
        matrix = data.cam_xmat[model.camera(name).id].reshape(3, 3)
        upright = matrix[2, 1] if abs(matrix[2, 1]) > 0.1 else matrix[1, 1]  # one that looks down: away is up
        assert (upright < 0) == turned, name


def test_the_gripper_is_seen_where_it_is_told_to_be():
    """Painted fingers lie nearest to the told pixel, not to where a flip, a mirror or a half turn would put it."""
    cameras = [name for name, hangs in CAMERAS.items() if hangs]
    world = MetaWorldConfig(width=144, height=108, cameras=tuple(cameras)).make()
    model = world._simulator.model
    for name in ("rightclaw_it", "rightpad_geom", "leftclaw_it", "leftpad_geom"):
        model.geom(name).matid, model.geom(name).rgba = -1, (1, 0, 1, 1)
    world.reset(seed=1)
    for _ in range(16):  # away from the middle of every picture
        observation, *_ = world.step(np.array([1, 1, 1, 0], np.float32))
    for name, image in observation.images.items():
        assert image.shape == (108, 144, 3)
        red, green, blue = (image[..., k].astype(int) for k in range(3))
        rows, columns = np.nonzero((red > 2 * green + 30) & (blue > 2 * green + 30))
        column, row = world.describe()["cameras"][name]["gripper_px"]
        told = np.array([[column, row], [144 - column, row], [column, 108 - row], [144 - column, 108 - row]])
        away = np.linalg.norm(told - (columns.mean(), rows.mean()), axis=1)
        assert away[0] < 6, (name, away)
        assert away.argmin() == 0, (name, away)
    world.close()


def test_the_first_picture_and_state_show_where_things_are(world):
    observation, _ = world.reset(seed=4)
    told = world.describe()
    assert observation.state[4] == pytest.approx(told["layout"][0], abs=1e-6)  # the drawer's handle
    assert np.array_equal(observation.state[:18], observation.state[18:36])
    assert observation.state[36:] == pytest.approx(told["goal_m"], abs=1e-6)


# actions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_action_moves_the_hand_along_its_axis(world, axis):
    action = np.zeros(4, np.float32)
    action[axis] = 1.0
    states, _ = play(world, 0, [action] * 12, task="reach-v3")
    way = states[-1, :3] - states[0, :3]
    assert way[axis] > 0.05
    assert way[axis] <= 0.12 + 1e-3  # at most 1 cm a step
    assert np.abs(np.delete(way, axis)).max() < 0.02


def test_minus_one_opens_the_gripper_and_plus_one_closes_it(world):
    states, _ = play(world, 0, [CLOSE] * 25 + [OPEN] * 25, task="reach-v3")
    assert STATE_NAMES[3] == "gripper_opening"
    assert states[25, 3] < 0.5
    assert states[50, 3] > 0.9


def test_wrong_actions_are_refused_and_change_nothing(world):
    world.reset(seed=0)
    before = world.describe()
    for wrong in (np.zeros(3), np.full(4, np.nan), np.array([0, 0, 0, 1.5]), np.array(["a"] * 4)):
        with pytest.raises(WorldError):
            world.step(wrong)
    assert world.describe() == before


# episodes ------------------------------------------------------------------------------------------------------------


def test_an_episode_depends_on_its_seed_alone(world):
    np.random.seed(1)
    states, images = play(world, 7, 20, task="drawer-open-v3")
    play(world, 8, [CLOSE * 0.5 + np.float32(0.3)] * 9, task="drawer-open-v3")
    play(world, 3, 5, task="soccer-v3")
    np.random.seed(2)
    global_state = np.random.get_state()[1].copy()
    again, images_again = play(world, 7, 20, task="drawer-open-v3")
    assert np.array_equal(states, again)
    assert np.array_equal(images, images_again)
    assert np.array_equal(global_state, np.random.get_state()[1])
    other, _ = play(world, 9, 0, task="drawer-open-v3")
    assert not np.array_equal(states[0], other[0])


@pytest.mark.parametrize("task", ["drawer-open-v3", "pick-place-v3"])
def test_the_physics_are_meta_worlds_own(world, task):
    """The same layout in an untouched Meta-World environment gives the same states, step by step."""
    states, _ = play(world, 5, 30, task=task)
    layout = np.array(world.describe()["layout"])
    original = env_dict.ALL_V3_ENVIRONMENTS[task]()
    original._partially_observable, original._set_task_called, original._last_rand_vec = False, True, layout
    del original.sawyer_observation_space
    original.reset()
    for k in range(30):
        state, *_ = original.step(scripted_action(task, states[k]))
        assert np.array_equal(state[:18].astype(np.float32), states[k + 1, :18]), k
        assert np.array_equal(state[36:].astype(np.float32), states[k + 1, 36:])


def test_success_ends_the_episode_and_is_counted(world):
    observation, info = world.reset(seed=0, options={"task": "button-press-topdown-v3"})
    assert observation.instruction == INSTRUCTIONS["button-press-topdown-v3"]
    assert info["success"] is False
    total, steps, terminated = 0.0, 0, False
    while not terminated and steps < 500:
        observation, reward, terminated, truncated, info = world.step(world.expert_action())
        total, steps = total + reward, steps + 1
    assert terminated
    assert not truncated
    assert info["success"] is True
    assert info["success_now"] is True
    metrics = world.metrics()
    assert metrics == {**metrics, "success": 1.0, "steps": float(steps), "return": pytest.approx(total)}
    assert 0.05 < metrics["path_length"] < 2.0
    assert observation.time_s == pytest.approx(steps / 80)
    json.dumps(world.describe(), allow_nan=False)
    json.dumps(info, allow_nan=False)
    assert world.draw().shape == (256, 768, 3)
    with pytest.raises(WorldError, match="over"):
        world.step(OPEN)


def test_success_is_remembered_where_it_does_not_end_the_episode():
    world = MetaWorldConfig(task="reach-v3", width=32, height=32, max_steps=90, end_at_success=False).make()
    world.reset(seed=0)
    reached = []
    truncated = False
    while not truncated:
        away = len(reached) > 60  # leave the goal again
        action = np.array([1, -1, 1, 0], np.float32) if away else world.expert_action()
        _, _, terminated, truncated, info = world.step(action)
        reached.append(info["success_now"])
        assert not terminated
    assert len(reached) == 90
    assert any(reached)
    assert not reached[-1]
    assert info["success"] is True
    assert world.metrics()["success"] == 1.0
    world.close()


def test_calls_out_of_order_are_typed_errors():
    world = SMALL.make()
    for call in (world.expert_action, world.describe, world.metrics, world.draw, lambda: world.step(OPEN)):
        with pytest.raises(WorldError, match="reset"):
            call()
    for seed, options in ((-1, None), (0, {"task": "fly-v3"}), (0, {"home": 3})):
        with pytest.raises(WorldError, match="reset takes"):
            world.reset(seed=seed, options=options)
    world.reset(seed=0)
    world.close()
    world.close()
    with pytest.raises(WorldError, match="reset"):
        world.step(OPEN)


def test_another_thread_may_go_on(world):
    states, _ = play(world, 2, 6)
    world.reset(seed=2)
    told = []
    thread = threading.Thread(target=lambda: told.extend(world.step(world.expert_action())[0].state for _ in range(6)))
    thread.start()
    thread.join()
    assert np.array_equal(states[1:], np.stack(told))


def test_a_missing_simulator_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "metaworld.env_dict", None)
    with pytest.raises(WorldError, match=r"pip install -e '\.\[worlds\]'"):
        SMALL.make()


# the expert as an agent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["drawer-open-v3", "pick-place-v3", "stick-push-v3"])
def test_the_agent_does_exactly_what_the_worlds_expert_does(world, task):
    agent = MetaWorldPolicyAgent()
    assert agent.spec == world.action_spec == ACTION_SPEC
    observation, _ = world.reset(seed=11, options={"task": task})
    session = agent.session(observation.instruction, seed=0)
    for _ in range(25):
        seen = Observation({"any": np.zeros((4, 4, 3), np.uint8)}, "", observation.state)  # neither picture nor words
        decision = session.act(seen)
        assert decision.actions.values.shape == (1, 4)
        assert np.array_equal(decision.actions.values[0], world.expert_action())
        observation, _, terminated, *_ = world.step(decision.actions.values[0])
        if terminated:
            break


def test_the_agent_refuses_what_it_cannot_read():
    agent = MetaWorldPolicyAgent()
    with pytest.raises(DataError, match="no Meta-World task"):
        agent.session("make me a coffee", seed=0)
    session = agent.session(INSTRUCTIONS["reach-v3"], seed=0)
    picture = {"any": np.zeros((4, 4, 3), np.uint8)}
    with pytest.raises(DataError, match="has none"):
        session.act(Observation(picture, ""))
    with pytest.raises(DataError, match="39 values"):
        session.act(Observation(picture, "", np.zeros(8, np.float32)))
    session.close()
    with pytest.raises(WorldError, match="closed"):
        session.act(Observation(picture, "", np.zeros(39, np.float32)))


@pytest.mark.slow
def test_the_experts_solve_nearly_all_tasks():
    config = MetaWorldConfig(task="all", width=16, height=16)
    world = config.make()
    solved = []
    for task in config.tasks:
        world.reset(seed=17, options={"task": task})
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = world.step(world.expert_action())
            ended = terminated or truncated
        solved.append(world.metrics()["success"])
    world.close()
    assert sum(solved) >= 45, [task for task, good in zip(config.tasks, solved, strict=True) if not good]
