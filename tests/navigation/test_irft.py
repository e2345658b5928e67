"""Keep, repair, drop: the table of section 5.3."""

import pytest

from backbone.errors import DataError
from navigation.config import DataConfig
from navigation.irft import Judgement, accept, judge, look_due

CONFIG = DataConfig()
FALLING = [9.0, 8.0, 6.0, 7.0, 5.5, 6.5]


@pytest.mark.parametrize(
    ("ended", "object_m", "stagnant", "outcome", "fate", "at"),
    [
        (True, 0.4, [], "success", "keep", None),
        (True, 1.0, [3], "success", "keep", None),
        (True, 1.01, [1], "misidentified", "repair", 5),
        (False, 3.0, [1, 3, 5], "timeout", "repair", 5),
        (False, 3.0, [1, 3], "timeout", "repair", 3),
        (False, 0.2, [], "timeout", "repair", 4),
    ],
)
def test_what_becomes_of_a_rollout(ended, object_m, stagnant, outcome, fate, at):
    got = judge(ended, object_m, FALLING, stagnant, CONFIG)
    assert (got.outcome, got.fate, got.at) == (outcome, fate, at)


def test_of_equally_near_times_the_first_is_taken():
    assert judge(False, 9.0, [4.0, 2.0, 2.0], [], CONFIG).at == 1


@pytest.mark.parametrize(
    ("steps", "object_m", "fate"), [(400, 1.0, "repair"), (401, 0.5, "drop"), (100, 1.01, "drop"), (1, 0.0, "repair")]
)
def test_repairs_are_dropped_when_long_or_off(steps, object_m, fate):
    got = accept(Judgement("timeout", "repair", 7), steps, object_m, CONFIG)
    assert got.fate == fate
    assert bool(got.why) == (fate == "drop")


def test_what_is_kept_stays_kept_however_long():
    kept = Judgement("success", "keep")
    assert accept(kept, 1000, 5.0, CONFIG) == kept


@pytest.mark.parametrize(("distances", "stagnant"), [([], []), ([1.0], [1]), ([1.0], [-1])])
def test_rollouts_without_sense_are_refused(distances, stagnant):
    with pytest.raises(DataError, match="rollout"):
        judge(True, 0.0, distances, stagnant, CONFIG)


def test_the_corrective_part_looks_around_every_thirty_actions():
    assert next(n for n in range(40) if look_due(n, CONFIG)) == 30
