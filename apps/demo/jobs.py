"""Running slow work, one or a few at a time, each in a thread of its own, with its events streamed and a stop event.

A web page may be left, its queue entry cancelled or its deadline passed while the model computes. Each of these sets
the job's stop event; the model ends within one step, and only then does the next job get its turn.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from backbone.errors import CancelledError, FoveaError

Work = Callable[[threading.Event, Callable[[Any], None]], Any]  # (stop, emit) -> result


class DeadlineError(FoveaError, TimeoutError):
    """The work took longer than it was allowed to."""


@dataclass(frozen=True)
class Tick:
    """Nothing happened for a while; the work is ``waiting`` for its turn or running."""

    waiting: bool


@dataclass(frozen=True)
class Done:
    """The work ended; the last item of every stream that does not raise."""

    result: Any


@dataclass(frozen=True)
class _Failed:
    error: BaseException


class _Job:
    """One thread that waits for its turn, works, and reports into a queue."""

    def __init__(self, work: Work, turn: threading.Semaphore, poll_s: float) -> None:
        self.stop = threading.Event()
        self.started_at: float | None = None
        self.reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._work, self._turn, self._poll_s = work, turn, poll_s
        self.thread = threading.Thread(target=self._run, name="fovea-demo-job", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._turn.acquire(timeout=self._poll_s):
            if self.stop.is_set():
                self.reports.put(_Failed(CancelledError("cancelled while waiting for its turn")))
                return
        try:
            self.started_at = time.monotonic()
            if self.stop.is_set():
                raise CancelledError("cancelled before it began")
            self.reports.put(Done(self._work(self.stop, self.reports.put)))
        except BaseException as error:  # handed to the thread that reads the stream, which raises it
            self.reports.put(_Failed(error))
        finally:
            self._turn.release()


class Jobs:
    """Streams work, ``turns`` jobs at a time, and knows which session owns which job so that others can cancel it."""

    def __init__(self, deadline_s: float, tick_s: float = 0.25, turns: int = 1) -> None:
        """No job runs yet.

        Args:
            deadline_s: longest time a job may work, in seconds, counted from when it gets its turn.
            tick_s: longest silence of a stream, in seconds; a `Tick` fills it.
            turns: how many jobs work at once; the others wait.
        """
        self.deadline_s = deadline_s
        self._tick_s = tick_s
        self._turns = turns
        self._turn = threading.Semaphore(turns)
        self._guard = threading.Lock()
        self._owned: dict[str, set[_Job]] = {}

    def stream(self, work: Work, owner: str) -> Generator[Any, None, None]:
        """Events that ``work`` emits, `Tick` in between, and `Done` at the end. Closing the generator stops the work.

        Raises:
            CancelledError: `cancel` was called for the owner and the work ended for that reason.
            DeadlineError: the work went on for ``deadline_s``; it was told to stop.
            BaseException: whatever the work itself raised.
        """
        job = _Job(work, self._turn, self._tick_s)
        with self._guard:
            self._owned.setdefault(owner, set()).add(job)
        try:
            yield from self._reports(job)
        finally:
            # Not joined: closing happens on the server's event loop. The turn is released when the thread ends.
            job.stop.set()
            with self._guard:
                self._owned[owner].discard(job)
                if not self._owned[owner]:
                    del self._owned[owner]

    def _reports(self, job: _Job) -> Iterator[Any]:
        while True:
            if job.started_at is not None and time.monotonic() - job.started_at > self.deadline_s:
                raise DeadlineError(f"no answer within {self.deadline_s:g} seconds, so the run was stopped")
            try:
                report = job.reports.get(timeout=self._tick_s)
            except queue.Empty:
                yield Tick(waiting=job.started_at is None)
                continue
            if isinstance(report, _Failed):
                raise report.error
            yield report
            if isinstance(report, Done):
                return

    def cancel(self, owner: str) -> int:
        """Tell every job of a session to stop; returns how many there were."""
        with self._guard:
            jobs = tuple(self._owned.get(owner, ()))
        for job in jobs:
            job.stop.set()
        return len(jobs)

    def owned(self, owner: str) -> int:
        """How many jobs of a session are being streamed now."""
        with self._guard:
            return len(self._owned.get(owner, ()))

    def running(self) -> int:
        """How many jobs are being streamed now, over all sessions."""
        with self._guard:
            return sum(len(jobs) for jobs in self._owned.values())

    def idle(self, timeout_s: float) -> bool:
        """Wait until no work holds a turn; False if that takes longer than ``timeout_s`` seconds."""
        end = time.monotonic() + timeout_s
        held = 0
        while held < self._turns and self._turn.acquire(timeout=max(0.0, end - time.monotonic())):
            held += 1
        for _ in range(held):
            self._turn.release()
        return held == self._turns
