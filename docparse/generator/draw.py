"""Marks to pixels, and what a scanner does to a page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.random import Generator
from PIL import Image as Pillow
from PIL import ImageDraw

from backbone.contracts import Image
from docparse.generator.document import Corners
from docparse.generator.fonts import font
from docparse.generator.sheet import AreaMark, LineMark, PictureMark, Sheet, TextMark

MAXIMUM_ANGLE = 1.0  # degrees


@dataclass(frozen=True)
class Scan:
    """How a page was scanned; `CLEAN` is as exported from a program."""

    angle: float = 0.0  # degrees clockwise, about the centre
    blur: float = 0.0  # standard deviation in pixels
    noise: float = 0.0  # standard deviation in grey levels
    contrast: float = 1.0  # grey levels above black are multiplied by it
    black: int = 0  # grey level of black ink
    tint: tuple[int, int, int] = (255, 255, 255)  # of the paper
    shade: float = 0.0  # how much darker one edge is, 0 to 1
    jpeg: int = 0  # quality, 0 for none
    grey: bool = False
    seed: int = 0

    @classmethod
    def drawn(cls, rng: Generator) -> Scan:
        """A scan as an office machine makes it."""
        grey = bool(rng.random() < 0.4)
        tint = (255, 255, 255) if grey else tuple(int(v) for v in 255 - rng.integers(0, 16, 3))
        return cls(
            angle=float(rng.uniform(-MAXIMUM_ANGLE, MAXIMUM_ANGLE)) if rng.random() < 0.7 else 0.0,
            blur=float(rng.uniform(0.3, 0.9)) if rng.random() < 0.7 else 0.0,
            noise=float(rng.uniform(2, 14)),
            contrast=float(rng.uniform(0.8, 1.0)),
            black=int(rng.integers(0, 50)),
            tint=(tint[0], tint[1], tint[2]),
            shade=float(rng.uniform(0, 0.15)) if rng.random() < 0.4 else 0.0,
            jpeg=int(rng.integers(40, 92)) if rng.random() < 0.7 else 0,
            grey=grey,
            seed=int(rng.integers(2**31)),
        )


CLEAN = Scan()


def drawn(sheet: Sheet) -> Image:
    """The page as uint8 (height, width, 3) RGB, before any scan."""
    picture = Pillow.new("RGB", (sheet.width, sheet.height), sheet.background)
    pencil = ImageDraw.Draw(picture)
    for mark in sheet.marks:
        if isinstance(mark, TextMark):
            pencil.text((mark.x, mark.y), mark.text, mark.colour, font(mark.face))
        elif isinstance(mark, LineMark):
            _line(pencil, mark)
        elif isinstance(mark, PictureMark):
            _photograph(picture, mark)
        else:
            _area(pencil, mark)
    return np.array(picture)


def _line(pencil: ImageDraw.ImageDraw, mark: LineMark) -> None:
    if not mark.dash:
        pencil.line((*mark.start, *mark.end), mark.colour, mark.width)
        return
    (x0, y0), (x1, y1) = mark.start, mark.end
    length = math.hypot(x1 - x0, y1 - y0)
    for begin in range(0, int(length), 2 * mark.dash):
        a, b = begin / length, min(1.0, (begin + mark.dash) / length)
        ends = (x0 + a * (x1 - x0), y0 + a * (y1 - y0), x0 + b * (x1 - x0), y0 + b * (y1 - y0))
        pencil.line(ends, mark.colour, mark.width)


def _area(pencil: ImageDraw.ImageDraw, mark: AreaMark) -> None:
    points = list(mark.points)
    if mark.shape == "rectangle":
        pencil.rectangle(points, mark.fill, mark.outline, mark.width)
    elif mark.shape == "ellipse":
        pencil.ellipse(points, mark.fill, mark.outline, mark.width)
    elif mark.shape == "slice":
        pencil.pieslice(points, *mark.angles, mark.fill, mark.outline, mark.width)
    else:
        pencil.polygon(points, mark.fill, mark.outline, mark.width)


def _photograph(picture: Pillow.Image, mark: PictureMark) -> None:
    """Clouds of colour, coarse and fine, as smooth and as busy as a photograph; never the paper's white for long."""
    x0, y0, x1, y1 = (round(v) for v in mark.box)
    width, height = max(1, x1 - x0), max(1, y1 - y0)
    rng = np.random.default_rng(mark.seed)
    total = np.zeros((height, width, 3), np.float32)
    for cells, weight in ((2, 1.0), (6, 0.6), (24, 0.3), (90, 0.12)):
        coarse = rng.normal(0, 1, (cells, cells, 3)).astype(np.float32)
        total += weight * cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    pixels = np.clip(120 + 45 * total, 5, 235).astype(np.uint8)
    picture.paste(Pillow.fromarray(pixels), (x0, y0))


def scanned(image: Image, scan: Scan) -> Image:
    """The picture as the scan has it; `CLEAN` gives it back unchanged."""
    if scan == CLEAN:
        return image
    height, width = image.shape[:2]
    out: Image = image
    if scan.angle:
        turn = cv2.getRotationMatrix2D((width / 2, height / 2), -scan.angle, 1.0)
        out = cv2.warpAffine(
            out, turn, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        ).astype(np.uint8, copy=False)
    if scan.grey:
        out = cv2.cvtColor(cv2.cvtColor(out, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB).astype(np.uint8, copy=False)
    if scan.blur:
        out = cv2.GaussianBlur(out, (0, 0), scan.blur).astype(np.uint8, copy=False)
    out = cv2.LUT(out, _levels(scan)).astype(np.uint8, copy=False)
    if scan.noise or scan.shade:
        out = _grain(out, scan)
    if scan.jpeg:
        packed = cv2.imencode(".jpg", out, [cv2.IMWRITE_JPEG_QUALITY, scan.jpeg])[1]
        out = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8)
    return out


def _levels(scan: Scan) -> Image:
    """A table (1, 256, 3) from grey levels to those of the scan: paler black, tinted paper."""
    ramp = np.arange(256, dtype=np.float32)[:, None] / 255
    white = np.array(scan.tint, np.float32) * (0.5 + scan.contrast / 2)
    levels: Image = np.clip(np.rint(scan.black + ramp * (white - scan.black)), 0, 255).astype(np.uint8)
    return levels.reshape(1, 256, 3)


def _grain(image: Image, scan: Scan) -> Image:
    """Grain of the sensor, the same in all channels, and one edge darker; the grain is a tile laid over the page."""
    height, width = image.shape[:2]
    rng = np.random.default_rng(scan.seed)
    tile = rng.normal(0, scan.noise, (317, 509)).astype(np.float32)
    grain = np.tile(tile, (height // 317 + 1, width // 509 + 1))[:height, :width]
    if scan.shade:
        grain = grain - 255 * scan.shade * np.linspace(1, 0, width, dtype=np.float32) ** 3
    low = np.clip(np.rint(grain), -255, 0)
    added = cv2.add(image, cv2.merge([np.clip(np.rint(grain), 0, 255).astype(np.uint8)] * 3))
    return np.asarray(cv2.subtract(added, cv2.merge([(-low).astype(np.uint8)] * 3)), np.uint8)


def turned(box: Corners, angle: float, width: int, height: int) -> Corners:
    """The box around a box on the page turned clockwise by ``angle`` degrees about its centre, clipped to the page."""
    if not angle:
        return box
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    cx, cy = width / 2, height / 2
    xs, ys = [], []
    for x in (box[0] - cx, box[2] - cx):
        for y in (box[1] - cy, box[3] - cy):
            xs.append(cx + cos * x - sin * y)
            ys.append(cy + sin * x + cos * y)
    return max(0.0, min(xs)), max(0.0, min(ys)), min(float(width), max(xs)), min(float(height), max(ys))
