"""The bodies of the driving worlds as meshes: cars, trucks, people, cones, trees, houses. Models have z up, x forward.

`MeshBuilder` builds with y up; its ``transform`` turns what it is given here.
"""

from __future__ import annotations

import numpy as np

from backbone.rendering.mesh import Mesh
from backbone.rendering.shapes import MeshBuilder
from driving.worlds.body import Kind
from driving.worlds.scenery_atlas import tile

UPRIGHT = np.array([[1.0, 0, 0, 0], [0, 0, -1.0, 0], [0, 1.0, 0, 0], [0, 0, 0, 1.0]])  # the builder's y becomes our z


def body_mesh(kind: Kind, length: float, width: float, height: float, colour: int, braking: bool) -> Mesh:
    """A body of the given size (m) standing on the ground around the origin, with no ids of its own."""
    builder = MeshBuilder()
    builder.transform = UPRIGHT
    if kind in ("car", "truck"):
        _vehicle(builder, kind == "truck", length, width, height, tile(f"car{colour}"), braking)
    elif kind in ("pedestrian", "cyclist"):
        _person(builder, kind == "cyclist", length, height, colour)
    else:
        _barrier(builder, length, width, height)
    return builder.build()


def _box(builder: MeshBuilder, low: tuple[float, float, float], high: tuple[float, float, float], name: str) -> None:
    """A box between two corners of our frame (x forward, y left, z up)."""
    builder.box((low[0], low[2], -high[1]), (high[0], high[2], -low[1]), tile(name), 0)


def _vehicle(
    builder: MeshBuilder, truck: bool, length: float, width: float, height: float,
    paint: tuple[float, float, float, float], braking: bool,
) -> None:  # fmt: skip
    half, side = length / 2, width / 2
    waist, floor = (0.45 * height if truck else 0.58 * height), 0.17 * height
    builder.box((-half, floor, -side), (half, waist, side), paint, 0)
    if truck:
        cab = half - 0.28 * length
        builder.box((cab, waist, -side), (half - 0.05, 0.85 * height, side), tile("window"), 0, top=paint)
        builder.box((-half, waist, -side), (cab - 0.2, height, side), tile("white"), 0)
    else:
        _cabin(builder, (-0.40 * length, 0.22 * length), (-0.27 * length, 0.06 * length), side, waist, height, paint)
    for end in (-0.31, 0.30):
        for left in (-1.0, 1.0):
            _wheel(builder, end * length, left * (side - 0.1), min(0.34, 0.24 * height))
    lamp = "brake" if braking else "tail"
    for left in (-1.0, 1.0):
        at = left * (side - 0.28)
        _box(builder, (half - 0.02, at - 0.2, 0.62 * waist), (half + 0.02, at + 0.2, 0.84 * waist), "lamp")
        _box(builder, (-half - 0.02, at - 0.22, 0.6 * waist), (-half + 0.02, at + 0.22, 0.88 * waist), lamp)
    if braking:
        _box(builder, (-half - 0.01, -0.3, waist), (-half + 0.05, 0.3, waist + 0.08), "brake")


def _cabin(
    builder: MeshBuilder, low: tuple[float, float], high: tuple[float, float], side: float, waist: float, top: float,
    paint: tuple[float, float, float, float],
) -> None:  # fmt: skip
    """Windows that lean in, under a painted roof; ``low`` and ``high`` are (back, front) at the waist and the roof."""
    inner = 0.8 * side
    corners = {
        (end, left, up): np.array(
            ((high if up else low)[end], top if up else waist, -left * (inner if up else side * 0.96))
        )
        for end in (0, 1) for left in (-1, 1) for up in (0, 1)
    }  # fmt: skip
    faces = [
        ([(1, 1, 0), (1, 1, 1), (1, -1, 1), (1, -1, 0)], tile("window")),
        ([(0, -1, 0), (0, -1, 1), (0, 1, 1), (0, 1, 0)], tile("window")),
        ([(0, 1, 0), (0, 1, 1), (1, 1, 1), (1, 1, 0)], tile("window")),
        ([(1, -1, 0), (1, -1, 1), (0, -1, 1), (0, -1, 0)], tile("window")),
        ([(0, -1, 1), (1, -1, 1), (1, 1, 1), (0, 1, 1)], paint),
    ]
    middle = np.mean(list(corners.values()), 0)
    for names, (u0, v0, u1, v1) in faces:
        points = np.array([corners[n] for n in names])
        normal = np.cross(points[1] - points[0], points[2] - points[0])
        if normal @ (points.mean(0) - middle) < 0:
            points, normal = points[::-1], -normal
        uv = np.array([(u0, v1), (u0, v0), (u1, v0), (u1, v1)])
        order = [[0, 1, 2], [0, 2, 3]]
        builder.triangles(points[order], uv[order], np.broadcast_to(normal, (2, 3, 3)), 0)


def _wheel(builder: MeshBuilder, x: float, y: float, radius: float) -> None:
    kept = builder.transform
    builder.transform = np.eye(4)
    builder.transform[:3, 3] = (x, y, radius)
    builder.cylinder((0.0, -0.12, 0.0), radius, 0.24, tile("tyre"), 0, sides=8, top=tile("rim" if y > 0 else "tyre"))
    builder.transform = kept


def _person(builder: MeshBuilder, rides: bool, length: float, height: float, colour: int) -> None:
    hips = 0.45 * height
    if rides:
        _box(builder, (-length / 2, -0.04, 0.0), (length / 2, 0.04, 0.6), "tyre")
    else:
        builder.cylinder((0.0, 0.0, 0.0), 0.14, hips, tile("cloth"), 0, sides=6)
    builder.cylinder((0.0, hips, 0.0), 0.2, 0.38 * height, tile(f"car{colour}"), 0, sides=6)
    builder.cylinder((0.0, 0.84 * height, 0.0), 0.11, 0.16 * height, tile("skin"), 0, sides=6)


def _barrier(builder: MeshBuilder, length: float, width: float, height: float) -> None:
    for k in range(4):
        low, high = -width / 2 + k * width / 4, -width / 2 + (k + 1) * width / 4
        _box(builder, (-length / 2, low, 0.0), (length / 2, high, height), "red" if k % 2 else "white")


def tree_mesh(conifer: bool) -> Mesh:
    """A tree one metre high, in few triangles: a scene has hundreds."""
    builder = MeshBuilder()
    builder.transform = UPRIGHT
    builder.lathe((0.0, 0.0, 0.0), [(0.035, 0.0), (0.0, 0.7)], tile("trunk"), 0, sides=4)
    profile = [(0.0, 0.0), (0.24, 0.02), (0.0, 0.8)] if conifer else [(0.0, 0.0), (0.27, 0.2), (0.22, 0.5), (0.0, 0.72)]
    crown, name = (0.2, "needles") if conifer else (0.28, "leaves")
    builder.lathe((0.0, crown, 0.0), profile, tile(name), 0, sides=6)
    return builder.build()


def house_mesh(length: float, width: float, height: float, wall: int) -> Mesh:
    """A house of the given metres around the origin; high ones have more storeys on their ``wall``."""
    builder = MeshBuilder()
    builder.transform = UPRIGHT
    face = tile(f"tower{wall}" if height > 7.0 else f"wall{wall}")
    low, high = (-length / 2, 0.0, -width / 2), (length / 2, height, width / 2)
    builder.box(low, high, face, 0, top=tile("roof"), leave_out="-y")
    return builder.build()
