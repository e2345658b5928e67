"""Metrics of visual search as pure functions: was the evidence looked at, how tightly, and at what cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from backbone.contracts import Box
from backbone.errors import DataError
from backbone.statistics import percentiles, wilson

FOUND = 0.5  # a target is found when at least this part of its area lies inside the union of the regions looked at
SIZE_STEPS = (512, 1024, 2048, 4096, 8192)  # longer side in pixels; reports group pictures up to each

Record = Mapping[str, Any]


def covered(target: Box, regions: Sequence[Box]) -> float:
    """The part of ``target``'s area inside the union of ``regions``, 0 to 1, overlaps counted once."""
    return _union_area(target, regions) / target.area


def area_seen(regions: Sequence[Box], width: float, height: float) -> float:
    """The part of a picture inside the union of ``regions``: whoever looks everywhere finds everything."""
    return _union_area(Box(0, 0, width, height), regions) / (width * height)


def best_iou(target: Box, boxes: Sequence[Box]) -> float:
    """The largest intersection over union of ``target`` with any of ``boxes``; 0 without any."""
    return max((target.iou(box) for box in boxes), default=0.0)


def size_group(longest: int) -> str:
    """The name of the size group of a picture, for example ``<= 4096 px``."""
    for step in SIZE_STEPS:
        if longest <= step:
            return f"<= {step} px"
    return f"> {SIZE_STEPS[-1]} px"


def summary(records: Sequence[Record], expected: int) -> dict[str, Any]:
    """What a report says of a run: accuracy with its 95 % Wilson interval, boxes, tokens and times.

    ``accuracy`` is over the scored items; ``accuracy_of_expected`` counts failed and missing ones as wrong, and is the
    figure to compare runs by when any failed. Answers that name no option are wrong and counted as ``unanswered``.
    """
    scored = [r for r in records if r["status"] == "scored"]
    failed = [r for r in records if r["status"] == "failed"]
    if len(records) > expected:
        raise DataError(f"{len(records)} records for {expected} items; the per-item file belongs to another run")
    right = sum(bool(r["correct"]) for r in scored)
    return {
        "n": {
            "expected": expected,
            "scored": len(scored),
            "failed": len(failed),
            "missing": expected - len(records),
            "unanswered": sum(r["choice"] is None for r in scored),
        },
        "accuracy": _proportion(right, len(scored)),
        "accuracy_of_expected": _proportion(right, expected),
        "by_kind": _grouped(scored, lambda r: str(r["kind"])),
        "by_size": _grouped(scored, lambda r: size_group(max(r["size"]))),
        "by_group": _grouped([r for r in scored if r["group"]], lambda r: str(r["group"])),
        "boxes": box_summary(scored),
        "tokens": _means(scored, ("visual_tokens", "prompt_tokens", "reused_tokens", "generated_tokens", "tokens")),
        "forward_passes": _mean(r["forward_passes"] for r in scored),
        "first_token_ms": percentiles([r["first_token_ms"] for r in scored]) if scored else {},
        "milliseconds": percentiles([r["milliseconds"] for r in scored]) if scored else {},
        "seconds_total": float(sum(r["seconds"] for r in records)),
    }


def box_summary(scored: Sequence[Record]) -> dict[str, Any] | None:
    """Target recall and overlap over items whose boxes are known and whose method looks at regions; None without any.

    ``target_recall``: targets at least `FOUND` covered by the union of the regions looked at, of all targets.
    ``item_recall``: items with every target found. ``region_iou``: mean best overlap of a target with a region looked
    at. Regions are widened by the crop rules, so ``proposal_iou``, over the boxes as the model wrote them, is the
    measure of localisation; it is None where a method proposes none.
    """
    known = [r for r in scored if r["coverage"]]
    if not known:
        return None
    found = [c >= FOUND for r in known for c in r["coverage"]]
    proposals = [v for r in known for v in r["proposal_iou"] or ()]
    return {
        "items": len(known),
        "target_recall": _proportion(sum(found), len(found)),
        "item_recall": _proportion(sum(min(r["coverage"]) >= FOUND for r in known), len(known)),
        "region_iou": _mean(v for r in known for v in r["region_iou"]),
        "proposal_iou": _mean(proposals) if proposals else None,
        "regions": _mean(len(r["regions"]) for r in known),
        "area_seen": _mean(r["area_seen"] for r in known),
    }


def _grouped(records: Sequence[Record], key: Callable[[Record], str]) -> dict[str, Any]:
    groups: dict[str, list[bool]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(bool(record["correct"]))
    return {name: _proportion(sum(values), len(values)) for name, values in sorted(groups.items())}


def _proportion(successes: int, n: int) -> dict[str, Any] | None:
    return asdict(wilson(successes, n)) if n else None


def _means(records: Sequence[Record], keys: Sequence[str]) -> dict[str, float | None]:
    return {key: _mean(r[key] for r in records) for key in keys}


def _mean(values: Iterable[float]) -> float | None:
    found = [float(v) for v in values]
    return float(np.mean(found)) if found else None


def _union_area(frame: Box, regions: Sequence[Box]) -> float:
    """Area of the union of ``regions`` inside ``frame``, exact: cells between all the regions' edges."""
    xs = sorted({min(max(x, frame.x0), frame.x1) for r in regions for x in (r.x0, r.x1)})
    area = 0.0
    for left, right in itertools.pairwise(xs):
        middle = (left + right) / 2
        spans = sorted((max(r.y0, frame.y0), min(r.y1, frame.y1)) for r in regions if r.x0 <= middle <= r.x1)
        reached = frame.y0
        for low, high in spans:
            area += max(0.0, high - max(low, reached)) * (right - left)
            reached = max(reached, high)
    return area
