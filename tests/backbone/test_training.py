"""The training loop: exact resume, atomic checkpoints, drills for NaN, signals and broken files."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from two_processes import run_rank

from backbone import checkpoints
from backbone.errors import ConfigError, DataError, ModelError, TrainingError
from backbone.training import MAX_NON_FINITE, TrainingConfig, train

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


def test_old_checkpoints_go_and_timed_ones_are_written(tmp_path: Path) -> None:
    train(make_model(), batch_at, loss, replace(CONFIG, checkpoint_minutes=0, keep=3), tmp_path)
    names = [p.name for p in checkpoints.list_checkpoints(tmp_path / "checkpoints")]
    assert names == ["step-000000006", "step-000000007", "step-000000008"]


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


def test_an_error_in_the_data_is_raised_unchanged_and_the_thread_ends(tmp_path: Path) -> None:
    def broken(index: int) -> dict[str, Tensor]:
        if index == 2:
            raise DataError("record 2 is broken")
        return batch_at(index)

    threads = threading.active_count()
    with pytest.raises(DataError, match="record 2 is broken"):
        train(make_model(), broken, loss, CONFIG, tmp_path)
    assert threading.active_count() == threads


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


def start_rank(rank: int, folder: Path) -> int:
    """Fork one rank of a gloo group of two; the children share what is imported, so this takes no time to start."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "ACCELERATE_USE_CPU": "true"}
        os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        AcceleratorState._reset_state(reset_partial_state=True)  # the parent's says that there is one process
        store = f"file://{folder}/store"
        torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        run_rank(rank, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def test_two_processes_equal_accumulation_in_one(tmp_path: Path) -> None:
    """Ranks take alternate batches, gradients are averaged, only rank 0 writes, a stop is shared, resume is exact."""
    children = [start_rank(rank, tmp_path) for rank in (0, 1)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
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
