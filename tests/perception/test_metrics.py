import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone.contracts import Box
from backbone.errors import ConfigError, DataError
from perception.metrics import area_seen, best_iou, box_summary, covered, size_group, summary
from perception.oracle import Oracle, displaced


def boxes(largest: int = 40) -> st.SearchStrategy[Box]:
    side = st.integers(1, 15)
    return st.builds(
        lambda x, y, w, h: Box(x, y, x + w, y + h), st.integers(0, largest), st.integers(0, largest), side, side
    )


@given(boxes(), st.lists(boxes(), max_size=6))
def test_coverage_equals_counting_pixels(target: Box, regions: list[Box]) -> None:
    seen = np.zeros((60, 60), bool)
    for r in regions:
        seen[int(r.y0) : int(r.y1), int(r.x0) : int(r.x1)] = True
    inside = seen[int(target.y0) : int(target.y1), int(target.x0) : int(target.x1)]
    assert covered(target, regions) == pytest.approx(inside.mean())
    assert area_seen(regions, 60, 60) == pytest.approx(seen.mean())


def test_two_halves_cover_together() -> None:
    target = Box(0, 0, 10, 10)
    assert covered(target, [Box(0, 0, 5, 10), Box(5, 0, 10, 10)]) == pytest.approx(1.0)
    assert covered(target, [Box(0, 0, 5, 10), Box(0, 0, 5, 10)]) == pytest.approx(0.5)
    assert covered(target, []) == 0.0
    assert best_iou(target, [Box(0, 0, 5, 10), Box(20, 20, 30, 30)]) == pytest.approx(0.5)
    assert best_iou(target, []) == 0.0


@given(st.floats(0, 1), st.integers(0, 1000), st.floats(2, 60), st.floats(2, 60))
def test_displaced_box_covers_exactly_the_asked_part(overlap: float, seed: int, width: float, height: float) -> None:
    box = Box(200, 150, 200 + width, 150 + height, "k")
    moved = displaced(box, overlap, (1000, 800), np.random.default_rng(seed))
    assert moved.coverage(box) == pytest.approx(overlap, abs=1e-6)
    assert (moved.width, moved.height, moved.label) == (pytest.approx(width), pytest.approx(height), "k")


def test_displaced_box_stays_inside_at_a_corner() -> None:
    box = Box(0, 0, 20, 20)
    for seed in range(20):
        moved = displaced(box, 0.25, (200, 200), np.random.default_rng(seed))
        assert moved.width == pytest.approx(20)
        assert moved.coverage(box) == pytest.approx(0.25)


def test_displacing_where_nothing_fits_still_gives_a_box() -> None:
    assert displaced(Box(0, 0, 10, 10), 0.0, (10, 10), np.random.default_rng(0)).area > 0


@pytest.mark.parametrize("overlap", [-0.1, 1.1, float("nan")])
def test_impossible_overlap_is_refused(overlap: float) -> None:
    with pytest.raises(ConfigError, match="overlap"):
        Oracle(overlap)


def record(correct: bool, **changes: object) -> dict[str, object]:
    base: dict[str, object] = {
        "status": "scored",
        "correct": correct,
        "choice": int(correct),
        "kind": "attribute",
        "group": "",
        "size": [4096, 3072],
        "coverage": [1.0],
        "region_iou": [0.5],
        "proposal_iou": [0.6],
        "regions": [[0, 0, 1, 1]],
        "area_seen": 0.01,
        "visual_tokens": 64,
        "prompt_tokens": 100,
        "reused_tokens": 0,
        "generated_tokens": 20,
        "tokens": 120,
        "forward_passes": 21,
        "first_token_ms": 10.0,
        "milliseconds": 50.0,
        "seconds": 0.1,
    }
    return base | changes


def test_summary_counts_what_failed_and_what_is_missing() -> None:
    records = [record(True), record(False, choice=None, size=[100, 100]), record(True, kind="relation")]
    records.append({"status": "failed", "correct": False, "seconds": 1.0})
    report = summary(records, 10)
    assert report["n"] == {"expected": 10, "scored": 3, "failed": 1, "missing": 6, "unanswered": 1}
    assert report["accuracy"]["estimate"] == pytest.approx(2 / 3)
    assert report["accuracy_of_expected"]["estimate"] == pytest.approx(0.2)
    assert report["accuracy"]["low"] < 2 / 3 < report["accuracy"]["high"]
    assert report["by_kind"]["relation"]["n"] == 1
    assert set(report["by_size"]) == {"<= 512 px", "<= 4096 px"}
    assert report["by_group"] == {}
    assert report["tokens"]["tokens"] == pytest.approx(120)
    assert report["seconds_total"] == pytest.approx(1.3)


def test_summary_of_nothing_scored_has_no_invented_numbers() -> None:
    report = summary([], 4)
    assert report["accuracy"] is None
    assert report["boxes"] is None
    assert report["tokens"]["tokens"] is None
    assert report["accuracy_of_expected"]["estimate"] == 0.0


def test_more_records_than_items_is_an_error() -> None:
    with pytest.raises(DataError, match="2 records for 1"):
        summary([record(True), record(True)], 1)


def test_box_summary_counts_targets_and_items() -> None:
    found = box_summary([record(True, coverage=[1.0, 0.5]), record(True, coverage=[0.49], proposal_iou=None)])
    assert found is not None
    assert found["target_recall"]["estimate"] == pytest.approx(2 / 3)
    assert found["item_recall"]["estimate"] == pytest.approx(1 / 2)
    assert found["proposal_iou"] == pytest.approx(0.6)
    assert box_summary([record(True, coverage=[])]) is None


@pytest.mark.parametrize(("longest", "name"), [(512, "<= 512 px"), (513, "<= 1024 px"), (9000, "> 8192 px")])
def test_size_groups(longest: int, name: str) -> None:
    assert size_group(longest) == name
