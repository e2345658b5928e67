"""Between the pixels of a page as shown and the points of its PDF: affine maps as float64 (2, 3) arrays.

``matrix @ (x, y, 1)`` maps a point. Shown pixels have x to the right and y down from the page's upper left corner as a
reader sees it; points are PDF user space, x to the right and y up on the unturned page, measured from wherever the
file puts its origin.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backbone.errors import DataError

Affine = NDArray[np.float64]  # (2, 3)
Corners = tuple[float, float, float, float]


def shown_to_points(view: Corners, turn: int, width: int, height: int) -> Affine:
    """The map from shown pixels to points.

    ``view`` is the visible part (left, bottom, right, top) of the unturned page in points, ``turn`` its clockwise
    /Rotate in degrees, ``width`` x ``height`` the pixels it is shown on. Raises `DataError` for an empty view, a turn
    that is no multiple of 90, or no pixels.
    """
    left, bottom, right, top = view
    if not (all(math.isfinite(v) for v in view) and left < right and bottom < top):
        raise DataError(f"the visible part of the page is empty: (left, bottom, right, top) = {view}")
    if turn % 90:
        raise DataError(f"a page is turned by a multiple of 90 degrees, got {turn}")
    if width < 1 or height < 1:
        raise DataError(f"a page is shown on at least 1 x 1 pixels, got {width} x {height}")
    across, along = right - left, top - bottom
    turn %= 360
    if turn == 0:
        return np.array([[across / width, 0, left], [0, -along / height, top]])
    if turn == 90:
        return np.array([[0, across / height, left], [along / width, 0, bottom]])
    if turn == 180:
        return np.array([[-across / width, 0, right], [0, along / height, bottom]])
    return np.array([[0, -across / height, right], [-along / width, 0, top]])


def inverse(matrix: Affine) -> Affine:
    """The map back. Raises `DataError` if there is none."""
    linear, offset = matrix[:, :2], matrix[:, 2]
    if abs(np.linalg.det(linear)) < 1e-12:
        raise DataError(f"the map {matrix.tolist()} flattens the page and has no way back")
    back = np.linalg.inv(linear)
    return np.column_stack([back, -back @ offset])


def map_points(matrix: Affine, points: ArrayLike) -> NDArray[np.float64]:
    """Points (..., 2) mapped."""
    result: NDArray[np.float64] = np.asarray(points, np.float64) @ matrix[:, :2].T + matrix[:, 2]
    return result


def map_boxes(matrix: Affine, boxes: ArrayLike) -> NDArray[np.float64]:
    """Boxes (n, 4) of (x0, y0, x1, y1) mapped to the upright boxes (n, 4) around their mapped corners."""
    corners = np.asarray(boxes, np.float64).reshape(-1, 4)
    first, second = map_points(matrix, corners[:, :2]), map_points(matrix, corners[:, 2:])
    third, fourth = map_points(matrix, corners[:, [0, 3]]), map_points(matrix, corners[:, [2, 1]])
    four = np.stack([first, second, third, fourth])  # (4, n, 2)
    return np.concatenate([four.min(0), four.max(0)], axis=1)
