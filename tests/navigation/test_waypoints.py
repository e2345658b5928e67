"""The waypoint score as printed, and the choice of points that are good and apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.errors import DataError
from navigation.waypoints import best, openness, scores

WALL = np.array([(x, y) for x in (0.0, 10.0) for y in np.linspace(0, 10, 41)])


def test_score_by_hand():
    points = [(2.0, 5.0), (5.0, 5.0)]
    walls = [(0.0, 5.0), (10.0, 5.0)]
    got = scores(points, (1.0, 5.0), (9.0, 5.0), [(9.0, 5.0), (1.0, 7.0)], walls, weight=0.7)
    assert got == pytest.approx([2 / 8 + 0.7 * (1 - 7 / 8), 5 / 5 + 0.7 * (1 - 4 / 8)])


def test_without_weight_points_rank_by_openness_and_with_much_by_the_target():
    rng = np.random.default_rng(0)
    points = rng.uniform(1, 9, (200, 2))
    target = np.array([8.0, 8.0])
    free = scores(points, (1.0, 1.0), target, target[None], WALL, weight=0.0)
    assert np.array_equal(free, openness(points, WALL))
    nearest = np.abs(points[:, 0][:, None] - [0.0, 10.0]).min(1)
    assert abs(points[np.argmax(free), 0] - 5) < 1.5
    assert np.corrcoef(free, nearest)[0, 1] > 0.9
    heavy = scores(points, (1.0, 1.0), target, target[None], WALL, weight=1e6)
    assert np.array_equal(np.argsort(-heavy), np.argsort(np.linalg.norm(points - target, axis=1)))


def test_closeness_is_measured_against_the_farthest_goal():
    near, far = (4.0, 5.0), (9.0, 5.0)
    one = scores([(3.0, 5.0)], (1.0, 5.0), near, [near], WALL, 1.0)
    two = scores([(3.0, 5.0)], (1.0, 5.0), near, [near, far], WALL, 1.0)
    assert (two - one)[0] == pytest.approx(1 / 3 - 1 / 8)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 6.0), st.integers(1, 5))
def test_chosen_points_are_apart_best_and_away(seed, apart, count):
    rng = np.random.default_rng(seed)
    points, values = rng.uniform(0, 10, (60, 2)), rng.uniform(0, 1, 60)
    shunned = rng.uniform(0, 10, (2, 2))
    got = best(points, values, count, apart=apart, keep_from=shunned, away=1.0)
    for i, a in enumerate(got):
        assert np.linalg.norm(shunned - a, axis=1).min() >= 1.0
        assert all(np.linalg.norm(a - b) >= apart for b in got[:i])
    allowed = [i for i in range(60) if np.linalg.norm(shunned - points[i], axis=1).min() >= 1.0]
    if allowed:
        assert np.array_equal(got[0], points[max(allowed, key=lambda i: values[i])])
    if len(got) < count:  # nothing that is left would be far enough from all chosen ones
        rest = [points[i] for i in allowed]
        assert all(min(np.linalg.norm(p - c) for c in got) < apart for p in rest)


@pytest.mark.parametrize(
    ("points", "goals", "obstacles"),
    [([], [(1, 1)], WALL), ([(1, 1)], [], WALL), ([(1, 1)], [(1, 1)], []), ([(np.nan, 1)], [(1, 1)], WALL)],
)
def test_nothing_to_score_is_refused(points, goals, obstacles):
    with pytest.raises(DataError, match="waypoints"):
        scores(points, (0, 0), (1, 1), goals, obstacles)


def test_a_start_on_the_only_goal_is_refused():
    with pytest.raises(DataError, match="start lies on"):
        scores([(1, 1)], (2, 2), (2, 2), [(2, 2)], WALL)
