"""Decoding picture files to uint8 RGB within stated limits of bytes, pixels and memory.

The decoder holds 4 bytes a pixel and the result 3; pixels move from one to the other in strips, so decoding peaks at
7 bytes a pixel (470 MB at 8192 x 8192, 1.4 GB at the default limit of 200 megapixels) and leaves 3. Nothing is ever
converted to floating point as a whole.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowModule
from PIL import UnidentifiedImageError
from PIL.Image import Image as Pillow

from backbone.contracts import Image
from backbone.errors import ConfigError, DataError

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP")
READABLE = "JPEG, PNG, WebP, TIFF, GIF or BMP"
ORIENTATION = 0x0112  # EXIF tag
_STRIP_PIXELS = 2_000_000
_FIRST_OF = "first of"
_pillow_limit = threading.Lock()


@dataclass(frozen=True)
class ImageLimits:
    """What is refused before it is decoded: files over ``max_bytes``, pictures over ``max_pixels``."""

    max_pixels: int = 200_000_000
    max_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if self.max_pixels < 1 or self.max_bytes < 1:
            raise ConfigError(f"image limits must be positive, got {self}")


def decode(source: Path | bytes, limits: ImageLimits, frame: int | None = None) -> tuple[Image, tuple[str, ...]]:
    """Decode a file or its bytes to ``(uint8 (H, W, 3) RGB, notes)``; see `backbone.images.read_image`.

    ``frame`` chooses a page of a TIFF or a frame of an animation; without it the first is taken, and a note says so.
    """
    name = f"image of {len(source)} bytes" if isinstance(source, bytes) else str(source)
    _check_bytes(source, name, limits)
    try:
        with _open(source, name) as image:
            if frame:
                image.seek(frame)
            _check_pixels(image, name, limits)
            array, notes = _to_rgb(image)
            return array, notes if frame is None else tuple(note for note in notes if not note.startswith(_FIRST_OF))
    except DataError:
        raise
    except MemoryError as error:
        raise DataError(f"{name}: not enough memory to decode it; shrink the picture") from error
    except Exception as error:  # decoders raise nearly anything on a hostile file; the cause is kept and shown
        raise DataError(f"{name}: broken or truncated picture ({error}); save it again in an image editor") from error


def count_pages(source: Path | bytes, limits: ImageLimits) -> int:
    """The pages of a TIFF, 1 for any other picture; raises `DataError` as `decode` does, but reads no pixels."""
    name = f"image of {len(source)} bytes" if isinstance(source, bytes) else str(source)
    _check_bytes(source, name, limits)
    try:
        with _open(source, name) as image:
            pages = int(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1
            if pages == 1:
                _check_pixels(image, name, limits)
            return pages
    except DataError:
        raise
    except Exception as error:  # as in decode
        raise DataError(f"{name}: broken or truncated picture ({error}); save it again in an image editor") from error


def _check_bytes(source: Path | bytes, name: str, limits: ImageLimits) -> None:
    if isinstance(source, bytes):
        size = len(source)
    elif not source.exists():
        raise DataError(f"{name}: no such file; check the path")
    elif not source.is_file():
        raise DataError(f"{name}: is not a file; give the path of one picture")
    else:
        size = source.stat().st_size
    if size == 0:
        raise DataError(f"{name}: the file is empty (0 bytes); copy or download it again")
    if size > limits.max_bytes:
        raise DataError(
            f"{name}: {size} bytes exceed the limit of {limits.max_bytes}; shrink the picture or compress it"
        )


def _open(source: Path | bytes, name: str) -> Pillow:
    """Read the header only. Pillow's own pixel limit is lifted here because `_check_pixels` applies ours."""
    stream: Path | io.BytesIO = io.BytesIO(source) if isinstance(source, bytes) else source
    with _pillow_limit:
        before = PillowModule.MAX_IMAGE_PIXELS
        PillowModule.MAX_IMAGE_PIXELS = None
        try:
            return PillowModule.open(stream, formats=FORMATS)
        except PermissionError as error:
            raise DataError(f"{name}: may not be read ({error.strerror}); check its permissions") from error
        except UnidentifiedImageError as error:
            raise DataError(
                f"{name}: not a readable picture; expected {READABLE}, convert it to one of them"
            ) from error
        finally:
            PillowModule.MAX_IMAGE_PIXELS = before


def _check_pixels(image: Pillow, name: str, limits: ImageLimits) -> None:
    pixels = image.width * image.height
    if pixels > limits.max_pixels:
        raise DataError(
            f"{name}: {image.width} x {image.height} is {pixels / 1e6:.1f} megapixels, over the limit of "
            f"{limits.max_pixels / 1e6:.1f}; shrink the picture or cut it into parts"
        )
    if pixels < 1:
        raise DataError(f"{name}: {image.width} x {image.height} has no pixels; save it again in an image editor")


def _to_rgb(image: Pillow) -> tuple[Image, tuple[str, ...]]:
    notes: list[str] = []
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        notes.append(f"{_FIRST_OF} {frames} frames")
    deep = ";16" in "".join(str(tile) for tile in image.tile)  # type: ignore[attr-defined]
    orientation = image.getexif().get(ORIENTATION, 1)
    image.load()
    convert, note = _converter(image, deep)
    if note:
        notes.append(note)
    array = np.empty((image.height, image.width, 3), np.uint8)
    transparent = _fill(array, image, convert)
    if transparent:
        notes.append("transparent parts pasted on white")
    image.close()  # frees the decoder's pixels before a rotation needs room
    if orientation in _TURNS:
        words, turn = _TURNS[orientation]
        array = np.ascontiguousarray(turn(array))
        notes.append(f"{words} as its EXIF orientation says")
    return array, tuple(notes)


def _fill(array: Image, image: Pillow, convert: Callable[[Pillow], NDArray[np.uint8]]) -> bool:
    """Move the pixels strip by strip; returns whether any pixel was transparent."""
    rows = max(1, _STRIP_PIXELS // image.width)
    transparent = False
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        strip = convert(image.crop((0, top, image.width, bottom)))  # (rows, W), (rows, W, 3) or (rows, W, 4)
        if strip.ndim == 2:
            array[top:bottom] = strip[:, :, None]
        elif strip.shape[2] == 4:
            transparent |= bool((strip[:, :, 3] < 255).any())
            array[top:bottom] = on_white(strip)
        else:
            array[top:bottom] = strip
    return transparent


def on_white(rgba: NDArray[np.uint8]) -> Image:
    """Paste uint8 (H, W, 4) with straight alpha on white, rounded to the nearest value."""
    alpha = rgba[:, :, 3:].astype(np.uint16)
    mixed = rgba[:, :, :3] * alpha + 255 * (255 - alpha)  # at most 255 * 255, fits uint16
    return ((mixed + np.uint16(127)) // np.uint16(255)).astype(np.uint8)


def from_16_bit(values: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Scale 0 to 65535 onto 0 to 255, rounded to the nearest value."""
    return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _converter(image: Pillow, deep: bool) -> tuple[Callable[[Pillow], NDArray[np.uint8]], str]:
    """How one strip of this picture becomes 8-bit values, and the note that says so."""
    if image.mode.startswith("I;16"):
        note = "16-bit greyscale scaled from 0-65535 to 8 bits"
        return lambda strip: from_16_bit(np.asarray(strip).astype(np.uint16)), note
    if image.mode in ("I", "F"):
        return _range_converter(image)
    if image.has_transparency_data:
        return lambda strip: np.asarray(strip.convert("RGBA")), "16 bits a channel scaled to 8" if deep else ""
    if image.mode == "CMYK":
        return lambda strip: np.asarray(strip.convert("RGB")), "CMYK converted to RGB without a colour profile"
    return lambda strip: np.asarray(strip.convert("RGB")), "16 bits a channel scaled to 8" if deep else ""


def _range_converter(image: Pillow) -> tuple[Callable[[Pillow], NDArray[np.uint8]], str]:
    """Grey of 32-bit integers or floats has no agreed white: 0-65535 and 0-1 are kept, any other range is stretched."""
    low, high = (float(v) for v in image.getextrema())  # type: ignore[arg-type]
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError("greyscale picture holds NaN or infinite values; replace them and save it again")
    usual = 65535.0 if image.mode == "I" else 1.0
    bottom, top = (0.0, usual) if low >= 0 and high <= usual else (low, high)
    span = max(top - bottom, 1e-12)

    def convert(strip: Pillow) -> NDArray[np.uint8]:
        values = np.asarray(strip).astype(np.float64)
        if not np.isfinite(values).all():
            raise DataError("greyscale picture holds NaN or infinite values; replace them and save it again")
        return np.rint((values - bottom) * (255.0 / span)).astype(np.uint8)

    return convert, f"greyscale values {low:g} to {high:g} scaled from {bottom:g}-{top:g} to 8 bits"


_TURNS: dict[int, tuple[str, Callable[[Image], Image]]] = {
    2: ("mirrored", lambda a: a[:, ::-1]),
    3: ("rotated by 180 degrees", lambda a: a[::-1, ::-1]),
    4: ("flipped", lambda a: a[::-1]),
    5: ("transposed", lambda a: a.transpose(1, 0, 2)),
    6: ("rotated by 90 degrees", lambda a: a[::-1].transpose(1, 0, 2)),
    7: ("transposed and rotated by 180 degrees", lambda a: a[::-1, ::-1].transpose(1, 0, 2)),
    8: ("rotated by 270 degrees", lambda a: a[:, ::-1].transpose(1, 0, 2)),
}
