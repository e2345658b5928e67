"""``fovea train navigation``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.markup import escape

from apps.commands.choices import chosen_world, option, with_configs
from apps.commands.common import ModelOptions, check_folder
from apps.output import Output
from backbone.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from navigation.config import NavigationConfig
    from navigation.rounds import Round
    from navigation.train import StageTraining

DEFAULT_WORLD: Literal["rooms"] = "rooms"


@dataclass(frozen=True, kw_only=True)
class Command(ModelOptions):
    """Train the navigating agent: stage1 (shortest ways), stage2 (memory and thoughts), irft (learning when to think).

    sight comes before them for a model that has hardly seen a home: its tower learns from labelled frames of training
    homes, made on the way.

    stage1 and stage2 learn from what `fovea data navigation` made. irft plays episodes with the present weights, keeps
    what succeeded, repairs what failed, trains on both, and does so again. Weights are left in OUTPUT/adapter as LoRA,
    or, if parts of the base learn too, in OUTPUT/model. Ctrl-C leaves a checkpoint from which the same command goes on.
    """

    stage: tyro.conf.Positional[Literal["sight", "stage1", "stage2", "irft"]]
    data: tuple[Path, ...] = ()  # folders of episodes, for stage1 and stage2
    adapter: str = ""  # a LoRA directory to go on from
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # default: runs/navigation-STAGE
    preset: str = ""  # nano or qwen; empty: by the model

    # What is not given stays as the preset of the model and the stage has it.
    language: Literal["frozen", "lora", "full"] | None = None  # how the language model learns
    tower: Literal["frozen", "lora", "full"] | None = None  # how the vision tower learns
    rank: int | None = None  # of the LoRA; alpha is twice that
    learning_rate: float | None = None
    batch: int | None = None  # examples an optimiser step
    accumulate: int | None = None  # passes in which a batch is done
    epochs: float | None = None
    steps: int | None = None  # optimiser steps, instead of epochs
    precision: Literal["auto", "fp32", "bf16"] | None = None
    questions: float | None = None  # share of batches of questions about single pictures
    guidance: float | None = None  # weight of telling attention heads where to look; for small models
    sight: str | None = None  # directory of the classifiers that guide; default: the shipped ones
    threads: int | None = None  # of torch on a CPU
    sharding: Literal["none", "full"] = "none"  # full, under torchrun: stage1 and stage2 with weights in pieces

    # Of irft alone.
    world: Literal["rooms", "habitat"] = DEFAULT_WORLD
    rollouts: int = 1000  # episodes a round
    rounds: int = 3
    restart: bool = False  # every round from the weights of stage 2, not from those of the round before
    segments: Literal["fixed", "legs"] = "fixed"  # of repairs: looks around after 30 steps, or where the way turns off
    paper_literal: bool = False  # stagnation as printed: no gap between forced slow turns
    workers: int = 1  # processes that play rollouts
    json: bool = False  # print the result as JSON only

    def run(self, output: Output) -> int:
        """Train and save; exit code 130 if it was stopped before the end."""
        self.check()
        if self.stage in ("stage1", "stage2") and not self.data:
            raise ConfigError(f"{self.stage} needs --data DIR, as made by: fovea data navigation {self.stage}")
        if self.sharding != "none" and self.stage not in ("stage1", "stage2"):
            raise ConfigError(f"{self.stage} runs in one process; sharding {self.sharding} is for stage1 and stage2")
        folder = self.output or Path("runs") / f"navigation-{self.stage}"
        check_folder(folder)
        if self.stage == "sight":
            return self._sight(folder, output)
        return self._rounds(folder, output) if self.stage == "irft" else self._stage(folder, output)

    def settings(self) -> tuple[StageTraining, NavigationConfig]:
        """The resolved training and agent; raises `ConfigError` for impossible ones."""
        from navigation.agent_config import preset_for
        from navigation.config import NavigationConfig
        from navigation.train import StageTraining

        preset = self.preset or preset_for(self.model)
        base = StageTraining.preset(preset, self.stage)
        rates = ("rank", "learning_rate", "batch", "accumulate", "epochs", "steps", "guidance")
        given = {name: getattr(self, name) for name in (*rates, "language", "tower", "precision", "sight", "threads")}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.rank is not None:
            changes["alpha"] = 2 * self.rank
        if self.questions is not None:
            changes["questions"] = replace(base.questions, share=self.questions)
        return replace(base, seed=self.seed, sharding=self.sharding, **changes), NavigationConfig.preset(preset)

    def _sight(self, folder: Path, output: Output) -> int:
        from backbone.local import LocalVLM
        from navigation.agent_config import load, preset_for
        from navigation.config import NavigationConfig
        from navigation.sight import SightTraining, train_sight

        given: dict[str, Any] = {
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "rank": self.rank,
            "frames": self.batch,
        }
        settings = SightTraining(
            threads=self.threads, seed=self.seed, **{k: v for k, v in given.items() if v is not None}
        )
        agent = NavigationConfig.preset(self.preset or preset_for(self.model))
        vlm, _ = load(self.model, agent, self.adapter, self.device)
        if not isinstance(vlm, LocalVLM):
            raise UnsupportedError(f"{self.model} is not local; training needs weights in this process")
        result = train_sight(vlm, folder, agent, settings)
        if not output.as_json:
            state = f"stopped ({result.stopped}), start again to go on" if result.stopped else "done"
            output.console.print(f"{state}: {result.steps} steps, {result.metrics}")
            output.console.print(
                f"go on: fovea train navigation stage1 --model {folder / 'model'} --preset nano --data ...",
                markup=False,
                soft_wrap=True,
            )
        plain = {**asdict(result), "checkpoint": str(result.checkpoint)}
        output.json({"result": plain, "weights": str(folder / "adapter"), "settings": asdict(settings)})
        return 130 if result.stopped else 0

    def _stage(self, folder: Path, output: Output) -> int:
        from backbone.local import LocalVLM
        from navigation.agent_config import load
        from navigation.train import train_stage

        settings, agent = self.settings()
        for data in self.data:
            _check_stage(data, self.stage)
        vlm, _ = load(self.model, agent, self.adapter, self.device)
        if not isinstance(vlm, LocalVLM):
            raise UnsupportedError(f"{self.model} is not local; training needs weights in this process")
        result = train_stage(vlm, self.data, folder, agent, settings)
        weights = folder / ("model" if settings.has_base else "adapter")
        if not output.as_json:
            state = f"stopped ({result.stopped}), start again to go on" if result.stopped else "done"
            output.console.print(f"{state}: {result.steps} steps, {result.metrics}")
            flag = "--agent.model" if settings.has_base else f"--agent.model {self.model} --agent.adapter"
            output.console.print(f"use it: fovea eval navigation {flag} {weights}", markup=False, soft_wrap=True)
        plain = {**asdict(result), "checkpoint": str(result.checkpoint)}
        output.json({"result": plain, "weights": str(weights), "settings": asdict(settings)})
        return 130 if result.stopped else 0

    def _rounds(self, folder: Path, output: Output) -> int:
        from navigation.config import DataConfig
        from navigation.data import MakingConfig
        from navigation.rounds import RoundsConfig, run_rounds

        settings, agent = self.settings()
        world: Any = chosen_world(self, self.world)
        data = DataConfig(rounds=self.rounds, segments=self.segments, paper_literal=self.paper_literal)
        thoughts: Literal["short", "full"] = "short" if agent.prompt_style == "short" else "full"
        making = MakingConfig("stage2", world, agent, data, noise=0.0, thoughts=thoughts, seed=self.seed)
        config = RoundsConfig(
            self.model, self.adapter, making, settings, self.rollouts, self.restart, self.workers, self.device
        )
        rounds = run_rounds(config, folder)
        for done in rounds:
            _print(output, done)
        output.json({"rounds": [asdict(done) for done in rounds], "settings": asdict(settings)})
        return 130 if rounds[-1].stopped else 0


def _check_stage(folder: Path, stage: str) -> None:
    """Raise `ConfigError` for episodes that were made for another stage; those of rollouts are made for none."""
    settings = folder / "config.json"
    if not settings.is_file():
        return  # a folder of a user's own
    made = json.loads(settings.read_text(encoding="utf-8")).get("making.stage", stage)
    if made != stage:
        raise ConfigError(
            f"{folder} holds episodes of {made}, not of {stage}; make some: fovea data navigation {stage}"
        )


def _print(output: Output, done: Round) -> None:
    if output.as_json:
        return
    weights = done.adapter or done.model
    output.console.print(
        f"round {done.number}: {done.rollouts.made} of {done.rollouts.expected} rollouts learned from "
        f"({', '.join(f'{n} {k}' for k, n in done.outcomes.items())}; {done.rollouts.dropped} dropped), "
        f"{done.looks_per_step:.3f} looks a step; weights in {escape(weights)}"
    )


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world that ``arguments`` name."""
    world = option(arguments, "--world", DEFAULT_WORLD)
    return with_configs(Command, world if world in ("rooms", "habitat") else None, None)
