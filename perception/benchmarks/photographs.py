"""Real photographs that installed packages carry, split by name into train and held-out, for mini-V* backgrounds."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from backbone.contracts import Image
from backbone.errors import DataError
from backbone.images import read_image

Split = Literal["train", "held_out"]
MAXIMUM_SIDE = 4096  # larger photographs of a user's folder are reduced on reading: a tile never needs more
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff"})

# Only files inside the wheels (scikit-image downloads its others). Text, diagrams and cut-outs are left out.
_SCIKIT_IMAGE = ("skimage", "data")
_SCIKIT_LEARN = ("sklearn", "datasets/images")
_MATPLOTLIB = ("matplotlib", "mpl-data/sample_data")
PACKAGED: dict[str, tuple[tuple[str, str], Split]] = {
    "astronaut.png": (_SCIKIT_IMAGE, "train"),
    "brick.png": (_SCIKIT_IMAGE, "train"),
    "camera.png": (_SCIKIT_IMAGE, "train"),
    "cell.png": (_SCIKIT_IMAGE, "train"),
    "chelsea.png": (_SCIKIT_IMAGE, "train"),
    "coins.png": (_SCIKIT_IMAGE, "train"),
    "grass.png": (_SCIKIT_IMAGE, "train"),
    "hubble_deep_field.jpg": (_SCIKIT_IMAGE, "train"),
    "ihc.png": (_SCIKIT_IMAGE, "train"),
    "retina.jpg": (_SCIKIT_IMAGE, "train"),
    "rocket.jpg": (_SCIKIT_IMAGE, "train"),
    "flower.jpg": (_SCIKIT_LEARN, "train"),
    "grace_hopper.jpg": (_MATPLOTLIB, "train"),
    "china.jpg": (_SCIKIT_LEARN, "held_out"),
    "coffee.png": (_SCIKIT_IMAGE, "held_out"),
    "gravel.png": (_SCIKIT_IMAGE, "held_out"),
    "moon.png": (_SCIKIT_IMAGE, "held_out"),
    "motorcycle_left.png": (_SCIKIT_IMAGE, "held_out"),  # the right view shows the same scene and is left out
}


@dataclass(frozen=True, eq=False)
class Photograph:
    """A photograph and its halvings: ``levels[k]`` is uint8 (H / 2^k, W / 2^k, 3) RGB."""

    name: str
    levels: tuple[Image, ...] = field(repr=False)

    @classmethod
    def from_array(cls, name: str, array: Image) -> Photograph:
        """Build the halvings down to 16 pixels."""
        longest = max(array.shape[:2])
        if longest > MAXIMUM_SIDE:
            array = _shrink(array, MAXIMUM_SIDE / longest)
        levels = [array]
        while min(levels[-1].shape[:2]) >= 32:
            levels.append(_shrink(levels[-1], 0.5))
        return cls(name, tuple(levels))

    @property
    def size(self) -> tuple[int, int]:
        """``(width, height)`` in pixels."""
        return self.levels[0].shape[1], self.levels[0].shape[0]


@functools.lru_cache(maxsize=4)
def photographs(split: Split, folder: Path | None = None) -> tuple[Photograph, ...]:
    """The photographs of one split, in order of their names; those of ``folder`` are added to the packaged ones.

    A file of ``folder`` is held out when the hash of its name says so (one in four), whatever else lies beside it.

    Raises:
        DataError: a packaged photograph is not installed, or ``folder`` holds no picture of this split.
    """
    found = [
        Photograph.from_array(name, read_image(_packaged_path(name, package, inside)).array)
        for name, ((package, inside), where) in sorted(PACKAGED.items())
        if where == split
    ]
    if folder is not None:
        own = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and split_of(p.name) == split)
        if not own:
            raise DataError(
                f"{folder} holds no {split} photograph ({', '.join(sorted(SUFFIXES))}); add some or leave it out"
            )
        found += [Photograph.from_array(p.name, read_image(p).array) for p in own]
    return tuple(found)


def split_of(name: str) -> Split:
    """The split of a photograph that a user adds, from its name alone."""
    return "held_out" if hashlib.sha256(name.encode()).digest()[0] < 64 else "train"


def _packaged_path(name: str, package: str, inside: str) -> Path:
    spec = importlib.util.find_spec(package)  # finds without importing: these packages are slow to import
    for root in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(root) / inside / name
        if path.is_file():
            return path
    raise DataError(
        f"photograph {name} of the package {package} is not installed; mini-V* needs it: pip install -e '.[data]'"
    )


def _shrink(array: Image, scale: float) -> Image:
    height, width = array.shape[:2]
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(array, size, interpolation=cv2.INTER_AREA), np.uint8)
