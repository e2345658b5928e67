"""Pictures as people have them, turned into uint8 (H, W, 3) RGB in exactly one place.

`read_image` reads files and bytes, `from_any` takes arrays whose layout the caller declares. Everything else in Fovea
passes decoded arrays only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from backbone.contracts import Box, Image, check_image
from backbone.errors import DataError
from backbone.image_files import ImageLimits, decode, from_16_bit, on_white

__all__ = ["ImageLimits", "SourceImage", "from_any", "read_image"]


@dataclass(frozen=True, eq=False)
class SourceImage:
    """A decoded original of which only small views are ever given to a model.

    ``array`` is uint8 (H, W, 3) RGB and must not be written to. ``notes`` say what reading changed (rotation by EXIF,
    first frame of an animation, transparency on white, 16 bits scaled to 8).
    """

    array: Image = field(repr=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_image(self.array, "source image")

    @classmethod
    def from_array(cls, array: Image) -> SourceImage:
        """Wrap a decoded uint8 (H, W, 3) RGB array without copying; raises `DataError` for any other."""
        return cls(array)

    @property
    def size(self) -> tuple[int, int]:
        """``(width, height)`` in pixels."""
        return self.array.shape[1], self.array.shape[0]

    def resized(self, longest: int | None) -> Image:
        """The whole picture with its longer side at most ``longest`` pixels, every original pixel weighing equally.

        ``None``, or a picture that is small enough already, gives the original array itself; nothing is enlarged.
        """
        if longest is None or longest >= max(self.size):
            return self.array
        if longest < 1:
            raise DataError(f"longest side must be at least 1 pixel, got {longest}")
        scale = longest / max(self.size)
        width, height = (max(1, round(side * scale)) for side in self.size)
        return _resize(self.array, width, height)

    def crop(self, box: Box, width: int, height: int) -> Image:
        """The pixels under ``box`` (rounded outwards, clipped to the picture), resized to ``width`` x ``height``.

        Shrinks by area, enlarges by cubic interpolation. Raises `DataError` if no pixel lies under the box.
        """
        if width < 1 or height < 1:
            raise DataError(f"a crop needs a size of at least 1 x 1 pixels, got {width} x {height}")
        x0, y0 = math.floor(box.x0), math.floor(box.y0)
        x1, y1 = min(math.ceil(box.x1), self.size[0]), min(math.ceil(box.y1), self.size[1])
        if x0 >= x1 or y0 >= y1:
            raise DataError(f"box {box.corners} has no pixel inside the {self.size[0]} x {self.size[1]} picture")
        return _resize(self.array[y0:y1, x0:x1], width, height)

    @classmethod
    def make_example(cls) -> SourceImage:
        """A valid picture: 64 x 48, grey, with a red square."""
        array = np.full((48, 64, 3), 128, np.uint8)
        array[10:20, 30:40] = (255, 0, 0)
        return cls(array)


def read_image(source: Path | bytes, *, limits: ImageLimits | None = None) -> SourceImage:
    """Decode JPEG, PNG, WebP, TIFF, GIF or BMP from a path or from the file's bytes.

    Applies the EXIF orientation, pastes transparency on white, scales 16-bit values, takes the first frame of an
    animation, and says so in ``notes``. Peaks at 7 bytes of memory a pixel, keeps 3.

    Raises:
        DataError: missing, empty, broken, truncated, not a picture, or over ``limits`` (200 megapixels, 1 GiB).
    """
    return SourceImage(*decode(source, limits or ImageLimits()))


def from_any(array: Any, *, layout: Literal["hwc", "chw"], channels: Literal["rgb", "bgr"]) -> Image:
    """An array in a declared layout as uint8 (H, W, 3) RGB; the layout is never guessed.

    Takes anything NumPy reads (arrays, PIL pictures, CPU tensors) of shape (H, W), or with 1, 3 or 4 channels where
    ``layout`` says they are. With 4 the last is straight alpha, pasted on white. uint8 is kept, uint16 scaled, floats
    must lie in 0 to 1.

    Raises:
        DataError: the channel axis does not hold 1, 3 or 4, the dtype or range is another, or there are no pixels.
    """
    if layout not in ("hwc", "chw") or channels not in ("rgb", "bgr"):
        raise DataError(f"layout must be 'hwc' or 'chw' and channels 'rgb' or 'bgr', got {layout!r} and {channels!r}")
    values = np.asarray(array)
    if values.ndim == 2:
        values = values[:, :, None]
    elif values.ndim == 3 and layout == "chw":
        values = values.transpose(1, 2, 0)
    if values.ndim != 3 or values.shape[2] not in (1, 3, 4):
        raise DataError(
            f"array of shape {np.shape(array)} declared as {layout!r}: expected (H, W) or 1, 3 or 4 channels on the "
            f"{'last' if layout == 'hwc' else 'first'} axis; check the layout"
        )
    if 0 in values.shape:
        raise DataError(f"array of shape {np.shape(array)} has no pixels")
    pixels = _as_uint8(values)
    if pixels.shape[2] == 1:
        return np.ascontiguousarray(np.repeat(pixels, 3, axis=2))
    if channels == "bgr":
        pixels = pixels[:, :, [2, 1, 0, *range(3, pixels.shape[2])]]
    return np.ascontiguousarray(on_white(pixels) if pixels.shape[2] == 4 else pixels)


def _as_uint8(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.uint16:
        return from_16_bit(values)
    if not np.issubdtype(values.dtype, np.floating):
        raise DataError(f"array of {values.dtype}: expected uint8, uint16, or floats from 0 to 1; convert it first")
    low, high = float(values.min()), float(values.max())
    if not (low >= 0.0 and high <= 1.0):  # also true for NaN
        raise DataError(
            f"array of {values.dtype} with values {low:g} to {high:g}: floats must lie in 0 to 1; divide first"
        )
    return np.rint(values * 255.0).astype(np.uint8)


def _resize(array: Image, width: int, height: int) -> Image:
    """Exact size; each axis shrinks by area or grows by cubic interpolation. The result never aliases ``array``."""
    rows, columns = array.shape[:2]
    small = (min(width, columns), min(height, rows))
    if small != (columns, rows):
        array = cv2.resize(array, small, interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    if small != (width, height):
        return cv2.resize(array, (width, height), interpolation=cv2.INTER_CUBIC)  # type: ignore[return-value]
    return np.ascontiguousarray(array) if small != (columns, rows) else array.copy()
