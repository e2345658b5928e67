"""One rank of a data-parallel run, for test_training_processes.py: a run that stops and resumes.

By hand: ``torchrun --standalone --nproc-per-node=2 tests/backbone/two_processes.py FOLDER``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import torch
from torch import Tensor, nn

from backbone.training import TrainingConfig, train

CONFIG = TrainingConfig(steps=4, learning_rate=1e-2, precision="fp32", log_every=2)


def batch_at(index: int) -> dict[str, Tensor]:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(index))
    return {"x": x, "y": x[:, :2].tanh()}


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
    return ((model(batch["x"]) - batch["y"]) ** 2).mean(), {}


def make_model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(6, 2)


def run_rank(rank: int, folder: Path) -> None:
    """Write what this rank saw and learned to ``folder/rank<rank>.json``."""
    asked: list[int] = []
    stop = threading.Event()

    def recorded(index: int) -> dict[str, Tensor]:
        asked.append(index)
        if rank == 1 and len(asked) == 2:  # only one rank is asked to stop; both must agree on it
            stop.set()
        return batch_at(index)

    half = train(make_model(), recorded, loss, CONFIG, folder / "run", stop=stop, prefetch=0)
    model = make_model()
    train(model, recorded, loss, CONFIG, folder / "run", prefetch=0)
    record = {
        "stopped": [half.steps, half.stopped],
        "asked": asked,
        "weights": model.weight.tolist(),
    }
    (folder / f"rank{rank}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_rank(int(os.environ["RANK"]), Path(sys.argv[1]))
