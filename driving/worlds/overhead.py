"""A driving episode from above: roads, route, what was driven, and everybody on the road."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from driving.worlds.body import Body
from driving.worlds.scenery_meshes import Marking, Points, Strip

SIDE = 480  # pixels
SPAN_M = 120.0  # metres from edge to edge
FINE = 4  # fractional bits of cv2's coordinates, so that lines do not jump from frame to frame
GRASS, ASPHALT, ROUTE, DRIVEN, EGO = (112, 146, 92), (84, 85, 89), (120, 170, 255), (255, 190, 60), (214, 40, 50)
COLOURS = {"white": (238, 238, 234), "yellow": (232, 186, 52)}
BODIES = {"car": (46, 92, 170), "truck": (120, 84, 150), "cyclist": (250, 140, 40), "pedestrian": (250, 140, 40)}


def draw_overhead(
    ego: Body,
    bodies: Sequence[Body],
    strips: Sequence[Strip],
    markings: Sequence[Marking],
    route: Points | None = None,
    driven: Sequence[tuple[float, float]] = (),
) -> Image:
    """The surroundings of ``ego``, its heading upwards: uint8 (480, 480, 3)."""
    picture = np.full((SIDE, SIDE, 3), GRASS, np.uint8)
    scale = SIDE / SPAN_M
    for strip in strips:
        width = float(np.mean(strip.widths)) + 0.7
        _line(picture, _pixels(strip.middle, ego), ASPHALT, max(1, round(width * scale)))
    for marking in markings:
        _line(picture, _pixels(marking.points, ego), COLOURS[marking.colour], 1, dashed=marking.dashed)
    if route is not None and len(route) > 1:
        _line(picture, _pixels(route, ego), ROUTE, 3)
    if len(driven) > 1:
        _line(picture, _pixels(np.asarray(driven), ego), DRIVEN, 2)
    for body in [*bodies, ego]:
        colour = EGO if body is ego else BODIES.get(body.kind, (160, 160, 160))
        corners = _fixed(_pixels(_corners(body), ego))
        cv2.fillPoly(picture, [corners], colour, cv2.LINE_AA, FINE)
    return picture


def _corners(body: Body) -> Points:
    c, s = math.cos(body.heading), math.sin(body.heading)
    half = np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)]) * (body.length / 2, body.width / 2)
    turned: Points = half @ np.array([[c, s], [-s, c]])
    turned += (body.x, body.y)
    return turned


def _pixels(points: Points, ego: Body) -> Points:
    """World points (N, 2) in the picture; the car stands in the middle of its lower third and looks up."""
    c, s = math.cos(ego.heading), math.sin(ego.heading)
    ahead, left = ((np.asarray(points, np.float64) - (ego.x, ego.y)) @ np.array([[c, -s], [s, c]])).T
    scale = SIDE / SPAN_M
    return np.stack([SIDE / 2 - left * scale, SIDE * 2 / 3 - ahead * scale], 1)


def _fixed(pixels: Points) -> NDArray[np.int32]:
    return np.round(np.clip(pixels, -1e5, 1e5) * (1 << FINE)).astype(np.int32)


def _line(picture: Image, pixels: Points, colour: tuple[int, int, int], width: int, dashed: bool = False) -> None:
    inside = ((pixels > -SIDE) & (pixels < 2 * SIDE)).all(1)
    if not inside.any():
        return
    fixed = _fixed(pixels)
    pieces = [fixed] if not dashed else [fixed[k : k + 2] for k in range(0, len(fixed) - 1, 2)]
    cv2.polylines(picture, pieces, False, colour, width, cv2.LINE_AA, FINE)
