"""Evaluation of navigation: episodes of an agent in a watched world, one JSON with everything that is told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from backbone.errors import ConfigError, DataError
from backbone.rollout.config import RolloutConfig, differing_fields
from backbone.rollout.results import EpisodeResult, versions
from backbone.rollout.runner import run_rollout
from backbone.rollout.store import EPISODES_FILE, write_atomically
from navigation.benchmarks import with_settings
from navigation.reports import compare, report, row_summary
from navigation.watching import WatchedConfig

REPORT_FILE = "report.json"
SETTINGS = "world_settings"  # of an agent's config: what it needs of a world, for example depth


def watched(config: RolloutConfig) -> RolloutConfig:
    """``config`` with its world under observation, and with what its agent needs of a world.

    Settings of the world that were changed from their defaults stay as they are.
    """
    world = config.world
    if isinstance(world, WatchedConfig):
        return config
    needs = getattr(config.agent, SETTINGS, None)
    if needs is not None:
        world = with_settings(world, needs(), f"agent {config.agent.agent}")
    return replace(config, world=WatchedConfig(world))


def evaluate(config: RolloutConfig, *, against: Sequence[Path] = (), console: Console | None = None) -> dict[str, Any]:
    """Run what is missing of ``config``, and return the report, which is also written to ``output / report.json``.

    Args:
        config: its output directory holds the rows, so that the same call goes on where a killed one stopped.
        against: folders of earlier evaluations of the same episodes, for paired comparison.
        console: shows progress.

    Raises:
        ConfigError: the directory holds another run, or a run to compare with had another world or seed.
        DataError: a run to compare with is broken or has no episode in common.
    """
    config = watched(config)
    others = {str(folder): _earlier(folder, config) for folder in against}  # before hours of work, not after
    result = run_rollout(config, console=console)
    found: dict[str, Any] = {
        "config": dict(result.config),
        **report(result.episodes, result.expected, config.seed),
        "against": {name: compare(result.episodes, rows, config.seed) for name, rows in others.items()},
        "versions": versions(),
        "execution": dict(result.execution),
        "timing": dict(result.timing),
        "episodes": [row_summary(row) for row in result.episodes],
    }
    if config.output is not None:
        text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(config.output / REPORT_FILE, text)
    return found


def read_rows(folder: Path) -> list[EpisodeResult]:
    """The rows of an evaluation or rollout, the last one of each episode, by number; `DataError` for a broken file."""
    file = folder / EPISODES_FILE
    if not file.is_file():
        raise DataError(f"{folder} holds no {EPISODES_FILE}; give the output directory of an evaluation")
    rows: dict[int, EpisodeResult] = {}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            row = EpisodeResult.from_dict(json.loads(line))
        except ValueError as error:
            raise DataError(f"{file}, line {number}: not an episode's row: {error}") from error
        rows[row.index] = row
    return [rows[index] for index in sorted(rows)]


def _earlier(folder: Path, config: RolloutConfig) -> list[EpisodeResult]:
    """The rows of an earlier run, if it had the same world, up to what its agent needed of it, and the same seed."""
    settings = folder / "config.json"
    if not settings.is_file():
        raise DataError(f"{folder} holds no config.json; give the output directory of an evaluation")
    try:
        before: Mapping[str, Any] = json.loads(settings.read_text("utf-8"))
    except ValueError as error:
        raise DataError(f"{settings} is not JSON: {error}") from error
    now = json.loads(json.dumps(config.results))
    old, new = ({"world": _episodes_of(run["world"]), "seed": run["seed"]} for run in (before, now))
    changed = differing_fields(old, new)
    if changed:
        raise ConfigError(
            f"{folder} had other episodes ({'; '.join(changed)}); compare runs of the same world and seed"
        )
    return read_rows(folder)


SEEING = ("width", "height", "hfov_deg", "depth", "pose_in_state", "look", "panorama", "gpu_device_id", "python")


def _episodes_of(world: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that choose episodes and judge them, without those of cameras."""
    inner = {**world, **world.get("inner", {})}
    return {name: value for name, value in inner.items() if name not in (*SEEING, "inner")}
