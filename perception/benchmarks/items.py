"""What every benchmark of perception gives: items with a picture, a question, lettered options and, if known, boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from backbone.contracts import Box, Image
from backbone.errors import DataError

MAXIMUM_OPTIONS = 10  # letters A to J


class Picture(Protocol):
    """The views of an original that methods may take; `backbone.images.SourceImage` and `SceneImage` have them."""

    @property
    def size(self) -> tuple[int, int]:
        """``(width, height)`` in pixels."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What reading changed."""
        ...

    def resized(self, longest: int | None) -> Image:
        """The whole picture with its longer side at most ``longest`` px."""
        ...

    def crop(self, box: Box, width: int, height: int) -> Image:
        """The pixels under ``box``, resized."""
        ...


@dataclass(frozen=True)
class Item:
    """One question with a known answer.

    ``boxes`` are the evidence in pixels of the original, empty where the benchmark gives none. ``answer`` is the index
    of the right option. ``group`` joins items that ask the same with other option orders. ``load`` decodes or draws
    the picture; nothing is kept between calls.
    """

    id: str
    kind: str
    question: str
    options: tuple[str, ...]
    answer: int
    load: Callable[[], Picture] = field(repr=False, compare=False)
    boxes: tuple[Box, ...] = ()
    group: str = ""
    seed: int = 0
    longest: int = 0  # nominal longer side in pixels for reports by size; 0 where only loading tells

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise DataError(f"item {self.id}: the question is empty")
        if not 2 <= len(self.options) <= MAXIMUM_OPTIONS:
            raise DataError(f"item {self.id}: needs 2 to {MAXIMUM_OPTIONS} options, got {len(self.options)}")
        if len(set(self.options)) != len(self.options):
            raise DataError(f"item {self.id}: options are not distinct: {self.options}")
        if not 0 <= self.answer < len(self.options):
            raise DataError(f"item {self.id}: answer index {self.answer} is not one of {len(self.options)} options")


@dataclass(frozen=True)
class Benchmark:
    """Items of one split. ``skipped`` says which records were left out and why."""

    name: str
    split: str
    items: tuple[Item, ...]
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.items:
            reasons = "; ".join(self.skipped[:3])
            raise DataError(
                f"benchmark {self.name}: no item in split {self.split!r}{f' ({reasons})' if reasons else ''}"
            )
        twice = repeated(item.id for item in self.items)
        if twice:
            raise DataError(f"benchmark {self.name}: item ids are not unique: {', '.join(twice[:5])}")


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, in order of their first repetition."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return list(twice)


def shuffled(options: Sequence[str], right: int, seed: Sequence[int]) -> tuple[tuple[str, ...], int]:
    """The options in an order given by ``seed`` alone, and where the right one went."""
    order = np.random.default_rng(list(seed)).permutation(len(options)).tolist()
    return tuple(options[i] for i in order), order.index(right)
