"""Training that is killed, interrupted or meets NaN keeps its last checkpoint whole."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from training_helpers import CONFIG, at_call, batch_at, log_of, loss, make_model, same

from backbone import checkpoints
from backbone.errors import DataError, TrainingError
from backbone.training import MAX_NON_FINITE, train


class Killed(BaseException):
    """Stands for the process dying."""


@pytest.mark.parametrize("point", ["save 1", "save 2", "save 3", "flush 1", "flush 5", "rename"])
def test_death_while_writing_leaves_the_last_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    before = train(make_model(), batch_at, loss, replace(CONFIG, steps=3), tmp_path).checkpoint
    kind, _, number = point.partition(" ")
    calls = iter(range(1, 100))

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            if next(calls) == int(number or 1):
                if kind == "save":
                    arguments[1].write_bytes(b"half")
                raise Killed
            return original(*arguments)

        return wrapped

    with monkeypatch.context() as patch:
        target, name = {
            "save": (checkpoints, "save_file"),
            "flush": (checkpoints, "_flush"),
            "rename": (Path, "rename"),
        }[kind]
        patch.setattr(target, name, dying(getattr(target, name)))
        with pytest.raises(Killed):
            train(make_model(), batch_at, loss, replace(CONFIG, steps=5), tmp_path)
    assert checkpoints.list_checkpoints(tmp_path / "checkpoints") == [before]
    assert list((tmp_path / "checkpoints").glob(".partial-*"))
    resumed, straight = make_model(), make_model()
    train(resumed, batch_at, loss, replace(CONFIG, steps=5), tmp_path)
    first = tmp_path / "straight"
    train(make_model(), batch_at, loss, replace(CONFIG, steps=3), first)
    train(straight, batch_at, loss, replace(CONFIG, steps=5), first)
    assert same(resumed, straight)
    assert not list((tmp_path / "checkpoints").glob(".partial-*"))


def test_sigkill_while_writing_in_a_real_process(tmp_path: Path) -> None:
    before = train(make_model(), batch_at, loss, replace(CONFIG, steps=3), tmp_path).checkpoint
    child = os.fork()
    if child == 0:  # no cleanup of the parent's may run here: the child ends only by the signal or _exit
        original = checkpoints.save_file

        def dying(tensors: dict[str, Tensor], path: Path) -> None:
            original(tensors, path)
            os.kill(os.getpid(), signal.SIGKILL)

        checkpoints.save_file = dying
        try:
            train(make_model(), batch_at, loss, replace(CONFIG, steps=5), tmp_path)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert checkpoints.list_checkpoints(tmp_path / "checkpoints") == [before]
    assert train(make_model(), batch_at, loss, replace(CONFIG, steps=5), tmp_path).steps == 5
    log_of(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_finishes_the_step_and_checkpoints(tmp_path: Path, number: signal.Signals) -> None:
    previous = signal.getsignal(number)
    action = at_call(3, lambda: os.kill(os.getpid(), number))
    result = train(make_model(), batch_at, action, CONFIG, tmp_path)
    assert result.stopped == f"{number.name}: 3 of 8 steps done"
    assert result.checkpoint.name == "step-000000003"
    assert json.loads((tmp_path / "result.json").read_text())["stopped"] == result.stopped
    assert signal.getsignal(number) is previous
    assert train(make_model(), batch_at, loss, CONFIG, tmp_path).steps == 8


def test_second_signal_ends_at_once(tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(make_model(), batch_at, at_call(2, twice), CONFIG, tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_lasting_nan_is_an_error_and_the_checkpoint_stays(tmp_path: Path, value: float) -> None:
    before = train(make_model(), batch_at, loss, replace(CONFIG, steps=3), tmp_path).checkpoint
    files = {p.name: p.read_bytes() for p in before.iterdir()}

    def bad(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        return loss(model, batch)[0] * value, {"worse": value}

    with pytest.raises(TrainingError, match=rf"step {3 + MAX_NON_FINITE}: loss (nan|inf).*step-000000003 is untouched"):
        train(make_model(), batch_at, bad, replace(CONFIG, checkpoint_minutes=0), tmp_path)
    assert checkpoints.list_checkpoints(tmp_path / "checkpoints")[-1:] == [before]
    assert {p.name: p.read_bytes() for p in before.iterdir()} == files
    assert [e["step"] for e in log_of(tmp_path) if e["event"] == "skipped"] == [4, 5, 6]


def test_single_nan_is_skipped_without_a_trace_in_weights_or_means(tmp_path: Path) -> None:
    model = nn.Linear(6, 2)
    seen: list[Tensor] = []

    def sometimes(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, float | Tensor]]:
        seen.append(next(model.parameters()).detach().clone())
        value = ((model(batch["x"]) - batch["y"]) ** 2).mean()
        return (value * float("nan") if len(seen) in (3, 5, 7) else value), {
            "value": value.detach() / (len(seen) not in (3, 5, 7))
        }

    result = train(model, batch_at, sometimes, replace(CONFIG, log_every=8), tmp_path)
    assert result.steps == 8
    assert torch.equal(seen[2], seen[3])
    assert not torch.equal(seen[3], seen[4])
    assert torch.isfinite(model.weight).all()
    assert result.metrics["loss"] == pytest.approx(result.metrics["value"])


def test_an_error_in_the_data_is_raised_unchanged_and_the_thread_ends(tmp_path: Path) -> None:
    def broken(index: int) -> dict[str, Tensor]:
        if index == 2:
            raise DataError("record 2 is broken")
        return batch_at(index)

    threads = threading.active_count()
    with pytest.raises(DataError, match="record 2 is broken"):
        train(make_model(), broken, loss, CONFIG, tmp_path)
    assert threading.active_count() == threads
