"""Intervals, paired tests and latency percentiles for evaluation reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError

CHUNK_VALUES = 4_000_000  # resampled values drawn at once: bounds the bootstrap's memory to about 64 MB

Values = Sequence[float] | Sequence[bool] | NDArray[np.generic]


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence limits, and the number of observations (or pairs) it rests on."""

    estimate: float
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        if not all(math.isfinite(v) for v in (self.estimate, self.low, self.high)):
            raise DataError(f"interval has a NaN or infinite value: {self.estimate} ({self.low} to {self.high})")
        if self.low > self.high or self.n < 1:
            raise DataError(f"interval needs low <= high and n >= 1, got {self.low}, {self.high}, n {self.n}")

    def __str__(self) -> str:
        return f"{self.estimate:.3f} ({self.low:.3f} to {self.high:.3f}, n = {self.n})"

    @classmethod
    def make_example(cls) -> Interval:
        """Eight successes of ten."""
        return wilson(8, 10)


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927), without continuity correction.

    Holds its coverage for small ``n`` and for proportions near 0 and 1, where the normal interval does not.

    Raises:
        DataError: ``n`` below 1, ``successes`` outside 0..n, or ``confidence`` outside (0, 1).
    """
    _check_confidence(confidence)
    if n < 1 or not 0 <= successes <= n or int(successes) != successes or int(n) != n:
        raise DataError(f"wilson: needs whole numbers 0 <= successes <= n and n >= 1, got {successes} of {n}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # At 0 and n the limit is exactly 0 and 1; rounding would leave it a hair away.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(p, low, high, int(n))


def bootstrap_mean(values: Values, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Percentile bootstrap interval of the mean; the same values and ``seed`` give the same interval.

    Raises:
        DataError: no values, a value that is not finite, fewer than 100 resamples, or confidence outside (0, 1).
    """
    x = _vector(values, "bootstrap_mean")
    low, high = _bootstrap_limits(x, confidence, resamples, seed)
    return Interval(float(x.mean()), low, high, x.size)


def paired_difference(
    a: Values, b: Values, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of ``mean(a - b)`` over the same items; pairs are resampled together.

    Positive means ``a`` is larger. An interval that excludes 0 is a difference at level ``1 - confidence``.

    Raises:
        DataError: as `bootstrap_mean`, or the two have different lengths.
    """
    x, y = _vector(a, "paired_difference a"), _vector(b, "paired_difference b")
    _check_paired(x.size, y.size, "paired_difference")
    return bootstrap_mean(x - y, confidence=confidence, resamples=resamples, seed=seed)


def mcnemar(a: Sequence[bool] | NDArray[np.generic], b: Sequence[bool] | NDArray[np.generic]) -> float:
    """Two-sided exact McNemar p-value for two systems' correctness on the same items.

    Under the null hypothesis each discordant pair falls either way with probability 1/2, so the p-value is twice
    the binomial tail of the smaller count, at most 1. It is 1 when no pair is discordant.

    Raises:
        DataError: different lengths, no items, or values other than true/false (or 1/0).
    """
    x, y = _vector(a, "mcnemar a"), _vector(b, "mcnemar b")
    _check_paired(x.size, y.size, "mcnemar")
    for name, v in (("a", x), ("b", y)):
        if not np.isin(v, (0.0, 1.0)).all():
            raise DataError(
                f"mcnemar {name}: expected true or false for each item, got {v[~np.isin(v, (0.0, 1.0))][0]}"
            )
    only_a, only_b = int(((x == 1) & (y == 0)).sum()), int(((x == 0) & (y == 1)).sum())
    discordant = only_a + only_b
    tail = sum(math.comb(discordant, k) for k in range(min(only_a, only_b) + 1))
    return min(1.0, (2 * tail) / (1 << discordant))  # exact integers: no underflow for many pairs


def percentiles(values: Values, points: Sequence[float] = (50, 95, 99)) -> dict[str, float]:
    """Percentiles of latencies (any unit) by linear interpolation, keyed ``p50``, ``p95``, ``p99.9``.

    Raises:
        DataError: no values, a value that is not finite, or a point outside 0..100.
    """
    x = _vector(values, "percentiles")
    bad = [p for p in points if not 0 <= p <= 100]
    if bad or not points:
        raise DataError(f"percentiles: points must lie in 0..100 and not be empty, got {list(points)}")
    return {f"p{p:g}": float(np.percentile(x, p)) for p in points}


def _bootstrap_limits(x: NDArray[np.float64], confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    _check_confidence(confidence)
    if resamples < 100:
        raise DataError(f"bootstrap: at least 100 resamples are needed for interval limits, got {resamples}")
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    step = max(1, CHUNK_VALUES // x.size)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        means[start : start + count] = x[generator.integers(0, x.size, (count, x.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _vector(values: Values, where: str) -> NDArray[np.float64]:
    x = np.asarray(values, np.float64)
    if x.ndim != 1 or x.size == 0:
        raise DataError(f"{where}: expected a non-empty sequence of numbers, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise DataError(f"{where}: {int((~np.isfinite(x)).sum())} of {x.size} values are NaN or infinite")
    return x


def _check_paired(a: int, b: int, where: str) -> None:
    if a != b:
        raise DataError(f"{where}: both systems need the same items in the same order, got {a} and {b} values")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise DataError(f"confidence must lie between 0 and 1, got {confidence}")
