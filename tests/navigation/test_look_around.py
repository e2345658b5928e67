"""The look around as an action of the worlds: four cameras, which are dark unless the agent just looked."""

import numpy as np
import pytest

from backbone.errors import WorldError
from navigation.worlds.navigation_world import LOOK_AROUND, PANORAMA
from navigation.worlds.rooms import RoomsConfig


@pytest.fixture
def world():
    world = RoomsConfig(width=64, height=48, panorama=True, max_steps=6).make()
    yield world
    world.close()


def act(world, name):
    return world.step(np.array([world.action_spec.choices.index(name)], np.float32))


def test_the_cameras_are_dark_until_it_looks_around(world):
    before, _ = world.reset(seed=3)
    assert tuple(before.images) == PANORAMA
    assert before.images["front"].any()
    assert not any(before.images[name].any() for name in PANORAMA[1:])
    around, reward, terminated, truncated, info = act(world, LOOK_AROUND)
    assert all(around.images[name].any() for name in PANORAMA)
    assert np.array_equal(around.images["front"], before.images["front"])
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, False, False)
    after, *_ = act(world, "turn_left")
    assert not any(after.images[name].any() for name in PANORAMA[1:])


def test_left_is_what_three_turns_to_the_left_show(world):
    world.reset(seed=3)
    around, *_ = act(world, LOOK_AROUND)
    for _ in range(3):
        turned, *_ = act(world, "turn_left")
    assert np.abs(turned.images["front"].astype(int) - around.images["left"]).mean() < 1.0


def test_it_takes_time_but_moves_nothing(world):
    _, start = world.reset(seed=3)
    rest = world.metrics()
    observation, *_, info = act(world, LOOK_AROUND)
    measures = world.metrics()
    assert info["position"] == start["position"]
    assert measures["execution_time"] == rest["execution_time"] + 4.0
    assert measures["path_length"] == 0.0
    assert measures["steps"] == 1.0
    assert observation.time_s == 1.0


def test_looking_for_ever_ends_the_episode(world):
    world.reset(seed=3)
    ends = [act(world, LOOK_AROUND)[3] for _ in range(6)]
    assert ends == [False] * 5 + [True]
    with pytest.raises(WorldError, match="is over"):
        act(world, LOOK_AROUND)


def test_a_world_without_the_option_has_one_camera():
    world = RoomsConfig(width=64, height=48).make()
    observation, _ = world.reset(seed=3)
    assert tuple(observation.images) == ("front",)
    assert LOOK_AROUND not in world.action_spec.choices
    world.close()
