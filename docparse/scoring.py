"""From predictions to a report: one row an item, means with intervals, buckets by evidence area, paired comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from backbone.statistics import bootstrap_mean, mcnemar, paired_difference
from docparse.areas import Place, evidence_share
from docparse.metrics import (
    BUCKETS,
    HITS,
    anls,
    bucket,
    exact_match,
    mass_in_truth,
    mean_average_precision,
    page_found,
    pointing,
    region_iou,
    strictly_attributed,
)

UNANSWERABLE = "unanswerable"
BINARY = (*(f"hit@{t:g}" for t in HITS), "exact_match", "page", "pointing", "strict", "abstained")


@dataclass(frozen=True, eq=False)
class Truth:
    """What is right for one item. ``evidence`` is None where a benchmark has no boxes, empty where there is no answer.

    ``sizes`` are ``(width, height)`` of the pages in the boxes' pixels, by page; ``pages`` those with evidence, where
    only pages are known.
    """

    id: str
    answers: tuple[str, ...]
    evidence: tuple[Place, ...] | None
    sizes: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    pages: tuple[int, ...] | None = None
    kind: str = ""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method said. ``regions`` with ``scores`` in any order; no answer and no region is "not in this document".

    ``law`` is ``(pages (N,), cells (N, 4), mass (N,))`` of a method that has one; ``w2`` its distance to the truth
    after every step; ``error`` says why there is no prediction.
    """

    answer: str | None
    regions: tuple[Place, ...] = ()
    scores: tuple[float, ...] = ()
    law: tuple[NDArray[np.integer[Any]], NDArray[np.floating[Any]], NDArray[np.floating[Any]]] | None = None
    w2: tuple[float, ...] = ()
    milliseconds: float = 0.0
    error: str = ""
    particles: int = 0  # most of any step of a flow; the square is what its cost matrix takes

    def __post_init__(self) -> None:
        if self.scores and len(self.scores) != len(self.regions):
            raise DataError(f"a prediction has {len(self.regions)} regions and {len(self.scores)} scores")

    @property
    def page(self) -> int | None:
        """The page of the best region."""
        if not self.regions:
            return None
        return self.regions[int(np.argmax(self.scores)) if self.scores else 0][0]


@dataclass(frozen=True)
class Row:
    """One item's result. ``values`` has only the metrics that the truth allows; a failed row has none."""

    id: str
    kind: str
    bucket: str
    status: str  # scored or failed
    values: dict[str, float]
    answer: str | None = None
    regions: tuple[Place, ...] = ()
    scores: tuple[float, ...] = ()
    truth: tuple[Place, ...] = ()
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def score(truth: Truth, prediction: Prediction) -> Row:
    """The row of one item.

    Answerable items have ``anls``, ``exact_match`` and, with boxes, ``iou``, ``hit@t``, ``page``, ``strict``, and for a
    law ``pointing`` and ``mass``; ``w2_k`` is the distance after step k. Unanswerable items have ``anls``,
    ``exact_match``, ``strict`` and ``abstained``.
    """
    evidence = truth.evidence or ()
    place = bucket(evidence_share(evidence, truth.sizes)) if evidence else ""
    kind = truth.kind or (UNANSWERABLE if not truth.answers else "")
    if prediction.error:
        return Row(truth.id, kind, place, "failed", {}, truth=evidence, error=prediction.error)
    values = {
        "anls": anls(prediction.answer, truth.answers),
        "exact_match": float(exact_match(prediction.answer, truth.answers)),
        "milliseconds": prediction.milliseconds,
    }
    if prediction.particles:
        values["particles"] = float(prediction.particles)
    if truth.evidence is not None:
        areas = {page: width * height for page, (width, height) in truth.sizes.items()}
        values |= _region_values(truth, prediction, evidence, areas)
    elif truth.pages is not None and truth.answers:
        values["page"] = float(prediction.page in truth.pages)
    if not truth.answers:
        values["abstained"] = float(not (prediction.answer or "").strip() and not prediction.regions)
    return Row(
        truth.id, kind, place, "scored", values, prediction.answer, prediction.regions, prediction.scores, evidence
    )  # fmt: skip


def _region_values(
    truth: Truth, prediction: Prediction, evidence: tuple[Place, ...], areas: Mapping[int, float]
) -> dict[str, float]:
    missing = {page for page, _ in (*prediction.regions, *evidence)} - areas.keys()
    if missing:
        raise DataError(f"item {truth.id}: no size of page {min(missing) + 1}; sizes are known of {sorted(areas)}")
    strict = strictly_attributed(prediction.answer, truth.answers, prediction.regions, evidence, areas)
    values = {"strict": float(strict)}
    if not evidence:
        return values
    overlap = region_iou(prediction.regions, evidence, areas)
    values["iou"] = overlap
    values |= {f"hit@{t:g}": float(overlap >= t) for t in HITS}
    values["page"] = float(page_found(prediction.page, evidence))
    if prediction.law is not None:
        values["mass"] = mass_in_truth(*prediction.law, evidence)
        values["pointing"] = float(pointing(*prediction.law, evidence))
    values |= {f"w2_{step}": value for step, value in enumerate(prediction.w2)}
    return values


def summary(rows: Sequence[Row], expected: int, *, resamples: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """The report of a run: counts, means with 95 % bootstrap intervals, by bucket of evidence area and by kind.

    ``n`` counts expected, scored, failed and missing items. ``of_expected`` gives the means with failed and missing
    items counted as 0, for those metrics where more is better: the figures to compare runs by when any failed.
    ``map`` is mean average precision over 0.5 to 0.95 of the scored items with boxes.

    Raises:
        DataError: more rows than expected, or ids that occur twice.
    """
    _check_ids(rows, expected)
    scored = [row for row in rows if row.status == "scored"]
    report: dict[str, Any] = {
        "n": {
            "expected": expected,
            "scored": len(scored),
            "failed": len(rows) - len(scored),
            "missing": expected - len(rows),
        },
        "metrics": _means(scored, resamples, seed),
        "map": _map(scored),
        "by_bucket": {},
        "by_kind": {},
    }
    if len(scored) < expected:
        report["of_expected"] = _of_expected(rows, scored, expected)
    for name, _ in BUCKETS:
        group = [row for row in scored if row.bucket == name]
        if group:
            report["by_bucket"][name] = {"n": len(group), **_means(group, resamples, seed), "map": _map(group)}
    for kind in sorted({row.kind for row in scored if row.kind}):
        group = [row for row in scored if row.kind == kind]
        report["by_kind"][kind] = {"n": len(group), **_means(group, resamples, seed)}
    return report


def compare(
    a: Sequence[Row], b: Sequence[Row], metrics: Iterable[str] | None = None, *, resamples: int = 10_000, seed: int = 0
) -> dict[str, Any]:
    """``a`` minus ``b`` over the same items, paired: for all items, and for each bucket of evidence area.

    Each metric has the mean difference with its 95 % bootstrap interval; binary ones also the exact McNemar p-value.
    Items that failed in either are left out and counted.

    Raises:
        DataError: the two runs have not the same items, or no item is scored in both.
    """
    left, right = {row.id: row for row in a}, {row.id: row for row in b}
    if left.keys() != right.keys():
        odd = sorted(left.keys() ^ right.keys())
        raise DataError(f"the two runs have different items ({len(left)} and {len(right)}), for example {odd[0]!r}")
    both = [key for key in left if left[key].status == right[key].status == "scored"]
    if not both:
        raise DataError("no item is scored in both runs")
    wanted = list(metrics) if metrics is not None else sorted({m for key in both for m in left[key].values})
    report: dict[str, Any] = {"n": len(both), "left_out": len(left) - len(both)}
    report["all"] = _differences([(left[k], right[k]) for k in both], wanted, resamples, seed)
    report["by_bucket"] = {}
    for name, _ in BUCKETS:
        pairs = [(left[k], right[k]) for k in both if left[k].bucket == name]
        if pairs:
            report["by_bucket"][name] = {"n": len(pairs), **_differences(pairs, wanted, resamples, seed)}
    return report


def _differences(pairs: Sequence[tuple[Row, Row]], metrics: Sequence[str], resamples: int, seed: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for metric in metrics:
        known = [(p.values[metric], q.values[metric]) for p, q in pairs if metric in p.values and metric in q.values]
        if not known:
            continue
        x, y = [k[0] for k in known], [k[1] for k in known]
        out[metric] = asdict(paired_difference(x, y, resamples=resamples, seed=seed))
        if metric in BINARY:
            out[metric]["mcnemar_p"] = mcnemar([bool(v) for v in x], [bool(v) for v in y])
    return out


def _means(rows: Sequence[Row], resamples: int, seed: int) -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    return {
        name: asdict(bootstrap_mean([r.values[name] for r in rows if name in r.values], resamples=resamples, seed=seed))
        for name in names
    }


def _of_expected(rows: Sequence[Row], scored: Sequence[Row], expected: int) -> dict[str, float]:
    """Means with everything that is not scored as 0. Metrics that only some items have are spread over a like share."""
    out = {}
    for name in ("anls", "exact_match", "iou", "strict", *(f"hit@{t:g}" for t in HITS), "page"):
        has = [row.values[name] for row in scored if name in row.values]
        if has:
            lost = sum(_would_have(row, name) for row in rows if row.status != "scored") + expected - len(rows)
            out[name] = sum(has) / (len(has) + lost)
    return out


def _would_have(row: Row, metric: str) -> bool:
    return bool(row.truth) or metric in ("anls", "exact_match", "strict")


def _map(rows: Sequence[Row]) -> float | None:
    with_boxes = [row for row in rows if row.truth]
    if not with_boxes:
        return None
    predicted = [
        [(page, box, value) for (page, box), value in zip(r.regions, r.scores or (1.0,) * len(r.regions), strict=True)]
        for r in with_boxes
    ]
    return mean_average_precision(predicted, [row.truth for row in with_boxes])


def _check_ids(rows: Sequence[Row], expected: int) -> None:
    if len(rows) > expected:
        raise DataError(f"{len(rows)} rows for {expected} items; the rows belong to another run")
    ids = {row.id for row in rows}
    if len(ids) != len(rows):
        raise DataError(f"{len(rows)} rows have only {len(ids)} different ids")
