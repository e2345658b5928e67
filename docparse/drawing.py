"""Pictures of an answer: evidence outlined on its page, and the law of every step as a heat map over the pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowModule
from PIL import ImageDraw, ImageFont

from backbone.contracts import Image, check_image
from backbone.errors import DataError

if TYPE_CHECKING:
    from docparse.pipeline import StepView

LONGEST = 1600  # pixels of a page as drawn
TILE = 640  # pixels of a page in a strip
DIMMED = 0.4  # of a page's brightness where no mass lies
INK = 0.3  # of a colour's brightness where the page is black, so that its text stays readable under the mass
GAMMA = 0.5  # a tenth of the largest mass is drawn at a third of the scale
STRONGEST = 0.9  # opacity of the largest mass
# From little mass to much: blue, magenta, orange, yellow; rising in brightness, for colour-blind eyes and print.
SCALE = np.array([(49, 54, 149), (150, 40, 140), (240, 110, 50), (255, 236, 110)], np.float32)
# Okabe and Ito's colours without black and yellow.
PALETTE = ((213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (86, 180, 233), (230, 159, 0))
Corners = tuple[float, float, float, float]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def evidence_picture(page: Image, boxes: Sequence[Corners], numbers: Sequence[int], longest: int = LONGEST) -> Image:
    """A page uint8 (H, W, 3), at most ``longest`` pixels, with its boxes (in pixels of ``page``) outlined and numbered.

    A number has the same colour on every page. The page itself is not changed.
    """
    return _outlined(_resized(page, longest), page.shape, boxes, numbers)


def heat_map(
    page: Image, boxes: NDArray[Any], mass: NDArray[Any], *, most: float | None = None, longest: int = LONGEST
) -> Image:
    """A dimmed page, at most ``longest`` pixels, with the mass of its particles in colour.

    Args:
        page: uint8 (H, W, 3).
        boxes: (N, 4) particles in pixels of ``page``; where they overlap, the larger mass is shown.
        mass: (N,) of the particles, at least 0.
        most: the mass drawn at the end of the scale; None: the largest here.
        longest: longer side of the result.

    Raises:
        DataError: shapes that do not fit, or a mass that is negative or no number.
    """
    boxes, mass = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(mass, np.float64)
    if mass.shape != (len(boxes),) or not np.isfinite(mass).all() or (mass < 0).any():
        raise DataError(f"a heat map needs a mass of at least 0 a box; {len(boxes)} boxes, masses {mass.shape}")
    shown = _resized(page, longest)
    level = _levels(boxes, mass, most, shown.shape[:2], (page.shape[0], page.shape[1]))  # (h, w), 0 to 1
    gray = np.asarray(cv2.cvtColor(shown, cv2.COLOR_RGB2GRAY), np.float32) / 255
    colour = _colours(level) * (INK + (1 - INK) * gray)[..., None]
    opacity = (STRONGEST * level)[..., None]
    blended = (1 - opacity) * (DIMMED * shown.astype(np.float32)) + opacity * colour
    result: Image = np.clip(np.rint(blended), 0, 255).astype(np.uint8)
    return result


def step_picture(
    page: Image,
    index: int,
    step: StepView,
    boxes: Sequence[Corners] = (),
    numbers: Sequence[int] = (),
    longest: int = LONGEST,
) -> Image:
    """The mass that one step put on page ``index`` (from 0), and boxes outlined over it.

    The scale is that of the whole document, so that pages can be compared.
    """
    here = step.pages == index
    most = float(step.mass.max()) if len(step.mass) else None
    heat = heat_map(page, step.boxes[here], step.mass[here], most=most, longest=longest)
    return _outlined(heat, page.shape, boxes, numbers)


def heaviest_pages(step: StepView, count: int) -> list[int]:
    """The pages, at most ``count``, that hold most of the mass, the heaviest first; pages without mass are left out."""
    held = np.bincount(step.pages, weights=step.mass) if len(step.pages) else np.zeros(0)
    order = np.argsort(-held, kind="stable")[:count]
    return [int(page) for page in order if held[page] > 0]


def flow_strip(
    pages: Mapping[int, Image],
    steps: Sequence[StepView],
    evidence: Mapping[int, Sequence[tuple[int, Corners]]] | None = None,
    tile: int = TILE,
) -> Image:
    """All steps from left to right, coarse to fine, a row for each page; boxes are outlined at the last step.

    Args:
        pages: pictures uint8 (H, W, 3) by page index.
        steps: the laws.
        evidence: (number, box in pixels) pairs by page index.
        tile: longer side of a page in the strip.

    Raises:
        DataError: no page or no step.
    """
    if not pages or not steps:
        raise DataError(f"a strip needs at least one page and one step, got {len(pages)} and {len(steps)}")
    rows = []
    for index, page in sorted(pages.items()):
        marked = list((evidence or {}).get(index, ()))
        tiles = []
        for number, step in enumerate(steps, 1):
            known = marked if number == len(steps) else []
            drawn = step_picture(page, index, step, [box for _, box in known], [n for n, _ in known], tile)
            tiles.append(_captioned(drawn, f"page {index + 1}, step {number}: {step.name}"))
        rows.append(np.concatenate(tiles, axis=1))
    width = max(row.shape[1] for row in rows)
    filled = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)), constant_values=255) for row in rows]
    return np.concatenate(filled, axis=0)


def _resized(page: Image, longest: int) -> Image:
    height, width = check_image(page, "page to draw on").shape[:2]
    scale = min(1.0, longest / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(page, size, interpolation=cv2.INTER_AREA), np.uint8) if scale < 1 else page.copy()


def _levels(
    boxes: NDArray[np.float64], mass: NDArray[np.float64], most: float | None, shape: tuple[int, ...],
    original: tuple[int, int],
) -> NDArray[np.float32]:  # fmt: skip
    """(h, w) from 0 to 1: how far up the scale each pixel is."""
    level = np.zeros(shape, np.float32)
    top = most if most is not None else float(mass.max(initial=0.0))
    if top <= 0:
        return level
    sy, sx = shape[0] / original[0], shape[1] / original[1]
    height = np.minimum(mass / top, 1.0) ** GAMMA
    for i in np.argsort(height, kind="stable").tolist():  # larger mass over smaller
        x0, y0, x1, y1 = _pixels(boxes[i].tolist(), sx, sy)
        level[max(y0, 0) : y1, max(x0, 0) : x1] = height[i]
    return level


def _pixels(box: Sequence[float], sx: float, sy: float) -> tuple[int, int, int, int]:
    """The whole pixels of a box after scaling, never none."""
    x0, y0 = math.floor(box[0] * sx + 0.5), math.floor(box[1] * sy + 0.5)
    return x0, y0, max(x0 + 1, math.floor(box[2] * sx + 0.5)), max(y0 + 1, math.floor(box[3] * sy + 0.5))


def _colours(level: NDArray[np.float32]) -> NDArray[np.float32]:
    """(h, w, 3) colours of levels."""
    at = np.linspace(0, 1, len(SCALE))
    return np.stack([np.interp(level, at, SCALE[:, channel]) for channel in range(3)], -1).astype(np.float32)


def _outlined(shown: Image, original: tuple[int, ...], boxes: Sequence[Corners], numbers: Sequence[int]) -> Image:
    """Numbered boxes around, never over, what they hold."""
    if len(boxes) != len(numbers):
        raise DataError(f"{len(boxes)} boxes need as many numbers, got {len(numbers)}")
    canvas = PillowModule.fromarray(shown)
    draw = ImageDraw.Draw(canvas)
    line = max(2, round(max(canvas.size) / 500))
    font = ImageFont.load_default(size=max(11, round(max(canvas.size) / 70)))
    sx, sy = shown.shape[1] / original[1], shown.shape[0] / original[0]
    for box, number in zip(boxes, numbers, strict=True):
        x0, y0, x1, y1 = _pixels(box, sx, sy)
        around = x0 - line, y0 - line, x1 + line - 1, y1 + line - 1
        draw.rectangle((around[0] - 1, around[1] - 1, around[2] + 1, around[3] + 1), outline="white", width=1)
        draw.rectangle(around, outline=PALETTE[(number - 1) % len(PALETTE)], width=line)
    for box, number in zip(boxes, numbers, strict=True):  # after all outlines, so that no line crosses a number
        x0, y0, _, y1 = _pixels(box, sx, sy)
        _number(draw, font, number, (x0 - line, y0 - line, y1 + line), canvas.size)
    return np.asarray(canvas)


def _number(
    draw: ImageDraw.ImageDraw, font: Font, number: int, place: tuple[int, int, int], size: tuple[int, int]
) -> None:
    """White digits on a plate above the box whose left, top and bottom are given, or below where there is no room."""
    left, top, right, bottom = draw.textbbox((0, 0), str(number), font=font)
    wide, high = round(right - left) + 8, round(bottom - top) + 6
    x = min(max(place[0], 0), max(0, size[0] - wide))
    y = place[1] - high if place[1] >= high else min(place[2], max(0, size[1] - high))
    draw.rectangle((x, y, x + wide - 1, y + high - 1), fill=PALETTE[(number - 1) % len(PALETTE)])
    draw.text((x + 4 - left, y + 3 - top), str(number), font=font, fill="white")


def _captioned(picture: Image, text: str) -> Image:
    """The picture with a line of text above it and a white margin."""
    font = ImageFont.load_default(size=15)
    canvas = PillowModule.new("RGB", (picture.shape[1] + 8, picture.shape[0] + 32), "white")
    canvas.paste(PillowModule.fromarray(picture), (4, 28))
    draw = ImageDraw.Draw(canvas)
    while len(text) > 1 and draw.textlength(text, font=font) > picture.shape[1]:
        text = text[:-1]
    draw.text((4, 5), text, font=font, fill="black")
    return np.asarray(canvas)
