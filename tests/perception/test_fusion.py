import itertools

import numpy as np
import pytest
from ensemble_boxes import weighted_boxes_fusion
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.contracts import Box
from backbone.errors import DataError
from perception.fusion import fuse


def test_three_overlapping_boxes_become_their_mean() -> None:
    boxes = [Box(0, 0, 10, 10, "cup"), Box(1, 0, 11, 10, "mug"), Box(2, 0, 12, 10, "cup")]
    (fused,) = fuse([[box] for box in boxes])
    assert fused.corners == pytest.approx((1, 0, 11, 10))
    assert fused.label == "cup"
    assert fused.score == pytest.approx(1.0)


def test_disjoint_boxes_stay_and_single_votes_are_kept() -> None:
    fused = fuse([[Box(0, 0, 10, 10)], [Box(20, 20, 30, 30)], [Box(20, 20, 30, 30)], []])
    assert [box.corners for box in fused] == [(20, 20, 30, 30), (0, 0, 10, 10)]
    assert [box.score for box in fused] == pytest.approx([2 / 4, 1 / 4])


def test_support_counts_at_most_once_per_rollout() -> None:
    (fused,) = fuse([[Box(0, 0, 10, 10), Box(0, 0, 10, 10), Box(0, 0, 10, 10)]])
    assert fused.score == 1.0


def test_nested_small_box_is_not_suppressed() -> None:
    assert len(fuse([[Box(0, 0, 100, 100)], [Box(40, 40, 60, 60)]])) == 2


def test_nothing_in_nothing_out_and_weights_must_be_positive() -> None:
    assert fuse([[], []]) == []
    assert fuse([]) == []
    with pytest.raises(DataError, match="positive"):
        fuse([[Box(0, 0, 1, 1, score=0.0)]])


def _random_rollouts(seed: int, distinct_scores: bool) -> list[list[Box]]:
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.2, 0.8, (3, 2))
    rollouts = []
    for _ in range(5):
        boxes = []
        for centre in centres[: rng.integers(1, 4)]:
            x, y = centre + rng.normal(0, 0.03, 2)
            w, h = rng.uniform(0.08, 0.2, 2)
            score = float(rng.uniform(0.1, 1)) if distinct_scores else 1.0
            boxes.append(Box.clamped((x - w, y - h, x + w, y + h), 1, 1, score=score))
        rollouts.append(boxes)
    return rollouts


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_reference_implementation(seed: int) -> None:
    rollouts = _random_rollouts(seed, distinct_scores=True)
    boxes, scores, _ = weighted_boxes_fusion(
        [[list(box.corners) for box in r] for r in rollouts],
        [[box.score for box in r] for r in rollouts],
        [[0] * len(r) for r in rollouts],
        iou_thr=0.5,
    )
    want = sorted((-score, *corners) for score, corners in zip(scores.tolist(), boxes.tolist(), strict=True))
    got = sorted((-box.score, *box.corners) for box in fuse(rollouts))
    np.testing.assert_allclose(got, want, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_order_of_rollouts_and_boxes_does_not_matter(seed: int, random: object) -> None:
    rollouts = _random_rollouts(seed, distinct_scores=False)
    shuffled = [list(boxes) for boxes in rollouts]
    for boxes in [shuffled, *shuffled]:
        random.shuffle(boxes)  # type: ignore[attr-defined]
    assert fuse(shuffled) == fuse(rollouts)


def test_more_rollouts_of_a_noisy_detector_are_better() -> None:
    """Mean IoU of the best-supported fused box with the truth over 200 scenes, for 1, 4 and 8 samples."""
    rng = np.random.default_rng(0)
    means = []
    for count in (1, 4, 8):
        overlaps = []
        for _ in range(200):
            x, y = rng.uniform(100, 700, 2)
            truth = Box(x, y, x + 200, y + 200)
            noisy = [[Box.clamped(np.array(truth.corners) + rng.normal(0, 25, 4), 1000, 1000)] for _ in range(count)]
            overlaps.append(fuse(noisy)[0].iou(truth))
        means.append(float(np.mean(overlaps)))
    assert all(a < b for a, b in itertools.pairwise(means)), means
