"""Readers against each other on the same questions: differences by document, and what each needs for an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from backbone.errors import DataError
from backbone.statistics import Interval
from docparse.scoring import Row

BYTES = 4  # of an entry of the cost matrix


@dataclass(frozen=True)
class Needs:
    """What a reader takes for a question, as medians, and the most particles of any step of any question."""

    milliseconds: float
    particles: int

    @property
    def matrix_megabytes(self) -> float:
        """The largest cost matrix of a step, particles squared."""
        return self.particles**2 * BYTES / 1e6


def needs(rows: Sequence[Row]) -> Needs:
    """Of scored rows; no particles for a reader that has none."""
    scored = [row.values for row in rows if row.status == "scored"]
    if not scored:
        raise DataError("no row is scored, so there is nothing to time")
    times = [values["milliseconds"] for values in scored]
    return Needs(float(np.median(times)), int(max(values.get("particles", 0) for values in scored)))


def difference(
    a: Sequence[Row],
    b: Sequence[Row],
    metric: str = "iou",
    where: Callable[[Row], bool] = lambda row: True,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Mean of ``a`` less ``b`` over the questions both have the metric for, with a 95 % bootstrap interval.

    Documents are resampled, not questions: questions of one document succeed and fail together. A row's document is
    its id up to the slash.

    Raises:
        DataError: no question of both has the metric.
    """
    other = {row.id: row for row in b}
    by_document: dict[str, list[float]] = {}
    for row in a:
        rival = other.get(row.id)
        if rival is None or not where(row) or metric not in row.values or metric not in rival.values:
            continue
        by_document.setdefault(row.id.rsplit("/", 1)[0], []).append(row.values[metric] - rival.values[metric])
    if not by_document:
        raise DataError(f"no question of both readers has {metric}")
    sums = np.array([sum(values) for values in by_document.values()])
    counts = np.array([len(values) for values in by_document.values()])
    picks = np.random.default_rng(seed).integers(len(sums), size=(resamples, len(sums)))
    means = sums[picks].sum(1) / counts[picks].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    estimate = float(sums.sum() / counts.sum())
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate), int(counts.sum()))
