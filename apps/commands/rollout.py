"""``fovea rollout WORLD``."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.table import Table

from apps.commands.choices import WORLD_HELP, chosen_agent, chosen_world, run_folder, with_named_configs
from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import ConfigError, WorldError
from backbone.rollout.config import ALL_VIDEOS, RolloutConfig
from backbone.rollout.results import RolloutResult
from backbone.rollout.store import film_path

DEFAULT_AGENT = "expert"
SHOWN_FAILURES = 5
RAY_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Command:
    """Let an agent act in a world and measure it: success with a 95 % interval, every metric, one row an episode.

    Writes result.json, episodes.jsonl and videos. An episode that fails is recorded and stops nothing. The same command
    again runs only what is missing. Results do not depend on --backend, --workers or --batch. Options of the world and
    of the agent are shown by `fovea rollout WORLD --agent NAME --help`.
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD", help=WORLD_HELP)]
    agent: str = DEFAULT_AGENT  # expert, random, still, metaworld-expert, ws://HOST:PORT, package.module:Class
    episodes: int = 20
    seed: int = 0  # of the run; every episode has its own, from this and its number
    execute: int = 1  # actions of a chunk that are carried out before the agent is asked again
    max_steps: int | None = None  # end episodes earlier than the world does
    backend: Literal["serial", "processes", "ray"] | None = None  # default: processes if there are several workers
    workers: int = 1
    batch: int = 1  # worlds in lockstep in each worker, for agents that decide for several at once
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None  # a Ray cluster; default: one started here
    gpus_per_worker: float = 0.0  # what each worker asks of Ray
    threads: int = 1  # of numerical libraries in each worker
    episode_timeout_s: float = 600.0
    retries: int = 1  # how often an episode is run again whose worker process died under it
    retry_failed: bool = False  # run episodes again that failed in an earlier run
    video: str = "0"  # a film of the first N episodes, or of all
    allow_failures: bool = False  # exit with 0 even if episodes failed
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # default: runs/rollout-WORLD-AGENT-SEED
    json: bool = False  # print the result as JSON only

    def run(self, output: Output) -> int:
        """Run what is missing and print the summary; exit code 1 if an episode is missing or failed."""
        from backbone.rollout.runner import run_rollout

        config = self.config()
        check_folder(config.output)
        if self.ray is not None:
            check_ray_address(self.ray)
        result = run_rollout(config, console=output.console)
        if not output.as_json:
            _print(output, result, config.output)
        output.json(result.to_dict())
        return 0 if result.complete or self.allow_failures else 1

    def config(self) -> RolloutConfig:
        """The resolved settings; raises `ConfigError` for impossible ones."""
        workers_backend: Literal["serial", "processes"] = "processes" if self.workers > 1 else "serial"
        backend = self.backend or ("ray" if self.ray else workers_backend)
        if self.gpus_per_worker and backend != "ray":
            raise ConfigError(f"--gpus-per-worker is asked of Ray and needs --backend ray, got {backend}")
        return RolloutConfig(
            world=chosen_world(self, self.world),
            agent=chosen_agent(self, self.agent),
            output=run_folder("rollout", self) if self.output is None else self.output,
            episodes=self.episodes,
            seed=self.seed,
            execute=self.execute,
            max_steps=self.max_steps,
            backend=backend,
            workers=self.workers,
            batch=self.batch,
            ray=self.ray,
            gpus_per_worker=self.gpus_per_worker,
            threads=self.threads,
            episode_timeout_s=self.episode_timeout_s,
            retries=self.retries,
            retry_failed=self.retry_failed,
            video=_videos(self.video),
        )


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world and the agent that ``arguments`` name."""
    return with_named_configs(Command, arguments, DEFAULT_AGENT)


def check_ray_address(address: str) -> None:
    """Raise `WorldError` if nobody listens at a cluster's ``[ray://]HOST:PORT``: Ray itself needs minutes to say so."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # `auto` and `local`: Ray finds these by itself
    try:
        socket.create_connection((host, int(port)), RAY_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise WorldError(
            f"no Ray cluster answers at {address} ({error}); check the address (`ray status` prints it), or start one "
            "with `ray start --head`"
        ) from error


def _videos(value: str) -> int:
    if value == "all":
        return ALL_VIDEOS
    if not value.isdigit():
        raise ConfigError(f"--video takes a number of episodes or all, got {value!r}")
    return int(value)


def _missing_films(result: RolloutResult, folder: Path) -> list[str]:
    """A line that names the episodes whose film was asked for after they had been run."""
    wanted = result.execution["video"]
    rows = [row for row in result.episodes if wanted == ALL_VIDEOS or row.index < wanted]
    missing = [str(row.index) for row in rows if not row.notes and not film_path(folder, row.index).exists()]
    if not missing:
        return []
    return [f"no film of episodes {', '.join(missing)}: they were run before; use another --output to film them\n"]


def _print(output: Output, result: RolloutResult, folder: Path | None) -> None:
    summary: dict[str, Any] = result.to_dict()
    table = Table(title=f"{summary['config']['agent']['agent']} in {summary['config']['world']['world']}")
    table.title_justify = "left"
    for name, side in (("", "left"), ("mean", "right"), ("95 % interval", "right"), ("n", "right")):
        table.add_column(name, justify="left" if side == "left" else "right")
    rows = {"success": summary["success_rate"], **summary["metrics"]}
    for name, value in rows.items():
        if value is not None:
            interval = f"{value['low']:.3f} to {value['high']:.3f}"
            table.add_row(escape(name.replace("_", " ")), f"{value['estimate']:.3f}", interval, str(value["n"]))
    counts = ", ".join(f"{value} {key}" for key, value in summary["n"].items())
    table.caption = f"{counts}; {result.timing['steps_per_s']:.1f} steps/s a worker"
    output.console.print(table)
    for row in result.failed[:SHOWN_FAILURES]:
        if row.error is not None:
            output.console.print(f"episode {row.index} failed: {row.error.type}: {escape(row.error.message)[:300]}")
    if len(result.failed) > SHOWN_FAILURES:
        output.console.print(f"... and {len(result.failed) - SHOWN_FAILURES} more")
    if folder is not None:
        output.console.print(*_missing_films(result, folder), sep="", end="")
        output.console.print(f"written: {escape(str(folder / 'result.json'))}, episodes.jsonl beside it")
