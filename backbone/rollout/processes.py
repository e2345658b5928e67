"""Worker processes under supervision: fed one task a free slot, killed when late, replaced when dead."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from backbone import errors
from backbone.errors import FoveaError, WorldError
from backbone.rollout.config import RolloutConfig
from backbone.rollout.episode import overtime_error
from backbone.rollout.limits import NONE, overdue
from backbone.rollout.lockstep import Task
from backbone.rollout.results import EpisodeError, EpisodeResult
from backbone.rollout.worker import SLOTS, STOP_SLOT, work

POLL_S = 0.25  # how often deadlines are looked at
STOP_S = 5.0  # for workers to close their worlds before they are killed
DUMP_S = 0.3  # for a late worker to write where it hangs
START_ATTEMPTS = 2  # of processes that die before they are ready


@dataclass
class _Worker:
    process: Any
    connection: Connection
    slots: Any
    crash_log: Path
    started_at: float = field(default_factory=time.monotonic)
    ready: bool = False
    tasks: dict[int, Task] = field(default_factory=dict)

    def accepts(self, task: Task, batch: int) -> bool:
        if not self.tasks:
            return True
        return len(self.tasks) < batch and not task.alone and not any(t.alone for t in self.tasks.values())

    def trace(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.crash_log.read_text("utf-8", errors="replace").splitlines()[:40])
        return ""


class ProcessPool:
    """Runs tasks in ``config.workers`` processes. Rows come as episodes end, in any order."""

    def __init__(self, config: RolloutConfig) -> None:
        """No process is started before there is something to do."""
        self._config = config
        self._context = multiprocessing.get_context("spawn")  # forked GL contexts, CUDA and threads do not work
        self._folder = Path(tempfile.mkdtemp(prefix="fovea-rollout-"))
        self._workers: list[_Worker] = []
        self._pending: deque[Task] = deque()
        self._attempts: Counter[int] = Counter()
        self._failed_starts = 0
        self._count = 0

    def results(self, tasks: Iterable[Task]) -> Iterator[EpisodeResult]:
        """Run ``tasks`` and yield their rows; workers stay for the next call.

        Raises:
            FoveaError: a worker could not open its world or its agent, with that error's own type and message.
        """
        self._pending.extend(tasks)
        while self._pending or any(worker.tasks for worker in self._workers):
            self._start_missing()
            self._feed()
            handles = [h for w in self._workers for h in (w.connection, w.process.sentinel)]
            wait(handles, POLL_S)
            for worker in list(self._workers):
                yield from self._attend(worker)

    def close(self) -> None:
        """Ask all workers to stop, wait a little, and kill those that do not; a second call does nothing."""
        for worker in self._workers:
            worker.slots[STOP_SLOT] = 1.0
            with contextlib.suppress(OSError, ValueError):
                worker.connection.send(None)
        deadline = time.monotonic() + STOP_S
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            self._discard(worker)
        self._workers = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_missing(self) -> None:
        busy = sum(bool(worker.tasks) for worker in self._workers)
        wanted = min(self._config.workers, busy + len(self._pending))
        while len(self._workers) < wanted:
            self._workers.append(self._start())

    def _start(self) -> _Worker:
        self._count += 1
        ours, theirs = self._context.Pipe()
        slots = self._context.RawArray("d", SLOTS)
        slots[0] = float(NONE)
        log = self._folder / f"worker-{self._count}.txt"
        process = self._context.Process(
            target=work, args=(self._config, theirs, slots, log), name=f"fovea-rollout-{self._count}"
        )
        with _environment({"OMP_NUM_THREADS": str(self._config.threads)}):
            process.start()
        theirs.close()  # so that the pipe breaks when the worker dies
        return _Worker(process, ours, slots, log)

    def _feed(self) -> None:
        for worker in self._workers:
            while worker.ready and self._pending and worker.accepts(self._pending[0], self._config.batch):
                task = self._pending.popleft()
                worker.tasks[task.episode.index] = task
                with contextlib.suppress(OSError):  # it died just now: `_attend` finds its tasks
                    worker.connection.send(task)

    def _attend(self, worker: _Worker) -> Iterator[EpisodeResult]:
        while True:
            try:
                if not worker.connection.poll(0):
                    break
                kind, value = worker.connection.recv()
            except (EOFError, OSError):
                yield from self._bury(worker)
                return
            if kind == "ready":
                worker.ready, self._failed_starts = True, 0
            elif kind == "row":
                yield self._received(worker, value)
            else:  # its world or agent cannot be opened: neither will another worker's
                raise _restored(value)
        late = overdue(worker.slots, time.monotonic())
        if late is not None and worker.tasks:
            yield from self._end_late(worker, late)
        elif not worker.ready and time.monotonic() - worker.started_at > self._config.start_timeout_s:
            raise WorldError(
                f"a worker did not open {self._config.world.world} and {self._config.agent.agent} within "
                f"{self._config.start_timeout_s:g} s; give it more time or look at what it does:\n{self._dump(worker)}"
            )

    def _received(self, worker: _Worker, row: EpisodeResult) -> EpisodeResult:
        worker.tasks.pop(row.index, None)
        attempts = self._attempts[row.index] + 1
        return _with_timing(row, {"attempts": attempts, "worker": worker.process.name})

    def _bury(self, worker: _Worker) -> Iterator[EpisodeResult]:
        """A worker died: its culprit is run again while it may, the others in any case."""
        worker.process.join(STOP_S)
        code, ready = worker.process.exitcode, worker.ready
        trace, suspect, tasks = worker.trace(), int(worker.slots[0]), worker.tasks
        self._remove(worker)
        if not ready:
            self._failed_starts += 1
            if self._failed_starts >= START_ATTEMPTS:
                raise WorldError(f"{self._failed_starts} workers died while starting ({_cause(code)}):\n{trace}")
        culprits = set(tasks) if len(tasks) == 1 else {suspect} & set(tasks)
        for index, task in tasks.items():
            if index not in culprits:
                self._pending.appendleft(Task(task.episode, alone=task.alone or not culprits))
                continue
            self._attempts[index] += 1
            if self._attempts[index] <= self._config.retries:
                self._pending.appendleft(Task(task.episode, alone=True))
                continue
            tried = f"; it was tried {self._attempts[index]} times" if self._attempts[index] > 1 else ""
            yield self._lost(
                task, EpisodeError("WorkerDied", f"the worker process died ({_cause(code)}){tried}", trace)
            )

    def _end_late(self, worker: _Worker, late: int) -> Iterator[EpisodeResult]:
        trace, tasks = self._dump(worker), worker.tasks
        self._remove(worker)
        for index, task in tasks.items():
            if index == late or len(tasks) == 1:
                yield self._lost(task, overtime_error(self._config.episode_timeout_s, trace))
            else:  # of a common inference nobody knows whose it was: each is run again by itself
                self._pending.appendleft(Task(task.episode, alone=task.alone or late not in tasks))

    def _lost(self, task: Task, error: EpisodeError) -> EpisodeResult:
        episode = task.episode
        attempts = {"attempts": max(1, self._attempts[episode.index])}
        return EpisodeResult(
            episode.index, episode.seed, episode.options, "failed", error=error, timing={"seconds": 0.0, **attempts}
        )

    def _dump(self, worker: _Worker) -> str:
        """Where a worker is at this moment, by its own account."""
        with contextlib.suppress(OSError, AttributeError):
            os.kill(worker.process.pid, signal.SIGUSR1)
            time.sleep(DUMP_S)
        return worker.trace()

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        self._discard(worker)

    def _discard(self, worker: _Worker) -> None:
        if worker.process.is_alive():
            worker.process.kill()
        worker.process.join()
        worker.connection.close()
        worker.process.close()


def _with_timing(row: EpisodeResult, more: dict[str, Any]) -> EpisodeResult:
    return replace(row, timing={**row.timing, **more})


def _restored(error: EpisodeError) -> FoveaError:
    """A worker's error as an exception of the same type, where the type is ours."""
    kind = getattr(errors, error.type, None)
    if isinstance(kind, type) and issubclass(kind, FoveaError):
        return kind(error.message)
    return WorldError(f"a worker failed: {error.type}: {error.message}\n{error.traceback}")


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = ": killed from outside, often for lack of memory" if name == "SIGKILL" else ""
        return f"signal {name}{hint}"
    return f"exit code {code}"


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables that are not set, for processes started meanwhile."""
    missing = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
