"""Building meshes from boxes, cylinders and flat pieces, each coloured by one tile of an atlas.

A tile is ``(u0, v0, u1, v1)``, its corners in the atlas (0 to 1, v down). Every part gets the tile as a whole on each
side, or repeated every ``repeat`` metres: a side is then cut into pieces, because an atlas cannot wrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backbone.errors import DataError
from backbone.rendering.mesh import Mesh

Tile = tuple[float, float, float, float]
Points = NDArray[np.float64]


def _unit_box() -> tuple[Points, Points, Points, list[str]]:
    """A box from (0, 0, 0) to (1, 1, 1): corners (12, 3, 3), normals, uv with v down, the side of each triangle."""
    sides = {
        "+z": ((0, 0, 1), (1, 0, 0), (0, 1, 0)),
        "-z": ((1, 0, 0), (-1, 0, 0), (0, 1, 0)),
        "+x": ((1, 0, 1), (0, 0, -1), (0, 1, 0)),
        "-x": ((0, 0, 0), (0, 0, 1), (0, 1, 0)),
        "+y": ((0, 1, 1), (1, 0, 0), (0, 0, -1)),
        "-y": ((0, 0, 0), (1, 0, 0), (0, 0, 1)),
    }
    corners, normals, uvs, names = [], [], [], []
    for name, (corner, right, up) in sides.items():
        origin, a, b = (np.array(v, np.float64) for v in (corner, right, up))
        for triangle in (((0, 0), (1, 0), (1, 1)), ((0, 0), (1, 1), (0, 1))):
            corners.append([origin + i * a + j * b for i, j in triangle])
            normals.append([np.cross(a, b)] * 3)
            uvs.append([(i, 1 - j) for i, j in triangle])
            names.append(name)
    return np.array(corners), np.array(normals), np.array(uvs, np.float64), names


_BOX, _BOX_NORMALS, _BOX_UV, _BOX_SIDES = _unit_box()
_TOP = np.array([name == "+y" for name in _BOX_SIDES])


@dataclass
class MeshBuilder:
    """Collects parts; `build` makes the `Mesh`. ``transform`` (4, 4) is applied to what is added while it is set."""

    transform: Points = field(default_factory=lambda: np.eye(4))
    _rows: list[tuple[Points, Points, Points]] = field(default_factory=list)  # (3 N, 3), (3 N, 3), (3 N, 2)
    _ids: list[tuple[int, int]] = field(default_factory=list)  # how many triangles, which object

    def triangles(self, corners: ArrayLike, uv: ArrayLike, normals: ArrayLike, object_id: int) -> None:
        """Add triangles: ``corners`` and ``normals`` (N, 3, 3), ``uv`` (N, 3, 2), counter-clockwise from outside."""
        matrix = self.transform
        places = np.asarray(corners, np.float64).reshape(-1, 3) @ matrix[:3, :3].T + matrix[:3, 3]
        turned = np.asarray(normals, np.float64).reshape(-1, 3) @ matrix[:3, :3].T
        self._rows.append((places, turned, np.asarray(uv, np.float64).reshape(-1, 2)))
        self._ids.append((len(places) // 3, object_id))

    def quad(
        self, corner: ArrayLike, right: ArrayLike, up: ArrayLike, tile: Tile, object_id: int, repeat: float = 0.0
    ) -> None:
        """A flat parallelogram from its lower left ``corner`` along ``right`` and ``up``, seen from ``right x up``."""
        origin, a, b = (np.asarray(v, np.float64) for v in (corner, right, up))
        normal = np.cross(a, b)
        if np.linalg.norm(normal) < 1e-12:
            raise DataError(f"mesh builder: a side without area, {right!r} x {up!r}")
        columns, rows = (_cuts(float(np.linalg.norm(v)), repeat) for v in (a, b))
        u, v = (grid.reshape(-1, 1) for grid in np.meshgrid(columns[:-1], rows[:-1]))
        du, dv = (grid.reshape(-1, 1) for grid in np.meshgrid(np.diff(columns), np.diff(rows)))
        whole_u, whole_v = (max(repeat / float(np.linalg.norm(v)), c[1]) for v, c in ((a, columns), (b, rows)))
        corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
        places = [origin + (u + du * i) * a + (v + dv * j) * b for i, j in corners]
        u0, v0, u1, v1 = tile
        uvs = [
            np.concatenate([u0 + (u1 - u0) * i * du / whole_u, v1 - (v1 - v0) * j * dv / whole_v], 1)
            for i, j in corners
        ]
        order = (0, 1, 2, 0, 2, 3)
        xyz = np.stack([places[i] for i in order], 1).reshape(-1, 3, 3)
        st = np.stack([uvs[i] for i in order], 1).reshape(-1, 3, 2)
        self.triangles(xyz, st, np.broadcast_to(normal, xyz.shape), object_id)

    def box(
        self,
        low: ArrayLike,
        high: ArrayLike,
        tile: Tile,
        object_id: int,
        *,
        top: Tile | None = None,
        repeat: float = 0.0,
        leave_out: str = "",
    ) -> None:
        """An upright box between two corners (y up). ``leave_out`` names sides not wanted, of ``-x+x-y+y-z+z``."""
        start = np.asarray(low, np.float64)
        size = np.asarray(high, np.float64) - start
        if min(size.tolist()) <= 0:
            raise DataError(f"mesh builder: a box needs low < high, got {low!r} and {high!r}")
        wanted = [i for i, name in enumerate(_BOX_SIDES) if name not in leave_out]
        if repeat > 0.0 and max(size.tolist()) > repeat:
            for i in wanted[::2]:
                a, b, c = _BOX[i] * size
                self.quad(start + a, b - a, c - b, top if top and _TOP[i] else tile, object_id, repeat)
            return
        u0, v0, u1, v1 = tile
        st = _BOX_UV * (u1 - u0, v1 - v0) + (u0, v0)
        if top is not None:
            st[_TOP] = _BOX_UV[_TOP] * (top[2] - top[0], top[3] - top[1]) + top[:2]
        if leave_out:
            self.triangles(_BOX[wanted] * size + start, st[wanted], _BOX_NORMALS[wanted], object_id)
        else:
            self.triangles(_BOX * size + start, st, _BOX_NORMALS, object_id)

    def cylinder(
        self,
        base: ArrayLike,
        radius: float,
        height: float,
        tile: Tile,
        object_id: int,
        *,
        top_radius: float | None = None,
        sides: int = 10,
        top: Tile | None = None,
    ) -> None:
        """An upright cylinder or, with ``top_radius``, a cone's part, standing on ``base``."""
        upper = radius if top_radius is None else top_radius
        self.lathe(base, [(radius, 0.0), (upper, height)], tile, object_id, sides=sides, top=top)

    def lathe(
        self,
        base: ArrayLike,
        profile: Sequence[tuple[float, float]],
        tile: Tile,
        object_id: int,
        *,
        sides: int = 10,
        top: Tile | None = None,
        squash: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        """A body turned about the y axis: ``profile`` is (radius, height) from below; ends are closed.

        Heights may fall again, for a hollow body. ``squash`` scales it along x and z (an oval bathtub).
        """
        angles = np.linspace(0.0, 2.0 * math.pi, sides + 1)
        ring = np.stack([np.cos(angles) * squash[0], np.zeros(sides + 1), -np.sin(angles) * squash[1]], 1)
        outward = np.stack([np.cos(angles) * squash[1], np.zeros(sides + 1), -np.sin(angles) * squash[0]], 1)
        origin = np.asarray(base, np.float64)
        u0, v0, u1, v1 = tile
        heights = [h for _, h in profile]
        columns = u0 + (u1 - u0) * np.arange(sides + 1) / sides
        scale = (v1 - v0) / max(max(heights) - min(heights), 1e-9)
        for (r0, h0), (r1, h1) in pairwise(profile):
            low, high = origin + ring * r0 + (0, h0, 0), origin + ring * r1 + (0, h1, 0)
            tilt = outward * (h1 - h0) + np.array([0.0, r0 - r1, 0.0])
            st = [np.stack([columns, np.full(sides + 1, v1 - scale * (h - min(heights)))], 1) for h in (h0, h1)]
            i, j = slice(None, -1), slice(1, None)
            for present, picks in ((r0, ((0, i), (0, j), (1, j))), (r1, ((0, i), (1, j), (1, i)))):
                if present > 1e-9:
                    points = np.stack([(low, high)[k][at] for k, at in picks], 1)
                    normals = np.stack([tilt[at] for _, at in picks], 1)
                    self.triangles(points, np.stack([st[k][at] for k, at in picks], 1), normals, object_id)
        self._cap(origin, ring, profile[-1], top or tile, object_id, 1.0)
        self._cap(origin, ring, profile[0], tile, object_id, -1.0)

    def _cap(
        self, origin: Points, ring: Points, end: tuple[float, float], tile: Tile, object_id: int, side: float
    ) -> None:
        radius, height = end
        if radius <= 1e-9:
            return
        u0, v0, u1, v1 = tile
        centre = origin + np.array([0.0, height, 0.0])
        rim = centre + ring * radius
        across, along = (ring[:, i] / max(np.abs(ring[:, i]).max(), 1e-9) / 2 for i in (0, 2))
        st = np.stack([u0 + (u1 - u0) * (0.5 + across), v0 + (v1 - v0) * (0.5 + along)], 1)
        middle = np.array([(u0 + u1) / 2, (v0 + v1) / 2])
        first, second = (slice(None, -1), slice(1, None)) if side > 0 else (slice(1, None), slice(None, -1))
        count = len(ring) - 1
        self.triangles(
            np.stack([np.broadcast_to(centre, (count, 3)), rim[first], rim[second]], 1),
            np.stack([np.broadcast_to(middle, (count, 2)), st[first], st[second]], 1),
            np.broadcast_to([0.0, side, 0.0], (count, 3, 3)),
            object_id,
        )

    def build(self) -> Mesh:
        """The mesh of all parts so far; `DataError` if there are none, or for a normal of length 0."""
        if not self._rows:
            raise DataError("mesh builder: nothing was added")
        positions, normals, uv = (np.concatenate([rows[i] for rows in self._rows]) for i in range(3))
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        if (lengths < 1e-12).any():
            raise DataError("mesh builder: a normal of length 0")
        counts, ids = zip(*self._ids, strict=True)
        return Mesh(
            positions.astype(np.float32),
            (normals / lengths).astype(np.float32),
            uv.astype(np.float32),
            np.repeat(np.asarray(ids, np.int32), counts),
        )


def _cuts(length: float, repeat: float) -> Points:
    """Where a side of ``length`` metres is cut, as fractions: every ``repeat`` metres, the last piece shorter."""
    if repeat <= 0.0 or length <= repeat * 1.0001:
        return np.array([0.0, 1.0])
    inner = np.arange(1, math.ceil(length / repeat - 1e-9)) * repeat / length
    return np.concatenate([[0.0], inner, [1.0]])
