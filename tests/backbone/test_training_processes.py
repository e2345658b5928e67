"""Two training processes equal one with accumulation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from forked_ranks import in_two_processes
from torch import Tensor, nn
from training_helpers import CONFIG, batch_at, log_of
from two_processes import run_rank

from backbone.training import train


def test_two_processes_equal_accumulation_in_one(tmp_path: Path) -> None:
    """Ranks take alternate batches, gradients are averaged, only rank 0 writes, a stop is shared, resume is exact."""
    in_two_processes(run_rank, tmp_path)
    ranks = [json.loads((tmp_path / f"rank{r}.json").read_text()) for r in (0, 1)]
    assert ranks[0]["stopped"] == [2, "another process was asked to stop: 2 of 4 steps done"]
    assert ranks[1]["stopped"] == [2, "the stop event was set: 2 of 4 steps done"]
    assert ranks[0]["asked"] == [0, 2, 4, 6]
    assert ranks[1]["asked"] == [1, 3, 5, 7]
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert len([e for e in log_of(tmp_path / "run") if e["event"] == "end"]) == 2
    torch.manual_seed(0)
    model = nn.Linear(6, 2)

    def error(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        return ((model(batch["x"]) - batch["y"]) ** 2).mean(), {}

    train(model, batch_at, error, replace(CONFIG, steps=4, accumulate=2), tmp_path / "one")
    torch.testing.assert_close(torch.tensor(ranks[0]["weights"]), model.weight.detach(), rtol=1e-5, atol=1e-6)
