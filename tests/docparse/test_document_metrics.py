"""Metrics against hand-worked values, independent libraries and properties that must hold for any input."""

import itertools
import math

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import DataError
from docparse import metrics
from docparse.areas import Corners, Place, evidence_share, overlap, union_area

coordinate = st.integers(0, 60).map(float)
texts = st.text(alphabet="abAB 1.,é", max_size=25)


@st.composite
def boxes(draw: st.DrawFn) -> Corners:
    x0, y0 = draw(st.integers(0, 50)), draw(st.integers(0, 50))
    return float(x0), float(y0), float(x0 + draw(st.integers(1, 20))), float(y0 + draw(st.integers(1, 20)))


places = st.tuples(st.integers(0, 2), boxes())


def shape(group: list[Corners]) -> shapely.Geometry:
    return shapely.union_all([shapely.box(*b) for b in group])


# Answers


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("12.50", ("12.50",), 1.0),
        ("  Total  DUE ", ("total due",), 1.0),
        ("abcd", ("abce",), 0.75),  # one of four
        ("abcd", ("abxy",), 0.0),  # NL is exactly 0.5: not below the threshold
        ("abcde", ("abcxy",), 0.6),  # 2 of 5
        ("abc", ("xyz", "abd"), 2 / 3),  # the closest answer counts
        ("", ("a",), 0.0),
        (None, ("a",), 0.0),
        (None, (), 1.0),
        ("  ", (), 1.0),
        ("12", (), 0.0),
    ],
)
def test_anls_by_hand(prediction: str | None, answers: tuple[str, ...], expected: float) -> None:
    assert metrics.anls(prediction, answers) == pytest.approx(expected)


@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_anls_equals_the_anls_package(prediction: str, answers: list[str]) -> None:
    from anls.metrics.score import anls_score

    assert metrics.anls(prediction, answers) == pytest.approx(anls_score(prediction, answers))


@given(st.text(max_size=90), st.text(max_size=90))
def test_levenshtein_equals_the_table_of_edits(a: str, b: str) -> None:
    from anls.metrics.dist import levenshtein_distance

    assert metrics.levenshtein(a, b) == levenshtein_distance(a, b)


@pytest.mark.parametrize(
    ("prediction", "answers", "expected"),
    [
        ("  Köln. ", ("köln",), True),
        ("(PO-77)", ("PO-77",), True),
        ("ﬁne", ("fine",), True),  # a ligature as a text layer may have it
        ("1.5", ("15",), False),
        ("-5", ("5",), False),
        ("the total", ("total",), False),
        ("b", ("a", "B"), True),
        ("", (), True),
        ("x", (), False),
        (None, ("",), True),
    ],
)
def test_exact_match(prediction: str | None, answers: tuple[str, ...], expected: bool) -> None:
    assert metrics.exact_match(prediction, answers) is expected


# Regions


def test_iou_by_hand() -> None:
    assert metrics.iou((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(50 / 150)
    assert metrics.iou((0, 0, 10, 10), (10, 0, 20, 10)) == 0.0


def test_region_iou_over_pages_by_hand() -> None:
    truth = [(0, (0.0, 0.0, 10.0, 10.0)), (1, (0.0, 0.0, 10.0, 10.0))]
    assert metrics.region_iou(truth[:1], truth) == pytest.approx(0.5)
    assert metrics.region_iou([(2, (0.0, 0.0, 10.0, 10.0))], truth) == 0.0
    # two halves make a whole, and a box given twice counts once
    halves = [(0, (0.0, 0.0, 5.0, 10.0)), (0, (5.0, 0.0, 10.0, 10.0)), (0, (0.0, 0.0, 5.0, 10.0))]
    assert metrics.region_iou(halves, truth[:1]) == pytest.approx(1.0)


def test_region_iou_weighs_pages_by_their_own_area() -> None:
    truth = [(0, (0.0, 0.0, 10.0, 10.0)), (1, (0.0, 0.0, 100.0, 100.0))]
    found = truth[:1]
    assert metrics.region_iou(found, truth) == pytest.approx(100 / 10_100)
    assert metrics.region_iou(found, truth, {0: 1000.0, 1: 100_000.0}) == pytest.approx(0.5)


@given(st.lists(boxes(), max_size=6), st.lists(boxes(), max_size=6))
def test_areas_equal_shapely(a: list[Corners], b: list[Corners]) -> None:
    assert union_area(a) == pytest.approx(shape(a).area)
    assert overlap(a, b) == pytest.approx(shape(a).intersection(shape(b)).area)


@given(st.lists(places, max_size=5), st.lists(places, max_size=5))
def test_region_iou_equals_shapely_page_by_page(a: list[Place], b: list[Place]) -> None:
    common = total = 0.0
    for page in range(3):
        mine, theirs = (shape([box for p, box in group if p == page]) for group in (a, b))
        common += mine.intersection(theirs).area
        total += mine.union(theirs).area
    assert metrics.region_iou(a, b) == pytest.approx(common / total if total else 1.0)


@given(st.lists(places, min_size=1, max_size=5), st.lists(places, min_size=1, max_size=5))
def test_region_iou_is_symmetric_and_1_only_for_equal_regions(a: list[Place], b: list[Place]) -> None:
    value = metrics.region_iou(a, b)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(metrics.region_iou(b, a))
    assert metrics.region_iou(a, [*a, *a]) == pytest.approx(1.0)


def test_strict_needs_answer_and_region() -> None:
    truth: list[Place] = [(0, (0.0, 0.0, 10.0, 10.0))]
    half: list[Place] = [(0, (0.0, 0.0, 10.0, 5.0))]  # IoU exactly 0.5
    less: list[Place] = [(0, (0.0, 0.0, 10.0, 4.9))]
    assert metrics.strictly_attributed("a", ("A",), half, truth)
    assert not metrics.strictly_attributed("b", ("A",), half, truth)
    assert not metrics.strictly_attributed("a", ("A",), less, truth)
    assert metrics.strictly_attributed(None, (), (), ())
    assert not metrics.strictly_attributed("", (), half, ())


def test_evidence_share_and_buckets_by_hand() -> None:
    sizes = {0: (100.0, 100.0), 1: (200.0, 100.0)}
    assert evidence_share([(0, (0.0, 0.0, 10.0, 5.0))], sizes) == pytest.approx(0.005)
    assert evidence_share([(0, (-50.0, 0.0, 10.0, 5.0))], sizes) == pytest.approx(0.005)  # what lies on the page
    both: list[Place] = [(0, (0.0, 0.0, 10.0, 10.0)), (1, (0.0, 0.0, 10.0, 10.0))]
    assert evidence_share(both, sizes) == pytest.approx((0.01 + 0.005) / 2)
    names = [metrics.bucket(v) for v in (0.0001, 0.005, 0.0199, 0.02, 0.1, 0.9)]
    assert names == ["<0.5 %", "0.5-2 %", "0.5-2 %", "2-10 %", ">10 %", ">10 %"]
    with pytest.raises(DataError, match="no share"):
        evidence_share([], sizes)


def test_page_found() -> None:
    truth: list[Place] = [(1, (0.0, 0.0, 1.0, 1.0)), (4, (0.0, 0.0, 1.0, 1.0))]
    assert metrics.page_found(4, truth)
    assert not metrics.page_found(0, truth)
    assert not metrics.page_found(None, truth)
    assert metrics.page_found(None, ())


# Detection


def test_average_precision_by_hand() -> None:
    truth = [[(0, (0.0, 0.0, 10.0, 10.0))], [(0, (0.0, 0.0, 10.0, 10.0))]]
    wrong, right = (0, (50.0, 50.0, 60.0, 60.0)), (0, (0.0, 0.0, 10.0, 10.0))
    # ranked: right, wrong, right -> precision 1 up to recall 0.5, 2/3 up to 1: (51 + 50 * 2/3) / 101
    predicted = [[(*right, 0.9), (*wrong, 0.8)], [(*right, 0.7)]]
    assert metrics.average_precision(predicted, truth, 0.5) == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert metrics.average_precision([[], []], truth, 0.5) == 0.0
    assert metrics.mean_average_precision([[(*right, 1.0)], [(*right, 0.3)]], truth) == pytest.approx(1.0)


@given(st.data())
def test_mean_average_precision_equals_pycocotools(data: st.DataObject) -> None:
    items = data.draw(st.integers(1, 4))
    truth = [data.draw(st.lists(boxes(), min_size=1, max_size=3)) for _ in range(items)]
    scores = iter(data.draw(st.permutations(range(1, 13))))  # distinct, as ties are broken differently
    predicted = [
        [
            (data.draw(st.sampled_from(truth[i]) | boxes()), next(scores) / 20)
            for _ in range(data.draw(st.integers(0, 3)))
        ]
        for i in range(items)
    ]
    mine = metrics.mean_average_precision(
        [[(0, box, score) for box, score in item] for item in predicted], [[(0, box) for box in item] for item in truth]
    )
    assert mine == pytest.approx(coco(predicted, truth), abs=1e-9)


def coco(predicted: list[list[tuple[Corners, float]]], truth: list[list[Corners]]) -> float:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def entry(number: int, image: int, box: Corners) -> dict[str, object]:
        x, y, width, height = box[0], box[1], box[2] - box[0], box[3] - box[1]
        whole = {"image_id": image, "category_id": 1, "iscrowd": 0, "area": width * height}
        return {"id": number, "bbox": [x, y, width, height], **whole}

    ids = itertools.count(1)
    known = COCO()
    known.dataset = {
        "images": [{"id": i} for i in range(len(truth))],
        "categories": [{"id": 1}],
        "annotations": [entry(next(ids), i, box) for i, item in enumerate(truth) for box in item],
    }
    known.createIndex()
    found = COCO()
    found.dataset = {
        **known.dataset,
        "annotations": [
            {**entry(next(ids), i, box), "score": score} for i, item in enumerate(predicted) for box, score in item
        ],
    }
    found.createIndex()
    evaluation = COCOeval(known, found, "bbox")
    evaluation.params.maxDets = [1, 10, 1000]
    evaluation.evaluate()
    evaluation.accumulate()
    precision = evaluation.eval["precision"][:, :, 0, 0, 2]
    return float(precision[precision > -1].mean())


# Laws


GRID = np.array([[x * 10.0, y * 10.0, x * 10 + 10.0, y * 10 + 10.0] for y in range(6) for x in range(6)])


def test_mass_and_pointing_by_hand() -> None:
    pages = np.array([0, 0, 1])
    cells = np.array([[0.0, 0, 10, 10], [10, 0, 20, 10], [0, 0, 10, 10]])
    mass = np.array([2.0, 1.0, 1.0])
    truth: list[Place] = [(0, (5.0, 0.0, 20.0, 10.0))]
    assert metrics.mass_in_truth(pages, cells, mass, truth) == pytest.approx((2 / 2 + 1) / 4)
    assert metrics.pointing(pages, cells, mass, truth)  # the centre (5, 5) lies on the edge
    assert not metrics.pointing(pages, cells, mass, [(1, (0.0, 0.0, 20.0, 10.0))])
    # the densest cell, not the heaviest: a small one with less mass wins
    small = np.array([[0.0, 0, 1, 1], [10, 0, 20, 10], [0, 0, 10, 10]])
    assert metrics.pointing(pages, small, np.array([1.0, 5.0, 1.0]), [(0, (0.0, 0.0, 1.0, 1.0))])


@given(st.lists(places, min_size=1, max_size=4), st.integers(0, 2**31))
def test_mass_in_truth_equals_shapely(truth: list[Place], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pages = rng.integers(0, 2, len(GRID))
    mass = rng.random(len(GRID))
    expected = 0.0
    for page, cell, weight in zip(pages, GRID, mass / mass.sum(), strict=True):
        inside = shape([box for p, box in truth if p == page])
        expected += weight * shapely.box(*cell).intersection(inside).area / 100
    assert metrics.mass_in_truth(pages, GRID, mass, truth) == pytest.approx(expected)


@given(st.lists(st.tuples(st.just(0), boxes()), min_size=1, max_size=4))
def test_truth_law_is_uniform_on_the_truth_and_all_inside_it(truth: list[Place]) -> None:
    pages = np.zeros(len(GRID), int)
    law = metrics.truth_law(pages, GRID, truth)
    assert law.sum() == pytest.approx(1.0)
    inside = shape([box for _, box in truth])
    areas = np.array([shapely.box(*c).intersection(inside).area for c in GRID])
    assert law == pytest.approx(areas / areas.sum())
    assert (law[areas == 0] == 0).all()


@pytest.mark.parametrize(
    ("pages", "cells", "mass", "match"),
    [
        (np.zeros(3, int), np.zeros((2, 4)), np.ones(3), "cells"),
        (np.zeros(1, int), np.array([[0.0, 0, 1, 1]]), np.array([math.nan]), "finite"),
        (np.zeros(1, int), np.array([[0.0, 0, 1, 1]]), np.array([-1.0]), "negative"),
        (np.zeros(1, int), np.array([[0.0, 0, 0, 1]]), np.array([1.0]), "no area"),
        (np.zeros(0, int), np.zeros((0, 4)), np.zeros(0), "law over pages"),
    ],
)
def test_broken_laws_are_refused(pages: np.ndarray, cells: np.ndarray, mass: np.ndarray, match: str) -> None:
    with pytest.raises(DataError, match=match):
        metrics.mass_in_truth(pages, cells, mass, [(0, (0.0, 0.0, 1.0, 1.0))])
