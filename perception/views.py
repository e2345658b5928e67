"""What a model was shown: pixels, and the region of the original they depict, with the exact way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from backbone.contracts import Box, Image
from backbone.errors import DataError
from backbone.images import SourceImage
from backbone.pixels import MAX_ASPECT
from backbone.vlm import VLM
from perception.parsing import Region


class LargeImage(Protocol):
    """An original of any size that gives small views of itself; `backbone.images.SourceImage` is one."""

    @property
    def size(self) -> tuple[int, int]:
        """``(width, height)`` in pixels."""
        ...

    def resized(self, longest: int | None) -> Image:
        """The whole image with its longer side at most ``longest`` pixels (None: as it is)."""
        ...

    def crop(self, box: Box, width: int, height: int) -> Image:
        """The pixels under ``box``, resized to ``width`` x ``height``."""
        ...


def as_large(image: Image | LargeImage) -> LargeImage:
    """A `LargeImage`, wrapping a plain array without copying it."""
    return SourceImage.from_array(image) if isinstance(image, np.ndarray) else image


@dataclass(frozen=True)
class View:
    """``image`` as shown to the model; its top-left ``content`` (width, height) depicts ``region`` of the original.

    What lies outside ``content`` is padding, added only where an image is too long and thin for the encoder.
    """

    image: Image = field(repr=False, compare=False)
    region: Box
    content: tuple[int, int]
    original: tuple[int, int]

    @property
    def size(self) -> tuple[int, int]:
        """``(width, height)`` as shown, with padding."""
        return self.image.shape[1], self.image.shape[0]

    def to_original(self, box: Box) -> Box:
        """A box in pixels of the view as pixels of the original; raises `DataError` if it lies in the padding."""
        sx, sy = self.region.width / self.content[0], self.region.height / self.content[1]
        inside = Box.clamped(box.corners, *self.content)
        corners = (
            self.region.x0 + inside.x0 * sx,
            self.region.y0 + inside.y0 * sy,
            self.region.x0 + inside.x1 * sx,
            self.region.y0 + inside.y1 * sy,
        )
        return Box.clamped(corners, *self.original, label=box.label, score=box.score)

    def to_view(self, box: Box) -> Box:
        """A box of the original in pixels of the view; raises `DataError` if it lies outside the region."""
        sx, sy = self.content[0] / self.region.width, self.content[1] / self.region.height
        x0, y0 = self.region.x0, self.region.y0
        corners = ((box.x0 - x0) * sx, (box.y0 - y0) * sy, (box.x1 - x0) * sx, (box.y1 - y0) * sy)
        return Box.clamped(corners, *self.content, label=box.label, score=box.score)

    def decode(self, region: Region, vlm: VLM, point_side: float) -> Box:
        """What the model wrote about this view as a box of the original; a point becomes a square.

        ``point_side`` is the square's side in pixels of the original. Raises `DataError` if nothing of it is inside.
        """
        numbers = _absolute(region.numbers, vlm, self.size)
        if not region.is_point:
            return self.to_original(vlm.numbers_to_box(numbers, *self.size, label=region.label))
        x, y = vlm.boxes.decode_point(numbers, self.size, vlm.encoded_size(*self.size))
        cx = self.region.x0 + min(x, self.content[0]) * self.region.width / self.content[0]
        cy = self.region.y0 + min(y, self.content[1]) * self.region.height / self.content[1]
        half = point_side / 2
        return Box.clamped((cx - half, cy - half, cx + half, cy + half), *self.original, label=region.label)

    def encode(self, box: Box, vlm: VLM) -> tuple[int, int, int, int]:
        """A box of the original in the numbers the model's family would write for this view."""
        return vlm.box_to_numbers(self.to_view(box), *self.size)


def global_view(image: LargeImage, vlm: VLM, longest: int | None) -> View:
    """The whole image at the regime's size; never larger than the encoder would make it."""
    width, height = image.size
    limit = longest or max(width, height)
    scale = min(1.0, limit / max(width, height))
    shown = (max(1, round(width * scale)), max(1, round(height * scale)))
    encoded = vlm.encoded_size(*_padded_size(*shown))
    # An 8192-pixel original at regime "full" is cut down by the model's pixel limits anyway: do it once, here.
    limit = min(limit, max(encoded)) if encoded[0] * encoded[1] < shown[0] * shown[1] else limit
    pixels = image.resized(limit)
    return View(_padded(pixels), Box(0, 0, width, height), (pixels.shape[1], pixels.shape[0]), (width, height))


def close_up(image: LargeImage, region: Box, longest: int, shortest: int) -> View:
    """The pixels of ``region`` from the original, native size if it fits.

    Shrunk to ``longest``, or enlarged until the shorter side is ``shortest`` as far as ``longest`` allows.
    """
    width, height = region.width, region.height
    scale = min(max(1.0, shortest / min(width, height)), longest / max(width, height))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return View(_padded(image.crop(region, *size)), region, size, image.size)


def _absolute(numbers: Sequence[float], vlm: VLM, size: tuple[int, int]) -> Sequence[float]:
    """Fractions of the image, which some models write instead, in the family's numbers."""
    if not (all(0 <= n <= 1 for n in numbers) and any(n != int(n) for n in numbers)):
        return numbers
    width, height = (1000, 1000) if vlm.boxes.kind == "relative" else vlm.encoded_size(*size)
    return [n * (width, height)[i % 2] for i, n in enumerate(numbers)]


def _padded_size(width: int, height: int) -> tuple[int, int]:
    least = math.ceil(max(width, height) / MAX_ASPECT)
    return max(width, least), max(height, least)


def _padded(image: Image) -> Image:
    """Grey to the right or below, where the image is too long and thin for the encoder."""
    height, width = image.shape[:2]
    full_width, full_height = _padded_size(width, height)
    if (full_width, full_height) == (width, height):
        return image
    padded = np.full((full_height, full_width, 3), 128, np.uint8)
    padded[:height, :width] = image
    return padded


def valid_region(box: Box, original: tuple[int, int]) -> Box:
    """``box`` rounded outwards to whole pixels, so that its pixels and its numbers say the same."""
    corners = (math.floor(box.x0), math.floor(box.y0), math.ceil(box.x1), math.ceil(box.y1))
    try:
        return Box.clamped(corners, *original, label=box.label, score=box.score)
    except DataError as error:
        raise DataError(f"no pixels to look at: {error}") from error
