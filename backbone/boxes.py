"""How each model family writes a box as numbers, and the exact way back to pixels of the original image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from backbone.contracts import Box
from backbone.errors import DataError, ModelError

Size = tuple[int, int]  # (width, height)
GRID = 1000  # Qwen2-VL and Qwen3-VL write coordinates relative to the image, 0 to 1000


@dataclass(frozen=True)
class BoxConvention:
    """``relative``: 0 to 1000 of the image. ``resized``: absolute pixels of the image as resized for the model."""

    kind: Literal["relative", "resized"]

    @classmethod
    def for_family(cls, family: str) -> BoxConvention:
        """The convention of a transformers ``model_type``; raises `ModelError` for an unknown one."""
        if family == "qwen2_5_vl":
            return cls("resized")
        if family.startswith(("qwen2_vl", "qwen3", "qwen4")):
            return cls("relative")
        raise ModelError(
            f"box convention of model family {family!r} is unknown; known: qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5"
        )

    def _scale(self, original: Size, resized: Size) -> tuple[float, float]:
        width, height = (GRID, GRID) if self.kind == "relative" else resized
        return original[0] / width, original[1] / height

    def encode(self, box: Box, original: Size, resized: Size) -> tuple[int, int, int, int]:
        """The four integers the model would write for ``box``, at least one unit wide and high so it reads back."""
        sx, sy = self._scale(original, resized)
        width, height = (GRID, GRID) if self.kind == "relative" else resized
        x0, x1 = _span(box.x0 / sx, box.x1 / sx, width)
        y0, y1 = _span(box.y0 / sy, box.y1 / sy, height)
        return x0, y0, x1, y1

    def decode(
        self, numbers: Sequence[float], original: Size, resized: Size, label: str = "", score: float = 1.0
    ) -> Box:
        """Pixels of the original image; swaps reversed corners, clips, raises `DataError` if nothing remains."""
        if len(numbers) != 4:
            raise DataError(f"a box needs 4 numbers, got {len(numbers)}: {list(numbers)}")
        sx, sy = self._scale(original, resized)
        x0, y0, x1, y1 = numbers
        return Box.clamped((x0 * sx, y0 * sy, x1 * sx, y1 * sy), *original, label=label, score=score)

    def decode_point(self, numbers: Sequence[float], original: Size, resized: Size) -> tuple[float, float]:
        """A point as ``(x, y)`` pixels of the original image, clipped to it."""
        if len(numbers) != 2:
            raise DataError(f"a point needs 2 numbers, got {len(numbers)}: {list(numbers)}")
        if not all(math.isfinite(v) for v in numbers):
            raise DataError(f"a point needs finite numbers, got {list(numbers)}")
        sx, sy = self._scale(original, resized)
        return min(max(numbers[0] * sx, 0.0), original[0]), min(max(numbers[1] * sy, 0.0), original[1])


def _span(low: float, high: float, size: int) -> tuple[int, int]:
    """Both ends rounded; an interval that rounds to nothing becomes the one unit it lies in, inside ``size``."""
    a, b = round(low), round(high)
    if a == b:
        a = min(math.floor(low), size - 1)
        b = a + 1
    return a, b
