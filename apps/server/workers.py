"""Threads of inference: they keep the policy off the event loop, in fair order, and survive a policy that hangs.

Every connection has at most one request here, and requests are served in order of arrival: a client that is answered
goes to the end of the line, so connections take turns however fast any of them asks.

A Python thread cannot be stopped from outside. A call that outlives its deadline is therefore given up: its request is
answered with an error, its thread is marked as abandoned and replaced by a fresh one, and whatever the call returns
later is thrown away. A server that has lost too many threads this way says so in its health and refuses requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.server.episodes import Episode
from backbone.contracts import Agent, Observation
from backbone.errors import ConfigError, ServerError
from backbone.rollout.agents import BatchedAgent
from backbone.serving.errors import RequestError


@dataclass(eq=False)
class Job:
    """Something to run on a thread of inference; ``future`` gets its result on the event loop."""

    work: Callable[[], Any]
    future: asyncio.Future[Any]
    limit_s: float
    together: tuple[Episode, Observation] | None = None  # may be answered by one `act_many` with others
    queued: float = field(default_factory=time.perf_counter)
    began: float = 0.0
    ended: float = 0.0
    runner: _Runner | None = None
    timer: asyncio.TimerHandle | None = None


class Workers:
    """A bounded number of threads and one queue. Its methods belong to the event loop, the threads' to `_Runner`."""

    def __init__(
        self, agent: Agent, *, count: int = 1, max_batch: int = 1, batch_wait_s: float = 0.002, max_abandoned: int = 4
    ) -> None:
        """Start ``count`` threads; see `ServerConfig` for the rest."""
        if max_batch > 1 and not isinstance(agent, BatchedAgent):
            raise ConfigError(
                f"{type(agent).__name__} has no act_many, so requests cannot be batched: leave --batch at 1"
            )
        self.agent, self._count, self._max_abandoned = agent, count, max_abandoned
        self.max_batch, self.batch_wait_s = max_batch, batch_wait_s
        self._loop = asyncio.get_running_loop()
        self.changed = threading.Condition()
        self.waiting: deque[Job] = deque()
        self.stopped = False
        self._runners: list[_Runner] = []
        self._lost: list[_Runner] = []
        self._refill()

    @property
    def depth(self) -> int:
        """Requests that wait."""
        return len(self.waiting)

    @property
    def abandoned(self) -> int:
        """Threads that hang in a call that was given up."""
        self._lost = [runner for runner in self._lost if runner.is_alive()]
        return len(self._lost)

    @property
    def broken(self) -> bool:
        """Whether too many calls hang for the server to go on."""
        return self.abandoned >= self._max_abandoned

    def submit(
        self, work: Callable[[], Any], limit_s: float, together: tuple[Episode, Observation] | None = None
    ) -> Job:
        """Queue ``work``; the job's future fails with a `RequestError` after ``limit_s``, waiting included."""
        if self.stopped:
            raise RequestError("shutting_down", "the server is shutting down")
        if self.broken:
            raise RequestError(
                "unavailable", f"{self.abandoned} calls of the policy hang; the server must be restarted"
            )
        self._refill()
        job = Job(work, self._loop.create_future(), limit_s, together)
        job.future.add_done_callback(_retrieved)
        job.timer = self._loop.call_later(limit_s, self._expire, job)
        with self.changed:
            self.waiting.append(job)
            self.changed.notify()
        return job

    def forget(self, job: Job) -> None:
        """Nobody waits for this job any more: it is taken out of the queue, or its result will be thrown away."""
        with self.changed:
            waits = job in self.waiting
            if waits:
                self.waiting.remove(job)
        job.future.cancel()
        if waits and job.timer is not None:  # the timer of a running job stays: it finds out whether the call hangs
            job.timer.cancel()

    def stop(self) -> None:
        """Take no more jobs; idle threads end, busy ones after their call (they never keep the process alive)."""
        with self.changed:
            self.stopped = True
            left, self.waiting = list(self.waiting), deque()
            self.changed.notify_all()
        for job in left:
            self._finish(job, None, RequestError("shutting_down", "the server is shutting down"))

    def deliver(self, outcomes: Sequence[tuple[Job, Any, BaseException | None]]) -> None:
        """From a thread: hand results to the event loop, which may be gone."""

        def finish() -> None:
            for job, result, error in outcomes:
                self._finish(job, result, error)

        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(finish)

    def _finish(self, job: Job, result: Any, error: BaseException | None) -> None:
        if job.timer is not None:  # or it would hold the pictures of every request until its deadline
            job.timer.cancel()
        if job.future.done():  # it came too late, or nobody waits: a late result belongs to no request
            return
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)

    def _expire(self, job: Job) -> None:
        with self.changed:
            waited = job in self.waiting
            if waited:
                self.waiting.remove(job)
            runner = job.runner
            hangs = runner is not None and job in runner.jobs and not runner.abandoned
            jobs = list(runner.jobs) if runner is not None and hangs else []
            if runner is not None and hangs:
                runner.abandoned = True
                self._runners.remove(runner)
                self._lost.append(runner)
        if waited:
            busy = f"the request waited {job.limit_s:g} s in the queue; too many clients for this policy"
            self._finish(job, None, RequestError("overloaded", busy))
        for stuck in jobs:
            late = f"the policy did not answer in {job.limit_s:g} s and was given up; the episode is lost"
            self._finish(stuck, None, RequestError("deadline", late))
        if hangs and not self.stopped:
            self._refill()

    def _refill(self) -> None:
        while len(self._runners) < self._count and not self.broken:
            runner = _Runner(self)
            self._runners.append(runner)
            runner.start()


class _Runner(threading.Thread):
    """A thread that runs jobs until it is told to stop, or was abandoned in one."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(name="fovea-inference", daemon=True)
        self._workers = workers
        self.abandoned = False
        self.jobs: list[Job] = []  # those running now; guarded by workers.changed

    def run(self) -> None:
        while jobs := self._take():
            outcomes = self._run_together(jobs) if len(jobs) > 1 else [(jobs[0], *_attempt(jobs[0].work))]
            now = time.perf_counter()
            with self._workers.changed:
                self.jobs = []
                for job in jobs:
                    job.ended = now
                if self.abandoned:
                    return
            self._workers.deliver(outcomes)
            del jobs, outcomes  # or a waiting thread would keep the last pictures alive

    def _take(self) -> list[Job]:
        """The next job, with others that may be answered together; an empty list ends the thread."""
        workers = self._workers
        with workers.changed:
            while not workers.waiting and not workers.stopped:
                workers.changed.wait()
            if workers.stopped:
                return []
            first = workers.waiting.popleft()
            jobs = [first]
            if first.together is not None and workers.max_batch > 1:
                self._gather(jobs)
            self.jobs = jobs
            now = time.perf_counter()
            for job in jobs:
                job.runner, job.began = self, now
            return list(jobs)

    def _gather(self, jobs: list[Job]) -> None:
        workers, until = self._workers, time.perf_counter() + self._workers.batch_wait_s
        while len(jobs) < workers.max_batch:
            more = [job for job in workers.waiting if job.together is not None][: workers.max_batch - len(jobs)]
            for job in more:
                workers.waiting.remove(job)
            jobs += more
            left = until - time.perf_counter()
            if len(jobs) >= workers.max_batch or left <= 0 or workers.stopped:
                return
            workers.changed.wait(left)

    def _run_together(self, jobs: list[Job]) -> list[tuple[Job, Any, BaseException | None]]:
        """One `act_many`. If it fails nobody knows whose fault it was, so it fails for all who took part."""
        agent = self._workers.agent
        assert isinstance(agent, BatchedAgent)  # noqa: S101 - checked where the batch size was accepted
        failed: list[tuple[Job, Any, BaseException | None]] = []
        with contextlib.ExitStack() as stack:
            asked: list[tuple[Job, Any, Observation]] = []
            for job in jobs:
                assert job.together is not None  # noqa: S101 - only such jobs are gathered
                episode, observation = job.together
                session, error = _attempt(functools.partial(stack.enter_context, episode.entered()))
                if error is None:
                    asked.append((job, session, observation))
                else:
                    failed.append((job, None, error))
            if not asked:
                return failed
            sessions, observations = [session for _, session, _ in asked], [seen for _, _, seen in asked]
            decisions, error = _attempt(lambda: list(agent.act_many(sessions, observations)))
            if error is None and len(decisions) != len(asked):
                error = ServerError(f"act_many gave {len(decisions)} decisions for {len(asked)} sessions")
            answers = [None] * len(asked) if error is not None else decisions
            return failed + [(job, answer, error) for (job, _, _), answer in zip(asked, answers, strict=True)]


def _attempt(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # also SystemExit: a policy must not end the server's thread
        return None, error


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Marks an error as seen, for requests whose client has gone."""
    if not future.cancelled():
        future.exception()
