"""``fovea data record WORLD``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.markup import escape

from apps.commands.choices import WORLD_HELP, chosen_agent, chosen_world, run_folder, with_named_configs
from apps.commands.common import check_folder
from apps.output import Output
from backbone.rollout.progress import RunProgress

if TYPE_CHECKING:
    from backbone.records.run import RecordConfig

DEFAULT_AGENT = "expert"
SHOWN_SKIPS = 5


@dataclass(frozen=True, kw_only=True)
class Command:
    """Record an agent's episodes as a LeRobot v3.0 data set: parquet and mp4, with the world's own labels beside.

    Episodes that fail are left out and listed. The same command again records only what is missing, also after a kill.
    Options of the world and of the agent are shown by `fovea data record WORLD --agent NAME --help`.
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD", help=WORLD_HELP)]
    agent: str = DEFAULT_AGENT  # expert, random, still, metaworld-expert, ws://HOST:PORT, package.module:Class
    episodes: int = 20  # to run; those that fail are left out
    seed: int = 0  # of the run; every episode has its own, from this and its number
    execute: int = 1  # actions of a chunk that are carried out before the agent is asked again
    max_steps: int | None = None  # end episodes earlier than the world does
    only_successes: bool = False  # leave episodes out that do not succeed
    labels: bool = True  # the world's privileged state beside each frame
    crf: int = 18  # how small the videos are, at the cost of quality: 0 to 51
    episode_timeout_s: float = 600.0
    allow_failures: bool = False  # exit with 0 even if episodes failed
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # default: runs/record-WORLD-AGENT-SEED
    json: bool = False  # print the result as JSON only

    def run(self, output: Output) -> int:
        """Record what is missing; exit code 1 if an episode failed."""
        from backbone.records.run import record_dataset

        config = self.config()
        check_folder(config.output)
        with RunProgress(f"{self.world}, {self.agent}", config.episodes, output.console) as progress:
            result = record_dataset(config, on_begin=progress.skip, on_episode=lambda row, kept: progress.add(row))
        if not output.as_json:
            _print(output, result)
        output.json(result)
        failed = [entry for entry in result["skipped"] if entry["reason"] != "unsuccessful"]
        return 0 if not failed or self.allow_failures else 1

    def config(self) -> RecordConfig:
        """The resolved settings; raises `ConfigError` for impossible ones."""
        from backbone.records.run import RecordConfig
        from backbone.records.video import VideoQuality

        return RecordConfig(
            world=chosen_world(self, self.world),
            agent=chosen_agent(self, self.agent),
            output=run_folder("record", self) if self.output is None else self.output,
            episodes=self.episodes,
            seed=self.seed,
            execute=self.execute,
            max_steps=self.max_steps,
            labels=self.labels,
            only_successes=self.only_successes,
            quality=VideoQuality(self.crf),
            episode_timeout_s=self.episode_timeout_s,
        )


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world and the agent that ``arguments`` name."""
    return with_named_configs(Command, arguments, DEFAULT_AGENT)


def _print(output: Output, result: dict[str, Any]) -> None:
    counts = result["n"]
    episodes = f"{counts['recorded']} of {counts['expected']} episodes, {result['frames']} frames"
    output.console.print(f"{escape(result['output'])}: {episodes}, {result['tasks']} instructions")
    for entry in result["skipped"][:SHOWN_SKIPS]:
        message = escape(entry["message"])[:300]
        output.console.print(f"left out: episode {entry['index']} (seed {entry['seed']}), {entry['reason']}: {message}")
    if counts["skipped"] > SHOWN_SKIPS:
        output.console.print(f"... and {counts['skipped'] - SHOWN_SKIPS} more, in meta/recording.json")
