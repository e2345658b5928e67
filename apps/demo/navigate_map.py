"""The map of the Navigate tab: it grows with what the robot has seen, and shows how it decided along its way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont

from backbone.contracts import Image
from navigation.records import Pose
from navigation.worlds.navigation_world import ahead
from navigation.worlds.rooms_map import HomeMap
from navigation.worlds.rooms_scene import Scene, needs

Phase = Literal["fast", "slow", "looking"]
Colour = tuple[int, int, int]
# Told apart by colour-blind eyes as well (Okabe and Ito); orange is the target's.
COLOURS: dict[Phase, Colour] = {"fast": (0, 114, 178), "slow": (192, 57, 146), "looking": (15, 118, 110)}
START, TARGET, ROBOT, SHORTEST = (30, 34, 42), (232, 150, 20), (214, 40, 40), (96, 165, 110)
DARK = 0.5  # of its brightness is left of what was not seen yet
LONGER_PX = 640  # of the picture's longer side
RAYS_A_DEGREE = 3
MOST_NUMBERS = 30  # of the newest landmarks; older ones are dots
FINE = 2  # the way is drawn larger and scaled down, which smooths it


@dataclass(frozen=True)
class Mark:
    """Where the robot was after a step (x, z in metres), and how that step was decided."""

    x: float
    z: float
    phase: Phase


class GrowingMap:
    """The map of one episode. What was seen stays lit; walls end the view, furniture does not."""

    def __init__(self, scene: Scene, category: str, start: Pose, hfov_deg: float) -> None:
        """Nothing is seen yet; `WorldError` if the home has no such object."""
        goals = needs(scene.goals(category), scene.home, category)
        self._map = HomeMap(scene.home, LONGER_PX)
        self._plan = self._map.plan(goals.things, goals.views)
        self._walls = self._map.walls()
        self._middles = [(scene.home.thing(i).position[0], scene.home.thing(i).position[2]) for i in goals.things]
        self._outlines = (np.abs(self._plan.astype(np.int16) - self._map.plan((), goals.views)) > 0).any(-1)
        self._shortest = scene.floor.path_in(goals.way, np.array(start[:2]))
        self._start, self._hfov = start, math.radians(hfov_deg)
        self.seen = np.zeros(self._walls.shape, bool)

    def see(self, pose: Pose, *, around: bool = False) -> None:
        """Light up what the camera ahead sees from ``pose``, or with ``around`` what is to be seen from there."""
        x, z, heading = pose
        width = 2 * math.pi if around else self._hfov
        angles = heading + np.linspace(-width / 2, width / 2, round(math.degrees(width) * RAYS_A_DEGREE))
        steps = np.arange(0.0, math.hypot(*self._walls.shape), 0.8)
        column, row = self._map.place((x, z))
        columns = np.round(column - np.sin(angles)[:, None] * steps).astype(int)  # (R, S)
        rows = np.round(row - np.cos(angles)[:, None] * steps).astype(int)
        height, wide = self._walls.shape
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < wide)
        rows, columns = rows.clip(0, height - 1), columns.clip(0, wide - 1)
        free = np.logical_and.accumulate(inside & ~self._walls[rows, columns], axis=1)
        reach = free.copy()
        for _ in range(4):  # the face of the wall itself
            reach[:, 1:] |= reach[:, :-1]
        reach &= inside
        self.seen[rows[reach], columns[reach]] = True

    def draw(self, way: Sequence[Mark], landmarks: Sequence[tuple[float, float]], pose: Pose) -> Image:
        """The map (H, W, 3) with the way so far, the numbered places where it looked around, and the robot."""
        lit = _closed(self.seen) | self._outlines
        plan = np.where(lit[..., None], self._plan, (self._plan * DARK + 18).astype(np.uint8))
        height, width = lit.shape
        size = width * FINE, height * FINE
        canvas = Pictures.fromarray(cv2.resize(plan, size, interpolation=cv2.INTER_LINEAR))
        pen = _Pen(self._map, ImageDraw.Draw(canvas))
        for middle in self._middles:
            pen.dot(middle, 5.0, TARGET, "white")
        pen.line([(float(x), float(z)) for x, z in self._shortest], SHORTEST, 1.4)
        self._way(pen, way)
        pen.dot(self._start[:2], 7.0, START, "white")
        _landmarks(pen, landmarks, [pen.at(self._start[:2]), pen.at(pose[:2])], size)
        _robot(pen, pose)
        return cv2.resize(np.asarray(canvas), (width, height), interpolation=cv2.INTER_AREA).astype(np.uint8)

    def _way(self, pen: _Pen, way: Sequence[Mark]) -> None:
        """Every step in the colour of its phase; thought steps are rare and short, so they are drawn last."""
        here = self._start[:2]
        steps = []
        for mark in way:
            steps.append((here, (mark.x, mark.z), mark.phase))
            here = (mark.x, mark.z)
        for before, after, phase in sorted(steps, key=lambda step: step[2] == "slow"):
            if before != after:
                pen.line([before, after], COLOURS[phase], 6.0 if phase == "slow" else 4.0)
                pen.dot(after, 3.4 if phase == "slow" else 2.0, COLOURS[phase])


@dataclass(frozen=True)
class _Pen:
    """Draws in metres on a picture `FINE` times larger."""

    home: HomeMap
    draw: ImageDraw.ImageDraw

    def at(self, point: Sequence[float]) -> tuple[float, float]:
        column, row = self.home.place(point)
        return (column + 0.5) * FINE, (row + 0.5) * FINE

    def line(self, points: Sequence[Sequence[float]], colour: Colour, thick: float) -> None:
        self.draw.line([self.at(p) for p in points], fill=colour, width=round(thick * FINE), joint="curve")

    def dot(self, point: Sequence[float], radius: float, colour: Colour, edge: str | None = None) -> None:
        x, y = self.at(point)
        r = radius * FINE
        self.draw.ellipse((x - r, y - r, x + r, y + r), fill=colour, outline=edge, width=FINE * 2 if edge else 0)


def _landmarks(
    pen: _Pen, places: Sequence[tuple[float, float]], taken: list[tuple[float, float]], size: tuple[int, int]
) -> None:
    """Numbered discs; where a spot is ``taken`` they are moved aside, each with a line to its own place."""
    font = ImageFont.load_default(size=14 * FINE)
    for number, place in enumerate(places, 1):
        if number <= len(places) - MOST_NUMBERS:
            pen.dot(place, 3.0, COLOURS["looking"])
            continue
        x, y = pen.at(place)
        disc = _free_spot((x, y), taken, size)
        taken.append(disc)
        if disc != (x, y):
            pen.draw.line([(x, y), disc], fill=COLOURS["looking"], width=FINE)
            pen.dot(place, 3.0, COLOURS["looking"])
        r = 10.5 * FINE
        box = (disc[0] - r, disc[1] - r, disc[0] + r, disc[1] + r)
        pen.draw.ellipse(box, fill=COLOURS["looking"], outline="white", width=round(1.5 * FINE))
        pen.draw.text(disc, str(number), fill="white", font=font, anchor="mm")


def _free_spot(
    wanted: tuple[float, float], taken: Sequence[tuple[float, float]], size: tuple[int, int]
) -> tuple[float, float]:
    """The nearest spot around ``wanted`` where a disc covers no other one and stays inside; else ``wanted`` itself."""
    gap, edge = 20.0 * FINE, 12.0 * FINE
    for radius in (0.0, 1.1, 2.2, 3.3):
        for turn in range(12 if radius else 1):
            x = wanted[0] + radius * gap * math.cos(turn * math.pi / 6)
            y = wanted[1] + radius * gap * math.sin(turn * math.pi / 6)
            inside = edge <= x <= size[0] - edge and edge <= y <= size[1] - edge
            if inside and all(math.dist((x, y), other) >= gap for other in taken):
                return x, y
    return wanted


def _robot(pen: _Pen, pose: Pose) -> None:
    """An arrowhead that points where the robot looks, in a white rim."""
    x, z, (dx, dz) = pose[0], pose[1], ahead(pose[2])
    for size, colour in ((1.35, (255, 255, 255)), (1.0, ROBOT)):
        tip = [(x + size * 0.32 * dx, z + size * 0.32 * dz)]
        tip += [(x - size * 0.2 * (dx - s * dz), z - size * 0.2 * (dz + s * dx)) for s in (1, -1)]
        pen.draw.polygon([pen.at(p) for p in tip], fill=colour)


def _closed(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without the pinholes that rays leave between them far away."""
    kernel = np.ones((5, 5), np.uint8)
    return cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, kernel).astype(bool)
