"""Exploratory ways pass good places in the shorter order, and followers get there."""

import itertools
import math

import numpy as np
import pytest
import shapely

from navigation.actions import LEFT, MOVE, RIGHT
from navigation.config import DataConfig
from navigation.exploration import GridGround, HomeGround, plan_route
from navigation.following import REACH_M, TURN, HomeFollower, ProbeFollower
from navigation.homes.generate import HomeRules
from navigation.waypoints import openness
from navigation.worlds.navigation_world import ahead, wrapped
from navigation.worlds.rooms_scene import generated_scene

CONFIG = DataConfig(samples=400)


@pytest.fixture(scope="module")
def scene():
    return generated_scene(3, "train", HomeRules((5, 8)))


class Field:
    """An empty field without walls but its border; distances are straight lines."""

    obstacles = np.array([(x, z) for x in (0.0, 20.0) for z in np.linspace(0, 20, 81)])

    def sample(self, rng, count):
        return rng.uniform(0.5, 19.5, (count, 2))

    def distance(self, goals):
        ends = np.asarray(goals, float).reshape(-1, 2)
        return lambda place: float(np.linalg.norm(ends - np.asarray(place), axis=1).min())


def test_waypoints_are_apart_away_from_the_ends_and_in_the_shorter_order():
    start, goal = np.array([2.0, 2.0]), np.array([18.0, 16.0])
    for seed in range(20):
        route = plan_route(Field(), start, goal, goal, goal[None], CONFIG, np.random.default_rng(seed))
        a, b = route.waypoints
        assert np.linalg.norm(a - b) >= 3.0
        assert min(np.linalg.norm(p - q) for p in (a, b) for q in (start, goal)) >= 2.0

        def length(*points):
            return sum(float(np.linalg.norm(p - q)) for p, q in itertools.pairwise(points))

        assert route.length_m == pytest.approx(length(start, a, b, goal))
        assert route.length_m <= length(start, b, a, goal)


def test_ways_that_are_too_long_are_dropped():
    start, goal = np.array([2.0, 2.0]), np.array([18.0, 16.0])
    short = DataConfig(samples=400, longest_m=15.0)
    assert plan_route(Field(), start, goal, goal, goal[None], short, np.random.default_rng(0)) is None
    near = DataConfig(samples=400, away_m=50.0)
    assert plan_route(Field(), start, goal, goal, goal[None], near, np.random.default_rng(0)) is None


def test_the_ground_of_a_home(scene):
    ground = HomeGround(scene.floor)
    points = ground.sample(np.random.default_rng(0), 300)
    assert len(points) == 300
    assert scene.floor.contains(points).all()
    nearest = openness(points, ground.obstacles) * np.linalg.norm(points[:, None] - ground.obstacles, axis=2).max(1)
    exact = [scene.floor.free.boundary.distance(shapely.Point(p)) for p in points]
    assert np.allclose(nearest, exact, atol=0.06)
    far = ground.distance(points[:1])
    assert far(points[1]) == pytest.approx(scene.floor.distance(points[1], points[0]))


def test_the_ground_of_a_grid():
    free = np.zeros((6, 8), np.uint8)
    free[1:5, 2:7] = 1
    asked = []

    def geodesics(a, b):
        asked.append((a, b))
        return [None if x[0] > 2.9 else float(np.linalg.norm(x - y)) for x, y in zip(b, a, strict=True)]

    ground = GridGround(free, (1.0, 10.0), 0.5, geodesics)
    points = ground.sample(np.random.default_rng(0), 100)
    assert len(points) == 20
    assert points.min(0).tolist() == [2.25, 10.75]
    assert points.max(0).tolist() == [4.25, 12.25]
    assert len(ground.obstacles) == 14  # the rim of 4 x 5 cells
    assert ground.distance([(2.25, 10.75), (3.25, 10.75)])((2.25, 11.75)) == pytest.approx(1.0)
    assert math.isinf(ground.distance([(3.25, 10.75)])((2.25, 11.75)))


def walk(scene, follower, pose):
    place, heading = np.array(pose[:2]), pose[2]
    for _ in range(300):
        action = follower.action((float(place[0]), float(place[1]), heading))
        if action is None:
            return place
        if action == MOVE:
            place, _ = scene.floor.walk(place, place + 0.25 * np.array(ahead(heading)))
        else:
            assert action in (LEFT, RIGHT)
            heading = wrapped(heading + (TURN if action == LEFT else -TURN))
    return None


@pytest.mark.parametrize("kind", ["home", "probe"])
def test_followers_reach_places_of_a_home(scene, kind):
    ground = HomeGround(scene.floor)
    rng = np.random.default_rng(4)
    reached = 0
    for _ in range(12):
        start, goal = ground.sample(rng, 2)
        pose = (float(start[0]), float(start[1]), float(rng.uniform(-3, 3)))
        follower = HomeFollower(scene, goal, pose) if kind == "home" else ProbeFollower(ground.distance(goal[None]))
        end = walk(scene, follower, pose)
        reached += end is not None and scene.floor.distance(end, goal) < REACH_M
    assert reached >= (12 if kind == "home" else 9)
