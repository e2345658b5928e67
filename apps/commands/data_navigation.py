"""``fovea data navigation``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.progress import Progress

from apps.commands.choices import chosen_world, option, with_configs
from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import ConfigError

DEFAULT_WORLD: Literal["rooms"] = "rooms"


@dataclass(frozen=True, kw_only=True)
class Command:
    """Make training trajectories: stage1 along shortest ways, stage2 exploring, with memory and thoughts.

    One file an episode, in training homes only. The same command again makes what is missing; episodes do not depend on
    --workers. Episodes that the rules drop or that fail are counted and kept with the reason.
    """

    stage: tyro.conf.Positional[Literal["stage1", "stage2"]]
    world: Literal["rooms", "habitat"] = DEFAULT_WORLD
    episodes: int = 1000
    first: int = 0  # number of the first episode
    workers: int = 1
    preset: str = "nano"  # nano or qwen: the agent's eye and the length of its thoughts
    segments: Literal["fixed", "legs"] = "fixed"  # of stage2: looks around after 16 steps, or also where the way turns
    noise: float = 0.1  # chance of a wrong action, which is not learned, so that one learns to get back on the way
    stray: float = 0.0  # of stage2: chance of walking into something, to learn to look around there
    seen_m: float = (
        4.0  # a target seen so near ends the exploring of stage2; 0 passes all waypoints, as the paper has it
    )
    seed: int = 0
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # default: runs/navigation-STAGE-WORLD-SEED
    json: bool = False  # print the counts as JSON only

    def run(self, output: Output) -> int:
        """Make what is missing; exit code 1 if an episode failed."""
        from navigation.config import DataConfig, NavigationConfig
        from navigation.data import MakingConfig
        from navigation.making import MakingJob
        from navigation.producing import produce

        if self.stage == "stage1" and (self.segments != "fixed" or self.stray):
            raise ConfigError(
                f"stage1 has no looks around, so --segments {self.segments} and --stray {self.stray} do nothing there; "
                "leave them out, or make stage2"
            )
        world: Any = chosen_world(self, self.world)
        making = MakingConfig(
            stage=self.stage,
            world=world,
            agent=NavigationConfig.preset(self.preset),
            data=DataConfig(segments=self.segments),
            noise=self.noise,
            stray=self.stray,
            seen_m=self.seen_m,
            thoughts="short" if self.preset == "nano" else "full",
            seed=self.seed,
        )
        folder = self.output or Path("runs") / f"navigation-{self.stage}-{self.world}-{self.seed}"
        check_folder(folder)
        job = MakingJob(making, self.world)
        with Progress(console=output.console, transient=True) as bar:
            task = bar.add_task(self.stage, total=self.episodes)
            report = produce(
                job,
                self.episodes,
                folder,
                workers=self.workers,
                first=self.first,
                progress=lambda n: bar.advance(task, n),
            )
        if not output.as_json:
            output.console.print(
                f"{report.made} of {report.expected} episodes in {escape(str(folder))} ({report.steps} steps), "
                f"{report.dropped} dropped, {report.failed} failed; {report.new} now in {report.seconds:.0f} s"
            )
            for reason, number in report.reasons.items():
                output.console.print(f"  {number} {reason}", markup=False)
        output.json({**asdict(report), "output": str(folder)})
        return 1 if report.failed else 0


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world that ``arguments`` name."""
    world = option(arguments, "--world", DEFAULT_WORLD)
    return with_configs(Command, world if world in ("rooms", "habitat") else None, None)
