"""A map of a home from above with the episode on it: rooms, furniture, view points, the way, the agent."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from navigation.homes.description import Home
from navigation.homes.furniture import GOAL_CATEGORIES
from navigation.homes.geodesic import obstacle
from navigation.worlds.navigation_world import ahead

_SIZE, _MARGIN, _FINE = 480, 14, 4  # pixels of the longer side, of the border, and binary places of a coordinate
_FLOOR, _WALL, _TEXT = (242, 240, 235), (62, 66, 74), (120, 120, 124)
_WAY, _AGENT, _GOAL, _VIEW = (36, 112, 214), (214, 60, 44), (232, 150, 20), (250, 214, 130)


class HomeMap:
    """The picture of a home without an episode, made once, and episodes drawn on copies of it."""

    def __init__(self, home: Home, size: int = _SIZE) -> None:
        """Draw rooms, doors and things; ``size`` is the longer side in pixels."""
        self.home = home
        x1, z1 = max(r.x1 for r in home.rooms), max(r.z1 for r in home.rooms)
        self._scale = (size - 2 * _MARGIN) / max(x1, z1)
        shape = [round(v * self._scale) + 2 * _MARGIN for v in (z1, x1)]
        self._base = np.full((*shape, 3), _WALL, np.uint8)
        for r in home.rooms:
            self._polygon(self._base, [(r.x0, r.z0), (r.x1, r.z0), (r.x1, r.z1), (r.x0, r.z1)], _FLOOR)
        for d in home.doors:
            w, t = (d.width / 2, home.wall / 2 + 0.02) if d.along == "x" else (home.wall / 2 + 0.02, d.width / 2)
            self._polygon(
                self._base, [(d.x - w, d.z - t), (d.x + w, d.z - t), (d.x + w, d.z + t), (d.x - w, d.z + t)], _FLOOR
            )
        for thing in sorted(home.things, key=lambda t: t.position[1]):
            self._thing(self._base, thing.id, category_colour(thing.category), None)
        for r in home.rooms:
            place = tuple(int(v) for v in self.place((r.x0 + 0.12, r.z0 + 0.32)))
            name, high = r.name.replace("_", " "), 0.32 * size / _SIZE
            cv2.putText(self._base, name, place, cv2.FONT_HERSHEY_SIMPLEX, high, _TEXT, 1, cv2.LINE_AA)

    def place(self, point: Sequence[float]) -> tuple[float, float]:
        """The column and row of a point (x, z)."""
        column, row = (_MARGIN + float(v) * self._scale for v in point)
        return column, row

    def walls(self) -> NDArray[np.bool_]:
        """Where the picture (H, W) shows walls, or what lies outside."""
        found: NDArray[np.bool_] = (self._base == np.array(_WALL, np.uint8)).all(-1)
        return found

    def _pixel(self, point: Sequence[float]) -> tuple[int, int]:
        """A point's column and row, in fractions of a pixel for OpenCV's ``shift``."""
        column, row = self.place(point)
        return round(column * 2**_FINE), round(row * 2**_FINE)

    def _polygon(self, image: Image, points: Sequence[Sequence[float]], colour: tuple[int, int, int]) -> None:
        corners = np.array([self._pixel(p) for p in points], np.int32)
        cv2.fillPoly(image, [corners], colour, cv2.LINE_AA, _FINE)

    def _thing(
        self, image: Image, thing_id: int, colour: tuple[int, int, int], edge: tuple[int, int, int] | None
    ) -> None:
        thing = self.home.thing(thing_id)
        shape = obstacle(thing)
        polygons = list(getattr(shape, "geoms", [shape])) if shape is not None and edge is None else []
        outlines = [list(p.exterior.coords) for p in polygons] or [list(thing.corners())]
        for points in outlines:
            if edge is None:
                self._polygon(image, points, colour)
            corners = np.array([self._pixel(p) for p in points], np.int32)
            darker = edge or (colour[0] * 2 // 3, colour[1] * 2 // 3, colour[2] * 2 // 3)
            cv2.polylines(image, [corners], True, darker, 1 if edge is None else 2, cv2.LINE_AA, _FINE)

    def draw(
        self,
        way: Sequence[tuple[float, float]],
        heading: float,
        goals: Sequence[int],
        views: NDArray[np.float64],
        shortest: NDArray[np.float64],
    ) -> Image:
        """The map with goal things and their view points, the shortest way (K, 2), the way taken and the agent."""
        image = self.plan(goals, views)
        for points, colour, thick in ((shortest, (150, 200, 150), 1), (way, _WAY, 2)):
            line = np.array([self._pixel(p) for p in points], np.int32)
            cv2.polylines(image, [line], False, colour, thick, cv2.LINE_AA, _FINE)
        here, (dx, dz) = way[-1], ahead(heading)
        tip = [(here[0] + 0.34 * dx, here[1] + 0.34 * dz)]
        tip += [(here[0] - 0.2 * dx + s * 0.2 * dz, here[1] - 0.2 * dz - s * 0.2 * dx) for s in (1, -1)]
        self._polygon(image, tip, _AGENT)
        cv2.circle(image, self._pixel(way[0]), 3 << _FINE, _WAY, -1, cv2.LINE_AA, _FINE)
        return image

    def plan(self, goals: Sequence[int], views: NDArray[np.float64]) -> Image:
        """The map with goal things and their view points, and no episode."""
        image = self._base.copy()
        for view in views:
            cv2.circle(image, self._pixel(view), 1 << _FINE, _VIEW, -1, cv2.LINE_AA, _FINE)
        for thing_id in goals:
            self._thing(image, thing_id, _GOAL, _GOAL)
        return image


def category_colour(category: str) -> tuple[int, int, int]:
    """A colour of its own for every category that is looked for, grey for the others."""
    if category not in GOAL_CATEGORIES:
        return 200, 200, 202
    hue = GOAL_CATEGORIES.index(category) * 0.381966 % 1.0
    r, g, b = colorsys.hsv_to_rgb(hue, 0.38, 0.86)
    return round(r * 255), round(g * 255), round(b * 255)
