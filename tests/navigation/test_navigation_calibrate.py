"""Risk control of the switch: p-values against independent sums, and its statement by simulation."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from apps.cli import main
from backbone.errors import ConfigError, DataError
from backbone.rollout.results import EpisodeResult
from navigation.calibrate import (
    binomial_p,
    calibrate,
    candidate_thresholds,
    fixed_sequence,
    from_runs,
    held_out,
    hoeffding_bentkus_p,
    least_episodes,
)


@given(st.integers(1, 400), st.data(), st.floats(0.01, 0.9))
def test_the_binomial_tail_is_scipys(n, data, alpha):
    lost = data.draw(st.integers(0, n))
    assert binomial_p(lost, n, alpha) == pytest.approx(binom.cdf(lost, n, alpha), rel=1e-9, abs=1e-15)


def test_hand_values():
    assert binomial_p(0, 59, 0.05) == pytest.approx(0.95**59)
    assert binomial_p(1, 2, 0.5) == pytest.approx(0.75)
    assert least_episodes(0.05, 0.05) == 59
    assert fixed_sequence([0.01, 0.04, 0.06, 0.001], 0.05) == 2
    assert fixed_sequence([], 0.05) == 0


@given(st.integers(1, 200), st.data(), st.floats(0.02, 0.5))
def test_hoeffding_bentkus_is_valid_for_losses_of_0_and_1(n, data, alpha):
    # under the null the p-value must be at most u with probability at most u: check at the worst risk, alpha itself
    values = np.array([hoeffding_bentkus_p(k / n, n, alpha) for k in range(n + 1)])
    mass = binom.pmf(np.arange(n + 1), n, alpha)
    for u in (0.01, 0.05, 0.1, 0.3):
        assert mass[values <= u].sum() <= u + 1e-9
    assert (np.diff(values) >= -1e-12).all()


def draws(seed, n, thresholds, base, risks, rise):
    """Synthetic episodes: each threshold loses a given share of what always reasoning solves."""
    draw = np.random.default_rng(seed)
    always = draw.random(n) < base
    uniform = draw.random(n)  # the same episodes are hard for all: losses of different thresholds hang together
    solved = np.stack([always & (uniform >= risk) | (~always & (draw.random(n) < 0.1)) for risk in risks])
    seconds = np.stack([draw.normal(100 - rise * i, 20, n) for i in range(len(thresholds))])
    return solved, seconds, always, draw.normal(150, 20, n)


def test_the_statement_holds_in_simulation():
    thresholds = [0.05, 0.1, 0.2, 0.4, 0.8]
    risks = np.array([0.01, 0.03, 0.06, 0.12, 0.3])
    alpha, delta = 0.1, 0.1
    broken, kept = 0, 0
    for seed in range(1000):
        solved, seconds, always, slow = draws(seed, 300, thresholds, 0.8, risks, 5)
        found = calibrate(thresholds, solved, seconds, always, slow, alpha=alpha, delta=delta)
        if found.threshold is not None:
            kept += 1
            broken += risks[thresholds.index(found.threshold)] > alpha
    assert broken / 1000 <= delta  # the true risk of what was chosen is above alpha at most so often
    assert kept > 990  # and it is not kept by never choosing anything


def test_the_statement_is_tight_at_its_edge():
    # one threshold whose true risk is just above alpha: it may pass in a share delta of draws, and nearly does
    passed = 0
    for seed in range(1000):
        solved, seconds, always, slow = draws(seed, 400, [0.5], 1.0, np.array([0.1001]), 0)
        passed += calibrate([0.5], solved, seconds, always, slow, alpha=0.1, delta=0.1).threshold is not None
    assert 0.05 < passed / 1000 <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 1000)


def test_it_takes_the_fastest_that_passed():
    always = np.ones(200, bool)
    solved = np.stack([always, always, np.arange(200) < 100])
    seconds = np.stack([np.full(200, 90.0), np.full(200, 80.0), np.full(200, 10.0)])
    found = calibrate([0.1, 0.2, 0.3], solved, seconds, always, np.full(200, 150.0))
    assert (found.threshold, found.seconds, found.always_seconds, found.n) == (0.2, 80.0, 150.0, 200)
    assert [c.passed for c in found.candidates] == [True, True, False]
    assert found.candidates[2].risk.estimate == 0.5
    assert found.strategy == ("threshold", 0.2)


def test_a_careful_threshold_that_fails_stops_the_sequence():
    always = np.ones(200, bool)
    solved = np.stack([np.arange(200) < 100, always])
    found = calibrate([0.1, 0.2], solved, np.ones((2, 200)), always, np.ones(200))
    assert found.threshold is None
    assert found.strategy == ("always", 0.0)


def test_too_few_episodes_pass_nothing():
    n = least_episodes(0.05, 0.05)
    for size, passes in ((n - 1, False), (n, True)):
        always = np.ones(size, bool)
        found = calibrate([0.5], always[None], np.ones((1, size)), always, np.ones(size))
        assert (found.threshold is not None) == passes


def test_candidates_are_quantiles():
    assert candidate_thresholds(np.linspace(0, 1, 101), 3) == pytest.approx([0.25, 0.5, 0.75])
    assert candidate_thresholds([0.2, 0.2, 0.2], 5) == [0.2]


def test_what_does_not_fit_is_refused():
    always = np.ones(10, bool)
    with pytest.raises(DataError, match="must ascend"):
        calibrate([0.2, 0.1], np.ones((2, 10), bool), np.ones((2, 10)), always, np.ones(10))
    with pytest.raises(DataError, match="shape"):
        calibrate([0.2], np.ones((2, 10), bool), np.ones((2, 10)), always, np.ones(10))
    with pytest.raises(DataError, match="nothing to lose"):
        calibrate([0.2], np.ones((1, 10), bool), np.ones((1, 10)), ~always, np.ones(10))
    with pytest.raises(ConfigError, match="alpha"):
        binomial_p(0, 3, 0.0)
    with pytest.raises(ConfigError, match="delta"):
        fixed_sequence([0.1], 1.5)


def runs_of(solved, seconds, first=0):
    measures = [{"execution_time": float(s), "optimal_time": 20.0} for s in seconds]
    return [
        EpisodeResult(i, 100 + i, {}, "scored", success=bool(ok), metrics=m, ledger={"generated_tokens": 200})
        for i, (ok, m) in enumerate(zip(solved, measures, strict=True), first)
    ]


class TestRuns:
    always = runs_of([True] * 90 + [False] * 10, [150.0] * 100)

    def test_evaluations_become_a_calibration(self):
        fair = runs_of([True] * 90 + [False] * 10, [90.0] * 100)
        bad = runs_of([True] * 50 + [False] * 50, [30.0] * 100)
        found = from_runs(self.always, {0.6: bad, 0.2: fair})
        assert found.threshold == 0.2
        assert found.n == 90
        assert found.seconds == pytest.approx(90 + 0.015 * 200)
        assert found.candidates[0].p == pytest.approx(0.95**90)

    def test_the_achieved_risk_is_told(self):
        found = from_runs(self.always, {0.2: self.always})
        kept = held_out(found, self.always, runs_of([True] * 87 + [False] * 13, [100.0] * 100))
        assert kept.risk.estimate == pytest.approx(3 / 90)
        assert kept.seconds.estimate == pytest.approx(50.0)
        assert kept.holds
        lost = held_out(found, self.always, runs_of([True] * 60 + [False] * 40, [100.0] * 100))
        assert not lost.holds

    def test_no_episode_may_be_left_out(self):
        with pytest.raises(DataError, match="other episodes"):
            from_runs(self.always, {0.2: self.always[:50]})
        failed = [*self.always[:-1], EpisodeResult(99, 199, {}, "failed")]
        with pytest.raises(DataError, match="retry-failed"):
            from_runs(self.always, {0.2: failed})
        found = from_runs(self.always, {0.2: self.always})
        with pytest.raises(DataError, match="other episodes"):
            held_out(found, self.always, runs_of([True] * 100, [1.0] * 100, first=1))


class TestCommand:
    def write(self, folder, rows, **agent):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"agent": agent}))
        text = "".join(json.dumps(row.to_dict()) + "\n" for row in rows)
        (folder / "episodes.jsonl").write_text(text)
        return str(folder)

    def test_it_chooses_and_tells_what_is_lost(self, tmp_path, capsys):
        rule = {"strategy": "threshold"}
        always = self.write(tmp_path / "always", TestRuns.always, strategy="always")
        fair = self.write(tmp_path / "fair", runs_of([True] * 90 + [False] * 10, [90.0] * 100), **rule, threshold=0.2)
        bad = self.write(tmp_path / "bad", runs_of([True] * 50 + [False] * 50, [30.0] * 100), **rule, threshold=0.6)
        words = ["eval", "switch", "--always", always, "--runs", f"0.2={fair}", f"0.6={bad}"]
        assert main([*words, "--held-out-always", always, "--held-out", fair, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["threshold"], found["n"], found["held_out"]["risk"]["estimate"]) == (0.2, 90, 0.0)
        assert main(["eval", "switch", "--always", always, "--runs", f"0.6={bad}"]) == 1
        assert "think always" in capsys.readouterr().out
        assert main(["eval", "switch", "--always", always, "--runs", f"0.3={bad}"]) == 2
        assert "had threshold 0.6, not 0.3" in capsys.readouterr().err

    @pytest.mark.parametrize("runs", ["x=y", "0.2", "0.2="])
    def test_other_forms_are_wrong_usage(self, tmp_path, runs, capsys):
        always = self.write(tmp_path / "always", TestRuns.always, strategy="always")
        assert main(["eval", "switch", "--always", always, "--runs", runs]) == 2
        assert "THRESHOLD=DIR" in capsys.readouterr().err
