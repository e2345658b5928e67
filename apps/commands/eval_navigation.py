"""``fovea eval navigation``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.table import Table

from apps.commands.choices import chosen_agent, chosen_world, option, with_configs
from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import ConfigError
from backbone.rollout.agents import AgentConfig
from backbone.rollout.config import ALL_VIDEOS, RolloutConfig
from backbone.worlds.world import WorldConfig

DEFAULT_WORLD: Literal["rooms"] = "rooms"
DEFAULT_AGENT = "hydra"
WORLDS_OF_NAVIGATION = ("rooms", "habitat")
SHOWN = ("success", "success_object", "spl", "soft_spl", "sot")


@dataclass(frozen=True, kw_only=True)
class Command:
    """Measure an agent of navigation: SR, SPL, SoftSPL, SOT, how often it reasons, and why episodes fail.

    Writes report.json, and beside it the rows from which the same command goes on after an interruption. Episodes are
    those of generated homes that training never uses, or of an ObjectNav file played in habitat-sim, such
    as HM3D's, MP3D's or OVON's. Options of the world and the agent: `fovea eval navigation --world NAME --help`.
    """

    world: Literal["rooms", "habitat"] = DEFAULT_WORLD
    agent: str = DEFAULT_AGENT  # hydra, frontier, expert, random, wander, ws://HOST:PORT, package.module:Class
    strategy: str | None = None  # of hydra: learned, threshold, never, always, fixed, random
    n: int | None = None  # episodes; by default 300, or as many as the benchmark has
    split: Literal["train", "val"] = "val"  # of the generated homes; in place of --world.split
    seed: int = 0  # of the run; every episode has its own, from this and its number
    benchmark: Literal["hm3d-v1", "hm3d-v2", "mp3d", "ovon-seen", "ovon-synonyms", "ovon-unseen"] | None = None
    episodes: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None  # an ObjectNav .json.gz, for habitat
    scenes: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # the folder that its scene ids start from
    against: tuple[Path, ...] = ()  # output directories of earlier evaluations, for paired comparison
    workers: int = 1
    batch: int = 1  # episodes in lockstep in each worker, which an agent that can do so decides together
    backend: Literal["serial", "processes", "ray"] | None = None  # default: processes if there are several workers
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None  # a Ray cluster; default: one started here
    episode_timeout_s: float = 600.0
    retry_failed: bool = False  # run episodes again that failed in an earlier run
    video: int = 0  # films of the first N episodes, -1 of all
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # default: runs/navigation-WORLD-AGENT-SEED
    json: bool = False  # print the report as JSON only

    def run(self, output: Output) -> int:
        """Run what is missing and print the report; exit code 1 if an episode is missing or failed."""
        from navigation.evaluate import REPORT_FILE, evaluate

        config = self.config()
        check_folder(config.output)
        found = evaluate(config, against=self.against, console=output.console)
        if not output.as_json:
            _print(output, found)
            output.console.print(f"written: {escape(str(self._folder() / REPORT_FILE))}")
        output.json(found)
        return 1 if found["n"]["failed"] or found["n"]["missing"] else 0

    def config(self) -> RolloutConfig:
        """The resolved settings; raises `ConfigError` for impossible ones."""
        world, n = self._world()
        if self.video < ALL_VIDEOS:
            raise ConfigError(f"--video takes a number of episodes or -1 for all, got {self.video}")
        return RolloutConfig(
            world=world,
            agent=self._agent(),
            output=self._folder(),
            episodes=n,
            seed=self.seed,
            backend=self.backend or ("ray" if self.ray else "processes" if self.workers > 1 else "serial"),
            workers=self.workers,
            batch=self.batch,
            ray=self.ray,
            episode_timeout_s=self.episode_timeout_s,
            retry_failed=self.retry_failed,
            video=self.video,
        )

    def _world(self) -> tuple[WorldConfig, int]:
        """The world with the settings of what is played in it, and how many episodes to play."""
        from navigation.benchmarks import benchmark, with_settings

        world = chosen_world(self, self.world)
        if self.benchmark is None and self.episodes is None:
            if self.scenes is not None:
                raise ConfigError("--scenes belongs to --episodes, the file that names them")
            homes: Any = replace(world, split=self.split)  # type: ignore[type-var] # configs are dataclasses
            return homes, 300 if self.n is None else self.n
        if self.world != "habitat":
            raise ConfigError("episodes of a file are played in habitat-sim; add --world habitat")
        if self.episodes is None or self.scenes is None:
            lies = f", usually at data/{benchmark(self.benchmark).files}" if self.benchmark else ""
            raise ConfigError(f"give both --episodes FILE{lies} and --scenes DIR (usually data/scene_datasets)")
        files: dict[str, Any] = {"episodes": str(self.episodes), "scenes": str(self.scenes)}
        if self.benchmark is None:
            return with_settings(world, files, "an episode file"), 100 if self.n is None else self.n
        chosen = benchmark(self.benchmark)
        settings = {**files, **chosen.settings}
        return with_settings(world, settings, self.benchmark), chosen.episodes if self.n is None else self.n

    def _agent(self) -> AgentConfig:
        agent: Any = chosen_agent(self, self.agent)
        if self.strategy is None:
            return agent  # type: ignore[no-any-return]
        if not hasattr(agent, "strategy"):
            raise ConfigError(f"agent {self.agent} has no strategy; --strategy is for hydra")
        return replace(agent, strategy=self.strategy)  # type: ignore[no-any-return]

    def _folder(self) -> Path:
        if self.output is not None:
            return self.output
        parts = ("navigation", self.benchmark or self.world, self.agent, self.strategy or "", str(self.seed))
        return Path("runs") / "-".join("".join(c if c.isalnum() or c in "-_." else "-" for c in p) for p in parts if p)


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world and the agent that ``arguments`` name."""
    world = option(arguments, "--world", DEFAULT_WORLD)
    known = world if world in WORLDS_OF_NAVIGATION else None  # the parser tells of others
    return with_configs(Command, known, option(arguments, "--agent", DEFAULT_AGENT))


def _print(output: Output, found: dict[str, Any]) -> None:
    table = Table(title=f"{found['config']['agent']['agent']} in {found['config']['world']['world']}")
    table.title_justify = "left"
    for name in ("", "mean", "95 % interval", "n"):
        table.add_column(name, justify="right" if name else "left")
    for name in SHOWN:
        _row(table, name.replace("_", " "), found[name])
    reasoning, failures = found["reasoning"], found["failures"]
    if reasoning is not None:
        _row(table, "reasoning ratio", reasoning["ratio_per_episode"])
    table.add_section()
    for name, value in (failures or {}).items():
        if value["count"]:
            _row(table, name.replace("_", " "), value)
    counts = ", ".join(f"{value} {key}" for key, value in found["n"].items())
    table.caption = counts
    output.console.print(table)
    if reasoning is not None and sum(reasoning["looks"].values()):
        looks = ", ".join(f"{count} {why}" for why, count in reasoning["looks"].items())
        output.console.print(
            f"looked around: {looks}; forced or called for by the limits {reasoning['forced_share']:.1%}"
        )
    taus = {tau: value["estimate"] for tau, value in found["sot_sensitivity"].items()}
    output.console.print("SOT by seconds a token: " + ", ".join(f"{tau}: {value:.3f}" for tau, value in taus.items()))
    for folder, compared in found["against"].items():
        output.console.print(f"\nagainst {escape(folder)} ({compared['n']['common']} episodes, McNemar p = ", end="")
        output.console.print(f"{compared['mcnemar_p']:.2g})")
        for name in SHOWN:
            value = compared["difference"][name]
            output.console.print(f"  {name:<15} {value['estimate']:+.3f} ({value['low']:+.3f} to {value['high']:+.3f})")


def _row(table: Table, name: str, value: dict[str, Any]) -> None:
    interval = f"{value['low']:.3f} to {value['high']:.3f}"
    table.add_row(name, f"{value['estimate']:.3f}", interval, str(value["n"]))
