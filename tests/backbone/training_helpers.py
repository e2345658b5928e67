"""A small model, its data and its loss, for the tests of the training loop."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from backbone.training import TrainingConfig

CONFIG = TrainingConfig(steps=8, learning_rate=1e-2, precision="fp32", log_every=2)


def make_model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 2))


def batch_at(index: int, size: int = 4) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(index)
    x = torch.randn(size, 6, generator=generator)
    return {"x": x, "y": x[:, :2].tanh()}


def loss(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
    """Mean squared error with noise of all three generators, so that lost random state shows."""
    noise = random.random() + np.random.rand() + np.random.randn() + random.gauss(0, 1) + torch.rand(())
    error = ((model(batch["x"]) - batch["y"]) ** 2).mean()
    return error * (1 + 0.1 * noise), {"error": error.detach(), "constant": 2.0}


def at_call(call: int, action: Callable[[], Any]) -> Callable[..., tuple[Tensor, dict[str, float | Tensor]]]:
    """The loss, doing ``action`` at its ``call``-th call."""
    count = iter(range(1, 10**6))

    def wrapped(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        if next(count) == call:
            action()
        return loss(model, batch)

    return wrapped


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def log_of(folder: Path) -> list[dict[str, Any]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    lines = (folder / "log.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]
