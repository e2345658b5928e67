"""Pictures of what was looked at: regions drawn on the image, and the close-ups side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image as PillowModule
from PIL import ImageDraw, ImageFont

from backbone.contracts import Box, Image
from backbone.errors import ConfigError
from perception.crops import Crop
from perception.views import LargeImage, as_large

# Okabe and Ito's colours without black and yellow: distinct on photographs and for colour-blind eyes.
PALETTE = ((213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (86, 180, 233), (230, 159, 0))
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
RGB = tuple[int, int, int]


def overlay(
    image: Image | LargeImage, regions: Sequence[Box], proposals: Sequence[Box] = (), longest: int | None = 1600
) -> Image:
    """The image, at most ``longest`` pixels, with every region outlined, numbered from 1 and labelled.

    ``proposals`` (boxes of single rollouts) are drawn as thin grey lines below. The input is not changed. Lines and
    letters grow with the picture, so that they can be read at any size.
    """
    source = as_large(image)
    canvas = PillowModule.fromarray(source.resized(longest)).copy()
    draw = ImageDraw.Draw(canvas)
    line = max(2, round(max(canvas.size) / 400))
    font = ImageFont.load_default(size=max(10, round(max(canvas.size) / 50)))
    scale = canvas.width / source.size[0], canvas.height / source.size[1]
    for box in proposals:
        _outline(draw, _scaled(box, scale), (190, 190, 190), 1)
    for index, box in enumerate(regions):
        _outline(draw, _scaled(box, scale), PALETTE[index % len(PALETTE)], line)
    for index, box in enumerate(regions):  # after all outlines, so that no line crosses a label
        x0, y0, _, _ = _scaled(box, scale)
        _plate(draw, f"{index + 1} {box.label}".strip(), font, (x0, y0), PALETTE[index % len(PALETTE)], canvas.size)
    return np.asarray(canvas)


def crop_strip(crops: Sequence[Crop], height: int = 256) -> Image:
    """The close-ups side by side, each ``height`` pixels high with its number and label, framed in its region's colour.

    Raises:
        ConfigError: there are no close-ups, or ``height`` is under 16.
    """
    if not crops or height < 16:
        raise ConfigError(f"a strip needs at least one close-up and a height of 16, got {len(crops)} and {height}")
    font = ImageFont.load_default(size=max(10, height // 16))
    frame = max(2, height // 64)
    tiles = []
    for index, crop in enumerate(crops):
        colour = PALETTE[index % len(PALETTE)]
        width = min(max(height // 4, round(crop.image.shape[1] * height / crop.image.shape[0])), 4 * height)
        tile = PillowModule.new("RGB", (width + 2 * frame, height + 2 * frame), colour)
        tile.paste(PillowModule.fromarray(crop.image).resize((width, height)), (frame, frame))
        _plate(ImageDraw.Draw(tile), f"{index + 1} {crop.box.label}".strip(), font, (0, 0), colour, tile.size)
        tiles.append(np.asarray(tile))
    return np.concatenate(tiles, axis=1)


def _scaled(box: Box, scale: tuple[float, float]) -> tuple[int, int, int, int]:
    x0, y0 = math.floor(box.x0 * scale[0]), math.floor(box.y0 * scale[1])
    return x0, y0, max(x0 + 1, math.ceil(box.x1 * scale[0]) - 1), max(y0 + 1, math.ceil(box.y1 * scale[1]) - 1)


def _outline(draw: ImageDraw.ImageDraw, corners: tuple[int, int, int, int], colour: RGB, line: int) -> None:
    """Coloured outside a white edge: visible on dark and bright ground alike."""
    x0, y0, x1, y1 = corners
    draw.rectangle((x0 - line, y0 - line, x1 + line, y1 + line), outline=colour, width=line)
    if line > 1:
        draw.rectangle((x0 - line - 1, y0 - line - 1, x1 + line + 1, y1 + line + 1), outline="white", width=1)


def _plate(
    draw: ImageDraw.ImageDraw, text: str, font: Font, corner: tuple[int, int], colour: RGB, size: tuple[int, int]
) -> None:
    """White letters on a filled plate above ``corner``, moved inside the picture and shortened to fit it."""
    pad = 3
    while len(text) > 1 and draw.textlength(text, font=font) + 2 * pad > size[0]:
        text = f"{text[:-2]}…" if text.endswith("…") else f"{text[:-1]}…"
        if text == "…":
            break
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    width, height = right - left + 2 * pad, bottom - top + 2 * pad
    x = min(max(corner[0], 0), max(0, size[0] - width))
    y = min(max(corner[1] - height, 0), max(0, size[1] - height))
    draw.rectangle((x, y, x + width, y + height), fill=colour)
    draw.text((x + pad - left, y + pad - top), text, font=font, fill="white")
