"""Statistics of features as LeRobot stores them: of an episode, and of a data set from those of its episodes.

``min max mean std count`` and the quantiles ``q01 q10 q50 q90 q99``; for a picture per channel in the range 0 to 1 with
shape (3, 1, 1). A data set's quantiles are the mean of the episodes' ones weighted by their length, as LeRobot has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image

Stats = dict[str, NDArray[Any]]
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
NAMES = ("min", "max", "mean", "std", "count", *QUANTILES)
LONGEST_SIDE = 160  # pixels that a picture's statistics look at, by taking every n-th


def column_stats(values: NDArray[Any]) -> Stats:
    """Of the rows (T,) or (T, D): arrays (D,), and ``count`` (1,). Computed in float64."""
    rows = np.asarray(values, np.float64).reshape(len(values), -1)
    stats: Stats = {"min": rows.min(0), "max": rows.max(0), "mean": rows.mean(0), "std": rows.std(0)}
    stats["count"] = np.array([len(rows)], np.int64)
    found = np.quantile(rows, list(QUANTILES.values()), axis=0)
    return {**stats, **dict(zip(QUANTILES, found, strict=True))}


class PictureStats:
    """Statistics of a camera's pictures from the histogram of each channel, so nothing but 3 x 256 counts is kept."""

    def __init__(self) -> None:
        """No picture yet."""
        self._counts = np.zeros((3, 256), np.int64)
        self._pictures = 0

    def add(self, image: Image) -> None:
        """Count the values of one picture (H, W, 3)."""
        step = max(1, max(image.shape[:2]) // LONGEST_SIDE)
        for channel in range(3):
            self._counts[channel] += np.bincount(image[::step, ::step, channel].ravel(), minlength=256)
        self._pictures += 1

    def stats(self) -> Stats:
        """Of all pictures so far, at least one."""
        levels, total = np.arange(256) / 255.0, self._counts.sum(1)
        mean = self._counts @ levels / total
        variance = np.maximum(0.0, self._counts @ levels**2 / total - mean**2)
        present = self._counts > 0
        low, high = present.argmax(1), 255 - present[:, ::-1].argmax(1)
        rising = self._counts.cumsum(1)
        stats = {"min": levels[low], "max": levels[high], "mean": mean, "std": np.sqrt(variance)}
        for name, part in QUANTILES.items():
            stats[name] = levels[(rising >= part * total[:, None]).argmax(1)]
        shaped: Stats = {key: value.reshape(3, 1, 1) for key, value in stats.items()}
        return {**shaped, "count": np.array([self._pictures], np.int64)}


def merge(parts: Iterable[Mapping[str, Stats]]) -> dict[str, Stats]:
    """The statistics of several episodes together, by feature; episodes may lack features."""
    merged: dict[str, Stats] = {}
    for part in parts:
        for key, stats in part.items():
            merged[key] = _merged(merged[key], stats) if key in merged else dict(stats)
    return merged


def _merged(a: Stats, b: Stats) -> Stats:
    n, m = float(a["count"][0]), float(b["count"][0])
    weights = n / (n + m), m / (n + m)
    mean = weights[0] * a["mean"] + weights[1] * b["mean"]
    variance = weights[0] * (a["std"] ** 2 + (a["mean"] - mean) ** 2)
    variance = variance + weights[1] * (b["std"] ** 2 + (b["mean"] - mean) ** 2)
    quantiles = {key: weights[0] * a[key] + weights[1] * b[key] for key in QUANTILES if key in a and key in b}
    extremes = {"min": np.minimum(a["min"], b["min"]), "max": np.maximum(a["max"], b["max"])}
    return {**extremes, "mean": mean, "std": np.sqrt(variance), "count": a["count"] + b["count"], **quantiles}


def to_json(stats: Mapping[str, Stats]) -> dict[str, dict[str, Any]]:
    """Nested lists, as ``meta/stats.json`` has them."""
    return {key: {name: value.tolist() for name, value in found.items()} for key, found in stats.items()}
