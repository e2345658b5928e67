"""Routes by hand values and properties; the expert's laws: leading car, bends, crossings, overlap of boxes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.errors import DataError
from driving.worlds.expert import Car, Driver, Foreseen, boxes_touch, drive, future_times, idm, speed_limit, steer
from driving.worlds.route import Route, from_ego, to_ego

DRIVER = Driver()
LINE = np.stack([np.linspace(0.0, 300.0, 301), np.zeros(301)], 1)


def straight(limit: float = 20.0) -> Route:
    return Route.through([(LINE, limit)], "keep_lane", "Keep your lane.")


def circle(radius: float) -> Route:
    """To the left, starting eastwards at the origin."""
    angles = np.linspace(0.0, 1.8 * math.pi, 400)
    points = np.stack([radius * np.sin(angles), radius * (1 - np.cos(angles))], 1)
    return Route.through([(points, 20.0)], "follow_track", "Follow the track.")


def other(x: float, y: float, heading: float = 0.0, speed: float = 0.0) -> Foreseen:
    """A car that goes straight on."""
    times = future_times(DRIVER)
    way = np.array([math.cos(heading), math.sin(heading)]) * speed
    points = np.array([x, y]) + times[:, None] * way
    return Foreseen(x, y, heading, speed, 5.0, 2.0, points, np.full(len(times), heading))


@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(-4, 4), st.floats(-30, 30), st.floats(-30, 30))
def test_the_ego_frame_and_back(x: float, y: float, heading: float, px: float, py: float) -> None:
    local = to_ego([px, py], x, y, heading)
    np.testing.assert_allclose(from_ego(local, x, y, heading), [px, py], atol=1e-9)


def test_the_ego_frame_has_x_forward_and_y_left() -> None:
    np.testing.assert_allclose(to_ego([0.0, 3.0], 0.0, 0.0, math.pi / 2), [3.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(to_ego([-2.0, 0.0], 0.0, 0.0, math.pi / 2), [0.0, 2.0], atol=1e-12)


def test_projection_and_curvature_of_a_circle() -> None:
    route = circle(25.0)
    s, lateral = route.project(25.0 * math.sin(1.0), 25.0 * (1 - math.cos(1.0)))
    assert s == pytest.approx(25.0, abs=0.3)
    assert lateral == pytest.approx(0.0, abs=0.1)
    inside = route.project(20.0 * math.sin(1.0), 25.0 - 20.0 * math.cos(1.0))
    assert inside[1] == pytest.approx(5.0, abs=0.1)  # the centre lies to the left
    np.testing.assert_allclose(route.curvatures[20:-20], 1 / 25.0, rtol=0.05)


def test_a_route_that_goes_round_twice_is_followed_by_where_one_was() -> None:
    angles = np.linspace(0.0, 4 * math.pi, 800)
    route = Route.through([(20 * np.stack([np.cos(angles), np.sin(angles)], 1), 10.0)], "follow_track", "Follow.")
    lap = 2 * math.pi * 20
    assert route.project(20.0, 1.0, near=1.0)[0] == pytest.approx(1.0, abs=0.5)
    assert route.project(20.0, 1.0, near=lap)[0] == pytest.approx(lap + 1.0, abs=0.7)


def test_pieces_that_overlap_or_leave_a_gap_join_without_going_back() -> None:
    second = LINE[:100] + np.array([295.0, 0.0])  # starts five metres before the first ends
    third = LINE[:50] + np.array([400.0, 1.0])
    route = Route.through([(LINE, 20.0), (second, 10.0), (third, 10.0)], "keep_lane", "Keep your lane.")
    assert (np.diff(route.points[:, 0]) > 0).all()
    np.testing.assert_allclose(np.hypot(*np.diff(route.points, axis=0).T), 0.5, atol=0.05)
    assert route.value_at(route.limits, 10.0) == 20.0
    assert route.value_at(route.limits, 350.0) == 10.0


@pytest.mark.parametrize("pieces", [[], [([[0.0, 0.0]], 5.0)], [([[0.0, 0.0], [np.nan, 1.0]], 5.0)], [(LINE[:2], 5.0)]])
def test_impossible_routes_are_refused(pieces: list[tuple[object, float]]) -> None:
    with pytest.raises(DataError, match="route"):
        Route.through(pieces, "keep_lane", "")  # type: ignore[arg-type]


def follow(route: Route, speed: float, lateral: float, seconds: float) -> float:
    """The distance from the route after driving with the expert's steering over highway-env's bicycle."""
    x, y, heading, dt = 0.0, lateral, 0.0, 1 / 15
    s = 0.0
    for k in range(round(seconds * 15)):
        if k % 3 == 0:
            s, aside = route.project(x, y, near=s)
            wheel = steer(DRIVER, Car(x, y, heading, speed, 0.2), route, s, aside)
        slip = math.atan(math.tan(wheel) / 2)
        x, y = x + speed * math.cos(heading + slip) * dt, y + speed * math.sin(heading + slip) * dt
        heading += speed * math.sin(slip) / 2.5 * dt
    return route.project(x, y, near=s)[1]


@settings(max_examples=15, deadline=None)
@given(st.floats(3.0, 25.0), st.floats(-3.0, 3.0))
def test_steering_comes_to_the_line(speed: float, lateral: float) -> None:
    assert abs(follow(straight(), speed, lateral, 7.0)) < max(0.05, 0.1 * abs(lateral))


@pytest.mark.parametrize("radius", [12.0, 25.0, 60.0])
def test_steering_keeps_to_a_bend(radius: float) -> None:
    speed = math.sqrt(2.5 * radius)
    assert abs(follow(circle(radius), speed, 0.0, 0.5 * 2 * math.pi * radius / speed)) < 0.4


def test_idm_by_hand() -> None:
    assert idm(DRIVER, 0.0, 20.0, math.inf, 0.0) == DRIVER.acceleration
    assert idm(DRIVER, 20.0, 20.0, math.inf, 0.0) == pytest.approx(0.0)
    gap = DRIVER.standstill_gap + 10.0 * DRIVER.time_gap  # at the leader's speed: the wanted gap cancels the rest
    assert idm(DRIVER, 10.0, 1e9, gap, 10.0) == pytest.approx(0.0, abs=1e-6)
    assert idm(DRIVER, 10.0, 20.0, 5.0, 0.0) < -5.0


def test_the_car_slows_for_a_bend_ahead() -> None:
    assert speed_limit(DRIVER, straight(20.0), 0.0) == 20.0
    assert speed_limit(DRIVER, circle(25.0), 20.0) == pytest.approx(
        math.sqrt(DRIVER.lateral_acceleration * 25), rel=0.05
    )


def test_a_free_road_is_used_and_a_standing_car_is_not_hit() -> None:
    car = Car(50.0, 0.0, 0.0, 10.0, 0.2)
    assert drive(DRIVER, car, straight(), 50.0, 0.0, [])[1] > 1.5
    assert drive(DRIVER, car, straight(), 50.0, 0.0, [other(72.0, 0.0)])[1] < -2.0
    assert drive(DRIVER, car, straight(), 50.0, 0.0, [other(72.0, 4.0)])[1] > 1.5  # in the next lane


def test_it_yields_to_who_crosses_and_not_to_who_is_late() -> None:
    car = Car(50.0, 0.0, 0.0, 8.0, 0.2)
    crossing = other(70.0, -20.0, math.pi / 2, 8.0)  # both at (70, 0) after 2.5 s
    late = other(70.0, -90.0, math.pi / 2, 8.0)
    assert drive(DRIVER, car, straight(), 50.0, 0.0, [crossing])[1] < 0.0
    assert drive(DRIVER, car, straight(), 50.0, 0.0, [late])[1] > 1.0


def inside(point: np.ndarray, middle: np.ndarray, heading: float, length: float, width: float) -> bool:
    x, y = to_ego(point, *middle.tolist(), heading).tolist()
    return abs(x) <= length / 2 and abs(y) <= width / 2


@settings(max_examples=60, deadline=None)
@given(st.floats(-6, 6), st.floats(-6, 6), st.floats(-3.1, 3.1), st.floats(-3.1, 3.1))
def test_boxes_touch_where_points_of_both_are_shared(x: float, y: float, one: float, two: float) -> None:
    """Against brute force: a fine grid over one box, looked up in the other."""
    grid = np.stack(np.meshgrid(np.linspace(-2.5, 2.5, 41), np.linspace(-1.0, 1.0, 17)), -1).reshape(-1, 2)
    place = np.array([x, y])
    shared = any(inside(p, place, two, 5.0, 2.0) for p in from_ego(grid, 0.0, 0.0, one))
    touch = bool(boxes_touch((np.zeros(2), np.array(one), 5.0, 2.0), (place, np.array(two), 5.0, 2.0)))
    smaller = bool(boxes_touch((np.zeros(2), np.array(one), 4.7, 1.7), (place, np.array(two), 4.7, 1.7)))
    assert touch or not shared
    assert shared or not smaller  # the grid's steps are 12 cm
