"""Stage 3, iterative rejection fine-tuning: rounds of rollouts, judgement, repair and training (section 5.4)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backbone.errors import ConfigError, TrainingError, UnsupportedError
from backbone.local import LocalVLM
from navigation.agent_config import load
from navigation.data import MakingConfig
from navigation.producing import Report, produce
from navigation.records import list_episodes, read_trajectory
from navigation.repairing import RolloutJob
from navigation.train import StageTraining, train_stage

DONE = "round.json"


@dataclass(frozen=True)
class RoundsConfig:
    """The rounds. ``model`` and ``adapter`` are what stage 2 left; ``making`` says where and how rollouts are made."""

    model: str = "nano"
    adapter: str = ""
    making: MakingConfig = field(default_factory=lambda: MakingConfig(stage="stage2"))
    training: StageTraining = field(default_factory=lambda: StageTraining.preset("nano", "irft"))
    rollouts: int = 1000  # a round; STATED about 60,000
    restart: bool = False  # OUR CHOICE: every round goes on from the one before; True: from stage 2
    workers: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.rollouts < 1 or self.workers < 1:
            raise ConfigError(f"rounds need rollouts and workers of at least 1, got {self.rollouts}, {self.workers}")


@dataclass(frozen=True)
class Round:
    """What came of a round, and where its weights are."""

    number: int
    model: str
    adapter: str
    rollouts: Report
    outcomes: dict[str, int]  # success, misidentified, timeout of what is learned from
    looks_per_step: float  # `obs` over actions of the body, in the rollouts and repairs that are learned from
    stopped: str | None = None


def run_rounds(config: RoundsConfig, output: Path, progress: Callable[[int, int], None] | None = None) -> list[Round]:
    """All rounds, or what is missing of them; each leaves ``output/round-K`` with rollouts, training and `DONE`.

    Raises:
        TrainingError: no rollout of a round could be learned from.
        UnsupportedError: the model is behind a server.
    """
    rounds: list[Round] = []
    model, adapter = config.model, config.adapter
    for number in range(1, config.making.data.rounds + 1):
        folder = output / f"round-{number}"
        found = _finished(folder)
        if found is None:
            found = _round(config, folder, number, model, adapter, progress)
        rounds.append(found)
        if found.stopped is not None:
            break
        if not config.restart:
            model, adapter = found.model, found.adapter
    return rounds


def _round(
    config: RoundsConfig,
    folder: Path,
    number: int,
    model: str,
    adapter: str,
    progress: Callable[[int, int], None] | None,
) -> Round:
    """One round from the weights of ``model`` and ``adapter``."""
    job = RolloutJob(config.making, model, adapter, config.device, config.making.world.world, number)
    tell = None if progress is None else lambda done: progress(number, done)
    made = produce(job, config.rollouts, folder / "rollouts", workers=config.workers, progress=tell)
    if not made.made:
        raise TrainingError(f"round {number}: none of {made.expected} rollouts can be learned from: {made.reasons}")
    vlm, _ = load(model, config.making.agent, adapter, config.device)
    if not isinstance(vlm, LocalVLM):
        raise UnsupportedError(f"{model} is not local; training needs weights in this process")
    training = folder / "training"
    record = {"round": number, "from": model, "adapter": adapter}
    result = train_stage(vlm, [folder / "rollouts"], training, config.making.agent, config.training, record=record)
    whole = config.training.has_base
    outcomes, looks = told_of(folder / "rollouts")
    done = Round(
        number,
        str(training / "model") if whole else model,
        "" if whole else str(training / "adapter"),
        made,
        outcomes,
        looks,
        result.stopped,
    )
    if result.stopped is None:
        partial = folder / f".{DONE}.part"
        partial.write_text(json.dumps(asdict(done), indent=1) + "\n", encoding="utf-8")
        os.replace(partial, folder / DONE)
    return done


def told_of(folder: Path) -> tuple[dict[str, int], float]:
    """Outcomes of the rollouts that are learned from, and looks around for each action of the body."""
    outcomes: Counter[str] = Counter()
    looks = steps = 0
    for path in list_episodes(folder):
        trajectory = read_trajectory(path)
        outcomes[str(trajectory.facts["outcome"])] += 1
        looks += len(trajectory.cycles)
        steps += trajectory.steps
    return dict(outcomes), looks / max(steps, 1)


def _finished(folder: Path) -> Round | None:
    path = folder / DONE
    if not path.exists():
        return None
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Round(**{**stored, "rollouts": Report(**stored["rollouts"])})
