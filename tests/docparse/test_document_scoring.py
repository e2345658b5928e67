"""Rows, reports and paired comparisons of document runs."""

import json

import numpy as np
import pytest

from backbone.errors import DataError
from docparse.areas import Place
from docparse.scoring import Prediction, Truth, compare, score, summary

SIZES = {0: (100.0, 100.0), 1: (100.0, 100.0)}
SMALL: tuple[Place, ...] = ((0, (0.0, 0.0, 4.0, 10.0)),)  # 0.4 % of the page
LARGE: tuple[Place, ...] = ((1, (0.0, 0.0, 50.0, 50.0)),)  # 25 %


def truth(name: str, evidence: tuple[Place, ...] = SMALL, answers: tuple[str, ...] = ("12",)) -> Truth:
    return Truth(name, answers, evidence, SIZES)


def test_a_row_has_every_metric_of_a_full_prediction() -> None:
    law = (np.array([0, 0]), np.array([[0.0, 0, 4, 10], [50, 50, 60, 60]]), np.array([0.75, 0.25]))
    row = score(truth("a"), Prediction("12", SMALL, (0.9,), law, (0.4, 0.1), 5.0))
    assert row.bucket == "<0.5 %"
    assert row.status == "scored"
    assert row.values == pytest.approx(
        {
            "anls": 1.0, "exact_match": 1.0, "milliseconds": 5.0, "strict": 1.0, "iou": 1.0, "hit@0.25": 1.0,
            "hit@0.5": 1.0, "hit@0.7": 1.0, "page": 1.0, "mass": 0.75, "pointing": 1.0, "w2_0": 0.4, "w2_1": 0.1,
        }
    )  # fmt: skip
    json.dumps(row.to_dict())


def test_the_page_is_that_of_the_best_region() -> None:
    regions = (*SMALL, *LARGE)
    assert Prediction("x", regions, (0.2, 0.8)).page == 1
    assert Prediction("x", regions).page == 0
    assert Prediction("x").page is None
    with pytest.raises(DataError, match="2 regions and 1 scores"):
        Prediction("x", regions, (0.2,))


def test_an_unanswerable_item_is_right_when_nothing_is_said() -> None:
    right = score(truth("a", (), ()), Prediction(None))
    assert right.values == pytest.approx({"anls": 1, "exact_match": 1, "milliseconds": 0, "strict": 1, "abstained": 1})
    assert right.kind == "unanswerable"
    wrong = score(truth("a", (), ()), Prediction("12", SMALL))
    assert wrong.values["strict"] == wrong.values["abstained"] == wrong.values["anls"] == 0


def test_without_boxes_only_answers_and_pages_are_scored() -> None:
    known = Truth("a", ("12",), None, {}, (3,))
    row = score(known, Prediction("12", ((3, (0.0, 0.0, 1.0, 1.0)),)))
    assert row.values == pytest.approx({"anls": 1, "exact_match": 1, "milliseconds": 0, "page": 1})


def test_a_region_on_a_page_of_unknown_size_is_an_error() -> None:
    with pytest.raises(DataError, match="no size of page 8"):
        score(truth("a"), Prediction("12", ((7, (0.0, 0.0, 1.0, 1.0)),)))


def run(name: str, ious: list[float]) -> list:
    rows = []
    for index, value in enumerate(ious):
        evidence = SMALL if index % 2 == 0 else LARGE
        page, (x0, y0, x1, y1) = evidence[0]
        region = ((page, (x0, y0, x1, y0 + (y1 - y0) * value)),) if value else ()
        rows.append(score(truth(f"q{index}", evidence), Prediction("12" if value >= 0.5 else name, region)))
    return rows


def test_a_report_by_hand() -> None:
    rows = [*run("x", [1.0, 0.5, 0.0, 1.0]), score(truth("q9"), Prediction(None, error="page 1 is broken"))]
    report = summary(rows, 6)
    assert report["n"] == {"expected": 6, "scored": 4, "failed": 1, "missing": 1}
    assert report["metrics"]["iou"]["estimate"] == pytest.approx(0.625)
    assert report["metrics"]["iou"]["n"] == 4
    assert report["metrics"]["iou"]["low"] < 0.625 < report["metrics"]["iou"]["high"]
    assert report["metrics"]["hit@0.7"]["estimate"] == pytest.approx(0.5)
    assert report["of_expected"]["iou"] == pytest.approx(2.5 / 6)
    assert report["of_expected"]["strict"] == pytest.approx(3 / 6)
    assert set(report["by_bucket"]) == {"<0.5 %", ">10 %"}
    assert report["by_bucket"]["<0.5 %"]["n"] == 2
    assert report["by_bucket"]["<0.5 %"]["iou"]["estimate"] == pytest.approx(0.5)
    # two of three predictions match at every threshold, the third at 0.5 alone, and of four boxes one is missed:
    # 101 recall points, of which 76 lie at or below 3/4 and 51 at or below 2/4
    assert report["map"] == pytest.approx((76 / 101 + 9 * np.mean([ap(t) for t in range(9)])) / 10)
    json.dumps(report)


def ap(_: int) -> float:
    """Ranked right, wrong, right with four boxes (equal scores keep their order): recall 1/4 at 1, 2/4 at 2/3."""
    return (26 + 25 * 2 / 3) / 101


def test_without_failures_there_is_nothing_to_say_of_them() -> None:
    assert "of_expected" not in summary(run("x", [1.0, 0.5]), 2)


def test_rows_of_another_run_are_refused() -> None:
    rows = run("x", [1.0, 0.5])
    with pytest.raises(DataError, match="2 rows for 1"):
        summary(rows, 1)
    with pytest.raises(DataError, match="different ids"):
        summary([rows[0], rows[0]], 2)


def test_a_comparison_is_paired_by_item_whatever_the_order() -> None:
    better = run("x", [1.0, 0.5, 0.5, 1.0, 0.8, 0.75])
    worse = run("y", [0.5, 0.25, 0.25, 0.5, 0.4, 0.0])
    report = compare(better, worse[::-1], ["iou", "hit@0.5"])
    assert report["n"] == 6
    difference = report["all"]["iou"]
    assert difference["estimate"] == pytest.approx(np.mean([0.5, 0.25, 0.25, 0.5, 0.4, 0.75]))
    assert 0 < difference["low"] <= difference["estimate"] <= difference["high"]
    # 4 of 6 pairs discordant, all one way: 2 / 2**4
    assert report["all"]["hit@0.5"]["mcnemar_p"] == pytest.approx(0.125)
    assert report["by_bucket"][">10 %"]["n"] == 3
    assert report["by_bucket"][">10 %"]["iou"]["estimate"] == pytest.approx(np.mean([0.25, 0.5, 0.75]))


def test_a_comparison_leaves_out_what_failed_in_either_and_says_so() -> None:
    left, right = run("x", [1.0, 0.5]), run("y", [0.5, 0.25])
    right[0] = score(truth("q0"), Prediction(None, error="broken"))
    report = compare(left, right, ["iou"])
    assert (report["n"], report["left_out"]) == (1, 1)
    with pytest.raises(DataError, match="different items"):
        compare(left, right[:1])
