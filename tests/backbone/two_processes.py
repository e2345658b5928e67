"""Run by test_training.py under torchrun, once per rank: a straight run, and one that stops and resumes."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from backbone.training import TrainingConfig, train

CONFIG = TrainingConfig(steps=6, learning_rate=1e-2, precision="fp32", log_every=2)
RANK = int(os.environ["RANK"])
STOP = threading.Event()
asked: list[int] = []


def batch_at(index: int) -> dict[str, Tensor]:
    asked.append(index)
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(index))
    return {"x": x, "y": x[:, :2].tanh()}


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
    return ((model(batch["x"]) - batch["y"]) ** 2).mean(), {}


def stopping(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
    if RANK == 1 and len(asked) == 3:  # only one rank is asked to stop; both must agree on it
        STOP.set()
    return loss(model, batch)


def make_model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(6, 2)


def main(folder: Path) -> None:
    model, straight = make_model(), make_model()
    half = train(model, batch_at, stopping, CONFIG, folder / "run", stop=STOP, prefetch=0)
    if half.steps != 3 or half.stopped is None:
        raise SystemExit(f"rank {RANK}: expected a stop after 3 steps, got {half}")
    model = make_model()
    train(model, batch_at, loss, replace(CONFIG), folder / "run", prefetch=0)
    mine = list(asked)
    train(straight, batch_at, loss, CONFIG, folder / "straight")
    record = {"asked": mine, "weights": model.weight.tolist(), "straight": straight.weight.tolist()}
    (folder / f"rank{RANK}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
