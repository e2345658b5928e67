"""Real photographs that Python packages carry in their wheels, split by name into training and held-out ones."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from backbone.contracts import Image

# (package, path inside it): all read from the installed wheel, never downloaded or copied.
_TRAINING = (
    ("skimage", "data/astronaut.png"),
    ("skimage", "data/brick.png"),
    ("skimage", "data/camera.png"),
    ("skimage", "data/chelsea.png"),
    ("skimage", "data/coins.png"),
    ("skimage", "data/grass.png"),
    ("skimage", "data/hubble_deep_field.jpg"),
    ("skimage", "data/ihc.png"),
    ("skimage", "data/retina.jpg"),
    ("skimage", "data/rocket.jpg"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
)
LONGEST = 640


@functools.lru_cache(maxsize=1)
def training_photos() -> tuple[Image, ...]:
    """Training photographs found on this machine, longest side at most 640 px; empty when no package is installed."""
    return tuple(_read(path) for path in _found(_TRAINING))


def _found(names: tuple[tuple[str, str], ...]) -> Iterator[Path]:
    for package, relative in names:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (path := Path(folder) / relative).is_file():
                yield path


def _read(path: Path) -> Image:
    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if bgr is None:
        return np.zeros((64, 64, 3), np.uint8)
    scale = LONGEST / max(bgr.shape[:2])
    if scale < 1:
        bgr = cv2.resize(bgr, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(bgr[..., ::-1])
