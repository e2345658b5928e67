"""A map from above of any scene of habitat-sim, drawn from its navigation mesh."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image
from navigation.worlds.navigation_world import ahead

SIZE, MARGIN, FINE = 480, 14, 4  # pixels of the longer side, of the border, and binary places of a coordinate
FREE, SOLID = (242, 240, 235), (62, 66, 74)
WAY, SHORTEST, AGENT, GOAL, VIEW = (36, 112, 214), (150, 200, 150), (214, 60, 44), (232, 150, 20), (250, 214, 130)
Points = NDArray[np.float64]


def draw_scene(
    free: NDArray[np.uint8],
    corner: Sequence[float],
    cell_m: float,
    way: Sequence[tuple[float, float]],
    heading: float,
    goals: Points,
    views: Points,
    shortest: Points,
) -> Image:
    """The picture, its longer side `SIZE`.

    Args:
        free: walkable cells (H, W), 1 or 0, rows along z, columns along x.
        corner: x and z of the first cell's corner.
        cell_m: metres of a cell's side.
        way: the places (x, z) passed, the present one last.
        heading: radians to the left of -z.
        goals: middles (G, 2) of the objects looked for.
        views: view points (N, 2).
        shortest: the shortest way (K, 2) from the start; may be empty.
    """
    scale = (SIZE - 2 * MARGIN) / max(free.shape)
    size = [max(round(n * scale), 1) for n in free.shape]
    mask = cv2.resize(free, (size[1], size[0]), interpolation=cv2.INTER_NEAREST)
    image = np.full((size[0] + 2 * MARGIN, size[1] + 2 * MARGIN, 3), SOLID, np.uint8)
    image[MARGIN : MARGIN + size[0], MARGIN : MARGIN + size[1]][mask > 0] = FREE

    def pixel(point: Sequence[float] | Points) -> tuple[int, int]:
        column, row = (MARGIN + (float(v) - c) / cell_m * scale for v, c in zip(point, corner, strict=True))
        return round(column * 2**FINE), round(row * 2**FINE)

    for view in views:
        cv2.circle(image, pixel(view), 1 << FINE, VIEW, -1, cv2.LINE_AA, FINE)
    for goal in goals:
        cv2.circle(image, pixel(goal), 5 << FINE, GOAL, -1, cv2.LINE_AA, FINE)
    for points, colour, thick in ((shortest, SHORTEST, 1), (np.asarray(way), WAY, 2)):
        if len(points):
            cv2.polylines(
                image, [np.array([pixel(p) for p in points], np.int32)], False, colour, thick, cv2.LINE_AA, FINE
            )
    here, (dx, dz) = way[-1], ahead(heading)
    reach = 10 * cell_m / scale  # ten pixels
    tip = [(here[0] + reach * dx, here[1] + reach * dz)]
    tip += [(here[0] + 0.6 * reach * (s * dz - dx), here[1] - 0.6 * reach * (dz + s * dx)) for s in (1, -1)]
    cv2.fillPoly(image, [np.array([pixel(p) for p in tip], np.int32)], AGENT, cv2.LINE_AA, FINE)
    cv2.circle(image, pixel(way[0]), 3 << FINE, WAY, -1, cv2.LINE_AA, FINE)
    return image
