"""What surrounds the training loop: making batches ahead, asking to stop, and reporting."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from backbone.errors import ModelError
from backbone.training_config import LossFunction

logger = logging.getLogger("backbone.training")
LINE_SECONDS = 30.0  # between plain progress lines


class Objective(nn.Module):
    """Model and loss as one module, so that data-parallel wrapping covers every method the loss calls."""

    def __init__(self, model: nn.Module, loss: LossFunction, precision: str) -> None:
        """``precision`` is ``fp32`` or ``bf16``."""
        super().__init__()
        self.model, self.loss, self.precision = model, loss, precision

    def forward(self, batch: Any, call: Callable[[nn.Module], Any] | None = None) -> Any:
        """Loss and named numbers of a batch, or what ``call`` makes of the model: in here sharded weights gather."""
        if call is not None:
            return call(self.model)
        device = next(self.model.parameters()).device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            value, metrics = self.loss(self.model, batch)
        if value.ndim != 0:
            raise ModelError(f"the loss must be a scalar tensor, got shape {tuple(value.shape)}; average it")
        numbers = {k: torch.as_tensor(v, dtype=torch.float32, device=device).detach() for k, v in metrics.items()}
        return value.float(), numbers


class BatchMaker:
    """Batches of one process in order, made ahead in one background thread."""

    def __init__(self, batch_at: Callable[[int], Any], ahead: int, process: int, processes: int) -> None:
        """``ahead`` 0 makes batches in line; ``process`` counts from 0 to ``processes`` - 1."""
        self._batch_at, self._ahead, self._process, self._processes = batch_at, ahead, process, processes
        self._queue: deque[Future[Any]] = deque()
        self._executor = ThreadPoolExecutor(1, "batches") if ahead else None
        self._asked = self._end = 0
        self.position = 0  # batches used by all processes together; the next ones start here

    def begin(self, position: int, count: int) -> None:
        """Start at global batch ``position``; at most ``count`` batches will be asked of this process."""
        self.position = self._asked = position
        self._end = position + count * self._processes

    def next(self) -> Any:
        """The next batch of this process; an error in making it is raised here."""
        if self._executor is None:
            batch = self._batch_at(self.position + self._process)
        else:
            while self._asked < self._end and len(self._queue) <= self._ahead:
                self._queue.append(self._executor.submit(self._batch_at, self._asked + self._process))
                self._asked += self._processes
            batch = self._queue.popleft().result()
        self.position += self._processes
        return batch

    def close(self) -> None:
        """Drop the batches made ahead and end the thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)


class StopRequest:
    """Collects the wish to stop from an event, SIGINT and SIGTERM; a second signal acts as if this were not there."""

    def __init__(self, event: threading.Event | None) -> None:
        """Signals are caught from ``__enter__`` to ``__exit__``, and in the main thread only."""
        self._event, self._signal = event, ""
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signal = signal.Signals(number).name
        logger.warning("%s: finishing this step and writing a checkpoint; once more ends at once", self._signal)
        self.__exit__()

    def reason(self) -> str | None:
        """Why to stop, or None."""
        if self._signal:
            return self._signal
        return "the stop event was set" if self._event is not None and self._event.is_set() else None


class Report:
    """``log.jsonl``, ``result.json``, the progress bar, and the means between two log lines."""

    def __init__(self, output: Path, record: Mapping[str, Any], *, enabled: bool) -> None:
        """Write into ``output`` if ``enabled``; ``record`` is the resolved configuration."""
        self._output, self._record, self._enabled = output, dict(record), enabled
        self._pending: list[tuple[str, Tensor]] = []
        self._sums: dict[str, tuple[Tensor, int]] = {}  # sum and how often it occurred
        self._count = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._steps = self._first = 0
        self._since = self._began = self._line_at = time.monotonic()
        self._lines = False  # plain lines instead of a bar
        if enabled:
            output.mkdir(parents=True, exist_ok=True)
            _drop_torn_line(output / "log.jsonl")

    def write(self, event: str, **values: Any) -> None:
        """Append one line to the log; numbers that are not finite become null."""
        if self._enabled:
            line = json.dumps({"event": event, "time": round(time.time(), 3), **plain_json(values)}, allow_nan=False)
            with (self._output / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(line + "\n")

    def resumed(self, step: int, old: Mapping[str, Any], old_processes: int, processes: int) -> None:
        """Log a resume and every setting that differs from the checkpoint's; the log's later steps are void."""
        before, now = _flat(plain_json(old)), _flat(plain_json(self._record))
        before["processes"], now["processes"] = old_processes, processes
        keys = sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k))
        changed = {k: {"before": before.get(k), "now": now.get(k)} for k in keys}
        for key, values in changed.items():
            logger.warning("resuming at step %d with %s = %s (was %s)", step, key, values["now"], values["before"])
        self.write("resume", step=step, changed=changed, config=self._record)

    def add(self, numbers: Mapping[str, Tensor]) -> None:
        """Keep numbers of one batch of the current step."""
        self._pending += numbers.items()

    def complete(self, numbers: Mapping[str, Tensor]) -> None:
        """The current step was taken: put what was kept for it, and ``numbers``, into the window."""
        for name, value in (*self._pending, *numbers.items()):
            total, count = self._sums.get(name, (torch.zeros_like(value), 0))
            self._sums[name] = (total + value.detach(), count + 1)
        self._pending.clear()
        self._count += 1

    def skipped(self, step: int, text: str) -> None:
        """The current step was not taken: log it and drop what was kept for it."""
        self._pending.clear()
        logger.warning("%s", text)
        self.write("skipped", step=step, message=text)

    def window(self, step: int, rate: float) -> dict[str, float]:
        """Means since the last call, logged and returned; nothing if no step was completed since."""
        if self._count == 0:
            return {}
        seconds, self._since = time.monotonic() - self._since, time.monotonic()
        means = {name: float(total) / count for name, (total, count) in self._sums.items()}
        means |= {"learning_rate": rate, "seconds_per_step": seconds / self._count}
        self._sums, self._count = {}, 0
        self.write("step", step=step, **means)
        logger.info("step %d of %d: loss %.4f", step, self._steps, means["loss"])
        self._line(step, means["loss"])
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=step, description=f"loss {means['loss']:.4f}")
        return means

    def _line(self, step: int, loss: float) -> None:
        """Where there is no terminal for a bar: a plain line on stderr now and then."""
        now = time.monotonic()
        if not self._lines or (now - self._line_at < LINE_SECONDS and step < self._steps):
            return
        left = (now - self._began) / max(1, step - self._first) * (self._steps - step)
        sys.stderr.write(f"step {step} of {self._steps}: loss {loss:.4f}, {left / 60:.0f} minutes left\n")
        sys.stderr.flush()
        self._line_at = now

    @contextlib.contextmanager
    def progress(self, done: int, steps: int) -> Iterator[None]:
        """A progress bar on the terminal, or plain lines on stderr where there is none."""
        self._steps, self._first = steps, done
        self._since = self._began = self._line_at = time.monotonic()
        console = Console(stderr=True)
        if not (self._enabled and console.is_terminal):
            self._lines = self._enabled
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as self._bar:
            self._task = self._bar.add_task("training", total=steps, completed=done)
            yield

    def finite(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """The metrics that are finite numbers: JSON has no others."""
        return {k: v for k, v in metrics.items() if math.isfinite(v)}

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write ``result.json`` with the resolved configuration, and the log's last line."""
        self.write("end", **result)
        if self._enabled:
            text = json.dumps(plain_json({**result, "config": self._record}), indent=1, allow_nan=False)
            partial = self._output / ".result.json"
            partial.write_text(text + "\n", encoding="utf-8")
            os.replace(partial, self._output / "result.json")


@contextlib.contextmanager
def thread_count(threads: int | None) -> Iterator[None]:
    """Let torch use this many CPU threads meanwhile."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def plain_json(value: Any) -> Any:
    """JSON values: mappings, lists, strings, finite numbers, null; anything else as text."""
    if isinstance(value, Mapping):
        return {str(k): plain_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = item
    return flat


def _drop_torn_line(path: Path) -> None:
    """A killed process may leave half a line at the end of its log; cut it so that every line is JSON."""
    if path.exists():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            path.write_bytes(content[: content.rfind(b"\n") + 1])
