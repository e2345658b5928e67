"""The training loop: its arithmetic, its settings, its log, its evaluations."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from training_helpers import CONFIG, at_call, batch_at, log_of, loss, make_model, same

from backbone import checkpoints
from backbone.errors import ConfigError, ModelError
from backbone.training import TrainingConfig, train


@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_result_does_not_depend_on_prefetch_and_no_batch_is_wasted(tmp_path: Path, prefetch: int) -> None:
    asked: list[int] = []
    model, reference = make_model(), make_model()
    config = replace(CONFIG, accumulate=3)

    def recorded(index: int) -> dict[str, Tensor]:
        asked.append(index)
        return batch_at(index)

    train(model, recorded, loss, config, tmp_path / "a", prefetch=prefetch)
    train(reference, batch_at, loss, config, tmp_path / "b")
    assert asked == list(range(24))
    assert same(model, reference)


def test_accumulation_equals_the_large_batch(tmp_path: Path) -> None:
    def plain(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        return ((model(batch["x"]) - batch["y"]) ** 2).mean(), {}

    def large(index: int) -> dict[str, Tensor]:
        parts = [batch_at(4 * index + k) for k in range(4)]
        return {k: torch.cat([p[k] for p in parts]) for k in parts[0]}

    def linear() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))

    small, big = linear(), linear()
    config = replace(CONFIG, clip=1e3)
    few = train(small, batch_at, plain, replace(config, accumulate=4), tmp_path / "small")
    one = train(big, large, plain, config, tmp_path / "big")
    for key in ("loss", "gradient_norm"):  # Adam and clipping hide a wrong scale of the gradient; its norm does not
        assert few.metrics[key] == pytest.approx(one.metrics[key], rel=1e-4)
    for a, b in zip(small.parameters(), big.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_first_step_is_adamw_with_decay_on_matrices_only(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(1.0)

    def constant(model: nn.Module, batch: Tensor) -> tuple[Tensor, dict[str, float | Tensor]]:
        return model(batch).sum(), {}

    config = TrainingConfig(1, 0.1, warmup_fraction=0, weight_decay=0.5, precision="fp32")
    train(model, lambda i: torch.ones(1, 2), constant, config, tmp_path)
    # Adam's first step has length 1 per element; decay multiplies by 1 - 0.1 * 0.5
    torch.testing.assert_close(model.weight, torch.full((1, 2), 0.95 - 0.1), rtol=0, atol=1e-6)
    torch.testing.assert_close(model.bias, torch.full((1,), 1.0 - 0.1), rtol=0, atol=1e-6)


def test_rate_warms_up_then_falls_to_the_floor() -> None:
    config = TrainingConfig(100, 1.0, warmup_fraction=0.1, final_fraction=0.2)
    rates = [config.rate(s) for s in range(100)]
    assert rates[:10] == pytest.approx([(s + 1) / 11 for s in range(10)])
    assert rates[10] == 1.0
    assert rates[99] == pytest.approx(0.2)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert TrainingConfig(1, 1.0, warmup_fraction=0).rate(0) == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"warmup_fraction": 1.0},
        {"final_fraction": -0.1},
        {"betas": (0.9, 1.0)},
        {"clip": 0.0},
        {"accumulate": 0},
        {"precision": "fp16"},
        {"keep": 0},
        {"threads": 0},
        {"checkpoint_minutes": -1.0},
    ],
)
def test_settings_out_of_range_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        replace(CONFIG, **wrong)


def test_only_parameters_with_gradient_change_and_are_stored(tmp_path: Path) -> None:
    model = make_model()
    model[0].requires_grad_(False)
    frozen = model[0].weight.clone()
    result = train(model, batch_at, loss, CONFIG, tmp_path)
    assert torch.equal(model[0].weight, frozen)
    assert not any(k.startswith("0.") for k in load_file(result.checkpoint / "weights.safetensors"))
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ConfigError, match="no parameter"):
        train(model, batch_at, loss, CONFIG, tmp_path / "none")


def test_log_and_result_are_json_with_the_resolved_config(tmp_path: Path) -> None:
    record = {"data": {"seed": 5, "rate": float("inf")}}
    result = train(make_model(), batch_at, loss, CONFIG, tmp_path, config_record=record)
    events = log_of(tmp_path)
    assert [e["step"] for e in events if e["event"] == "step"] == [2, 4, 6, 8]
    assert events[-1]["event"] == "end"
    assert all(e["constant"] == 2.0 for e in events if e["event"] == "step")
    written = json.loads((tmp_path / "result.json").read_text())
    assert written["config"]["training"]["learning_rate"] == 1e-2
    assert written["config"]["training"]["warmup_fraction"] == 0.03
    assert written["config"]["data"]["seed"] == 5
    assert written["metrics"] == result.metrics
    assert Path(written["checkpoint"]) == result.checkpoint


def test_old_checkpoints_go_and_timed_ones_are_written(tmp_path: Path) -> None:
    train(make_model(), batch_at, loss, replace(CONFIG, checkpoint_minutes=0, keep=3), tmp_path)
    names = [p.name for p in checkpoints.list_checkpoints(tmp_path / "checkpoints")]
    assert names == ["step-000000006", "step-000000007", "step-000000008"]


def test_evaluation_changes_nothing_and_is_recorded(tmp_path: Path) -> None:
    calls: list[int] = []

    def evaluate(model: nn.Module, step: int) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        calls.append(step)
        torch.rand(7), random.random(), np.random.rand()
        model(torch.ones(2, 6))
        return {"score": float(step)}

    plain, evaluated = make_model(), make_model()
    train(plain, batch_at, loss, CONFIG, tmp_path / "plain")
    result = train(evaluated, batch_at, loss, CONFIG, tmp_path / "other", evaluate=evaluate, evaluate_every=3)
    assert calls == [3, 6, 8]
    assert result.metrics["evaluate/score"] == 8.0
    assert same(plain, evaluated)
    assert evaluated.training
    train(make_model(), batch_at, loss, CONFIG, tmp_path / "end", evaluate=evaluate)
    assert calls == [3, 6, 8, 8]


def test_loss_must_be_a_scalar(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"scalar tensor, got shape \(4, 2\)"):
        train(make_model(), batch_at, lambda m, b: (m(b["x"]), {}), CONFIG, tmp_path)


def test_bf16_computes_in_bf16_and_keeps_fp32_weights(tmp_path: Path) -> None:
    seen: set[torch.dtype] = set()

    def watched(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        output = model(batch["x"])
        seen.add(output.dtype)
        return ((output - batch["y"]) ** 2).mean(), {}

    model = nn.Linear(6, 2)
    train(model, batch_at, watched, replace(CONFIG, precision="bf16"), tmp_path)
    assert seen == {torch.bfloat16}
    assert model.weight.dtype == torch.float32


def test_thread_count_is_set_and_restored(tmp_path: Path) -> None:
    seen: list[int] = []
    before = torch.get_num_threads()
    config = replace(CONFIG, steps=1, threads=before + 1)
    train(make_model(), batch_at, at_call(1, lambda: seen.append(torch.get_num_threads())), config, tmp_path)
    assert seen == [before + 1]
    assert torch.get_num_threads() == before


def test_a_stop_during_the_last_evaluation_is_reported(tmp_path):
    stop = threading.Event()

    def evaluate(model, step):
        stop.set()
        return {"seen": 1.0}

    config = TrainingConfig(steps=1, learning_rate=0.1, precision="fp32")
    result = train(
        torch.nn.Linear(2, 1),
        lambda index: torch.ones(4, 2),
        lambda model, batch: (model(batch).pow(2).mean(), {}),
        config,
        tmp_path,
        evaluate=evaluate,
        stop=stop,
    )
    assert result.steps == 1
    assert result.stopped
