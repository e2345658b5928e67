"""What a claim of the README is, and the workbench on which claims are measured again."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.commands.common import ModelOptions, preset_name, weights_version
from perception.config import Method, PerceptionConfig, Regime

if TYPE_CHECKING:
    from backbone.vlm import VLM


@dataclass(frozen=True)
class Finding:
    """What was measured, in words and in numbers, and whether the claim holds."""

    holds: bool
    measured: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A statement with its target, and the function that measures it on a `Workbench`."""

    name: str
    statement: str
    target: str
    measure: Callable[[Workbench], Finding]


@dataclass(frozen=True)
class Workbench:
    """Loads the model once and keeps every run in ``folder``: claims share runs and go on where they stopped."""

    options: ModelOptions
    folder: Path
    items: int  # of a benchmark run
    progress: bool = True

    @cached_property
    def vlm(self) -> VLM:
        """The model under test."""
        return self.options.load()

    def config(self, method: Method, regime: Regime, rollouts: int) -> PerceptionConfig:
        """The model's preset with the given method, regime and number of samples."""
        base = PerceptionConfig.preset(preset_name(self.options.model))
        return replace(base, method=method, regime=regime, rollouts=rollouts)

    def run(self, method: Method, regime: Regime, rollouts: int = 1, sizes: tuple[int, ...] = ()) -> tuple[Path, Any]:
        """Evaluate on held-out mini-V*; returns the run's folder and its report. Finished items are not asked again."""
        from perception.benchmarks import ministar
        from perception.evaluate import evaluate

        benchmark = ministar.benchmark(self.items, sizes=sizes or ministar.SIZES)
        name = "-".join(["ministar", *map(str, sizes), method, str(regime), str(rollouts)])
        report = evaluate(
            self.vlm,
            benchmark,
            self.config(method, regime, rollouts),
            self.folder / name,
            seed=self.options.seed,
            resume=True,
            model_version=weights_version(self.options.model),
            progress=self.progress,
        )
        return self.folder / name, report


def circumstances() -> dict[str, str]:
    """Hardware, software and commit that a number belongs to."""
    import importlib.metadata

    root = Path(__file__).resolve().parents[2]
    asked = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(asked, capture_output=True, text=True, timeout=10).stdout.strip()  # noqa: S603
    except OSError:
        commit = ""
    return {
        "processor": _processor(),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "transformers": importlib.metadata.version("transformers"),
        "commit": commit or "unknown (no git)",
    }


def _processor() -> str:
    import os

    cpuinfo = Path("/proc/cpuinfo")
    names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line] if cpuinfo.is_file() else []
    name = names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"
