"""Boxes drawn on a copy of a picture small enough to send to a browser."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image as PillowModule
from PIL import ImageDraw, ImageFont

from backbone.contracts import Box, Image
from backbone.images import SourceImage

LONGEST_SHOWN = 1280  # pixels; keeps a 100-megapixel upload from travelling back
# Distinct on photographs and for colour-blind eyes (Okabe and Ito), without their black and yellow.
PALETTE = ((230, 85, 13), (0, 114, 178), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 160, 0))


def box_colour(index: int) -> tuple[int, int, int]:
    """RGB of the box with this number."""
    return PALETTE[index % len(PALETTE)]


def draw_boxes(source: SourceImage, boxes: Sequence[Box], longest: int = LONGEST_SHOWN) -> Image:
    """The picture at ``longest`` pixels or less, every box outlined and numbered from 1; the source is not changed."""
    shown = source.resized(longest)
    height, width = shown.shape[:2]
    scale = width / source.size[0]
    canvas = PillowModule.fromarray(shown)  # copies on the first write
    draw = ImageDraw.Draw(canvas)
    line = max(2, round(max(width, height) / 320))
    font = ImageFont.load_default(size=max(12, round(max(width, height) / 48)))
    for index, box in enumerate(boxes):
        x0, y0, x1, y1 = (round(value * scale) for value in box.corners)
        colour = box_colour(index)
        draw.rectangle((x0 - line - 1, y0 - line - 1, x1 + line + 1, y1 + line + 1), outline="white", width=line + 2)
        draw.rectangle((x0 - line, y0 - line, x1 + line, y1 + line), outline=colour, width=line)
        _tag(draw, font, str(index + 1), (x0 - line, y0 - line), colour, (width, height))
    return np.asarray(canvas)


def _tag(
    draw: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    text: str,
    corner: tuple[int, int],
    colour: tuple[int, int, int],
    size: tuple[int, int],
) -> None:
    """The box's number on a filled plate above its corner, moved inside where it would leave the picture."""
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    pad = 4
    wide, high = right - left + 2 * pad, bottom - top + 2 * pad
    x = min(max(corner[0], 0), max(0, size[0] - wide))
    y = min(max(corner[1] - high, 0), max(0, size[1] - high))
    draw.rectangle((x, y, x + wide, y + high), fill=colour)
    draw.text((x + pad - left, y + pad - top), text, font=font, fill="white")
