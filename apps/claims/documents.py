"""Claims about documents: the shipped reader against its rivals, on generated documents it was never trained on."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import assets
from apps.claims.claim import Finding, Workbench

if TYPE_CHECKING:
    from docparse.data import Example
    from docparse.scoring import Row

QUESTIONS = 600  # of held-out documents, templates and fonts
OF_ONE = 3  # questions of one document
MEASURED = 60  # questions for which the distance to the truth is computed after every step: it is slow
TINY = "<0.5 %"


def reads_documents(bench: Workbench) -> Finding:
    """The shipped reader alone: regions, pages, answers, and the distance to the truth after every step."""
    from docparse.scoring import summary

    rows = _rows("flow", bench.folder)
    report = summary(rows, len(rows))
    metrics = report["metrics"]
    distances = [row.values for row in _measured(bench.folder) if "w2_0" in row.values]
    names = ("iou", "hit@0.5", "page", "pointing", "anls", "strict")
    words = ", ".join(f"{name} {_interval(metrics[name])}" for name in names)
    names_of_steps = sorted(name for name in distances[0] if name.startswith("w2_"))
    steps = [fmean(values[name] for values in distances) for name in names_of_steps]
    falls = all(b < a for a, b in pairwise(steps))
    words += f"; W2 to the truth {' > '.join(f'{w:.3f}' for w in steps)}"
    words += f" (n = {len(rows)}; W2 {len(distances)})"
    return Finding(falls, words, {**report, "w2": steps})


def beats_rival(bench: Workbench, rival: str, tiny_points: float = 0.0) -> Finding:
    """Region IoU of the flow less that of a rival on the same questions, overall and where the evidence is tiny."""
    from docparse.scoring import compare

    report = compare(_rows("flow", bench.folder), _rows(rival, bench.folder), ("iou", "anls", "strict"))
    everywhere, tiny = report["all"]["iou"], report["by_bucket"][TINY]["iou"]
    holds = min(everywhere["low"], tiny["low"]) > 0 and 100 * tiny["estimate"] >= tiny_points
    words = (
        f"mean IoU {_signed(everywhere)} overall, {_signed(tiny)} for evidence under 0.5 % of the page "
        f"(n = {report['n']} and {report['by_bucket'][TINY]['n']}); ANLS {_signed(report['all']['anls'])}, "
        f"answer and region both right {_signed(report['all']['strict'])}"
    )
    return Finding(holds, words, report)


def _rows(name: str, folder: Path) -> list[Row]:
    """One row a question by the shipped reader, one of the rivals beside it, or string matching."""
    if name == "match":
        from docparse.evaluate import evaluate_reader
        from docparse.rivals import match_reader

        return evaluate_reader(match_reader, _examples(folder))
    return _evaluated(assets.DOCPARSE if name == "flow" else assets.DOCPARSE / name, folder)


@cache
def _evaluated(weights: Path, folder: Path) -> list[Row]:
    from docparse.evaluate import evaluate_reader, reader_of

    return evaluate_reader(reader_of(weights), _examples(folder))


@cache
def _measured(folder: Path) -> list[Row]:
    from docparse.evaluate import evaluate_reader, reader_of

    return evaluate_reader(reader_of(assets.DOCPARSE, distances=True), _examples(folder)[:MEASURED])


@cache
def _examples(folder: Path) -> tuple[Example, ...]:
    """The first questions of each of the first held-out documents, `QUESTIONS` in all."""
    from docparse.data import GeneratedConfig, load_document, make_records
    from docparse.documents.embedding import TextEmbedder

    examples: list[Example] = []
    config = GeneratedConfig(folder / "documents", "held_out", 0, QUESTIONS)
    for path in make_records(config, TextEmbedder()):
        examples += load_document(path)[:OF_ONE]
        if len(examples) >= QUESTIONS:
            break
    return tuple(examples[:QUESTIONS])


def _interval(estimate: dict[str, Any]) -> str:
    return f"{estimate['estimate']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"


def _signed(estimate: dict[str, Any]) -> str:
    return f"{estimate['estimate']:+.3f} ({estimate['low']:+.3f} to {estimate['high']:+.3f})"
