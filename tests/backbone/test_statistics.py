"""Intervals and tests against scipy and hand values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import DataError
from backbone.statistics import Interval, bootstrap_mean, mcnemar, paired_difference, percentiles, wilson

stats = pytest.importorskip("scipy.stats", reason="scipy is the oracle of these tests")


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_wilson_equals_scipy(counts, confidence):
    k, n = counts
    got = wilson(k, n, confidence)
    want = stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
    assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=1e-9)
    assert got.low <= got.estimate <= got.high
    assert got.estimate == k / n
    assert got.n == n


def test_wilson_published_value():
    # Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0 to 0.1611.
    assert [round(v, 4) for v in (wilson(81, 263).low, wilson(81, 263).high)] == [0.2553, 0.3662]
    assert wilson(0, 20).low == 0.0
    assert wilson(0, 20).high == pytest.approx(0.1611, abs=5e-5)
    assert wilson(20, 20).high == 1.0


def test_bootstrap_agrees_with_scipy_and_is_seeded():
    x = np.random.default_rng(5).gamma(2.0, 3.0, 60)
    got = bootstrap_mean(x, seed=3)
    want = stats.bootstrap((x,), np.mean, method="percentile", n_resamples=10_000, rng=9).confidence_interval
    assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=0.12)  # two random draws
    assert got == bootstrap_mean(x, seed=3) != bootstrap_mean(x, seed=4)
    assert got.estimate == pytest.approx(x.mean())
    narrow = bootstrap_mean(x, confidence=0.5)
    assert got.low < narrow.low < narrow.high < got.high


def test_bootstrap_in_chunks_covers_every_resample(monkeypatch):
    x = np.random.default_rng(1).normal(50.0, 1.0, 30)
    whole = bootstrap_mean(x, resamples=1000)
    monkeypatch.setattr("backbone.statistics.CHUNK_VALUES", 70)  # two resamples a chunk
    assert bootstrap_mean(x, resamples=1000) == whole


def test_paired_difference_uses_the_pairing():
    hard = np.random.default_rng(2).normal(0, 10, 200)  # items differ far more than the two systems do
    noise = np.random.default_rng(3).normal(0, 0.2, 200)
    paired = paired_difference(hard + 0.5 + noise, hard)
    assert 0.4 < paired.low < 0.5 + noise.mean() < paired.high < 0.6
    assert paired.n == 200
    reverse = paired_difference(hard, hard + 0.5 + noise)
    assert (reverse.estimate, reverse.low) == pytest.approx((-paired.estimate, -paired.high), abs=0.02)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80))
def test_mcnemar_equals_exact_binomial(pairs):
    a, b = zip(*pairs, strict=True)
    only_a = sum(x and not y for x, y in pairs)
    only_b = sum(y and not x for x, y in pairs)
    want = stats.binomtest(only_a, only_a + only_b, 0.5).pvalue if only_a + only_b else 1.0
    assert mcnemar(a, b) == pytest.approx(want, rel=1e-9)
    assert mcnemar(a, b) == mcnemar(b, a)


def test_mcnemar_hand_values():
    # 1 against 9 discordant pairs: 2 * (1 + 10) / 1024; concordant pairs do not count.
    a = [True] * 1 + [False] * 9 + [True] * 50
    b = [False] * 1 + [True] * 9 + [True] * 50
    assert mcnemar(a, b) == pytest.approx(22 / 1024)
    assert mcnemar([1, 0], [1, 0]) == 1.0
    assert 0 < mcnemar([True] * 1000, [False] * 1000) < 1e-300  # large counts neither overflow nor turn to 0


def test_percentiles():
    assert percentiles(range(101)) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert percentiles([1.0, 2.0], (50, 99.9)) == {"p50": 1.5, "p99.9": pytest.approx(1.999)}


@pytest.mark.parametrize(
    "call",
    [
        lambda: wilson(3, 2),
        lambda: wilson(-1, 2),
        lambda: wilson(0, 0),
        lambda: wilson(1, 2, 1.0),
        lambda: bootstrap_mean([]),
        lambda: bootstrap_mean([1.0, float("nan")]),
        lambda: bootstrap_mean([1.0, 2.0], resamples=5),
        lambda: bootstrap_mean([[1.0, 2.0]]),
        lambda: paired_difference([1.0], [1.0, 2.0]),
        lambda: mcnemar([True], [True, False]),
        lambda: mcnemar([0.5], [1]),
        lambda: percentiles([1.0], (101,)),
        lambda: percentiles([]),
        lambda: Interval(0.5, 0.7, 0.6, 3),
        lambda: Interval(float("nan"), 0.0, 1.0, 3),
    ],
)
def test_impossible_input_is_a_data_error(call):
    with pytest.raises(DataError):
        call()


def test_example_and_text():
    assert str(Interval.make_example()) == "0.800 (0.490 to 0.943, n = 10)"
