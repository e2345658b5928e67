"""Benchmarks of document question answering in their published layouts, and generated documents."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from backbone.errors import ConfigError
from docparse.benchmarks import bboxdocvqa, boundingdocs, docvqa, generated, mpdocvqa, real, slidevqa
from docparse.benchmarks.items import Benchmark, Item, PageFile

__all__ = ["BENCHMARKS", "Benchmark", "Item", "PageFile", "load_benchmark", "of_kinds"]

_LOADERS: dict[str, Callable[[Path], Benchmark]] = {
    "docvqa": docvqa.load,
    "mpdocvqa": mpdocvqa.load,
    "slidevqa": slidevqa.load,
    "boundingdocs": boundingdocs.load,
    "bboxdocvqa": bboxdocvqa.load,
    "generated": generated.load,
    "real": real.load,
}
BENCHMARKS: tuple[str, ...] = tuple(_LOADERS)


def load_benchmark(name: str, path: Path, limit: int | None = None, seed: int = 0) -> Benchmark:
    """A benchmark by name, from the file or folder it was downloaded to; its module's ``load`` has more options.

    ``limit`` takes that many items of an order shuffled by ``seed``, so that a part is a fair sample and a larger part
    contains the smaller; ``expected`` is then the number taken.

    Raises:
        ConfigError: unknown name, or a limit below 1.
        DataError: the files are not in the stated layout or have no answers.
    """
    if name not in _LOADERS:
        close = difflib.get_close_matches(name, BENCHMARKS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}{hint}")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1 item, got {limit}")
    return _drawn(_LOADERS[name](path), limit, seed)


def of_kinds(benchmark: Benchmark, kinds: Sequence[str], limit: int | None = None, seed: int = 0) -> Benchmark:
    """The items of some kinds alone, all if none is named; ``limit`` and ``seed`` as in `load_benchmark`.

    Raises `ConfigError` for a kind that no item is of.
    """
    if not kinds:
        return benchmark
    known = sorted({item.kind for item in benchmark.items})
    if unknown := sorted(set(kinds) - set(known)):
        raise ConfigError(f"{benchmark.name} has no question of kind {unknown[0]!r}; there are {', '.join(known)}")
    items = tuple(item for item in benchmark.items if item.kind in kinds)
    return _drawn(replace(benchmark, items=items, expected=len(items), skipped=()), limit, seed)


def _drawn(benchmark: Benchmark, limit: int | None, seed: int) -> Benchmark:
    if limit is None or limit >= len(benchmark.items):
        return benchmark
    order = np.random.default_rng(seed).permutation(len(benchmark.items))[:limit].tolist()
    return replace(benchmark, items=tuple(benchmark.items[i] for i in order), expected=limit, skipped=())
