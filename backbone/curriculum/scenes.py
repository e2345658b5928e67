"""Generated scenes with known answers: coloured shapes, some with a symbol, on plain, textured or photographic grounds.

Coordinates are pixels of the scene, x right, y down. Everything is a pure function of the random generator handed in.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.random import Generator

from backbone.contracts import FloatArray, Image

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 35, 35),
    "green": (40, 160, 60),
    "blue": (40, 80, 215),
    "yellow": (240, 215, 40),
    "orange": (245, 135, 25),
    "purple": (130, 50, 165),
    "pink": (250, 140, 185),
    "cyan": (45, 200, 215),
    "brown": (125, 75, 35),
    "white": (248, 248, 248),
    "black": (15, 15, 15),
    "gray": (130, 130, 130),
}
SYMBOLS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without 0 1 I O, which look alike


def _regular(corners: int, turn: float = 0.0, inner: float = 1.0) -> FloatArray:
    """Corners of a regular polygon, or of a star when ``inner`` < 1, in [-1, 1]^2; y points down."""
    count = corners * (2 if inner < 1 else 1)
    angle = np.arange(count) * 2 * math.pi / count - math.pi / 2 + turn
    radius = np.where(np.arange(count) % 2 == 0, 1.0, inner)
    return np.stack([np.cos(angle) * radius, np.sin(angle) * radius], 1).astype(np.float32)


def _heart() -> FloatArray:
    t = np.linspace(0, 2 * math.pi, 40, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([x / 16, (y + 2.5) / 15], 1).astype(np.float32)


_CROSS = [(-1, -3), (1, -3), (1, -1), (3, -1), (3, 1), (1, 1), (1, 3), (-1, 3), (-1, 1), (-3, 1), (-3, -1), (-1, -1)]
_ARROW = [(-1, -0.4), (0.1, -0.4), (0.1, -0.95), (1, 0), (0.1, 0.95), (0.1, 0.4), (-1, 0.4)]
_OUTLINES: dict[str, FloatArray] = {
    "circle": _regular(48),
    "square": np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], np.float32),
    "rectangle": np.array([(-1, -0.55), (1, -0.55), (1, 0.55), (-1, 0.55)], np.float32),
    "triangle": _regular(3),
    "diamond": np.array([(0, -1), (0.75, 0), (0, 1), (-0.75, 0)], np.float32),
    "star": _regular(5, inner=0.45),
    "hexagon": _regular(6),
    "cross": np.array(_CROSS, np.float32) / np.float32(3),
    "heart": _heart(),
    "arrow": np.array(_ARROW, np.float32),
}
SHAPES: tuple[str, ...] = tuple(_OUTLINES)


@dataclass(frozen=True)
class Thing:
    """One drawn object: its box is the exact bounding box of its outline, in pixels of the scene."""

    colour: str
    shape: str
    box: tuple[float, float, float, float]
    symbol: str = ""

    @property
    def name(self) -> str:
        """For example ``red circle``."""
        return f"{self.colour} {self.shape}"

    @property
    def centre(self) -> tuple[float, float]:
        """``(x, y)`` in pixels."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2

    @property
    def area(self) -> float:
        """Area of the box in square pixels."""
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1])


@dataclass(frozen=True)
class Scene:
    """A picture and everything in it."""

    image: Image
    things: tuple[Thing, ...]


def outline(shape: str, centre: tuple[float, float], half: float, turn: float = 0.0) -> FloatArray:
    """Corner points (n, 2) of a shape with half side ``half``, turned by ``turn`` radians."""
    points = _OUTLINES[shape]
    if turn:
        c, s = math.cos(turn), math.sin(turn)
        points = points @ np.array([[c, s], [-s, c]], np.float32)
    return (points * half + np.array(centre, np.float32)).astype(np.float32)


def draw_thing(image: Image, thing: Thing, points: FloatArray, rgb: Sequence[int], edge: bool = False) -> None:
    """Draw the filled outline, antialiased, and the thing's symbol in a contrasting colour, in place."""
    fixed = np.round((points - 0.5) * 16).astype(np.int32)  # cv2 counts pixel centres as whole numbers
    cv2.fillPoly(image, [fixed], [int(v) for v in rgb], cv2.LINE_AA, 4)
    if edge:
        dark = [int(v * 0.5) for v in rgb]
        cv2.polylines(image, [fixed], True, dark, max(1, round(math.sqrt(thing.area) / 40)), cv2.LINE_AA, 4)
    if thing.symbol:
        cx, cy = points.mean(0)
        draw_symbol(image, thing.symbol, (float(cx), float(cy)), 0.5 * float(np.ptp(points, axis=0).min()), rgb)


def draw_symbol(image: Image, symbol: str, centre: tuple[float, float], height: float, ground: Sequence[int]) -> None:
    """Write ``symbol`` with capital height ``height`` px around ``centre``, black or white against ``ground``."""
    light = 0.299 * ground[0] + 0.587 * ground[1] + 0.114 * ground[2]
    ink = (10, 10, 10) if light > 140 else (250, 250, 250)
    patch = _glyph(symbol)
    h = max(2, round(height))
    w = max(2, round(height * patch.shape[1] / patch.shape[0]))
    small = cv2.resize(patch, (w, h), interpolation=cv2.INTER_AREA)
    x, y = round(centre[0] - w / 2), round(centre[1] - h / 2)
    x0, y0, x1, y1 = max(0, x), max(0, y), min(image.shape[1], x + w), min(image.shape[0], y + h)
    if x0 >= x1 or y0 >= y1:
        return
    alpha = small[y0 - y : y1 - y, x0 - x : x1 - x, None].astype(np.float32) / 255
    image[y0:y1, x0:x1] = (image[y0:y1, x0:x1] * (1 - alpha) + np.array(ink) * alpha).astype(np.uint8)


@functools.lru_cache(maxsize=256)
def _glyph(text: str) -> Image:
    """A tight greyscale picture of bold ``text``, 96 px high."""
    (w, h), base = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 4.0, 16)
    canvas = np.zeros((h + base + 40, w + 40), np.uint8)
    cv2.putText(canvas, text, (20, h + 20), cv2.FONT_HERSHEY_SIMPLEX, 4.0, 255, 16, cv2.LINE_AA)
    ys, xs = np.nonzero(canvas)
    return canvas[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]


def ground(rng: Generator, width: int, height: int, photos: Sequence[Image] = ()) -> Image:
    """A background: plain, gradient, noise, or (when given) a random part of a photograph."""
    kind = rng.random()
    if photos and kind < 0.5:
        return _photo_part(rng, photos[int(rng.integers(len(photos)))], width, height)
    base = rng.integers(0, 256, 3).astype(np.float32)
    canvas = np.broadcast_to(base, (height, width, 3)).astype(np.float32)
    if kind < 0.75:
        other = rng.integers(0, 256, 3).astype(np.float32)
        angle = rng.uniform(0, 2 * math.pi)
        ramp = np.linspace(0, 1, width)[None] * math.cos(angle) + np.linspace(0, 1, height)[:, None] * math.sin(angle)
        ramp = (ramp - ramp.min()) / (np.ptp(ramp) + 1e-6)
        canvas = canvas + (other - base) * ramp[..., None]
    if rng.random() < 0.4:
        cells = int(rng.integers(4, 48))
        noise = rng.normal(0, rng.uniform(4, 28), (cells, cells, 3)).astype(np.float32)
        canvas = canvas + cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(np.clip(canvas, 0, 255).astype(np.uint8))


def _photo_part(rng: Generator, photo: Image, width: int, height: int) -> Image:
    h, w = photo.shape[:2]
    scale = rng.uniform(max(width / w, height / h), max(1.0, 1.2 * max(width / w, height / h)))
    cw, ch = min(w, int(width / scale)), min(h, int(height / scale))
    x, y = int(rng.integers(0, w - cw + 1)), int(rng.integers(0, h - ch + 1))
    part = cv2.resize(photo[y : y + ch, x : x + cw], (width, height), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(part[:, ::-1] if rng.random() < 0.5 else part)


def random_scene(
    rng: Generator,
    size: tuple[int, int],
    count: int,
    *,
    side: tuple[float, float] = (0.08, 0.32),
    photos: Sequence[Image] = (),
    symbol_chance: float = 0.0,
    names: Sequence[tuple[str, str]] | None = None,
) -> Scene:
    """``count`` things that do not overlap, of side ``side`` times the shorter image side, on a random ground.

    ``names`` fixes their colours and shapes; otherwise each is drawn at random. Fewer things are placed when no room
    is left, never less than one.
    """
    width, height = size
    image = ground(rng, width, height, photos)
    placed: list[Thing] = []
    for index in range(count):
        colour, shape = names[index] if names else (_pick(rng, tuple(COLOURS)), _pick(rng, SHAPES))
        thing_points = _place(rng, image, colour, shape, side, placed)
        if thing_points is None:
            continue
        thing, points = thing_points
        if rng.random() < symbol_chance:
            thing = replace(thing, symbol=_pick(rng, SYMBOLS))
        jitter = rng.integers(-18, 19, 3)
        rgb = np.clip(np.array(COLOURS[colour]) + jitter, 0, 255).astype(int).tolist()
        draw_thing(image, thing, points, rgb, edge=bool(rng.random() < 0.3))
        placed.append(thing)
    return Scene(image, tuple(placed))


def _place(
    rng: Generator, image: Image, colour: str, shape: str, side: tuple[float, float], placed: Sequence[Thing]
) -> tuple[Thing, FloatArray] | None:
    """A free place where the colour stands out from the ground; None after 30 tries (first thing: always placed)."""
    height, width = image.shape[:2]
    short = min(width, height)
    for attempt in range(30):
        half = short * rng.uniform(*side) / 2
        turn = rng.uniform(-0.25, 0.25) if shape not in ("square", "diamond") else 0.0
        x, y = rng.uniform(half, width - half), rng.uniform(half, height - half)
        core = (x - 0.5 * half, y - 0.5 * half, x + 0.5 * half, y + 0.5 * half)  # cheap test before the exact one
        if any(not _apart(core, other.box, 0.0) for other in placed):
            continue
        points = outline(shape, (x, y), half * 0.98, turn)
        box = (*points.min(0).tolist(), *points.max(0).tolist())
        inside = box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height
        if not inside or any(not _apart(box, other.box, 0.02 * short) for other in placed):
            continue
        if attempt > 20 or _contrast(image, box, colour) > 60:
            return Thing(colour, shape, box), points
    return None if placed else _place(rng, np.zeros_like(image), colour, shape, (side[0], side[0]), ())


def _apart(a: Sequence[float], b: Sequence[float], gap: float) -> bool:
    return a[2] + gap < b[0] or b[2] + gap < a[0] or a[3] + gap < b[1] or b[3] + gap < a[1]


def _contrast(image: Image, box: Sequence[float], colour: str) -> float:
    """Distance between a colour and the mean of the ground it would lie on, in RGB units."""
    x0, y0, x1, y1 = (int(v) for v in box)
    part = image[max(0, y0) : y1 + 1, max(0, x0) : x1 + 1]
    if part.size == 0:
        return 0.0
    return math.dist(cv2.mean(part)[:3], COLOURS[colour])


def _pick(rng: Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]
