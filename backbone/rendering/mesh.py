"""What the renderer draws: triangles with colours from one atlas picture, and the camera that looks at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import FloatArray, Image
from backbone.errors import DataError


@dataclass(frozen=True)
class Mesh:
    """A list of triangles, three rows a triangle, counter-clockwise seen from outside; metres.

    ``positions`` and ``normals`` float32 (3 T, 3), ``uv`` float32 (3 T, 2) into the atlas (0 to 1, v down as in a
    picture), ``ids`` int32 (T,) the object each triangle belongs to, 0 for none.
    """

    positions: FloatArray
    normals: FloatArray
    uv: FloatArray
    ids: NDArray[np.int32]

    def __post_init__(self) -> None:
        rows = len(self.positions)
        shapes = (self.positions.shape, self.normals.shape, self.uv.shape, self.ids.shape)
        if rows % 3 or shapes != ((rows, 3), (rows, 3), (rows, 2), (rows // 3,)):
            raise DataError(f"mesh: expected (3T, 3), (3T, 3), (3T, 2), (T,), got {shapes}")
        if not all(np.isfinite(a).all() for a in (self.positions, self.normals, self.uv)):
            raise DataError("mesh: positions, normals or uv hold NaN or infinite values")


@dataclass(frozen=True)
class Camera:
    """``pose`` (4, 4) world from camera, OpenGL's axes: x right, y up, looking along -z. ``hfov_deg`` horizontal."""

    pose: FloatArray
    hfov_deg: float
    near: float = 0.05
    far: float = 200.0


@dataclass(frozen=True)
class Frame:
    """``rgb`` uint8 (H, W, 3), ``ids`` int32 (H, W), ``depth`` float32 (H, W): metres along the axis, 0 for nothing."""

    rgb: Image
    depth: FloatArray | None = None
    ids: NDArray[np.int32] | None = None
