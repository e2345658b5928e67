"""What a training run is given and what it gives back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from backbone.errors import ConfigError


def fast_precision() -> Literal["fp32", "bf16"]:
    """``bf16`` where the processor computes in it, else ``fp32``: emulated bf16 is a hundred times slower."""
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    return "bf16" if torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported() else "fp32"


LossFunction = Callable[[nn.Module, Any], tuple[Tensor, dict[str, float | Tensor]]]


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of one training stage.

    ``steps`` counts optimiser steps, each over ``accumulate`` batches per process whose losses are averaged. The rate
    rises linearly to ``learning_rate`` over ``warmup_fraction`` of the steps, then falls along a cosine to
    ``final_fraction`` of it. ``weight_decay`` applies to matrices only, ``clip`` is the largest gradient norm, and
    ``threads`` the CPU threads of torch (None: as they are). A checkpoint is written every
    ``checkpoint_minutes`` (0: at every step) and at the end; the newest ``keep`` stay. ``sharding`` says what processes
    of one run share out: ``none`` of the weights, or ``full``, so that each holds a piece of every one.
    """

    steps: int
    learning_rate: float
    warmup_fraction: float = 0.03
    final_fraction: float = 0.05
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    accumulate: int = 1
    precision: Literal["fp32", "bf16"] = "bf16"
    seed: int = 0
    checkpoint_minutes: float = 3.0
    keep: int = 2
    log_every: int = 20
    threads: int | None = None
    sharding: Literal["none", "full"] = "none"

    def __post_init__(self) -> None:
        rules = {
            "steps": self.steps >= 1,
            "learning_rate": 0 < self.learning_rate < math.inf,
            "warmup_fraction": 0 <= self.warmup_fraction < 1,
            "final_fraction": 0 <= self.final_fraction <= 1,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "betas": len(self.betas) == 2 and all(0 <= b < 1 for b in self.betas),
            "clip": 0 < self.clip < math.inf,
            "accumulate": self.accumulate >= 1,
            "precision": self.precision in ("fp32", "bf16"),
            "seed": 0 <= self.seed < 2**32,
            "checkpoint_minutes": 0 <= self.checkpoint_minutes < math.inf,
            "keep": self.keep >= 1,
            "log_every": self.log_every >= 1,
            "threads": self.threads is None or self.threads >= 1,
            "sharding": self.sharding in ("none", "full"),
        }
        wrong = [f"{name}={getattr(self, name)!r}" for name, good in rules.items() if not good]
        if wrong:
            raise ConfigError(
                f"training settings out of range: {', '.join(wrong)}; see TrainingConfig for their meaning"
            )

    def rate(self, step: int) -> float:
        """Learning rate of optimiser step ``step``, counted from 0."""
        warmup = math.ceil(self.warmup_fraction * self.steps)
        if step < warmup:
            return self.learning_rate * (step + 1) / (warmup + 1)
        progress = min(1.0, (step - warmup) / max(1, self.steps - 1 - warmup))
        cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
        return self.learning_rate * (self.final_fraction + (1.0 - self.final_fraction) * cosine)


@dataclass(frozen=True)
class TrainingResult:
    """What a run came to. ``steps`` and ``seconds`` include those before a resume; ``stopped`` says why it is partial.

    ``metrics`` are means over the last logged window, evaluation results among them as ``evaluate/<name>``.
    """

    steps: int
    seconds: float
    metrics: dict[str, float]
    checkpoint: Path
    stopped: str | None = None
