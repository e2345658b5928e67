"""Does perfect perception suffice? Accuracy of stage 2 against the overlap of its close-up with the true region."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from backbone.vlm import VLM
from perception.benchmarks.items import Benchmark
from perception.config import PerceptionConfig, Regime
from perception.evaluate import evaluate
from perception.oracle import Oracle

OVERLAPS = (0.05, 0.25, 0.5, 0.8, 1.0)  # STATED: read off the authors' plot
REGIMES: tuple[Regime, ...] = (256, 512, "full")  # STATED


def overlap_experiment(
    vlm: VLM,
    benchmark: Benchmark,
    config: PerceptionConfig,
    output: Path,
    *,
    overlaps: Sequence[float] = OVERLAPS,
    regimes: Sequence[Regime] = REGIMES,
    seed: int = 0,
    limit: int | None = None,
    model_version: str = "",
    progress: bool = True,
) -> dict[str, Any]:
    """One oracle run for each regime and overlap, and at each regime the native method, which looks at nothing.

    Every run has its own folder and is continued if it is there already. Returns, and writes to
    ``output / "overlap.json"``, the accuracy with its interval and the visual tokens of each run. Raises as
    `perception.evaluate.evaluate`.
    """
    table: list[dict[str, Any]] = []
    for regime in regimes:
        for overlap in (None, *overlaps):
            method = config.method if overlap is not None else "native"
            name = f"regime-{regime}-" + (f"overlap-{overlap:g}" if overlap is not None else "native")
            report = evaluate(
                vlm,
                benchmark,
                replace(config, regime=regime, method=method),
                output / name,
                seed=seed,
                limit=limit,
                resume=True,
                oracle=Oracle(overlap) if overlap is not None else None,
                model_version=model_version,
                progress=progress,
            )
            table.append(
                {
                    "regime": regime,
                    "overlap": overlap,
                    "accuracy": report["accuracy"],
                    "n": report["n"],
                    "visual_tokens": report["tokens"]["visual_tokens"],
                }
            )
    result = {"model": vlm.name, "benchmark": benchmark.name, "split": benchmark.split, "seed": seed, "runs": table}
    (output / "overlap.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result
