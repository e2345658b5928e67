"""The pinhole camera in numbers: OpenGL axes (x right, y up, looking along -z), pixel (0, 0) at the top left.

A point (x, y, z) in camera axes, z < 0, falls on column ``W / 2 + f x / -z`` and row ``H / 2 - f y / -z`` with the
focal length ``f = W / (2 tan(hfov / 2))`` for both axes; the centre of the pixel in column c and row r is at
(c + 0.5, r + 0.5). Depth is ``-z``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backbone.contracts import FloatArray
from backbone.errors import DataError
from backbone.rendering.mesh import Camera

Matrix = NDArray[np.float64]


def focal_length(width: int, hfov_deg: float) -> float:
    """The focal length in pixels."""
    if not 1.0 <= hfov_deg <= 170.0:
        raise DataError(f"camera: hfov_deg must lie in [1, 170], got {hfov_deg}")
    return width / (2.0 * math.tan(math.radians(hfov_deg) / 2.0))


def projection_matrix(width: int, height: int, camera: Camera) -> Matrix:
    """OpenGL clip coordinates from camera coordinates, (4, 4)."""
    near, far = camera.near, camera.far
    if not 0.0 < near < far < math.inf:
        raise DataError(f"camera: needs 0 < near < far, got near {near}, far {far}")
    focal = focal_length(width, camera.hfov_deg)
    out = np.zeros((4, 4))
    out[0, 0] = 2.0 * focal / width
    out[1, 1] = 2.0 * focal / height
    out[2, 2] = -(far + near) / (far - near)
    out[2, 3] = -2.0 * far * near / (far - near)
    out[3, 2] = -1.0
    return out


def look_at(eye: ArrayLike, target: ArrayLike, up: ArrayLike = (0.0, 1.0, 0.0)) -> FloatArray:
    """The pose (4, 4) float32 of a camera at ``eye`` that looks at ``target``; `DataError` if ``up`` lies along it."""
    start = np.asarray(eye, np.float64)
    back = start - np.asarray(target, np.float64)
    right = np.cross(np.asarray(up, np.float64), back)
    if np.linalg.norm(back) < 1e-9 or np.linalg.norm(right) < 1e-9 * np.linalg.norm(back):
        raise DataError(f"look_at: eye {eye!r}, target {target!r} and up {up!r} fix no direction")
    back /= np.linalg.norm(back)
    right /= np.linalg.norm(right)
    pose = np.eye(4, dtype=np.float32)
    pose[:3, 0], pose[:3, 1], pose[:3, 2], pose[:3, 3] = right, np.cross(back, right), back, start
    return pose


def project(points: ArrayLike, width: int, height: int, camera: Camera) -> tuple[Matrix, Matrix]:
    """Pixels (N, 2) as column and row, and depths (N,), of world points (N, 3). Behind the camera: depth <= 0."""
    world = np.asarray(points, np.float64).reshape(-1, 3)
    pose = np.asarray(camera.pose, np.float64)
    local = (world - pose[:3, 3]) @ pose[:3, :3]
    depth = -local[:, 2]
    scale = focal_length(width, camera.hfov_deg) / np.where(np.abs(depth) < 1e-12, 1e-12, depth)
    return np.stack([width / 2 + local[:, 0] * scale, height / 2 - local[:, 1] * scale], 1), depth


def pixel_rays(width: int, height: int, camera: Camera) -> tuple[Matrix, Matrix]:
    """Origin (3,) and world directions (H, W, 3) through the pixel centres; one unit along a ray is 1 m of depth."""
    focal = focal_length(width, camera.hfov_deg)
    x = (np.arange(width) + 0.5 - width / 2) / focal
    y = (height / 2 - np.arange(height) - 0.5) / focal
    local = np.stack([*np.meshgrid(x, y), np.full((height, width), -1.0)], -1)
    pose = np.asarray(camera.pose, np.float64)
    return pose[:3, 3], local @ pose[:3, :3].T
