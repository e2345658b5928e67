"""Weighted boxes fusion (Solovyev et al., arXiv 1910.13302) of the boxes that several perception samples proposed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from backbone.contracts import Box
from backbone.errors import DataError


def fuse(rollouts: Sequence[Sequence[Box]], iou: float = 0.5) -> list[Box]:
    """Fuse the boxes of N rollouts, whatever their labels, into one list ordered by support and then area.

    Boxes are taken in order of score. Each joins the cluster whose *fused* box overlaps it most, if that IoU exceeds
    ``iou``, else opens one. A cluster of n boxes b_i with scores c_i becomes ``sum(c_i b_i) / sum(c_i)`` with score
    ``mean(c_i) * min(n, N) / N``. With all c_i = 1, as SPARC uses it, the score is the part of the rollouts that saw
    it. No cluster is dropped: at low resolution the paper's crop count rises with N, so single votes are kept.

    Boxes of equal score are taken from left to right and top to bottom, so the result does not depend on their order.

    Raises:
        DataError: a score is not positive.
    """
    boxes = sorted((box for boxes in rollouts for box in boxes), key=lambda box: (-box.score, box.corners, box.label))
    clusters: list[list[Box]] = []
    fused: list[Box] = []
    for box in boxes:
        if box.score <= 0:
            raise DataError(f"box {box.corners} has score {box.score}; fusion weights must be positive")
        overlaps = [candidate.iou(box) for candidate in fused]
        best = max(overlaps, default=0.0)
        if best > iou:
            index = overlaps.index(best)
            clusters[index].append(box)
            fused[index] = _mean(clusters[index], len(rollouts))
        else:
            clusters.append([box])
            fused.append(_mean([box], len(rollouts)))
    return sorted(fused, key=lambda box: (-box.score, -box.area, box.corners))


def _mean(cluster: Sequence[Box], rollouts: int) -> Box:
    weight = sum(box.score for box in cluster)
    x0, y0, x1, y1 = (sum(box.score * box.corners[i] for box in cluster) / weight for i in range(4))
    score = weight / len(cluster) * min(len(cluster), rollouts) / rollouts
    label = Counter(box.label for box in cluster).most_common(1)[0][0]
    return Box(x0, y0, x1, y1, label, score)
