"""The explorer's map against worked places, its ways against a plain search, and whole episodes."""

import heapq
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from speaking import SpeakingVLM

from backbone.contracts import ActionSpec, Observation
from backbone.errors import ConfigError, DataError, WorldError
from backbone.rollout.agents import open_session
from backbone.rollout.config import Episode
from backbone.rollout.episode import run_episode
from navigation.detectors import ModelDetector, TrueDetector, boxes_of
from navigation.frontier import FrontierAgent, FrontierConfig, _turn_towards
from navigation.occupancy import FREE, OCCUPIED, UNKNOWN, MapConfig, OccupancyMap, ways_from
from navigation.worlds.navigation_world import ACTIONS
from navigation.worlds.rooms import RoomsConfig


def wall(distance, size=(48, 64), hfov=90.0, camera=0.88):
    """Depth of an endless wall straight ahead, on a floor."""
    rows, columns = size
    focal = columns / 2 / math.tan(math.radians(hfov / 2))
    down = (np.arange(rows) + 0.5 - rows / 2) / focal
    floor = np.where(down > 0, camera / np.maximum(down, 1e-9), np.inf)
    return np.repeat(np.minimum(floor, distance)[:, None], columns, 1).astype(np.float32)


class TestMap:
    def test_a_wall_ahead(self):
        grid = OccupancyMap(90.0, 0.88)
        grid.see(wall(2.05), (0.0, 0.0, 0.0))
        assert grid.cells[grid.cell(2.05, 0.0)] == OCCUPIED
        assert grid.cells[grid.cell(1.0, 0.0)] == FREE
        assert grid.cells[grid.cell(1.0, 0.7)] == FREE
        assert grid.cells[grid.cell(2.5, 0.0)] == UNKNOWN
        assert grid.cells[grid.cell(-0.5, 0.0)] == UNKNOWN

    @pytest.mark.parametrize(
        ("heading", "at"), [(0.0, (3.05, 1.0)), (math.pi / 2, (1.0, 3.05)), (-math.pi / 2, (1.0, -1.05))]
    )
    def test_headings_turn_to_the_left(self, heading, at):
        grid = OccupancyMap(90.0, 0.88)
        grid.see(wall(2.05), (1.0, 1.0, heading))
        assert grid.cells[grid.cell(*at)] == OCCUPIED

    def test_points_are_where_they_are(self):
        grid = OccupancyMap(90.0, 1.0)
        depth = np.full((3, 3), 2.0, np.float32)
        places, height, known = grid.points(depth, (0.0, 0.0, 0.0))
        # a third of the picture's width to the left of the middle, at 2 m: tan = 2/3
        assert places[1, 0] == pytest.approx([2.0, 4 / 3])
        assert places[1, 2] == pytest.approx([2.0, -4 / 3])
        assert height[:, 1] == pytest.approx([1 + 4 / 3, 1.0, 1 - 4 / 3])
        assert known.all()
        turned, _, _ = grid.points(depth, (1.0, 0.0, math.pi / 2))  # looking along y: its left is at lower x
        assert turned[1, 0] == pytest.approx([1.0 - 4 / 3, 2.0])
        assert turned[1, 2] == pytest.approx([1.0 + 4 / 3, 2.0])

    def test_what_was_not_measured_says_nothing(self):
        grid = OccupancyMap(90.0, 0.88)
        grid.see(np.zeros((48, 64), np.float32), (0.0, 0.0, 0.0))
        assert (grid.cells == OCCUPIED).sum() == 0
        assert (grid.cells == FREE).sum() <= 9

    def test_the_body_keeps_away_from_walls(self):
        grid = OccupancyMap(90.0, 0.88)
        grid.see(wall(2.05), (0.0, 0.0, 0.0))
        passable = grid.passable()
        assert passable[grid.cell(1.5, 0.0)]
        assert not passable[grid.cell(1.95, 0.0)]
        assert grid.frontier(passable).any()
        assert not (grid.frontier(passable) & ~passable).any()

    def test_a_place_outside_is_refused(self):
        with pytest.raises(DataError, match="outside the map"):
            OccupancyMap(90.0, 0.88, MapConfig(size_m=10.0)).cell(9.0, 0.0)


def plain_lengths(free, start):
    """Dijkstra with a heap, cell by cell."""
    best, queue = {start: 0.0}, [(0.0, start)]
    while queue:
        cost, (i, j) = heapq.heappop(queue)
        if cost > best[(i, j)]:
            continue
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                a, b = i + di, j + dj
                inside = 0 <= a < len(free) and 0 <= b < len(free)
                if (di or dj) and inside and free[a, b] and free[i, b] and free[a, j]:
                    further = cost + math.hypot(di, dj)
                    if further < best.get((a, b), math.inf) - 1e-12:
                        best[(a, b)] = further
                        heapq.heappush(queue, (further, (a, b)))
    return best


@given(st.integers(0, 10_000))
def test_ways_are_shortest(seed):
    free = np.random.default_rng(seed).random((14, 14)) < 0.7
    free[5:9, 5:9] = True
    start = (7, 7)
    ways = ways_from(free, start, 1.0)
    wanted = plain_lengths(free, start)
    assert {tuple(c) for c in np.argwhere(np.isfinite(ways.length)).tolist()} == set(wanted)
    for cell, length in wanted.items():
        assert ways.length[cell] == pytest.approx(length)
        path = ways.path(cell)
        assert path[0] == start
        assert path[-1] == cell
        assert sum(math.dist(a, b) for a, b in pairwise(path)) == pytest.approx(length)


def test_turns_lead_towards():
    assert _turn_towards((0.0, 0.0, 0.0), (1.0, 0.0)) is None
    assert _turn_towards((0.0, 0.0, 0.0), (1.0, 1.0)) == "RotateLeft 30.0"
    assert _turn_towards((0.0, 0.0, 0.0), (1.0, -1.0)) == "RotateRight 30.0"
    assert _turn_towards((0.0, 0.0, math.pi), (-1.0, 0.01)) is None


@pytest.fixture(scope="module")
def world():
    world = RoomsConfig(width=96, height=96, depth=True, pose_in_state=True, max_rooms=4, min_rooms=3).make()
    yield world
    world.close()


def test_it_finds_what_it_looks_for(world):
    agent = FrontierConfig().make(world.action_spec)
    rows = [run_episode(world, agent, Episode(i, seed, {})) for i, seed in enumerate((5, 21, 34))]
    assert sum(row.success for row in rows) >= 2
    assert all("look around" in row.statuses or "approach" in row.statuses for row in rows)


def test_the_true_detector_sees_what_the_world_says_is_visible(world):
    found = 0
    for seed in (5, 21, 34):
        world.reset(seed=seed)
        detect = TrueDetector(world)
        for _ in range(12):
            observation, *_ = world.step(np.array([2], np.float32))
            told = world.describe()
            goals = {goal["id"] for goal in told["goals"]}
            share = sum(entry["share"] for entry in told["visible"] if entry["id"] in goals)
            mask = detect(observation, "anything")
            if share >= 0.0025:
                found += 1
                assert mask is not None
                assert mask.mean() == pytest.approx(share, rel=0.1)
            elif share == 0:
                assert mask is None
    assert found


def test_without_depth_or_pose_it_says_what_to_do():
    agent = FrontierAgent(ActionSpec.discrete(ACTIONS, 1.0), FrontierConfig(), ModelDetector(SpeakingVLM()))
    image = {"front": np.zeros((8, 8, 3), np.uint8)}
    pose = np.zeros(3, np.float32)
    with pytest.raises(DataError, match=r"--world\.depth"):
        agent.session("find the bed", 0).act(Observation(image, "find the bed", pose))
    with pytest.raises(DataError, match="pose-in-state"):
        agent.session("find the bed", 0).act(Observation(image, "find the bed"))
    session = agent.session("find the bed", 0)
    session.close()
    with pytest.raises(WorldError):
        session.act(Observation(image, "find the bed"))


def test_the_true_detector_is_privileged(world):
    agent = FrontierConfig().make(world.action_spec)
    assert agent.privileged
    with pytest.raises(ConfigError, match="detector model"):
        agent.session("find the bed", 0)
    world.reset(seed=5)
    open_session(agent, world, "find the bed", 0).close()


def test_a_models_boxes_are_a_mask():
    vlm = SpeakingVLM(thoughts=['[{"bbox_2d": [250, 500, 750, 1000], "label": "bed"}, {"bbox_2d": [1]}]'])
    image = Observation({"front": np.zeros((100, 200, 3), np.uint8)}, "find the bed")
    mask = ModelDetector(vlm)(image, "bed")
    assert mask.mean() == pytest.approx(0.25, abs=0.02)
    assert mask[75, 100]
    assert not mask[25, 100]
    assert "Where is the bed?" in vlm.calls[0]["messages"][0]["content"][1]["text"]
    assert ModelDetector(SpeakingVLM(thoughts=["I see none: []"]))(image, "bed") is None
    assert boxes_of("nothing", vlm, 10, 10) == []
