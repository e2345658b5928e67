"""Training nano from nothing: stages over the one shared loop, each a pure function of its seed and step."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from backbone.checkpoints import list_checkpoints, load_weights
from backbone.curriculum import easy_vqa, shapes, text, written  # noqa: F401 - importing registers the sources
from backbone.curriculum.sample import get_source
from backbone.errors import ConfigError
from backbone.nano.build import build_model, save_nano
from backbone.nano.config import VOCABULARY, NanoConfig, StageConfig
from backbone.nano.encode import Batch, Encoder
from backbone.nano.losses import NanoTraining
from backbone.nano.measure import measure
from backbone.nano.recipe import RECIPE
from backbone.tokenizer import build_tokenizer
from backbone.training import TrainingConfig, TrainingResult, train
from backbone.training_config import fast_precision

TRAIN_SEEDS = 1 << 32  # training draws from seeds above this, measurements from seeds below


@dataclass(frozen=True)
class NanoTrainingConfig:
    """One training of nano: architecture, stages, and where the run is kept."""

    output: Path = Path("runs/nano")
    model: NanoConfig = field(default_factory=NanoConfig)
    stages: tuple[StageConfig, ...] = RECIPE
    weights: Path | None = None  # a model directory (for example assets/nano) whose weights to begin from
    scale: float = 1.0  # multiplies the steps of every stage
    measure_every: int = 1000  # steps; 0 measures only at the end of a stage
    measure_items: int = 96
    checkpoint_minutes: float = 3.0
    threads: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 where the processor computes in it
    seed: int = 0

    def __post_init__(self) -> None:
        names = [stage.name for stage in self.stages]
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"stages need unique names and at least one of them, got {names}")
        if self.scale <= 0:
            raise ConfigError(f"scale must be positive, got {self.scale}")


def train_nano(config: NanoTrainingConfig) -> TrainingResult:
    """Run (or go on with) the stages in order and leave a directory in hub layout in ``output/model``.

    A stage that was stopped goes on from its checkpoint; a finished one is not repeated. Steps and seconds of the
    result are those of all stages together, its metrics those of the last.
    """
    model = build_model(config.model, config.seed)
    training = NanoTraining(model, config.model, config.stages[0].curriculum.guidance)
    if config.weights is not None:
        load_start(training, config.weights)
    results: list[TrainingResult] = []
    main = int(os.environ.get("RANK", "0")) == 0  # under torchrun all processes hold the same weights
    for number, stage in enumerate(config.stages, 1):
        if main:
            sys.stderr.write(f"stage {stage.name}, {number} of {len(config.stages)}\n")
            sys.stderr.flush()
        results.append(run_stage(training, config, stage))
        if main:
            save_nano(model, config.model, config.output / "model", torch.float16)
        if results[-1].stopped:
            break
    steps, seconds = sum(r.steps for r in results), sum(r.seconds for r in results)
    return replace(results[-1], steps=steps, seconds=seconds)


def run_stage(training: NanoTraining, config: NanoTrainingConfig, stage: StageConfig) -> TrainingResult:
    """Train one stage in place, beginning from the weights the model has."""
    training.guidance = stage.curriculum.guidance
    training.model.model.visual.requires_grad_(not stage.frozen_tower)
    encoder = Encoder(build_tokenizer(VOCABULARY), config.model, stage.curriculum.tokens_per_picture)
    record = json.loads(json.dumps({"nano": asdict(config), "stage": stage.name}, default=str))

    def evaluate(module: nn.Module, step: int) -> dict[str, float]:
        return measure(training.model, config.model, config.measure_items)

    answers = stage.curriculum.guidance.answer > 0  # the tower alone cannot answer yet
    loop = TrainingConfig(
        steps=max(1, round(stage.steps * config.scale)),
        learning_rate=stage.learning_rate,
        warmup_fraction=0.01,
        precision=fast_precision() if config.precision == "auto" else config.precision,
        seed=config.seed,
        checkpoint_minutes=config.checkpoint_minutes,
        threads=config.threads,
    )
    try:
        return train(
            training,
            batch_maker(stage, encoder, config.seed),
            lambda module, batch: module(batch),
            loop,
            config.output / stage.name,
            evaluate=evaluate if answers else None,
            evaluate_every=config.measure_every if answers else 0,
            config_record=record,
        )
    finally:
        training.model.model.visual.requires_grad_(True)


def load_start(training: NanoTraining, folder: Path) -> None:
    """Weights of a model directory, or of the newest checkpoint of a stage's run; every tensor must fit."""
    if found := list_checkpoints(folder / "checkpoints"):
        load_weights(training, found[-1])
        return
    path = folder / "model.safetensors"
    if not path.is_file():
        raise ConfigError(f"{folder} holds neither checkpoints nor model.safetensors; give a run or a model directory")
    state, model = load_file(path), training.model
    wanted = {k: v.shape for k, v in model.state_dict().items() if k != "lm_head.weight"}  # tied to the embedding
    found_shapes = {k: v.shape for k, v in state.items() if k != "lm_head.weight"}
    if wrong := sorted(set(wanted.items()) ^ set(found_shapes.items())):
        raise ConfigError(f"{path} does not fit nano's architecture: {wrong[:4]}; was it made with another NanoConfig?")
    model.load_state_dict(state, strict=False)


def batch_maker(stage: StageConfig, encoder: Encoder, seed: int) -> Callable[[int], Batch]:
    """``batch_at(step)``: all randomness comes from the run's seed, the stage and the step."""
    names, shares = mixture(stage)
    salt = sum(ord(c) << (8 * (i % 4)) for i, c in enumerate(stage.name))

    def batch_at(step: int) -> Batch:
        rng = np.random.default_rng([TRAIN_SEEDS + seed, salt, step])
        sizes = stage.curriculum.sizes
        size = sizes[int(rng.integers(len(sizes)))]
        chosen = rng.choice(len(names), stage.curriculum.images_per_step, p=shares)
        return encoder.batch([get_source(names[int(i)]).make(rng, size) for i in chosen])

    return batch_at


def mixture(stage: StageConfig) -> tuple[list[str], Sequence[float]]:
    """Names and probabilities of the sources that are drawn."""
    weights = dict(stage.curriculum.weights)
    names = [get_source(n).name for n, w in weights.items() if w > 0]
    total = sum(weights[n] for n in names)
    return names, [weights[n] / total for n in names]
