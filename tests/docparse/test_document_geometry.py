"""Shown pixels and PDF points: maps, their inverses, page boxes and turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import DataError
from docparse.documents.geometry import inverse, map_boxes, map_points, shown_to_points

numbers = st.floats(-2000, 2000, allow_nan=False)
lengths = st.floats(1, 5000)
turns = st.sampled_from((0, 90, 180, 270, 360, -90))
pixels = st.integers(1, 9000)


@given(numbers, numbers, lengths, lengths, turns, pixels, pixels)
def test_the_shown_page_is_the_visible_part_and_the_way_back_is_exact(left, bottom, across, along, turn, width, height):
    view = (left, bottom, left + across, bottom + along)
    matrix = shown_to_points(view, turn, width, height)
    corners = map_points(matrix, [(0, 0), (width, 0), (width, height), (0, height)])
    np.testing.assert_allclose([*corners.min(0), *corners.max(0)], view, atol=1e-8)
    back = map_points(inverse(matrix), corners)
    np.testing.assert_allclose(back, [(0, 0), (width, 0), (width, height), (0, height)], atol=1e-6)
    assert np.linalg.det(matrix[:, :2]) < 0  # pixels point down, points up: never a plain turn


@pytest.mark.parametrize(
    ("turn", "upper_left"),
    [(0, (10, 220)), (90, (10, 20)), (180, (110, 20)), (270, (110, 220))],  # of the view (10, 20, 110, 220)
)
def test_a_clockwise_turn_brings_the_right_corner_to_the_upper_left(turn, upper_left):
    width, height = (100, 200) if turn % 180 == 0 else (200, 100)
    matrix = shown_to_points((10, 20, 110, 220), turn, width, height)
    np.testing.assert_allclose(map_points(matrix, (0, 0)), upper_left)


@given(turns, st.lists(st.tuples(numbers, numbers, lengths, lengths), min_size=1, max_size=5))
def test_boxes_keep_their_corners_both_ways(turn, drawn):
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h in drawn])
    matrix = shown_to_points((3, 4, 600, 800), turn, 1234, 987)
    np.testing.assert_allclose(map_boxes(inverse(matrix), map_boxes(matrix, boxes)), boxes, atol=1e-6)


def test_impossible_pages_are_refused():
    for view, turn, size in (((0, 0, 0, 5), 0, (1, 1)), ((0, 0, 5, 5), 45, (1, 1)), ((0, 0, 5, 5), 0, (0, 1))):
        with pytest.raises(DataError):
            shown_to_points(view, turn, *size)
    with pytest.raises(DataError, match="no way back"):
        inverse(np.zeros((2, 3)))
