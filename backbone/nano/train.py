"""Training nano from nothing: the curriculum as a pure function of the step, over the one shared loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn

from backbone.checkpoints import list_checkpoints, load_weights
from backbone.curriculum import easy_vqa, shapes, text, written  # noqa: F401 - importing registers the sources
from backbone.curriculum.sample import get_source, sources
from backbone.errors import ConfigError
from backbone.nano.build import build_model, save_nano
from backbone.nano.config import VOCABULARY, CurriculumConfig, NanoConfig
from backbone.nano.encode import Batch, Encoder
from backbone.nano.losses import NanoTraining
from backbone.nano.measure import measure
from backbone.tokenizer import build_tokenizer
from backbone.training import TrainingConfig, TrainingResult, train

TRAIN_SEEDS = 1 << 32  # training draws from seeds above this, measurements from seeds below


@dataclass(frozen=True)
class NanoTrainingConfig:
    """One training run of nano: architecture, curriculum, loop."""

    output: Path = Path("runs/nano")
    model: NanoConfig = field(default_factory=NanoConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    loop: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(steps=20_000, learning_rate=1.5e-3, precision="fp32")
    )
    start: Path | None = None  # an earlier run whose newest weights to begin from
    frozen_tower: bool = False
    measure_every: int = 500
    measure_items: int = 96
    seed: int = 0


def train_nano(config: NanoTrainingConfig) -> TrainingResult:
    """Train (or resume) and leave a directory in hub layout in ``output/model``."""
    model = build_model(config.model, config.seed)
    training = NanoTraining(model, config.model, config.curriculum.guidance)
    if config.start is not None:
        load_start(training, config.start)
    if config.frozen_tower:
        model.model.visual.requires_grad_(False)
    encoder = Encoder(build_tokenizer(VOCABULARY), config.model, config.curriculum.tokens_per_picture)
    record = json.loads(json.dumps(asdict(config), default=str))

    def evaluate(module: nn.Module, step: int) -> dict[str, float]:
        return measure(model, config.model, config.measure_items)

    result = train(
        training,
        batch_maker(config, encoder),
        lambda module, batch: module(batch),
        config.loop,
        config.output,
        evaluate=evaluate if config.measure_every else None,
        evaluate_every=config.measure_every,
        config_record=record,
    )
    save_nano(model, config.model, config.output / "model", torch.float16)
    return result


def load_start(training: NanoTraining, run: Path) -> None:
    """Begin from the newest checkpoint of an earlier run; every tensor must be there and fit."""
    found = list_checkpoints(run / "checkpoints")
    if not found:
        raise ConfigError(f"{run} holds no checkpoint to start from; train first, or give another run")
    load_weights(training, found[-1])


def batch_maker(config: NanoTrainingConfig, encoder: Encoder) -> Callable[[int], Batch]:
    """``batch_at(step)``: all randomness comes from the run's seed and the step."""
    names, shares = mixture(config.curriculum)

    def batch_at(step: int) -> Batch:
        rng = np.random.default_rng([TRAIN_SEEDS + config.seed, step])
        sizes = config.curriculum.sizes
        size = sizes[int(rng.integers(len(sizes)))]
        chosen = rng.choice(len(names), config.curriculum.images_per_step, p=shares)
        return encoder.batch([get_source(names[int(i)]).make(rng, size) for i in chosen])

    return batch_at


def mixture(curriculum: CurriculumConfig) -> tuple[list[str], Sequence[float]]:
    """Names and probabilities of the sources that are drawn."""
    weights: dict[str, float] = (
        dict(curriculum.weights) if curriculum.weights else {n: s.weight for n, s in sources().items()}
    )
    names = [get_source(n).name for n, w in weights.items() if w > 0]
    total = sum(weights[n] for n in names)
    if total <= 0:
        raise ConfigError(f"the curriculum draws from nothing: weights {weights}")
    return names, [weights[n] / total for n in names]
