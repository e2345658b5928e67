"""Trajectory labels: straight, left and right, ends of episodes, and the two distance protocols."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.contracts import Trajectory
from backbone.errors import DataError
from driving.worlds.labels import (
    displacement_errors,
    future_trajectory,
    headings_from_motion,
    trajectories,
    turn_of,
)


def driven(turn_rate: float, speed: float = 8.0, start: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> np.ndarray:
    """Poses of a car on a circle (or a line) every 0.2 s for 10 s, by the closed form."""
    times = np.arange(51) * 0.2
    x, y, heading = start
    headings = heading + turn_rate * times
    if turn_rate:
        radius = speed / turn_rate
        xs = x + radius * (np.sin(headings) - math.sin(heading))
        ys = y - radius * (np.cos(headings) - math.cos(heading))
    else:
        xs, ys = x + speed * times * math.cos(heading), y + speed * times * math.sin(heading)
    return np.stack([xs, ys, headings, np.full(51, speed)], 1)


@pytest.mark.parametrize(("rate", "name"), [(0.0, "straight"), (0.3, "left"), (-0.3, "right")])
@pytest.mark.parametrize("heading", [0.0, 1.2, -2.8])
def test_straight_left_and_right(rate: float, name: str, heading: float) -> None:
    label = future_trajectory(driven(rate, start=(40.0, -7.0, heading)), 0.2, 3)
    assert label is not None
    assert label.points.shape == (8, 2)
    assert label.points[0, 0] == pytest.approx(4.0, abs=0.1)  # half a second at 8 m/s, forward whatever the heading
    assert np.sign(label.points[-1, 1].round(3)) == np.sign(rate)  # left is positive
    assert turn_of(label) == name
    assert headings_from_motion(label)[-1] == pytest.approx(rate * 3.75, abs=0.02)  # the last step's middle


@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(-3, 3), st.sampled_from([-0.5, -0.1, 0.0, 0.2, 0.5]))
def test_labels_do_not_depend_on_where_the_car_is(x: float, y: float, heading: float, rate: float) -> None:
    here = future_trajectory(driven(rate), 0.2, 10)
    there = future_trajectory(driven(rate, start=(x, y, heading)), 0.2, 10)
    assert here is not None
    assert there is not None
    np.testing.assert_allclose(there.points, here.points, atol=1e-4)


def test_an_episode_that_ends_has_no_label_rather_than_an_invented_one() -> None:
    labels = trajectories({"path": {"dt_s": 0.2, "rows": driven(0.0).tolist()}})
    assert len(labels) == 51
    assert [label is not None for label in labels] == [True] * 31 + [False] * 20


def test_a_car_that_stands_is_stopped_and_keeps_its_heading() -> None:
    label = future_trajectory(driven(0.0, speed=0.0), 0.2, 0)
    assert label is not None
    assert turn_of(label) == "stopped"
    assert headings_from_motion(label).tolist() == [0.0] * 8


def test_both_distance_protocols() -> None:
    truth = Trajectory(np.stack([np.arange(1.0, 4.0), np.zeros(3)], 1).astype(np.float32), 1.0)
    off = truth.points + np.array([[0, 1], [0, 1], [0, 4]], np.float32)
    errors = displacement_errors(Trajectory(off, 1.0), truth, (1, 2, 3))
    assert errors["l2_at_3s"] == pytest.approx(4.0)
    assert errors["l2_mean_to_3s"] == pytest.approx(2.0)
    assert errors["l2_at_2s"] == errors["l2_mean_to_2s"] == pytest.approx(1.0)


def test_wrong_input_is_refused() -> None:
    poses = driven(0.0)
    with pytest.raises(DataError, match=r"pose 51 of 51"):
        future_trajectory(poses, 0.2, 51)
    with pytest.raises(DataError, match="expected poses"):
        future_trajectory(poses[:, :2], 0.2, 0)
    with pytest.raises(DataError, match="horizon >= dt"):
        future_trajectory(poses, 0.2, 0, dt_s=1.0, horizon_s=0.5)
    with pytest.raises(DataError, match="rows"):
        trajectories({"path": {"dt_s": 0.2, "rows": [[1.0, 2.0]]}})
    one, two = Trajectory.make_example(), Trajectory(np.zeros((3, 2), np.float32), 0.5)
    with pytest.raises(DataError, match="differ in form"):
        displacement_errors(one, two, (1,))
    with pytest.raises(DataError, match="outside the trajectory"):
        displacement_errors(one, one, (9,))
