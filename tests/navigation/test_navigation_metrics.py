"""Navigation's measures: the worked example, hand values, Habitat's formulas, and finiteness for any input."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import DataError
from navigation.metrics import (
    UNREACHABLE_M,
    Actions,
    ActionTimes,
    Outcome,
    aggregate,
    optimal_time,
    outcome_metrics,
    soft_spl,
    sot,
    sot_curve,
    sot_time,
    spl,
    success,
)

lengths = st.floats(0, 1e6, allow_nan=False)
distances = st.one_of(lengths, st.just(math.inf))
counts = st.integers(0, 10_000)


def test_sot_worked_example():
    # 5 m straight ahead against 30 moves, 8 turns, 2 panoramas, a stop and 846 tokens: 20 / (42.9 + 12.69)
    actions = Actions(moves=30, turns=8, panoramas=2, stops=1, tokens=846)
    assert sot_time(actions, tau=0.0) == pytest.approx(42.9)
    assert sot_time(actions) == pytest.approx(42.9 + 12.69)
    assert sot(True, optimal_time(Actions(moves=20), 5.0), sot_time(actions)) == pytest.approx(0.360, abs=5e-4)
    assert sot(False, 20.0, sot_time(actions)) == 0.0


def test_sot_falls_with_the_price_of_a_token():
    curve = sot_curve(True, 20.0, Actions(30, 8, 2, 1, 846))
    values = [curve[tau] for tau in sorted(curve)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)
    assert curve[0.015] == pytest.approx(0.360, abs=5e-4)


def test_optimal_time_counts_turns_and_never_undercuts_the_straight_walk():
    assert optimal_time(Actions(moves=20, turns=2, stops=1), 5.0) == pytest.approx(21.3)
    assert optimal_time(Actions(moves=3), 5.0) == pytest.approx(20.0)
    assert optimal_time(Actions(), math.inf) == math.inf


@pytest.mark.parametrize(
    ("stopped", "distance", "expected"),
    [(True, 0.09, True), (True, 0.1, False), (False, 0.0, False), (True, math.inf, False)],
)
def test_success_needs_a_stop_strictly_inside(stopped, distance, expected):
    assert success(stopped, distance) is expected


def test_hand_values():
    assert spl(True, 4.0, 5.0) == pytest.approx(0.8)
    assert spl(True, 4.0, 3.9) == 1.0  # stopping short of the point cannot beat the shortest path
    assert spl(False, 4.0, 5.0) == 0.0
    assert soft_spl(1.0, 4.0, 5.0) == pytest.approx(0.75 * 0.8)
    assert soft_spl(9.0, 4.0, 5.0) == 0.0  # farther off than at the start


def test_what_habitat_leaves_undefined():
    assert spl(True, 0.0, 0.0) == 1.0
    assert spl(True, 0.0, 1.0) == 0.0
    assert spl(True, math.inf, 1.0) == 0.0
    assert soft_spl(0.0, 0.0, 0.0) == 1.0
    assert soft_spl(0.5, 0.0, 0.5) == 0.0
    assert soft_spl(math.inf, 4.0, 1.0) == 0.0
    assert soft_spl(1.0, math.inf, 1.0) == 0.0
    assert sot(True, 0.0, 0.0) == 1.0
    assert sot(True, math.inf, 3.0) == 0.0


@given(lengths.filter(lambda x: x > 1e-6), lengths, lengths, st.booleans())
def test_equals_habitats_formulas_where_those_are_defined(shortest, walked, left, reached):
    assert spl(reached, shortest, walked) == pytest.approx(reached * (shortest / max(shortest, walked)))
    habitat = max(0, (1 - left / shortest)) * (shortest / max(shortest, walked))
    assert soft_spl(left, shortest, walked) == pytest.approx(habitat)


@given(distances, lengths, distances, distances, distances, st.booleans(), counts, counts, counts, counts)
def test_every_measure_is_finite_and_bounded(
    shortest, walked, left, thing, closest, stopped, moves, turns, looks, tokens
):
    actions = Actions(moves, turns, looks, int(stopped), tokens)
    expert = Actions(moves // 2, turns // 2, 0, 1)
    row = outcome_metrics(Outcome(shortest, walked, left, thing, closest, stopped, actions, expert, moves + turns))
    assert all(math.isfinite(v) for v in row.values())
    for name in ("success", "success_object", "oracle_success", "spl", "soft_spl", "sot"):
        assert 0.0 <= row[name] <= 1.0
    assert row["spl"] <= row["success"]
    assert row["distance_to_goal"] <= UNREACHABLE_M


@pytest.mark.parametrize("wrong", [math.nan, -1.0])
def test_no_distance_is_refused(wrong):
    for call in (
        lambda: spl(True, wrong, 1.0),
        lambda: spl(True, 1.0, wrong),
        lambda: soft_spl(wrong, 1.0, 1.0),
        lambda: success(True, wrong),
        lambda: sot(True, wrong, 1.0),
        lambda: ActionTimes(move=wrong),
        lambda: sot_time(Actions(), tau=wrong),
    ):
        with pytest.raises(DataError, match="at least 0"):
            call()
    with pytest.raises(DataError, match="finite"):
        spl(True, 1.0, math.inf)
    with pytest.raises(DataError, match="moves"):
        Actions(moves=-1)


def test_aggregate_has_intervals_and_names_the_bad_row():
    rows = [{"success": float(i % 4 > 0), "spl": 0.5 + 0.1 * (i % 4), "steps": 40.0 + i} for i in range(40)]
    result = aggregate(rows)
    assert result["success"].estimate == 0.75
    assert (result["success"].low, result["success"].high) == pytest.approx((0.598, 0.858), abs=2e-3)  # Wilson, 30/40
    assert result["spl"].estimate == pytest.approx(0.65)
    assert result["spl"].low < 0.65 < result["spl"].high
    assert aggregate(rows) == result
    with pytest.raises(DataError, match=r"row 3.*spl = nan"):
        aggregate([*rows[:3], {**rows[3], "spl": math.nan}])
    with pytest.raises(DataError, match=r"row 1.*spl"):
        aggregate([rows[0], {"success": 1.0, "steps": 1.0}])
    with pytest.raises(DataError, match="success must be 0 or 1"):
        aggregate([{"success": 0.5}])
    with pytest.raises(DataError, match="no episodes"):
        aggregate([])
