"""A road scene to look at: asphalt, markings, houses and trees from lines alone, and three cameras on a car.

Any simulator that knows its lanes and vehicles can be seen through it: `Strip`s and `Marking`s in, `Body`s each frame.
World frame: metres, x east, y north, z up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.rendering.lighting import Lighting, Sky
from backbone.rendering.mesh import Camera, Frame
from backbone.rendering.renderer import Renderer
from driving.worlds.body import Body
from driving.worlds.scenery_atlas import CAR_COLOURS, atlas
from driving.worlds.scenery_meshes import CELL_M, Marking, Strip, scene_meshes
from driving.worlds.shapes import body_mesh

__all__ = ["Marking", "Points", "Rig", "RoadScene", "Strip", "look_pose"]
Points = NDArray[np.float64]
SIGHT_M = 220.0
REACH_M = 0.75 * CELL_M  # from a square's middle to what stands on it
BODY_REACH_M = 6.0
LIGHT = Lighting(to_sun=(0.35, 0.5, 0.8), up=(0.0, 0.0, 1.0))
SKY = Sky(zenith=(92.0, 148.0, 216.0), horizon=(208.0, 222.0, 234.0), ground=(116.0, 150.0, 92.0))


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
    """World from camera (4, 4), OpenGL's axes, for a camera that looks along ``yaw`` and up by ``pitch`` (rad)."""
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
        self._cells: list[int] = []  # handles of the ground's squares
        self._middles = np.zeros((0, 2))
        self._bodies: dict[tuple[Any, ...], int] = {}

    def build(self, strips: Sequence[Strip], markings: Sequence[Marking], seed: int) -> None:
        """Make the scene of an episode; ``seed`` places and colours houses and trees beside the road."""
        for handle in self._cells:
            self._renderer.discard(handle)
        meshes = scene_meshes(strips, markings, seed)
        self._cells = [self._renderer.upload(mesh) for mesh, _ in meshes]
        self._middles = np.array([middle for _, middle in meshes])

    def render(
        self, x: float, y: float, heading: float, bodies: Sequence[Body], *, depth: bool = False, ids: bool = False
    ) -> Mapping[str, Frame]:
        """What the rig's cameras on a car at (x, y) see, by their names."""
        near = [b for b in bodies if math.hypot(b.x - x, b.y - y) < SIGHT_M]
        placed = [(self._body(b), _upright_pose(b.x, b.y, b.heading), b.id) for b in near]
        places = np.array([(b.x, b.y) for b in near]).reshape(-1, 2)
        still, frames = np.eye(4), {}
        for name, camera in self._rig.cameras(x, y, heading).items():
            ground = [(self._cells[k], still) for k in np.flatnonzero(_in_sight(camera, self._middles, REACH_M))]
            seen = [placed[k] for k in np.flatnonzero(_in_sight(camera, places, BODY_REACH_M))]
            frames[name] = self._renderer.render(
                [*ground, *seen], camera, depth=depth, ids=ids, sky=SKY, lighting=LIGHT
            )
        return frames

    def _body(self, body: Body) -> int:
        length, width, height = (round(v, 1) for v in (body.length, body.width, body.height))
        colour = body.id % len(CAR_COLOURS)
        key = (body.kind, length, width, height, colour, body.braking)
        if key not in self._bodies:
            mesh = body_mesh(body.kind, length, width, height, colour, body.braking)
            self._bodies[key] = self._renderer.upload(mesh)
        return self._bodies[key]

    def close(self) -> None:
        """Release the renderer; a second call does nothing."""
        self._renderer.close()


def _upright_pose(x: float, y: float, heading: float) -> Points:
    c, s = math.cos(heading), math.sin(heading)
    return np.array([[c, -s, 0, x], [s, c, 0, y], [0, 0, 1.0, 0], [0, 0, 0, 1.0]])


def _in_sight(camera: Camera, middles: Points, reach: float) -> NDArray[np.bool_]:
    """Which things within ``reach`` of the points (N, 2) on the ground may be in the picture."""
    apart = middles - camera.pose[:2, 3]
    ahead = apart @ -camera.pose[:2, 2].astype(np.float64)
    aside = np.abs(apart @ camera.pose[:2, 0].astype(np.float64))
    half = math.radians(camera.hfov_deg) / 2
    seen: NDArray[np.bool_] = (ahead < SIGHT_M + reach) & (aside * math.cos(half) - ahead * math.sin(half) < reach)
    return seen
