"""What the agent's camera sees in `rooms`: pictures, depth, and the things in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.rendering.lighting import MAX_LAMPS, Lamp, Lighting
from backbone.rendering.mesh import Camera, Frame
from backbone.rendering.renderer import Renderer
from navigation.homes.description import FIRST_ID, Home
from navigation.homes.openings import rooms_in_sight
from navigation.worlds.rooms_scene import Scene

_NEAR, _FAR = 0.03, 60.0
_LEAST = 0.0005  # of the picture; what is smaller is not listed as visible
_IDENTITY = np.eye(4)


def camera_pose(x: float, y: float, z: float, heading: float, tilt: float) -> NDArray[np.float32]:
    """World from camera (4, 4); ``tilt`` radians upwards."""
    ch, sh, ct, st = math.cos(heading), math.sin(heading), math.cos(tilt), math.sin(tilt)
    turn = np.array([[ch, 0, sh], [0, 1, 0], [-sh, 0, ch]]) @ np.array([[1, 0, 0], [0, ct, -st], [0, st, ct]])
    pose = np.eye(4, dtype=np.float32)
    pose[:3, :3], pose[:3, 3] = turn, (x, y, z)
    return pose


def lighting_of(home: Home) -> Lighting:
    """Daylight from the home's sun, and a lamp under the ceiling of every room."""
    day = home.daylight
    lamps = [
        Lamp(
            ((r.x0 + r.x1) / 2, home.height - 0.25, (r.z0 + r.z1) / 2),
            (0.4 * r.lamp[0], 0.4 * r.lamp[1], 0.4 * r.lamp[2]),
            1.0 + 0.75 * max(r.x1 - r.x0, r.z1 - r.z0),
        )
        for r in home.rooms[:MAX_LAMPS]
    ]
    level = 0.5 + 0.22 * day
    return Lighting(
        to_sun=home.sun,
        sun=(0.26 * day, 0.25 * day, 0.22 * day),
        above=(level, level, level * 1.02),
        below=(level * 0.92, level * 0.9, level * 0.88),
        lamps=tuple(lamps),
    )


class View:
    """One camera. It holds a renderer, and in it the scene that was drawn last."""

    def __init__(self, width: int, height: int, hfov_deg: float, eye: float) -> None:
        """``eye`` metres over the floor; nothing is opened before the first picture."""
        self.width, self.height, self._hfov, self._eye = width, height, hfov_deg, eye
        self._renderer: Renderer | None = None
        self._scene: Scene | None = None
        self._handles: dict[str, int] = {}
        self._lighting = Lighting()

    def show(self, scene: Scene) -> None:
        """Draw this scene from now on."""
        if self._renderer is None:
            self._renderer = Renderer(self.width, self.height, scene.atlas)
        elif scene is not self._scene:
            for handle in self._handles.values():
                self._renderer.discard(handle)
            self._renderer.repaint(scene.atlas)
        if scene is not self._scene:
            self._handles = {name: self._renderer.upload(mesh) for name, mesh in scene.pieces}
            self._scene, self._lighting = scene, lighting_of(scene.home)

    def render(
        self, place: NDArray[np.float64], heading: float, tilt: float = 0.0, *, depth: bool = False, ids: bool = False
    ) -> Frame:
        """The picture from a place (x, z); call `show` first."""
        scene, renderer = self._scene, self._renderer
        if scene is None or renderer is None:
            raise RuntimeError("View.show comes before View.render")
        x, z = float(place[0]), float(place[1])
        # looking up or down, the corners of the picture show more to the sides than its middle does
        half_view = math.radians(self._hfov / 2) + 0.01 if tilt == 0.0 else math.pi
        rooms = rooms_in_sight(scene.home, x, z, heading, half_view)  # near ones first: hidden pixels cost less
        camera = Camera(camera_pose(x, self._eye, z, heading, tilt), self._hfov, _NEAR, _FAR)
        drawn = [(self._handles[name], _IDENTITY) for name in rooms]
        return renderer.render(drawn, camera, depth=depth, ids=ids, lighting=self._lighting)

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
        self._renderer, self._scene, self._handles = None, None, {}


def visible_things(home: Home, ids: NDArray[np.int32]) -> list[dict[str, Any]]:
    """The doors, windows and things in a picture of ids: id, category, share of the pixels, box (x0, y0, x1, y1)."""
    labels, out = home.labels(), []
    found, counts = np.unique(ids, return_counts=True)
    for object_id, count in zip(found.tolist(), counts.tolist(), strict=True):
        if object_id < FIRST_ID or count < _LEAST * ids.size:
            continue
        rows, columns = np.nonzero(ids == object_id)
        corners = [int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1]
        share = round(count / ids.size, 5)
        out.append({"id": object_id, "category": labels[object_id], "share": share, "box": corners})
    return sorted(out, key=lambda entry: -float(entry["share"]))
