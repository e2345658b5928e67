"""A road scene to look at: asphalt, markings, houses and trees from lines alone, and three cameras on a car.

Any simulator that knows its lanes and vehicles can be seen through it: `Strip`s and `Marking`s in, `Body`s each frame.
World frame: metres, x east, y north, z up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from backbone.rendering.lighting import Lighting, Sky
from backbone.rendering.mesh import Camera, Frame, Mesh
from backbone.rendering.renderer import Renderer
from backbone.rendering.shapes import MeshBuilder
from driving.worlds.body import Body
from driving.worlds.scenery_atlas import CAR_COLOURS, WALLS, atlas, tile
from driving.worlds.shapes import UPRIGHT, add_house, add_tree, body_mesh

Points = NDArray[np.float64]
CELL_M = 80.0  # the scene is cut into squares, of which a camera draws those it can see
SIGHT_M = 260.0
GRASS_Z, MARKING_Z = -0.04, 0.015
DASH_M, GAP_M = 3.0, 5.0
LIGHT = Lighting(to_sun=(0.35, 0.5, 0.8), up=(0.0, 0.0, 1.0))
SKY = Sky(zenith=(92.0, 148.0, 216.0), horizon=(208.0, 222.0, 234.0), ground=(116.0, 150.0, 92.0))


@dataclass(frozen=True, eq=False)
class Strip:
    """Asphalt along ``middle`` (N >= 2, 2), ``widths`` metres wide: one number or (N,)."""

    middle: Points
    widths: float | Points


@dataclass(frozen=True, eq=False)
class Marking:
    """A painted line along ``points`` (N >= 2, 2)."""

    points: Points
    dashed: bool
    colour: Literal["white", "yellow"] = "white"
    width: float = 0.15


@dataclass(frozen=True)
class Rig:
    """Cameras on the ego car: name -> yaw in degrees, left positive; all at one point over the windscreen."""

    yaws: tuple[tuple[str, float], ...] = (("front_left", 55.0), ("front", 0.0), ("front_right", -55.0))
    forward: float = 0.8  # metres before the car's middle
    height: float = 1.5
    pitch_deg: float = -4.0
    hfov_deg: float = 64.0

    def cameras(self, x: float, y: float, heading: float) -> dict[str, Camera]:
        """The cameras of a car standing at (x, y) on the ground."""
        place = (x + self.forward * math.cos(heading), y + self.forward * math.sin(heading), self.height)
        return {
            name: Camera(look_pose(place, heading + math.radians(yaw), math.radians(self.pitch_deg)), self.hfov_deg,
                         near=0.3, far=SIGHT_M + CELL_M)
            for name, yaw in self.yaws
        }  # fmt: skip


def look_pose(place: tuple[float, float, float], yaw: float, pitch: float) -> NDArray[np.float32]:
    """World from camera (4, 4), OpenGL's axes, for a camera that looks along ``yaw`` (from east) and up by ``pitch``."""
    forward = np.array([math.cos(yaw) * math.cos(pitch), math.sin(yaw) * math.cos(pitch), math.sin(pitch)])
    right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    pose = np.eye(4, dtype=np.float32)
    pose[:3, 0], pose[:3, 1], pose[:3, 2], pose[:3, 3] = right, np.cross(right, forward), -forward, place
    return pose


class RoadScene:
    """Draws a road, its surroundings and the bodies on it. One scene at a time; `build` replaces it."""

    def __init__(self, width: int, height: int, rig: Rig) -> None:
        """Open the renderer; `WorldError` with the remedy where moderngl or EGL is missing."""
        self._renderer = Renderer(width, height, atlas())
        self._rig = rig
        self._cells: list[tuple[int, Points]] = []  # handle, middle
        self._bodies: dict[tuple[Any, ...], int] = {}

    def build(self, strips: Sequence[Strip], markings: Sequence[Marking], seed: int) -> None:
        """Make the scene of an episode; ``seed`` places and colours houses and trees beside the road."""
        for handle, _ in self._cells:
            self._renderer.discard(handle)
        meshes = scene_meshes(strips, markings, seed)
        self._cells = [(self._renderer.upload(mesh), middle) for mesh, middle in meshes]

    def render(
        self, x: float, y: float, heading: float, bodies: Sequence[Body], *, depth: bool = False, ids: bool = False
    ) -> Mapping[str, Frame]:
        """What the rig's cameras on a car at (x, y) see, by their names."""
        placed = [(self._body(b), _upright_pose(b.x, b.y, b.heading), b.id) for b in bodies
                  if math.hypot(b.x - x, b.y - y) < SIGHT_M]  # fmt: skip
        frames = {}
        still = np.eye(4)
        for name, camera in self._rig.cameras(x, y, heading).items():
            ground = [(handle, still) for handle, middle in self._cells if _in_sight(camera, middle)]
            seen = [p for p in placed if _in_sight(camera, p[1][:2, 3], 6.0)]
            frames[name] = self._renderer.render([*ground, *seen], camera, depth=depth, ids=ids, sky=SKY, lighting=LIGHT)
        return frames

    def _body(self, body: Body) -> int:
        size = tuple(round(v, 1) for v in (body.length, body.width, body.height))
        key = (body.kind, *size, body.id % len(CAR_COLOURS), body.braking)
        if key not in self._bodies:
            self._bodies[key] = self._renderer.upload(body_mesh(body.kind, *size, key[4], body.braking))
        return self._bodies[key]

    def close(self) -> None:
        """Release the renderer; a second call does nothing."""
        self._renderer.close()


def _upright_pose(x: float, y: float, heading: float) -> Points:
    c, s = math.cos(heading), math.sin(heading)
    return np.array([[c, -s, 0, x], [s, c, 0, y], [0, 0, 1.0, 0], [0, 0, 0, 1.0]])


def _in_sight(camera: Camera, middle: Points, reach: float = CELL_M * 0.75) -> bool:
    """Whether something within ``reach`` of a point on the ground may be in the picture."""
    dx, dy = (float(v) for v in middle - camera.pose[:2, 3])
    forward = -camera.pose[:2, 2]
    right = camera.pose[:2, 0]
    ahead = dx * float(forward[0]) + dy * float(forward[1])
    aside = abs(dx * float(right[0]) + dy * float(right[1]))
    half = math.radians(camera.hfov_deg) / 2
    return ahead < SIGHT_M + reach and aside * math.cos(half) - ahead * math.sin(half) < reach


def scene_meshes(strips: Sequence[Strip], markings: Sequence[Marking], seed: int) -> list[tuple[Mesh, Points]]:
    """The still scene as one mesh for each square of `CELL_M`, with the square's middle (2,)."""
    if not strips:
        raise DataError("scenery: a scene needs at least one strip of road")
    builders: dict[tuple[int, int], MeshBuilder] = {}
    for strip in strips:
        left, right = _edges(strip.middle, np.asarray(strip.widths) / 2 + 0.35)
        _ribbon(builders, left, right, 0.0, "asphalt")
    for marking in markings:
        for piece in _dashes(marking.points) if marking.dashed else [marking.points]:
            _ribbon(builders, *_edges(piece, np.asarray(marking.width / 2)), MARKING_Z, marking.colour)
    for cell in sorted(_around(builders)):
        _grass(builders, cell)
    _plant(builders, strips, np.random.default_rng([seed, 0x7365]))
    return [(b.build(), (np.array(cell) + 0.5) * CELL_M) for cell, b in sorted(builders.items())]


def _builder(builders: dict[tuple[int, int], MeshBuilder], x: float, y: float) -> MeshBuilder:
    cell = (math.floor(x / CELL_M), math.floor(y / CELL_M))
    if cell not in builders:
        builders[cell] = MeshBuilder()
        builders[cell].transform = UPRIGHT
    return builders[cell]


def _around(builders: dict[tuple[int, int], MeshBuilder]) -> set[tuple[int, int]]:
    return {(i + a, j + b) for i, j in builders for a in (-1, 0, 1) for b in (-1, 0, 1)}


def _grass(builders: dict[tuple[int, int], MeshBuilder], cell: tuple[int, int]) -> None:
    x, y = cell[0] * CELL_M, cell[1] * CELL_M
    builder = _builder(builders, x + 1.0, y + 1.0)
    builder.quad((x, GRASS_Z, -y), (CELL_M, 0, 0), (0, 0, -CELL_M), tile("grass"), 0, repeat=CELL_M / 4)


def _edges(middle: Points, half: Points) -> tuple[Points, Points]:
    ahead = np.gradient(np.asarray(middle, np.float64), axis=0)
    ahead /= np.maximum(np.hypot(*ahead.T)[:, None], 1e-9)
    aside = np.stack([-ahead[:, 1], ahead[:, 0]], 1) * np.broadcast_to(half, (len(middle),))[:, None]
    return middle + aside, middle - aside


def _ribbon(
    builders: dict[tuple[int, int], MeshBuilder], left: Points, right: Points, z: float, name: str
) -> None:
    """A flat band between two edges, each piece in the square where it lies."""
    u0, v0, u1, v1 = tile(name)
    uv = np.array([[(u0, v1), (u1, v1), (u1, v0)], [(u0, v1), (u1, v0), (u0, v0)]])
    middles = (left[:-1] + right[1:]) / 2
    for k, (x, y) in enumerate(middles.tolist()):
        flat = [np.array((p[0], z, -p[1])) for p in (left[k], right[k], right[k + 1], left[k + 1])]
        corners = np.array([[flat[0], flat[1], flat[2]], [flat[0], flat[2], flat[3]]])
        up = np.broadcast_to([0.0, 1.0, 0.0], (2, 3, 3))
        _builder(builders, x, y).triangles(corners, uv, up, 0)


def _dashes(points: Points) -> list[Points]:
    """The line cut into dashes of `DASH_M` with gaps of `GAP_M`."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    starts = np.arange(GAP_M / 2, along[-1] - DASH_M / 2, DASH_M + GAP_M)
    pieces = [np.linspace(s, min(s + DASH_M, along[-1]), 3) for s in starts]
    return [np.stack([np.interp(piece, along, points[:, i]) for i in (0, 1)], 1) for piece in pieces]


def _plant(
    builders: dict[tuple[int, int], MeshBuilder], strips: Sequence[Strip], draw: np.random.Generator
) -> None:
    """Trees and houses beside the road, none nearer to any lane than its own size and a verge."""
    road = np.concatenate([s.middle for s in strips])
    verge = max(float(np.max(s.widths)) for s in strips) / 2 + 2.5
    for cell in sorted(builders):
        corner = np.array(cell) * CELL_M
        near = road[(np.abs(road - corner - CELL_M / 2) < CELL_M).all(1)]
        spots = corner + draw.random((26, 2)) * CELL_M
        sizes = draw.random((26, 4))
        taken: list[tuple[Points, float]] = []
        for k, (spot, size) in enumerate(zip(spots, sizes.tolist(), strict=True)):
            house = k < 6
            radius = 0.5 * math.hypot(8 + 10 * size[0], 8 + 6 * size[1]) if house else 1.2 + size[0]
            clear = np.hypot(*(near - spot).T).min() if len(near) else math.inf
            if clear < radius + verge + (4.0 if house else 0.0):
                continue
            if any(np.hypot(*(spot - other)) < radius + reach + 1.0 for other, reach in taken):
                continue
            taken.append((spot, radius))
            builder = builders[cell]
            if house:
                body = (8 + 10 * size[0], 8 + 6 * size[1], 4.0 + 12 * size[2] ** 2)
                add_house(builder, *spot.tolist(), round(4 * size[3]) * math.pi / 8, body, int(size[3] * 97) % len(WALLS))
            else:
                add_tree(builder, *spot.tolist(), 4.0 + 5.0 * size[1], size[2] < 0.4)
