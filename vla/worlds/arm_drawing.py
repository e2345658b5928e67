"""An arm's episode in one picture: what the camera sees, the hand's way from above, and from the side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import ImageDraw

from backbone.contracts import Image

_SIZE, _MARGIN = 256, 28
_PAPER, _INK, _FRAME = (250, 250, 248), (40, 44, 52), (190, 190, 186)
_COLOURS = {"hand": (36, 99, 235), "goal": (22, 150, 80), "object": (214, 96, 20)}
Points = NDArray[np.float64]  # (N, 3) metres, z up


class _Panel:
    """One view along an axis; both views of a drawing share their scale."""

    def __init__(self, title: str, axes: tuple[int, int], centre: Points, span: float) -> None:
        self._image = Pil.new("RGB", (_SIZE, _SIZE), _PAPER)
        self._pen, self._axes, self._centre = ImageDraw.Draw(self._image), axes, centre
        self._scale = (_SIZE - 2 * _MARGIN) / span  # pixels a metre
        self._pen.rectangle((1, 1, _SIZE - 2, _SIZE - 2), outline=_FRAME)
        self._pen.text((8, 6), title, fill=_INK)
        self._pen.line((10, _SIZE - 12, 10 + 0.1 * self._scale, _SIZE - 12), fill=_INK, width=2)
        self._pen.text((10, _SIZE - 26), "10 cm", fill=_INK)

    def _place(self, point: Points) -> tuple[float, float]:
        right, up = ((point - self._centre)[axis] * self._scale for axis in self._axes)
        return _SIZE / 2 + float(right), _SIZE / 2 - float(up)

    def path(self, points: Points) -> None:
        """The way from pale to full colour."""
        for k in range(1, len(points)):
            part = 0.25 + 0.75 * k / len(points)
            colour = tuple(round(255 - part * (255 - c)) for c in _COLOURS["hand"])
            self._pen.line((*self._place(points[k - 1]), *self._place(points[k])), fill=colour, width=2)

    def mark(self, name: str, kind: str, point: Points) -> None:
        """A filled dot; a goal is a ring."""
        x, y = self._place(point)
        box, colour = (x - 5, y - 5, x + 5, y + 5), _COLOURS[kind]
        self._pen.ellipse(box, outline=colour, width=2, fill=None if kind == "goal" else colour)
        width = self._pen.textlength(name)
        left = x + 8 if x + 8 + width < _SIZE else x - 8 - width
        self._pen.text((left, y + 4 if kind == "object" else y - 12), name, fill=colour)  # hand and object often meet

    def pixels(self) -> Image:
        """The finished panel."""
        return np.asarray(self._image, np.uint8)


def draw_arm(view: Image, path: Points, marks: Mapping[str, tuple[str, Points]]) -> Image:
    """The camera's ``view`` with the hand's ``path`` (N, 3) and ``marks`` (name to kind ``object`` or ``goal``, point).

    Returns uint8 (256, 768, 3): camera, top view (x right, y up), side view (y right, z up), both in one scale.
    """
    points = np.concatenate([path, *(point[None] for _, point in marks.values())])
    low, high = points.min(0), points.max(0)
    span = max(0.3, float((high - low).max()))
    views = {"from above": (0, 1), "from the side": (1, 2)}
    panels = [_Panel(title, axes, (low + high) / 2, span) for title, axes in views.items()]
    for panel in panels:
        panel.path(path)
        for name, (kind, point) in marks.items():
            panel.mark(name, kind, point)
        panel.mark("hand", "hand", path[-1])
    side = max(view.shape[:2])
    square = np.zeros((side, side, 3), np.uint8)
    top, left = (side - view.shape[0]) // 2, (side - view.shape[1]) // 2
    square[top : top + view.shape[0], left : left + view.shape[1]] = view
    camera = np.asarray(Pil.fromarray(square).resize((_SIZE, _SIZE), Pil.Resampling.BILINEAR))
    return np.concatenate([camera, *(panel.pixels() for panel in panels)], 1)
