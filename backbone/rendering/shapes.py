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


@dataclass
class MeshBuilder:
    """Collects parts; `build` makes the `Mesh`. ``transform`` (4, 4) is applied to what is added while it is set."""

    transform: Points = field(default_factory=lambda: np.eye(4))
    _quads: list[Points] = field(default_factory=list)  # (N, 3, 8) rows of position, normal, uv
    _ids: list[NDArray[np.int32]] = field(default_factory=list)

    def triangles(self, corners: ArrayLike, uv: ArrayLike, normals: ArrayLike, object_id: int) -> None:
        """Add triangles: ``corners`` and ``normals`` (N, 3, 3), ``uv`` (N, 3, 2), counter-clockwise from outside."""
        places, turned = np.asarray(corners, np.float64), np.asarray(normals, np.float64)
        matrix = self.transform
        places = places @ matrix[:3, :3].T + matrix[:3, 3]
        turned = turned @ matrix[:3, :3].T
        lengths = np.linalg.norm(turned, axis=-1, keepdims=True)
        if (lengths < 1e-12).any():
            raise DataError("mesh builder: a normal of length 0")
        self._quads.append(np.concatenate([places, turned / lengths, np.asarray(uv, np.float64)], -1))
        self._ids.append(np.full(len(places), object_id, np.int32))

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
        (x0, y0, z0), (x1, y1, z1) = (np.asarray(v, np.float64) for v in (low, high))
        w, h, d = x1 - x0, y1 - y0, z1 - z0
        if min(w, h, d) <= 0:
            raise DataError(f"mesh builder: a box needs low < high, got {low!r} and {high!r}")
        sides = {
            "+z": ((x0, y0, z1), (w, 0, 0), (0, h, 0)),
            "-z": ((x1, y0, z0), (-w, 0, 0), (0, h, 0)),
            "+x": ((x1, y0, z1), (0, 0, -d), (0, h, 0)),
            "-x": ((x0, y0, z0), (0, 0, d), (0, h, 0)),
            "+y": ((x0, y1, z1), (w, 0, 0), (0, 0, -d)),
            "-y": ((x0, y0, z0), (w, 0, 0), (0, 0, d)),
        }
        for name, (corner, right, up) in sides.items():
            if name not in leave_out:
                self.quad(corner, right, up, top if top and name == "+y" else tile, object_id, repeat)

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
        st = np.stack([u0 + (u1 - u0) * (0.5 + ring[:, 0] / 2), v0 + (v1 - v0) * (0.5 + ring[:, 2] / 2)], 1)
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
        """The mesh of all parts so far; `DataError` if there are none."""
        if not self._quads:
            raise DataError("mesh builder: nothing was added")
        rows = np.concatenate(self._quads).reshape(-1, 8).astype(np.float32)
        positions, normals, uv = (np.ascontiguousarray(c) for c in (rows[:, :3], rows[:, 3:6], rows[:, 6:]))
        return Mesh(positions, normals, uv, np.concatenate(self._ids))


def _cuts(length: float, repeat: float) -> Points:
    """Where a side of ``length`` metres is cut, as fractions: every ``repeat`` metres, the last piece shorter."""
    if repeat <= 0.0 or length <= repeat * 1.0001:
        return np.array([0.0, 1.0])
    inner = np.arange(1, math.ceil(length / repeat - 1e-9)) * repeat / length
    return np.concatenate([[0.0], inner, [1.0]])
