"""Paired comparison of two runs over the same items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backbone.errors import DataError
from backbone.statistics import mcnemar, paired_difference
from perception.evaluate import read_records

COSTS = ("visual_tokens", "tokens", "milliseconds", "first_token_ms")

Record = dict[str, Any]


def compare(a: Path, b: Path) -> dict[str, Any]:
    """Accuracy of ``a`` minus that of ``b`` over the items both have, with a bootstrap interval and McNemar's test.

    Failed items count as wrong. Costs are compared over the items both scored. Items that only one run has are
    counted in ``n``, never silently dropped.

    Raises:
        DataError: no common item, or an item was asked differently (other options or right answer).
    """
    left = {r["id"]: r for r in read_records(a)}
    right = {r["id"]: r for r in read_records(b)}
    common = [i for i in left if i in right]
    if not common:
        raise DataError(f"{a} and {b} have no item in common ({len(left)} and {len(right)} items)")
    differing = [i for i in common if any(left[i][k] != right[i][k] for k in ("question", "options", "answer"))]
    if differing:
        raise DataError(
            f"{len(differing)} items were asked differently in {a} and {b}, first {differing[0]}; "
            "give both runs the same benchmark and seed"
        )
    pairs = [(left[i], right[i]) for i in common]
    kinds = sorted({str(x["kind"]) for x, _ in pairs})
    return {
        "a": str(a),
        "b": str(b),
        "n": {
            "common": len(common),
            "only_a": len(left) - len(common),
            "only_b": len(right) - len(common),
            "failed_a": sum(x["status"] == "failed" for x, _ in pairs),
            "failed_b": sum(y["status"] == "failed" for _, y in pairs),
        },
        "accuracy": _accuracy(pairs),
        "by_kind": {kind: _accuracy([p for p in pairs if p[0]["kind"] == kind]) for kind in kinds},
        "costs": _costs([(x, y) for x, y in pairs if x["status"] == y["status"] == "scored"]),
    }


def _accuracy(pairs: Sequence[tuple[Record, Record]]) -> dict[str, Any]:
    x, y = ([bool(r["correct"]) for r in side] for side in zip(*pairs, strict=True))
    return {
        "n": len(pairs),
        "a": sum(x) / len(x),
        "b": sum(y) / len(y),
        "difference": asdict(paired_difference(x, y)),
        "only_a_right": sum(p and not q for p, q in zip(x, y, strict=True)),
        "only_b_right": sum(q and not p for p, q in zip(x, y, strict=True)),
        "mcnemar_p": mcnemar(x, y),
    }


def _costs(pairs: Sequence[tuple[Record, Record]]) -> dict[str, Any]:
    if not pairs:
        return {}
    result = {}
    for key in COSTS:
        x, y = ([float(r[key]) for r in side] for side in zip(*pairs, strict=True))
        total = sum(y)
        result[key] = {
            "a": sum(x) / len(x),
            "b": total / len(y),
            "ratio": sum(x) / total if total else None,
            "difference": asdict(paired_difference(x, y)),
        }
    return result
