"""Pixel limits: the one place that decides to which size an image is resized before it is cut into patches."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backbone.errors import ConfigError, DataError

MAX_ASPECT = 200  # the families' own limit: beyond it their processors refuse the image


@dataclass(frozen=True)
class Pixels:
    """Limits on the area of an encoded image, and the side of one visual token (``patch_size * merge_size``).

    Used for both resizing and box conversion, and recorded with every result, so that the two cannot drift apart.
    """

    minimum: int
    maximum: int
    factor: int

    def __post_init__(self) -> None:
        if self.factor < 1 or self.minimum < 1 or self.maximum < self.minimum:
            raise ConfigError(f"pixel limits need factor >= 1 and 1 <= minimum <= maximum, got {self}")
        if self.maximum < self.factor**2:
            raise ConfigError(
                f"maximum of {self.maximum} pixels is less than one visual token of {self.factor}^2 pixels"
            )

    def resize(self, width: int, height: int) -> tuple[int, int]:
        """``(width, height)`` as Qwen's ``smart_resize`` gives it: multiples of ``factor``, area within the limits.

        Rounds half to even, as the families' own processors do. Raises `DataError` for aspect ratios over 200.
        """
        if width < 1 or height < 1:
            raise DataError(f"cannot resize an image of {width} x {height} pixels")
        if max(width, height) / min(width, height) > MAX_ASPECT:
            raise DataError(
                f"image of {width} x {height}: one side is over {MAX_ASPECT} times the other; crop it first"
            )
        # A side may round to 0 here; the area is then below any minimum, and the last branch enlarges it.
        w = round(width / self.factor) * self.factor
        h = round(height / self.factor) * self.factor
        if w * h > self.maximum:
            scale = math.sqrt(width * height / self.maximum)
            w = max(self.factor, math.floor(width / scale / self.factor) * self.factor)
            h = max(self.factor, math.floor(height / scale / self.factor) * self.factor)
        elif w * h < self.minimum:
            scale = math.sqrt(self.minimum / (width * height))
            w = math.ceil(width * scale / self.factor) * self.factor
            h = math.ceil(height * scale / self.factor) * self.factor
        return w, h
