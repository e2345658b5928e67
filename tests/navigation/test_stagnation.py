"""Circles are found, ways to the target are not, and a cool-down keeps slow turns apart."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.errors import DataError
from navigation.config import DataConfig
from navigation.segments import due, looks
from navigation.stagnation import Watch, no_progress, repeats, stagnant_times

CONFIG = DataConfig()


def circle(count, round_steps=20, radius=1.0):
    angle = 2 * math.pi * np.arange(count) / round_steps
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angle]


def test_a_circle_repeats_from_step_twenty_on():
    places = circle(40)
    assert next(t for t in range(40) if repeats(places, t)) == 20
    assert not any(repeats(places, t, steps=20, radius_m=0.5) for t in range(20))


def test_repetition_looks_at_exactly_the_times_it_says():
    places = [(float(i), 0.0) for i in range(30)]
    places[25] = (5.4, 0.0)  # 0.4 from the place of time 5, 20 steps before
    assert repeats(places, 25)
    assert not repeats(places, 25, since=6)
    assert not repeats(places, 25, steps=21)
    places[25] = (5.5, 0.0)
    assert repeats(places, 25)  # at most 0.5 m, the limit itself included
    places[25] = (5.51, 0.01)
    assert not repeats(places, 25)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.0, 0.25), min_size=40, max_size=80), st.integers(0, 1000))
def test_a_monotone_approach_never_lacks_progress(steps, seed):
    distances = list(np.maximum(20 - np.cumsum(steps), 0.0))
    places = [(3.0 * i, 0.0) for i in range(len(distances))]  # never near an earlier place
    assert stagnant_times(places, distances, CONFIG, seed) == []


def test_no_progress_waits_for_its_span():
    distances = [10.0, 11.0, 12.0]
    assert no_progress(distances, 2, 1)
    assert not no_progress(distances, 2, 2)
    assert not no_progress([10.0, 10.0, 10.0], 2, 1)


def test_a_watch_keeps_forced_turns_apart_unless_taken_literally():
    places, distances = circle(120), [5.0] * 120
    gentle = stagnant_times(places, distances, CONFIG, 3)
    assert gentle[0] == 20
    assert min(np.diff(gentle)) >= CONFIG.least_gap
    literal = stagnant_times(places, distances, DataConfig(paper_literal=True), 3)
    assert literal == list(range(20, 120))


def test_after_a_slow_turn_old_places_are_forgotten():
    watch = Watch(CONFIG, 0)
    there = [(0.0, 0.0)] + [(float(i), 0.0) for i in range(1, 60)] + [(0.0, 0.1)]
    fired = []
    for i, place in enumerate(there):
        if i == 45:
            watch.slow()
        fired.append(watch.step(place, 100.0 - i))
    assert fired[-1] is None  # time 60 repeats time 0, which lies more than 20 steps before the slow turn at 44
    assert repeats(there, 60)


def test_spans_are_seeded_and_within_their_bounds():
    rising = [1.0 + 0.01 * i for i in range(60)]
    places = [(2.0 * i, 0.0) for i in range(60)]
    found = {seed: stagnant_times(places, rising, CONFIG, seed) for seed in range(40)}
    assert found == {seed: stagnant_times(places, rising, CONFIG, seed) for seed in range(40)}
    firsts = {times[0] for times in found.values()}
    assert min(firsts) == 21
    assert max(firsts) <= 36
    assert len(firsts) > 1


def test_places_that_are_no_numbers_are_refused():
    with pytest.raises(DataError, match="finite"):
        Watch(CONFIG, 0).step((math.nan, 0.0), 1.0)


@pytest.mark.parametrize(("steps", "wanted"), [(0, [0]), (15, [0]), (16, [0, 15]), (31, [0, 15, 30]), (1, [0])])
def test_segments_have_fifteen_actions_and_a_look(steps, wanted):
    assert looks(steps) == wanted
    assert next(i for i in range(40) if due(i)) == 15


def test_segments_must_have_room_for_an_action():
    with pytest.raises(DataError):
        looks(10, 1)
