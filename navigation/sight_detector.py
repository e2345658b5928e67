"""The classifiers that sight was learned with, as a detector: cells of a picture that a tower takes for the object."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from backbone.contracts import Observation
from backbone.errors import ConfigError, DataError
from backbone.local import LocalVLM
from navigation.config import NavigationConfig
from navigation.detectors import Mask
from navigation.looking import fitted, front_of
from navigation.sight_heads import CLASS_OF, SightHeads


class SightDetector:
    """Cells whose most probable kind is what is looked for, with at least a probability of ``least``."""

    def __init__(
        self, vlm: LocalVLM, adapter: str | None, folder: Path, config: NavigationConfig, least: float = 0.6
    ) -> None:
        """``folder`` is the adapter's directory, with the classifiers beside it; ``config`` has the frame's size.

        Raises:
            ConfigError: ``least`` is no probability.
            ModelError: the folder holds no classifiers, or those of another model.
        """
        if not 0.0 < least <= 1.0:
            raise ConfigError(f"sight: least must lie in (0, 1], got {least}")
        self._vlm, self._adapter, self._config, self._least = vlm, adapter, config, least
        self._heads = SightHeads.load(folder, vlm.network.width)

    def __call__(self, observation: Observation, what: str) -> Mask | None:
        """See `Detector`; of every cell only the middle, where what is behind the object's edge does not show."""
        number = CLASS_OF.get(what)
        if number is None:
            raise DataError(f"sight: no class {what!r}; there are {', '.join(sorted(CLASS_OF))}")
        image = front_of(observation)
        chances = self.chances(fitted(image, self._config.width, self._config.height))  # (R, C, classes)
        chosen = (chances.argmax(-1) == number) & (chances[..., number] >= self._least)
        if not chosen.any():
            return None
        height, width = image.shape[:2]
        row, down = _cell_of(height, len(chosen))
        column, across = _cell_of(width, chosen.shape[1])
        middle = (np.abs(down - 0.5) < 0.25)[:, None] & (np.abs(across - 0.5) < 0.25)[None]
        mask: Mask = chosen[row][:, column] & middle
        return mask

    def chances(self, frame: np.ndarray) -> np.ndarray:
        """Probability of every kind at every visual token: float32 (rows, columns, classes)."""
        with torch.no_grad():
            features = self._vlm.image_features([frame], adapter=self._adapter)[0]
            return self._heads.heads["kind"](features).softmax(-1).numpy()  # type: ignore[no-any-return]


def _cell_of(pixels: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """For every pixel along a side its cell, and how far through that cell it is (0 to 1)."""
    place = (np.arange(pixels) + 0.5) * cells / pixels
    return place.astype(int), place % 1
