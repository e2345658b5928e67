"""The one training loop, for every stage of every system: accelerate, exact resume, atomic checkpoints, a JSONL log.

Data is a pure function of a batch number, so a resumed run needs no sampler state and results do not depend on how
batches are made. Start it plainly, or with ``accelerate launch`` or ``torchrun``: process ``r`` of ``R`` takes batches
``r, r + R, r + 2R, ...``, gradients are averaged, and only process 0 writes. With ``sharding: full`` each process keeps
a piece of every weight (`backbone.sharding`); checkpoints are the same files.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, DistributedType, send_to_device
from torch import nn

from backbone import checkpoints
from backbone.errors import ConfigError, TrainingError, UnsupportedError
from backbone.sharding import Sharding, clip_gradients, gathered
from backbone.training_config import LossFunction, TrainingConfig, TrainingResult
from backbone.training_support import BatchMaker, Objective, Report, StopRequest, plain_json, thread_count

MAX_NON_FINITE = 3  # consecutive steps with a NaN or infinite loss or gradient before training is given up

__all__ = ["MAX_NON_FINITE", "LossFunction", "TrainingConfig", "TrainingResult", "train"]


def train(
    model: nn.Module,
    batch_at: Callable[[int], Any],
    loss: LossFunction,
    config: TrainingConfig,
    output: Path,
    *,
    resume: bool = True,
    evaluate: Callable[[nn.Module, int], dict[str, float]] | None = None,
    evaluate_every: int = 0,
    stop: threading.Event | None = None,
    prefetch: int = 2,
    config_record: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Train the parameters of ``model`` that require a gradient; resume from ``output`` if it holds a checkpoint.

    Args:
        model: Trained in place and moved to the device; its train/eval mode is restored at the end. Sharded weights
            return whole to where they were, in every process; after an error they stay in pieces.
        batch_at: Makes batch ``i``: a pure function of ``i`` with generators of its own, called in another thread.
        loss: ``(model, batch)`` to a scalar mean loss and named numbers to log; any method of the model may be used.
        config: Settings. Where they differ from those of the checkpoint the new ones win, and the log says so.
        output: Gets ``checkpoints/``, ``log.jsonl`` and ``result.json``.
        resume: False refuses a folder that already holds checkpoints.
        evaluate: ``(model, steps done)`` to numbers; runs in eval mode, without gradient, leaving random state alone.
            Every process runs it; with sharded weights from the same random state, as it must do the same in all.
        evaluate_every: Steps between evaluations; 0 evaluates only at the end.
        stop: Set it to end after the current step. SIGINT and SIGTERM do the same when run in the main thread.
        prefetch: Batches made ahead; 0 makes them in line.
        config_record: Further JSON settings (model, data) to record with the results.

    Returns:
        The result; ``stopped`` is set if it ended early. The same content is in ``result.json``.

    Raises:
        TrainingError: loss or gradient was NaN or infinite for `MAX_NON_FINITE` steps in a row.
        ModelError: the checkpoint is of another set of parameters; the message names them.
        UnsupportedError: launched with accelerate's own FSDP or DeepSpeed.
        ConfigError: nothing to train, ``resume`` is False and checkpoints exist, or one process is to shard.
        DataError: the newest checkpoint is broken.
    """
    run = _Run(model, batch_at, loss, config, output, evaluate, evaluate_every, prefetch, config_record)
    was_training = model.training
    with thread_count(config.threads), StopRequest(stop) as request:
        try:
            run.begin(resume)
            result = run.loop(request)
            run.unshard()
            if result.stopped is None and (reason := request.reason()):  # asked for during the last evaluation
                result = replace(result, stopped=f"{reason}: all {result.steps} steps done")
            return result
        finally:
            run.close()
            model.train(was_training)


class _Run:
    """State of one call of `train`."""

    def __init__(
        self,
        model: nn.Module,
        batch_at: Callable[[int], Any],
        loss: LossFunction,
        config: TrainingConfig,
        output: Path,
        evaluate: Callable[[nn.Module, int], dict[str, float]] | None,
        evaluate_every: int,
        prefetch: int,
        config_record: Mapping[str, Any] | None,
    ) -> None:
        if evaluate_every < 0 or prefetch < 0 or (evaluate_every and evaluate is None):
            raise ConfigError(f"evaluate_every={evaluate_every} (needs evaluate), prefetch={prefetch}: not possible")
        self.model, self.config, self.evaluate, self.evaluate_every = model, config, evaluate, evaluate_every
        self.root = output / "checkpoints"
        unused = DistributedDataParallelKwargs(find_unused_parameters=True)  # a loss need not touch every parameter
        no_gpu = not torch.cuda.is_available()  # said outright: else torchrun on a CPU gives separate runs
        self.accelerator = Accelerator(cpu=no_gpu, mixed_precision="no", kwargs_handlers=[unused])  # autocast per run
        if self.accelerator.distributed_type in (DistributedType.FSDP, DistributedType.DEEPSPEED):
            raise UnsupportedError(
                f"launched with {self.accelerator.distributed_type.value}, which would take the weights over from this "
                "loop; to shard them start plainly (torchrun --nproc-per-node N) and set sharding to full"
            )
        if config.sharding == "full" and self.accelerator.num_processes < 2:
            raise ConfigError("sharding full needs several processes (torchrun --nproc-per-node N), this is one alone")
        self.record = {"training": asdict(config), **dict(config_record or {})}
        self.report = Report(output, self.record, enabled=self.accelerator.is_main_process)
        self.batches = BatchMaker(batch_at, prefetch, self.accelerator.process_index, self.accelerator.num_processes)
        if not any(p.requires_grad for p in model.parameters()):
            raise ConfigError("no parameter of the model requires a gradient; unfreeze some or attach an adapter")
        self.objective = Objective(model, loss, config.precision)
        self.sharding: Sharding | None = None
        self.step, self.saved_step, self.non_finite = 0, -1, 0
        self.seconds, self.started, self.saved_at = 0.0, time.monotonic(), time.monotonic()
        self.metrics: dict[str, float] = {}

    def begin(self, resume: bool) -> None:
        """Prepare model and optimiser, and restore the newest checkpoint or start from the seed."""
        config, accelerator = self.config, self.accelerator
        checkpoint = self._newest(resume)
        if checkpoint:
            checkpoints.load_weights(self.model, checkpoint)
        if config.sharding == "full":
            self.sharding = Sharding(self.objective, accelerator.device, config.precision)
        self.names = {id(p): n for n, p in self.model.named_parameters() if p.requires_grad}
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        groups = [g for g in groups if g["params"]]
        if self.sharding is None:
            self.model.to(accelerator.device)
        self.raw_optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)
        self.parameters = [p for group in groups for p in group["params"]]  # type: ignore[attr-defined]
        self.wrapped: Any = self.objective if self.sharding else accelerator.prepare(self.objective)
        self.optimizer = accelerator.prepare(self.raw_optimizer)
        checkpoints.seed_everything(config.seed + accelerator.process_index)
        if checkpoint:
            self._restore(checkpoint)
        else:
            self.report.write("start", step=0, config=self.record, processes=accelerator.num_processes)
        self.batches.begin(self.batches.position, config.accumulate * (config.steps - self.step))
        self.model.train()

    def _newest(self, resume: bool) -> Path | None:
        if self.accelerator.is_main_process:
            checkpoints.remove_partial(self.root)
        self.accelerator.wait_for_everyone()
        found = checkpoints.list_checkpoints(self.root)
        if found and not resume:
            raise ConfigError(f"{self.root} already holds {found[-1].name}; resume, or choose another output folder")
        return found[-1] if found else None

    def _restore(self, checkpoint: Path) -> None:
        state, accelerator = checkpoints.read_state(checkpoint), self.accelerator
        checkpoints.load_optimizer(self.raw_optimizer, self.names, checkpoint)
        self.step = self.saved_step = state["step"]
        self.seconds, self.metrics, self.batches.position = state["seconds"], state["metrics"], state["batches"]
        rows = checkpoints.read_tensors(checkpoint, checkpoints.RANDOM)
        if len(rows["torch"]) == accelerator.num_processes:
            checkpoints.set_random_state({k: v[accelerator.process_index] for k, v in rows.items()})
        else:  # another number of processes: there is no exact continuation, so take fresh, stated streams
            checkpoints.seed_everything((self.config.seed + accelerator.process_index + 1009 * self.step) % 2**32)
        self.report.resumed(self.step, state["config"], len(rows["torch"]), accelerator.num_processes)

    def loop(self, request: StopRequest) -> TrainingResult:
        """Run the remaining steps; checkpoint in time and at the end."""
        config = self.config
        if self.evaluate and self.step >= config.steps and not any(k.startswith("evaluate/") for k in self.metrics):
            self._evaluate()
        with self.report.progress(self.step, config.steps):
            while self.step < config.steps:
                reason, due = self._agree(request)
                if reason:
                    return self._finish(reason)
                if due:
                    self._checkpoint()
                self._optimise()
                if self.step % config.log_every == 0 or self.step == config.steps:
                    self.metrics.update(self.report.window(self.step, config.rate(self.step - 1)))
                last = self.step == config.steps
                if self.evaluate and (last or (self.evaluate_every and self.step % self.evaluate_every == 0)):
                    self._evaluate()
        return self._finish(None)

    def _agree(self, request: StopRequest) -> tuple[str | None, bool]:
        """Whether to stop and whether to checkpoint, the same answer in every process."""
        due = (time.monotonic() - self.saved_at) / 60 >= self.config.checkpoint_minutes and not self.non_finite
        reason = request.reason()
        if self.accelerator.num_processes > 1:
            flags = torch.tensor(
                [[bool(reason), due and self.accelerator.is_main_process]], device=self.accelerator.device
            )
            stop, due = (bool(v) for v in self.accelerator.gather(flags).any(0))
            reason = (reason or "another process was asked to stop") if stop else None
        return reason, due

    def _optimise(self) -> None:
        """One optimiser step over ``accumulate`` batches; skipped, and counted, if it is not finite."""
        accelerator, config = self.accelerator, self.config
        total = torch.zeros((), device=accelerator.device)
        if self.sharding:
            self.sharding.share_buffers()
        for micro in range(config.accumulate):
            batch = send_to_device(self.batches.next(), accelerator.device)
            last = micro == config.accumulate - 1
            # pieces are summed at once: to wait would mean to keep whole gradients
            with contextlib.nullcontext() if last or self.sharding else accelerator.no_sync(self.wrapped):
                value, numbers = self.wrapped(batch)
                accelerator.backward(value / config.accumulate)
            total += value.detach() / config.accumulate
            self.report.add(numbers)
        norm = clip_gradients(self.parameters, config.clip)
        value = accelerator.gather(total[None]).mean()
        self.step += 1
        if bool(torch.isfinite(value) & torch.isfinite(norm)):
            for group in self.raw_optimizer.param_groups:
                group["lr"] = config.rate(self.step - 1)
            self.optimizer.step()
            self.non_finite = 0
            self.report.complete({"loss": value, "gradient_norm": norm})
        else:
            self.non_finite += 1
            self._not_finite(float(value), float(norm))
        self.optimizer.zero_grad()

    def _not_finite(self, value: float, norm: float) -> None:
        text = (
            f"step {self.step}: loss {value}, gradient norm {norm}; the step was skipped ({self.non_finite} in a row)"
        )
        self.report.skipped(self.step, text)
        if self.non_finite >= MAX_NON_FINITE:
            found = checkpoints.list_checkpoints(self.root)
            kept = f"{found[-1]} is untouched" if found else "no checkpoint had been written"
            raise TrainingError(f"{text}; {kept}; lower learning_rate or clip, or look at the batches of these steps")

    def _evaluate(self) -> None:
        evaluate = self.evaluate
        assert evaluate is not None  # noqa: S101 - for the type checker; callers test it
        with self._quiet():
            found = self.objective(None, lambda model: evaluate(model, self.step))
        numbers = {f"evaluate/{k}": float(v) for k, v in found.items()}
        self.metrics.update(numbers)
        self.report.write("evaluate", step=self.step, **numbers)

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Eval mode without gradient; modes and random state are afterwards what they were."""
        modes = [(module, module.training) for module in self.model.modules()]
        state = checkpoints.random_state()
        self.model.eval()
        if self.sharding:
            self.sharding.share_buffers()
            checkpoints.seed_everything((self.config.seed + 1009 * self.step) % 2**32)
        try:
            with torch.no_grad():
                yield
        finally:
            for module, mode in modes:
                module.training = mode
            checkpoints.set_random_state(state)
            if self.sharding:
                self.sharding.split()

    def _checkpoint(self) -> Path:
        """Write a checkpoint unless this very step has one."""
        rows = self.accelerator.gather(
            {k: v[None].to(self.accelerator.device) for k, v in checkpoints.random_state().items()}
        )
        writes = self.accelerator.is_main_process
        if self.step != self.saved_step and (writes or self.sharding):
            weights = gathered(checkpoints.trained_tensors(self.model), writes)
            optimizer = gathered(checkpoints.optimizer_tensors(self.raw_optimizer, self.names), writes)
        if writes and self.step != self.saved_step:
            tensors = {checkpoints.WEIGHTS: weights, checkpoints.OPTIMIZER: optimizer, checkpoints.RANDOM: rows}
            state = {
                "batches": self.batches.position,
                "seconds": self._elapsed(),
                "metrics": self.report.finite(self.metrics),
                "config": plain_json(self.record),
                "optimizer_tensors": sorted(optimizer),
            }
            path = checkpoints.write_checkpoint(self.root, self.step, tensors, state, self.config.keep)
            self.report.write("checkpoint", step=self.step, path=str(path))
        self.saved_step, self.saved_at = self.step, time.monotonic()
        self.accelerator.wait_for_everyone()
        return checkpoints.list_checkpoints(self.root)[-1]

    def _elapsed(self) -> float:
        return self.seconds + time.monotonic() - self.started

    def _finish(self, reason: str | None) -> TrainingResult:
        self.metrics.update(self.report.window(self.step, self.config.rate(max(0, self.step - 1))))
        checkpoint = self._checkpoint()
        stopped = f"{reason}: {self.step} of {self.config.steps} steps done" if reason else None
        result = TrainingResult(self.step, self._elapsed(), self.report.finite(self.metrics), checkpoint, stopped)
        self.report.finish(asdict(result) | {"checkpoint": str(checkpoint)})
        return result

    def unshard(self) -> None:
        """Whole weights again, if they were in pieces; all processes must come here."""
        if self.sharding:
            self.sharding.restore()

    def close(self) -> None:
        """Stop the batch thread and leave the model unwrapped."""
        self.batches.close()
        self.accelerator.free_memory()
