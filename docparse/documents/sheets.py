"""A page inside the reading process, before its words are arranged."""

from __future__ import annotations

from dataclasses import dataclass

from docparse.documents.characters import RawWords
from docparse.documents.geometry import Affine


@dataclass(frozen=True, eq=False)
class Sheet:
    """A page's pixels, the way to points, its words and what is known about it.

    ``dpi`` and ``to_points`` are None for pictures.
    """

    width: int
    height: int
    dpi: float | None
    to_points: Affine | None
    words: RawWords
    notes: tuple[str, ...]
