"""Benchmarks of document question answering in their published layouts, and generated documents."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from backbone.errors import ConfigError
from docparse.benchmarks import bboxdocvqa, boundingdocs, docvqa, generated, mpdocvqa, real, slidevqa
from docparse.benchmarks.items import Benchmark, Item, PageFile

__all__ = ["BENCHMARKS", "Benchmark", "Item", "PageFile", "load_benchmark"]

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
    loaded = _LOADERS[name](path)
    if limit is None or limit >= len(loaded.items):
        return loaded
    order = np.random.default_rng(seed).permutation(len(loaded.items))[:limit].tolist()
    return replace(loaded, items=tuple(loaded.items[i] for i in order), expected=limit, skipped=())
