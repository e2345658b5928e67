"""A resumed training run equals a straight one; changed settings win and are logged."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from training_helpers import CONFIG, at_call, batch_at, log_of, loss, make_model, same

from backbone.errors import ConfigError, DataError, ModelError
from backbone.training import train


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_stop_and_resume_equals_straight_run(tmp_path: Path, precision: Any) -> None:
    config = replace(CONFIG, precision=precision)
    straight, first, second = make_model(), make_model(), make_model()
    whole = train(straight, batch_at, loss, config, tmp_path / "straight")
    event = threading.Event()
    half = train(first, batch_at, at_call(4, event.set), config, tmp_path / "resumed", stop=event)
    assert half.steps == 4
    assert half.stopped == "the stop event was set: 4 of 8 steps done"
    assert not same(straight, first)
    torch.manual_seed(99)  # whatever happened in between must not matter
    rest = train(second, batch_at, loss, config, tmp_path / "resumed", prefetch=0)
    assert (rest.steps, rest.stopped) == (8, None)
    assert same(straight, second)
    assert rest.metrics["loss"] == whole.metrics["loss"]
    a, b = (load_file(r.checkpoint / "optimizer.safetensors") for r in (whole, rest))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_tied_weights_are_stored_once_and_resume(tmp_path: Path) -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
        model[1].weight = model[0].weight
        return model

    def error(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        return ((model(batch["x"]) - batch["x"]) ** 2).mean(), {}

    model, again = tied(), tied()
    result = train(model, batch_at, error, CONFIG, tmp_path)
    assert set(load_file(result.checkpoint / "weights.safetensors")) == {"0.weight", "0.bias", "1.bias"}
    train(again, batch_at, error, CONFIG, tmp_path)
    assert same(model, again)


def test_torn_log_line_is_cut_on_resume(tmp_path: Path) -> None:
    train(make_model(), batch_at, loss, replace(CONFIG, steps=2), tmp_path)
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"event": "st')
    train(make_model(), batch_at, loss, replace(CONFIG, steps=4), tmp_path)
    assert log_of(tmp_path)[-1]["steps"] == 4


def test_changed_settings_win_and_are_logged(tmp_path: Path) -> None:
    train(make_model(), batch_at, loss, replace(CONFIG, steps=3), tmp_path)
    config = replace(CONFIG, steps=6, learning_rate=5e-4, final_fraction=1.0)
    result = train(make_model(), batch_at, loss, config, tmp_path)
    assert result.steps == 6
    assert result.metrics["learning_rate"] == pytest.approx(5e-4)
    changed = next(e for e in log_of(tmp_path) if e["event"] == "resume")["changed"]
    assert changed["training.steps"] == {"before": 3, "now": 6}
    assert changed["training.learning_rate"] == {"before": 1e-2, "now": 5e-4}
    assert set(changed) == {"training.steps", "training.learning_rate", "training.final_fraction"}


def test_changed_accumulation_neither_repeats_nor_skips_batches(tmp_path: Path) -> None:
    asked: list[int] = []

    def recorded(index: int) -> dict[str, Tensor]:
        asked.append(index)
        return batch_at(index)

    train(make_model(), recorded, loss, replace(CONFIG, steps=3, accumulate=2), tmp_path)
    train(make_model(), recorded, loss, replace(CONFIG, steps=5, accumulate=3), tmp_path)
    assert asked == list(range(12))


def test_finished_run_returns_at_once_and_resume_false_refuses(tmp_path: Path) -> None:
    done = train(make_model(), batch_at, loss, CONFIG, tmp_path)
    model = make_model()
    again = train(model, lambda i: pytest.fail("a batch was made"), loss, CONFIG, tmp_path)
    assert (again.steps, again.checkpoint, again.metrics) == (done.steps, done.checkpoint, done.metrics)
    with pytest.raises(ConfigError, match="already holds step-000000008"):
        train(make_model(), batch_at, loss, CONFIG, tmp_path, resume=False)


def test_other_parameters_are_an_error_naming_them(tmp_path: Path) -> None:
    train(make_model(), batch_at, loss, CONFIG, tmp_path)
    more = nn.Sequential(*make_model(), nn.Linear(2, 2))
    with pytest.raises(ModelError, match=r"missing 5\.bias, 5\.weight; unexpected none"):
        train(more, batch_at, loss, CONFIG, tmp_path)
    frozen = make_model()
    frozen[4].requires_grad_(False)
    with pytest.raises(ModelError, match=r"unexpected 4\.bias, 4\.weight"):
        train(frozen, batch_at, loss, CONFIG, tmp_path)
    wider = nn.Sequential(*list(make_model())[:4], nn.Linear(8, 3))
    with pytest.raises(ModelError, match=r"4\.weight \(2, 8\) != \(3, 8\)"):
        train(wider, batch_at, loss, CONFIG, tmp_path)


@pytest.mark.parametrize(("file", "name"), [("weights", "4.bias"), ("optimizer", "0.weight|exp_avg")])
def test_dropped_tensor_is_an_error_naming_it(tmp_path: Path, file: str, name: str) -> None:
    path = train(make_model(), batch_at, loss, replace(CONFIG, steps=2), tmp_path).checkpoint / f"{file}.safetensors"
    tensors = load_file(path)
    del tensors[name]
    save_file(tensors, path)
    with pytest.raises(ModelError) as error:
        train(make_model(), batch_at, loss, CONFIG, tmp_path)
    assert f"missing {name};" in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"])
def test_truncated_or_missing_file_is_a_data_error_naming_it(tmp_path: Path, file: str) -> None:
    path = train(make_model(), batch_at, loss, replace(CONFIG, steps=2), tmp_path).checkpoint / file
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=file):
        train(make_model(), batch_at, loss, CONFIG, tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=file):
        train(make_model(), batch_at, loss, CONFIG, tmp_path)


def test_pickle_in_place_of_a_checkpoint_is_refused_and_never_run(tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    path = train(make_model(), batch_at, loss, replace(CONFIG, steps=2), tmp_path).checkpoint / "optimizer.safetensors"
    path.write_bytes(b"cos\nsystem\n(S'touch " + str(sentinel).encode() + b"'\ntR.")
    with pytest.raises(DataError, match=r"optimizer\.safetensors"):
        train(make_model(), batch_at, loss, CONFIG, tmp_path)
    assert not sentinel.exists()


def test_stop_before_the_first_step(tmp_path: Path) -> None:
    event = threading.Event()
    event.set()
    for _ in range(2):
        result = train(make_model(), batch_at, loss, CONFIG, tmp_path, stop=event)
        assert result.steps == 0
    straight, resumed = make_model(), make_model()
    train(straight, batch_at, loss, CONFIG, tmp_path / "straight")
    train(resumed, batch_at, loss, CONFIG, tmp_path)
    assert same(straight, resumed)
