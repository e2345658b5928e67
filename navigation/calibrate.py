"""A switch one can trust: the threshold on the probability of ``obs`` by distribution-free risk control.

Learn-then-Test (Angelopoulos and others, arXiv 2110.01052) with fixed-sequence testing. For each threshold, in an order
fixed beforehand from the most careful one on, the null hypothesis "its risk is above ``alpha``" gets a valid p-value
from the validation episodes; testing goes on while p <= ``delta``. With probability at least ``1 - delta`` over the
episodes drawn, no threshold that was passed has a risk above ``alpha``, whatever the model, the homes and the choice
made among those passed: here the one that takes the least time.

The risk is the share of lost episodes among those that always reasoning solves. Episodes must be exchangeable with
those to come; other homes or categories void the statement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backbone.errors import ConfigError, DataError
from backbone.rollout.results import EpisodeResult
from backbone.statistics import Interval, paired_difference, wilson
from navigation.timing import episode_time

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def binomial_p(lost: int, n: int, alpha: float) -> float:
    """``P(Bin(n, alpha) <= lost)``: exact p-value of "the risk of a loss of 0 or 1 is above alpha"."""
    _check_alpha(alpha)
    if n < 1 or not 0 <= lost <= n:
        raise DataError(f"binomial p-value: needs 0 <= lost <= n and n >= 1, got {lost} of {n}")
    logs = [
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(alpha)
        + (n - k) * math.log1p(-alpha)
        for k in range(lost + 1)
    ]
    top = max(logs)
    return min(1.0, math.exp(top) * math.fsum(math.exp(value - top) for value in logs))


def hoeffding_bentkus_p(mean: float, n: int, alpha: float) -> float:
    """Valid p-value of "the risk is above alpha" for losses in [0, 1] with this mean (Bates and others, 2021).

    ``min(exp(-n KL(min(mean, alpha) || alpha)), e P(Bin(n, alpha) <= ceil(n mean)))``.
    """
    _check_alpha(alpha)
    if n < 1 or not 0.0 <= mean <= 1.0:
        raise DataError(f"Hoeffding-Bentkus: needs n >= 1 and a mean in [0, 1], got {mean} of {n}")
    a = min(mean, alpha)
    divergence = (a * math.log(a / alpha) if a > 0 else 0.0) + (1 - a) * math.log((1 - a) / (1 - alpha))
    hoeffding = math.exp(-n * divergence)
    bentkus = math.e * binomial_p(min(n, math.ceil(n * mean - 1e-9)), n, alpha)
    return min(1.0, hoeffding, bentkus)


def fixed_sequence(p_values: Sequence[float], delta: float) -> int:
    """How many hypotheses, taken in their order, are rejected: all before the first p-value above ``delta``."""
    if not 0.0 < delta < 1.0:
        raise ConfigError(f"delta must lie between 0 and 1, got {delta}")
    for i, p in enumerate(p_values):
        if not p <= delta:
            return i
    return len(p_values)


@dataclass(frozen=True)
class Candidate:
    """One threshold on the validation episodes: lost of those that always reasoning solves, and seconds an episode."""

    threshold: float
    risk: Interval  # share lost, with Wilson's interval, for information; the test does not rest on it
    p: float
    passed: bool
    seconds: float


@dataclass(frozen=True)
class Calibration:
    """The chosen threshold, or None where none can be trusted: then reason always.

    With confidence ``1 - delta`` at most a share ``alpha`` of the episodes that always reasoning solves is lost.
    """

    alpha: float
    delta: float
    n: int  # validation episodes that always reasoning solves: what the statement rests on
    threshold: float | None
    seconds: float | None
    always_seconds: float
    candidates: tuple[Candidate, ...]

    @property
    def strategy(self) -> tuple[str, float]:
        """What to run: ``("threshold", value)`` or ``("always", 0.0)``."""
        return ("always", 0.0) if self.threshold is None else ("threshold", self.threshold)


def calibrate(
    thresholds: Sequence[float],
    solved: BoolArray,
    seconds: FloatArray,
    always_solved: BoolArray,
    always_seconds: FloatArray,
    *,
    alpha: float = 0.05,
    delta: float = 0.05,
) -> Calibration:
    """Choose a threshold.

    Args:
        thresholds: M of them in ascending order: the lower, the more it reasons, so that the first is the most careful.
        solved: bool (M, N), whether each threshold solves each episode.
        seconds: (M, N), what it takes.
        always_solved: bool (N,), whether always reasoning does.
        always_seconds: (N,).
        alpha: the share of losses that is allowed.
        delta: how often the statement may be wrong.

    Raises:
        DataError: shapes do not fit, thresholds are not ascending, or always reasoning solves nothing.
    """
    count = len(thresholds)
    shape = (count, len(always_solved))
    if solved.shape != shape or seconds.shape != shape or always_seconds.shape != shape[1:] or not count:
        raise DataError(
            f"calibrate: {count} thresholds and {shape[1]} episodes need solved and seconds of shape {shape}, got "
            f"{solved.shape}, {seconds.shape} and {always_seconds.shape}"
        )
    if any(b <= a for a, b in zip(thresholds, list(thresholds)[1:], strict=False)):
        raise DataError(f"calibrate: thresholds must ascend, got {list(thresholds)}: their order is that of the tests")
    base = always_solved.astype(bool)
    n = int(base.sum())
    if n == 0:
        raise DataError("calibrate: always reasoning solves none of the episodes, so there is nothing to lose")
    lost = (~solved.astype(bool)[:, base]).sum(1).tolist()
    p_values = [binomial_p(int(k), n, alpha) for k in lost]
    passed = fixed_sequence(p_values, delta)
    means = seconds.mean(1).tolist()
    best = min(range(passed), key=lambda i: (means[i], thresholds[i]), default=None)
    rows = [
        Candidate(float(t), wilson(int(k), n), p, i < passed, float(s))
        for i, (t, k, p, s) in enumerate(zip(thresholds, lost, p_values, means, strict=True))
    ]
    return Calibration(
        alpha,
        delta,
        n,
        None if best is None else float(thresholds[best]),
        None if best is None else float(means[best]),
        float(always_seconds.mean()),
        tuple(rows),
    )


def least_episodes(alpha: float, delta: float) -> int:
    """Episodes that always reasoning must solve for even a threshold that loses none to pass."""
    _check_alpha(alpha)
    return math.ceil(math.log(delta) / math.log1p(-alpha))


def candidate_thresholds(probabilities: Sequence[float], count: int = 12) -> list[float]:
    """Ascending thresholds at even quantiles of the probabilities of ``obs`` that were seen, ends left out.

    The probabilities must come from other episodes than those of `calibrate`, or the order of its tests were no longer
    fixed beforehand.
    """
    values = np.asarray(probabilities, np.float64)
    if values.size == 0 or count < 1 or not np.isfinite(values).all():
        raise DataError(f"candidate thresholds: needs finite probabilities and a count of 1 or more, got {values.size}")
    quantiles = np.quantile(values, np.linspace(0, 1, count + 2)[1:-1])
    return sorted({float(v) for v in quantiles})


def _check_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise ConfigError(f"alpha must lie between 0 and 1, got {alpha}")


def from_runs(
    always: Sequence[EpisodeResult],
    runs: Mapping[float, Sequence[EpisodeResult]],
    *,
    alpha: float = 0.05,
    delta: float = 0.05,
) -> Calibration:
    """Choose a threshold from evaluations of the same validation episodes: one with ``always``, one for each threshold.

    Raises:
        DataError: a run lacks an episode that another one has, or an episode failed to run: neither may be left out,
            for what is left would no longer be a draw of those to come.
    """
    thresholds = sorted(runs)
    tables = [_by_number(always, "always"), *(_by_number(runs[t], f"threshold {t:g}") for t in thresholds)]
    numbers = sorted(tables[0])
    for table, name in zip(tables[1:], thresholds, strict=True):
        if sorted(table) != numbers or any(table[i].seed != tables[0][i].seed for i in numbers):
            raise DataError(
                f"the run of threshold {name:g} has other episodes than that of always; run both with the same"
            )
    solved = np.array([[table[i].success for i in numbers] for table in tables], bool)
    seconds = np.array([[episode_time(table[i]) for i in numbers] for table in tables])
    return calibrate(thresholds, solved[1:], seconds[1:], solved[0], seconds[0], alpha=alpha, delta=delta)


@dataclass(frozen=True)
class HeldOut:
    """What a calibrated switch does on episodes it was not calibrated on."""

    risk: Interval  # share lost of those that always reasoning solves, with Wilson's interval
    seconds: Interval  # saved against always reasoning, an episode, paired
    holds: bool  # whether the risk is at most alpha there; by chance it may not be, in a share delta of calibrations


def held_out(calibration: Calibration, always: Sequence[EpisodeResult], chosen: Sequence[EpisodeResult]) -> HeldOut:
    """The achieved risk on other homes: runs of the same held-out episodes with ``always`` and with the chosen switch.

    Raises:
        DataError: other episodes, failed ones, or none that always reasoning solves.
    """
    a, b = _by_number(always, "always"), _by_number(chosen, "the chosen switch")
    if sorted(a) != sorted(b) or any(a[i].seed != b[i].seed for i in a):
        raise DataError("the two held-out runs have other episodes; run both with the same")
    base = [i for i in sorted(a) if a[i].success]
    if not base:
        raise DataError("always reasoning solves none of the held-out episodes, so there is nothing to lose")
    risk = wilson(sum(not b[i].success for i in base), len(base))
    numbers = sorted(a)
    saved = paired_difference([episode_time(a[i]) for i in numbers], [episode_time(b[i]) for i in numbers])
    return HeldOut(risk, saved, risk.estimate <= calibration.alpha)


def _by_number(rows: Sequence[EpisodeResult], name: str) -> dict[int, EpisodeResult]:
    failed = [row.index for row in rows if row.status != "scored"]
    if failed or not rows:
        raise DataError(
            f"the run of {name} has {len(rows)} episodes, of which {len(failed)} failed to run ({failed[:5]}); "
            "run them again with --retry-failed"
        )
    return {row.index: row for row in rows}
