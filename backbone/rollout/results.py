"""An episode's result, and the summary of a run: rates and means with intervals, every failure counted."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from backbone.contracts import Ledger
from backbone.errors import DataError
from backbone.statistics import bootstrap_mean, wilson

PACKAGES = ("fovea", "numpy", "torch", "gymnasium", "mujoco", "metaworld", "highway-env", "moderngl", "ray")
NOT_RESULTS = ("timing", "execution")  # keys that say how something was run, not what came of it


@dataclass(frozen=True)
class EpisodeError:
    """What ended an episode before its time: the exception's type, its message, and the end of its traceback."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class EpisodeResult:
    """One row of a run. ``timing`` holds all that may differ between two runs of the same episode."""

    index: int
    seed: int
    options: Mapping[str, Any]
    status: Literal["scored", "failed"]
    instruction: str = ""
    end: Literal["terminated", "truncated", "limit", "failed"] = "failed"
    success: bool = False
    steps: int = 0
    decisions: int = 0
    path_length: float | None = None
    total_reward: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    ledger: Mapping[str, int] = field(default_factory=dict)
    statuses: Mapping[str, int] = field(default_factory=dict)  # how many decisions had which status
    error: EpisodeError | None = None
    notes: tuple[str, ...] = ()
    timing: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EpisodeResult:
        """The inverse of `to_dict`; raises `DataError` for anything that is no such row."""
        known = {f.name for f in dataclasses.fields(cls)}
        if not isinstance(values, Mapping) or not {"index", "seed", "options", "status"} <= set(values) <= known:
            raise DataError(f"not an episode's row: {str(values)[:120]}")
        given = dict(values)
        try:
            error = EpisodeError(**given["error"]) if given.get("error") else None
            return cls(**{**given, "error": error, "notes": tuple(given.get("notes", ()))})
        except TypeError as problem:
            raise DataError(f"not an episode's row: {problem}") from problem


@dataclass
class Costs:
    """Ledgers of an episode added up without keeping their stages."""

    visual_tokens: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    forward_passes: int = 0
    reasoned: int = 0  # decisions with at least one stage that reasoned
    milliseconds: float = 0.0

    def add(self, ledger: Ledger) -> None:
        """Count one decision's ledger."""
        total = ledger.total()
        self.visual_tokens += total.visual_tokens
        self.prompt_tokens += total.prompt_tokens
        self.reused_tokens += total.reused_tokens
        self.generated_tokens += total.generated_tokens
        self.forward_passes += total.forward_passes
        self.reasoned += total.reasoned
        self.milliseconds += total.milliseconds

    def counts(self) -> dict[str, int]:
        """Everything but the time."""
        return {name: value for name, value in asdict(self).items() if name != "milliseconds"}


@dataclass(frozen=True)
class RolloutResult:
    """A run: its settings, its rows in order, and how it was run."""

    config: Mapping[str, Any]
    expected: int
    episodes: tuple[EpisodeResult, ...]
    execution: Mapping[str, Any]
    timing: Mapping[str, Any]

    @property
    def scored(self) -> tuple[EpisodeResult, ...]:
        """The rows that reached an end."""
        return tuple(row for row in self.episodes if row.status == "scored")

    @property
    def failed(self) -> tuple[EpisodeResult, ...]:
        """The rows that did not."""
        return tuple(row for row in self.episodes if row.status == "failed")

    @property
    def complete(self) -> bool:
        """Whether every expected episode was scored."""
        return len(self.scored) == self.expected

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `comparable` of two runs with the same settings is equal."""
        return {
            "config": dict(self.config),
            **summary(self.episodes, self.expected),
            "versions": versions(),
            "execution": dict(self.execution),
            "timing": dict(self.timing),
            "episodes": [row.to_dict() for row in self.episodes],
        }


def summary(rows: Sequence[EpisodeResult], expected: int) -> dict[str, Any]:
    """Counts, success rate with Wilson's interval, and every metric's mean with a bootstrap interval.

    ``success_rate`` is over scored episodes; ``success_rate_of_expected`` counts failed and missing ones as no success,
    so that an agent cannot gain by crashing. A metric is averaged over the rows that have it and says how many.
    """
    scored = [row for row in rows if row.status == "scored"]
    failed = len(rows) - len(scored)
    successes = sum(row.success for row in scored)
    names = sorted({name for row in scored for name in row.metrics} - {"success"})
    values = {name: [row.metrics[name] for row in scored if name in row.metrics] for name in names}
    values["steps"] = [float(row.steps) for row in scored]
    values["total_reward"] = [row.total_reward for row in scored]
    return {
        "n": {"expected": expected, "scored": len(scored), "failed": failed, "missing": expected - len(rows)},
        "success_rate": asdict(wilson(successes, len(scored))) if scored else None,
        "success_rate_of_expected": asdict(wilson(successes, expected)),
        "metrics": {name: asdict(bootstrap_mean(v, resamples=2_000)) for name, v in values.items() if v},
        "errors": _count(row.error.type for row in rows if row.error),
    }


def comparable(value: Any) -> Any:
    """A result without what only says how it was run; equal for any number of workers, batches and interruptions."""
    if isinstance(value, Mapping):
        return {key: comparable(item) for key, item in value.items() if key not in NOT_RESULTS}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return value


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results may depend on, where installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _count(names: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))
