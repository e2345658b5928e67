"""Benchmarks of visual search: generated mini-V* and loaders for V*Bench, HR-Bench and XLRS-Bench-lite."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from backbone.errors import ConfigError
from perception.benchmarks import hrbench, ministar, vstar, xlrs
from perception.benchmarks.items import Benchmark, Item
from perception.benchmarks.photographs import Split

__all__ = ["BENCHMARKS", "Benchmark", "Item", "load_benchmark"]

MINISTAR_ITEMS = 400  # where no limit is given


@dataclass(frozen=True)
class _Published:
    """A published benchmark: its only split with answers, and its loader of ``(path, seed)``."""

    split: str
    load: Callable[[Path, int], Benchmark]


_PUBLISHED = {
    "vstar": _Published("test", vstar.load),
    "hrbench-4k": _Published("test", lambda path, _: hrbench.load(path, "4k")),
    "hrbench-8k": _Published("test", lambda path, _: hrbench.load(path, "8k")),
    "xlrs-lite": _Published("train", lambda path, _: xlrs.load(path)),
}
BENCHMARKS: tuple[str, ...] = ("ministar", *_PUBLISHED)


def load_benchmark(
    name: str, path: Path | None = None, limit: int | None = None, split: str | None = None, seed: int = 0
) -> Benchmark:
    """A benchmark by name.

    ``path`` is the downloaded file or folder; for ``ministar`` an optional folder of more photographs. ``limit`` takes
    that many items: for ``ministar`` the first seeds, else the first of an order shuffled by ``seed``, so that a part
    is a fair sample and a larger part contains the smaller. ``split`` is ``train`` or ``held_out`` for ``ministar``
    (default ``held_out``).

    Raises:
        ConfigError: unknown name or split, a limit below 1, or no path where one is needed.
        DataError: the files are not in the stated layout or have no answers.
    """
    if name not in BENCHMARKS:
        close = difflib.get_close_matches(name, BENCHMARKS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}{hint}")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1 item, got {limit}")
    if name == "ministar":
        return ministar.benchmark(limit or MINISTAR_ITEMS, _ministar_split(split), folder=path)
    published = _PUBLISHED[name]
    if split not in (None, published.split):
        raise ConfigError(f"{name} is published with answers as split {published.split!r} only, asked for {split!r}")
    if path is None:
        raise ConfigError(f"{name} is not shipped; download it and give its place with --path (in Python: path=)")
    loaded = published.load(path, seed)
    if limit is None or limit >= len(loaded.items):
        return loaded
    order = np.random.default_rng(seed).permutation(len(loaded.items))[:limit].tolist()
    return replace(loaded, items=tuple(loaded.items[i] for i in order))


def _ministar_split(split: str | None) -> Split:
    if split in (None, "held_out"):
        return "held_out"
    if split == "train":
        return "train"
    raise ConfigError(f"ministar has the splits train and held_out, asked for {split!r}")
