"""Rollouts on a Ray cluster: every actor keeps a supervised worker process, so that faults end as they do without Ray.

Ray only spreads tasks over machines. With videos, the output directory must be on storage that all machines share.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from backbone.errors import UnsupportedError, WorldError
from backbone.rollout.config import RolloutConfig
from backbone.rollout.lockstep import Task
from backbone.rollout.processes import ProcessPool
from backbone.rollout.results import EpisodeError, EpisodeResult

LANES = 4  # tasks an actor is given at once, for each of its slots: keeps a batch full while some episodes end early
START_TIMEOUT_S = 180.0  # of a cluster: on two cores with a load of 10 it was seen to take 20 s and more


class Host:
    """What an actor is: a pool of one process that outlives the calls."""

    def __init__(self, config: RolloutConfig) -> None:
        """The process starts with the first task."""
        self._pool = ProcessPool(replace(config, backend="processes", workers=1, ray=None))

    def run(self, tasks: Sequence[Task]) -> list[EpisodeResult]:
        """All rows of ``tasks``."""
        return list(self._pool.results(tasks))

    def close(self) -> None:
        """Stop the process."""
        self._pool.close()


@dataclass
class _Lease:
    actor: Any
    tasks: dict[int, Task] = field(default_factory=dict)


class RayPool:
    """Runs tasks on ``config.workers`` actors of a cluster, by default one started here and ended by `close`."""

    def __init__(self, config: RolloutConfig) -> None:
        """Connect; raises `UnsupportedError` without Ray and `WorldError` if the cluster cannot be reached."""
        try:
            import ray
        except ImportError as error:
            raise UnsupportedError("the ray backend needs Ray; run: pip install -e '.[scale]'") from error
        self._ray: Any = ray
        self._config = config
        self._owned = not ray.is_initialized()
        if self._owned:
            _connect(ray, config)
        options: dict[str, Any] = {"num_cpus": 1, "num_gpus": config.gpus_per_worker, "max_restarts": 0}
        self._actor = ray.remote(**options)(Host)
        self._attempts: Counter[int] = Counter()
        self._leases: dict[Any, _Lease] = {}  # by the reference of the call's result
        self._idle: list[Any] = []
        self._actors = 0

    def results(self, tasks: Iterable[Task]) -> Iterator[EpisodeResult]:
        """Run ``tasks`` and yield their rows as calls return."""
        pending = deque(tasks)
        while pending or self._leases:
            while pending and (self._idle or self._actors < self._config.workers):
                self._lend(pending)
            ready, _ = self._ray.wait(list(self._leases), num_returns=1)
            for reference in ready:
                yield from self._collect(reference, pending)

    def close(self) -> None:
        """Stop the actors, and the cluster if it was started here."""
        actors = [*self._idle, *(lease.actor for lease in self._leases.values())]
        for actor in self._idle:
            self._ray.wait([actor.close.remote()], timeout=5.0)
        for actor in actors:
            self._ray.kill(actor)
        self._idle, self._leases = [], {}
        if self._owned:
            self._ray.shutdown()

    def _lend(self, pending: deque[Task]) -> None:
        if self._idle:
            actor = self._idle.pop()
        else:
            actor = self._actor.remote(self._config)
            self._actors += 1
        fair = -(-len(pending) // self._config.workers)
        wanted = 1 if self._config.batch == 1 else max(1, min(self._config.batch * LANES, fair))
        lease = _Lease(actor)
        while pending and len(lease.tasks) < wanted:
            task = pending.popleft()
            lease.tasks[task.episode.index] = task
        self._leases[actor.run.remote(list(lease.tasks.values()))] = lease

    def _collect(self, reference: Any, pending: deque[Task]) -> Iterator[EpisodeResult]:
        lease = self._leases.pop(reference)
        try:
            rows: list[EpisodeResult] = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:  # its machine or process is gone
            self._actors -= 1
            yield from self._retry(lease, str(error), pending)
            return
        except self._ray.exceptions.RayTaskError as error:  # the world or the agent cannot be opened at all
            cause = error.cause if isinstance(error.cause, Exception) else WorldError(str(error))
            raise cause from None
        self._idle.append(lease.actor)
        yield from rows

    def _retry(self, lease: _Lease, message: str, pending: deque[Task]) -> Iterator[EpisodeResult]:
        for index, task in lease.tasks.items():
            self._attempts[index] += 1
            if self._attempts[index] <= self._config.retries:
                pending.appendleft(task)
                continue
            error = EpisodeError(
                "WorkerDied", f"the Ray actor died; it was tried {self._attempts[index]} times", message
            )
            episode = task.episode
            yield EpisodeResult(episode.index, episode.seed, episode.options, "failed", error=error)


def _connect(ray: Any, config: RolloutConfig) -> None:
    where = f"the Ray cluster at {config.ray}" if config.ray else "a local Ray cluster"
    try:
        with _imports_as_here(), _patience(ray, START_TIMEOUT_S):
            ray.init(**_cluster(config), log_to_driver=False, logging_level="error")
    except Exception as error:  # Ray raises bare exceptions, for one when it is slow to start
        ray.shutdown()
        raise WorldError(f"{where} cannot be used: {error}; check the address, or use the processes backend") from error


def _cluster(config: RolloutConfig) -> dict[str, Any]:
    if config.ray is not None:
        return {"address": config.ray}
    return {"address": "local", "num_cpus": max(config.workers, os.cpu_count() or 1), "include_dashboard": False}


@contextmanager
def _imports_as_here() -> Iterator[None]:
    """A cluster that starts within imports what this process imports.

    It inherits the path: Ray's own way, a runtime environment, would start every worker twice.
    """
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def _patience(ray: Any, seconds: float) -> Iterator[None]:
    """Let Ray wait ``seconds`` for the node it has started.

    It gives up after 30 s, which no setting changes, and its helpers may take as long to import on a busy machine. A
    version that asks for its node in another way keeps its own limit.
    """
    services: Any = getattr(getattr(ray, "_private", None), "services", None)
    ask = getattr(services, "get_node", None)
    if ask is None:
        yield
        return
    deadline = time.monotonic() + seconds

    def ask_until_there(*args: Any, **named: Any) -> Any:
        while True:
            try:
                return ask(*args, **named)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    services.get_node = ask_until_there
    try:
        yield
    finally:
        services.get_node = ask
