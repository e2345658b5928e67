"""What every benchmark of perception gives: items with a picture, a question, lettered options and, if known, boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from backbone.contracts import Box
from backbone.errors import DataError
from perception.views import LargeImage

MAXIMUM_OPTIONS = 10  # letters A to J


@dataclass(frozen=True)
class Item:
    """One question with a known answer.

    ``boxes`` are the evidence in pixels of the original, empty where the benchmark gives none. ``answer`` is the index
    of the right option. ``several`` are those of all right ones, ascending, where the question says that there may be
    more than one; `answer` is then the first of them. ``group`` is a further division to report by (HR-Bench: the cycle
    of option orders). ``load`` decodes or draws the picture; nothing is kept between calls.
    """

    id: str
    kind: str
    question: str
    options: tuple[str, ...]
    answer: int
    load: Callable[[], LargeImage] = field(repr=False, compare=False)
    boxes: tuple[Box, ...] = ()
    group: str = ""
    seed: int = 0
    several: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise DataError(f"item {self.id}: the question is empty")
        if not 2 <= len(self.options) <= MAXIMUM_OPTIONS:
            raise DataError(f"item {self.id}: needs 2 to {MAXIMUM_OPTIONS} options, got {len(self.options)}")
        if len(set(self.options)) != len(self.options):
            raise DataError(f"item {self.id}: options are not distinct: {self.options}")
        if not 0 <= self.answer < len(self.options):
            raise DataError(f"item {self.id}: answer index {self.answer} is not one of {len(self.options)} options")
        places = range(len(self.options))
        if self.several and [p for p in places if p in self.several] != [self.answer, *self.several[1:]]:
            raise DataError(
                f"item {self.id}: right options {self.several} must be places of {len(self.options)} options, "
                f"ascending, from {self.answer} on"
            )


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
