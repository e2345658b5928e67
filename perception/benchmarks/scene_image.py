"""Pictures of up to 8192 px that are never drawn whole: any view is rendered straight from photographs and badges.

A view equals the same view of the full drawing within interpolation error, and never shows more detail than the full
drawing has: enlarged crops are drawn at the picture's own resolution first.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeVar

import cv2
import numpy as np

from backbone.contracts import Box, FloatArray, Image
from backbone.curriculum.scenes import outline
from backbone.errors import DataError
from perception.benchmarks.photographs import Photograph

SYMBOL_HEIGHT = 0.26  # of the badge's side: 2 to 4 px when the picture is 256 px long, so it cannot be read there
RIM = 0.05  # width of the rim, of the badge's side
_MASK = 512  # side of the drawn masks, px
_REACH = 1.1  # the masks show [-1.1, 1.1]^2 of the outline's own units
_BAND_BYTES = 24 << 20  # views are drawn in bands of rows: bounds the working memory

Corners = tuple[float, float, float, float]
Pixel = TypeVar("Pixel", Image, FloatArray)
View = tuple[float, float, float, float, int, int]  # region x0, y0, x1, y1 in picture pixels; width and height drawn


@dataclass(frozen=True)
class Tile:
    """A part of the picture, ``box``, filled by the part ``source`` of a photograph (both x0, y0, x1, y1 in pixels)."""

    box: Corners
    photograph: Photograph
    source: Corners
    mirrored: bool
    gain: tuple[float, float, float]  # per RGB channel


@dataclass(frozen=True)
class Badge:
    """A coloured shape that carries one symbol. ``side`` is that of the outline's square, ``box`` its exact bounds."""

    colour: str
    shape: str
    symbol: str
    centre: tuple[float, float]
    side: float
    rgb: tuple[int, int, int]

    @property
    def name(self) -> str:
        """For example ``red circle``."""
        return f"{self.colour} {self.shape}"

    @property
    def box(self) -> Box:
        """Bounds of the outline in pixels of the picture."""
        points = outline(self.shape, self.centre, self.side / 2)
        (x0, y0), (x1, y1) = points.min(0).tolist(), points.max(0).tolist()
        return Box(x0, y0, x1, y1, self.name)


@dataclass(frozen=True)
class SceneImage:
    """A picture of ``width`` x ``height`` px, with the views a `backbone.images.SourceImage` gives."""

    width: int
    height: int
    tiles: tuple[Tile, ...]
    badges: tuple[Badge, ...]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """``(width, height)`` in pixels."""
        return self.width, self.height

    @property
    def array(self) -> Image:
        """The full drawing, uint8 (height, width, 3) RGB, drawn anew at every call."""
        return self._draw((0.0, 0.0, self.width, self.height, self.width, self.height))

    def resized(self, longest: int | None) -> Image:
        """The whole picture with its longer side at most ``longest`` px; ``None`` is full size."""
        if longest is None or longest >= max(self.size):
            return self.array
        if longest < 1:
            raise DataError(f"longest side must be at least 1 pixel, got {longest}")
        scale = longest / max(self.size)
        width, height = (max(1, round(side * scale)) for side in self.size)
        return self._draw((0.0, 0.0, self.width, self.height, width, height))

    def crop(self, box: Box, width: int, height: int) -> Image:
        """The pixels under ``box`` (rounded outwards, clipped), resized to ``width`` x ``height``."""
        if width < 1 or height < 1:
            raise DataError(f"a crop needs a size of at least 1 x 1 pixels, got {width} x {height}")
        x0, y0 = math.floor(box.x0), math.floor(box.y0)
        x1, y1 = min(math.ceil(box.x1), self.width), min(math.ceil(box.y1), self.height)
        if x0 >= x1 or y0 >= y1:
            raise DataError(f"box {box.corners} has no pixel inside the {self.width} x {self.height} picture")
        small = (min(width, x1 - x0), min(height, y1 - y0))
        view = self._draw((x0, y0, x1, y1, *small))
        if small == (width, height):
            return view
        return np.asarray(cv2.resize(view, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)

    def _draw(self, view: View) -> Image:
        width, height = view[4:]
        fine = 2 if width < view[2] - view[0] or height < view[3] - view[1] else 1
        canvas = np.empty((height, width, 3), np.uint8)
        rows = max(1, _BAND_BYTES // (3 * width * fine * fine))
        for top in range(0, height, rows):
            _draw_ground(canvas, self.tiles, view, top, min(rows, height - top), fine)
        for badge in self.badges:
            _draw_badge(canvas, badge, view)
        return canvas


def _draw_ground(canvas: Image, tiles: tuple[Tile, ...], view: View, top: int, rows: int, fine: int) -> None:
    """Fill ``rows`` rows of ``canvas`` from ``top`` on, drawn ``fine`` times finer and averaged."""
    x0, y0, x1, y1, width, height = view
    kx, ky = width * fine / (x1 - x0), height * fine / (y1 - y0)  # fine pixels per picture pixel
    target = canvas[top : top + rows]
    band = target if fine == 1 else np.empty((rows * fine, width * fine, 3), np.uint8)
    for tile in tiles:
        # A pixel belongs to the tile that its centre lies in.
        left, right = (_clip((edge - x0) * kx, 0, width * fine) for edge in (tile.box[0], tile.box[2]))
        above, below = (
            _clip((edge - y0) * ky, top * fine, (top + rows) * fine) - top * fine for edge in (tile.box[1], tile.box[3])
        )
        if left < right and above < below:
            first = (x0 + (left + 0.5) / kx, y0 + (above + top * fine + 0.5) / ky)
            band[above:below, left:right] = _tile_pixels(tile, first, (1 / kx, 1 / ky), (right - left, below - above))
    if fine > 1:
        cv2.resize(band, (width, rows), dst=target, interpolation=cv2.INTER_AREA)


def _tile_pixels(tile: Tile, first: tuple[float, float], step: tuple[float, float], size: tuple[int, int]) -> Image:
    """``size`` pixels of a tile, from picture position ``first`` in steps of ``step`` picture pixels."""
    u0, v0, u1, v1 = tile.source
    du, dv = (u1 - u0) / (tile.box[2] - tile.box[0]), (v1 - v0) / (tile.box[3] - tile.box[1])
    level = round(math.log2(max(1.0, min(du * step[0], dv * step[1]))))
    pixels = tile.photograph.levels[min(level, len(tile.photograph.levels) - 1)]
    rx, ry = pixels.shape[1] / tile.photograph.size[0], pixels.shape[0] / tile.photograph.size[1]
    u, v = u0 + (first[0] - tile.box[0]) * du, v0 + (first[1] - tile.box[1]) * dv
    if tile.mirrored:
        u, du = u1 - (first[0] - tile.box[0]) * du, -du
    table = np.clip(np.arange(256)[:, None] * np.array(tile.gain), 0, 255).astype(np.uint8)[:, None]  # (256, 1, 3)
    brighten_first = pixels.shape[0] * pixels.shape[1] < size[0] * size[1]  # whichever has fewer pixels
    if brighten_first:
        pixels = np.asarray(cv2.LUT(pixels, table), np.uint8)
    part = _warp(pixels, (du * step[0] * rx, dv * step[1] * ry), (u * rx - 0.5, v * ry - 0.5), size)
    return part if brighten_first else np.asarray(cv2.LUT(part, table), np.uint8)


def _draw_badge(canvas: Image, badge: Badge, view: View) -> None:
    x0, y0, x1, y1, width, height = view
    kx, ky = width / (x1 - x0), height / (y1 - y0)
    half = badge.side / 2 * _REACH
    left, right = (_clip((badge.centre[0] + d - x0) * kx, 0, width) for d in (-half - 1 / kx, half + 1 / kx))
    above, below = (_clip((badge.centre[1] + d - y0) * ky, 0, height) for d in (-half - 1 / ky, half + 1 / ky))
    if left >= right or above >= below:
        return
    shown = badge.side * max(kx, ky)
    fine = 4 if shown < 64 else 2 if shown < 128 else 1  # large ones are smooth from their masks alone
    size = ((right - left) * fine, (below - above) * fine)
    step = (2 / (badge.side * kx * fine), 2 / (badge.side * ky * fine))  # outline units per fine pixel
    first = (
        ((left + 0.5 / fine) / kx + x0 - badge.centre[0]) * 2 / badge.side,
        ((above + 0.5 / fine) / ky + y0 - badge.centre[1]) * 2 / badge.side,
    )
    outline_levels, fill_levels, anchor = _shape_masks(badge.shape)
    outer, inner = (_mask_pixels(levels, first, step, size) for levels in (outline_levels, fill_levels))
    symbol_first = (first[0] - anchor[0], first[1] - anchor[1])
    symbol = _mask_pixels(_symbol_mask(badge.symbol), symbol_first, step, size)
    ink, rim = _ink_and_rim(badge.rgb)
    colour = rim + (np.array(badge.rgb, np.float32) - rim) * inner
    colour = (colour + (ink - colour) * symbol) * outer
    small = (right - left, below - above)
    paint = np.asarray(cv2.resize(colour, small, interpolation=cv2.INTER_AREA), np.float32)
    cover = np.asarray(cv2.resize(outer, small, interpolation=cv2.INTER_AREA), np.float32)[..., None]
    part = canvas[above:below, left:right]
    part[:] = np.clip(np.rint(part * (1 - cover) + paint), 0, 255).astype(np.uint8)


def _ink_and_rim(rgb: tuple[int, int, int]) -> tuple[FloatArray, FloatArray]:
    """The symbol black on light badges and white on dark ones; the rim a darker shade, or a lighter one of black."""
    light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
    ink = np.full(3, 10.0 if light > 140 else 250.0, np.float32)
    fill = np.array(rgb, np.float32)
    return ink, fill * 0.5 if light > 50 else fill + 90.0


def _mask_pixels(
    levels: tuple[FloatArray, ...], first: tuple[float, float], step: tuple[float, float], size: tuple[int, int]
) -> FloatArray:
    """A mask (h, w, 1) in [0, 1], from outline position ``first`` in steps of ``step`` outline units."""
    per_unit = _MASK / (2 * _REACH)
    level = min(round(math.log2(max(1.0, min(step) * per_unit))), len(levels) - 1)
    per_unit /= 2**level
    offset = ((first[0] + _REACH) * per_unit - 0.5, (first[1] + _REACH) * per_unit - 0.5)
    return _warp(levels[level], (step[0] * per_unit, step[1] * per_unit), offset, size)[..., None]


@functools.lru_cache(maxsize=64)
def _shape_masks(shape: str) -> tuple[tuple[FloatArray, ...], tuple[FloatArray, ...], tuple[float, float]]:
    """Outline, outline without its rim, and the roomiest place for a symbol, in outline units."""
    fine = 2 * _MASK
    points = outline(shape, (fine / 2, fine / 2), fine / (2 * _REACH))
    outer = np.zeros((fine, fine), np.uint8)
    cv2.fillPoly(outer, [np.round((points - 0.5) * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
    depth = cv2.distanceTransform(outer, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)  # px inside the outline
    inner = (np.clip(depth - RIM * fine / _REACH, 0, 1) * 255).astype(np.uint8)
    ys, xs = np.nonzero(depth > 0.97 * depth.max())
    roomiest = (float(xs.mean() + 0.5) / fine, float(ys.mean() + 0.5) / fine)
    anchor = (roomiest[0] * 2 * _REACH - _REACH, roomiest[1] * 2 * _REACH - _REACH)
    return _levels(outer), _levels(inner), anchor


@functools.lru_cache(maxsize=256)
def _symbol_mask(symbol: str) -> tuple[FloatArray, ...]:
    """One bold character of `SYMBOL_HEIGHT` in the middle."""
    (w, h), base = cv2.getTextSize(symbol, cv2.FONT_HERSHEY_SIMPLEX, 12.0, 48)
    drawn = np.zeros((h + base + 120, w + 120), np.uint8)
    cv2.putText(drawn, symbol, (60, h + 60), cv2.FONT_HERSHEY_SIMPLEX, 12.0, 255, 48, cv2.LINE_AA)
    ys, xs = np.nonzero(drawn)
    tight = drawn[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]
    height = SYMBOL_HEIGHT * 2 * _MASK / _REACH
    width = height * tight.shape[1] / tight.shape[0]
    sized = cv2.resize(tight, (round(width), round(height)), interpolation=cv2.INTER_AREA)
    canvas = np.zeros((2 * _MASK, 2 * _MASK), np.uint8)
    x, y = _MASK - sized.shape[1] // 2, _MASK - sized.shape[0] // 2
    canvas[y : y + sized.shape[0], x : x + sized.shape[1]] = sized
    return _levels(canvas)


def _levels(mask: Image) -> tuple[FloatArray, ...]:
    """Float32 copies of a mask of side 2 * `_MASK`, halved from `_MASK` down to 16 px."""
    levels: list[FloatArray] = []
    side = _MASK
    while side >= 16:
        small = cv2.resize(mask, (side, side), interpolation=cv2.INTER_AREA)
        levels.append(np.asarray(small, np.float32) / np.float32(255))
        side //= 2
    return tuple(levels)


def _warp(source: Pixel, scale: tuple[float, float], offset: tuple[float, float], size: tuple[int, int]) -> Pixel:
    """``size`` samples of ``source`` at pixel index ``offset + i * scale``, bilinear, the border repeated."""
    matrix = np.array([[scale[0], 0.0, offset[0]], [0.0, scale[1], offset[1]]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(source, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)  # type: ignore[return-value]


def _clip(value: float, low: int, high: int) -> int:
    """The first pixel whose centre lies at or after ``value``, within the limits."""
    return min(max(math.ceil(value - 0.5), low), high)
