"""Run what is missing of a rollout, here, in processes or on Ray, and summarise it."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Generator, Iterable, Sequence

from rich.console import Console

from backbone.errors import CancelledError
from backbone.rollout.config import RolloutConfig
from backbone.rollout.limits import local_watch
from backbone.rollout.lockstep import Task
from backbone.rollout.processes import ProcessPool
from backbone.rollout.progress import RunProgress
from backbone.rollout.results import EpisodeResult, RolloutResult
from backbone.rollout.store import RunStore
from backbone.rollout.worker import opened

OnRow = Callable[[EpisodeResult], None]


def run_rollout(config: RolloutConfig, *, console: Console | None = None, on_row: OnRow | None = None) -> RolloutResult:
    """Run the episodes of ``config`` that its output directory does not hold yet, and return all of them.

    A failing episode becomes a row with its error and stops nothing. With an output directory every row is on the disk
    before the next is counted, so that after a kill the same call runs only what is missing and ends with the same
    result. ``console`` shows progress; ``on_row`` is told of every new row.

    Raises:
        ConfigError: the output directory holds a run of other settings.
        WorldError, ModelError: the world or the agent cannot be opened at all.
        CancelledError: interrupted; what was done is kept.
    """
    started = time.perf_counter()
    store = RunStore(config.output, config) if config.output is not None else None
    rows = dict(store.rows) if store is not None else {}
    if config.retry_failed:
        rows = {index: row for index, row in rows.items() if row.status == "scored"}
    tasks = [Task(config.episode(index)) for index in range(config.episodes) if index not in rows]
    name = f"{config.world.world}, {config.agent.agent}"
    try:
        with (
            RunProgress(name, config.episodes, console) as progress,
            contextlib.closing(_results(config, tasks)) as new,
        ):
            for row in rows.values():
                progress.add(row, new=False)
            for row in new:
                if store is not None:
                    store.add(row)
                rows[row.index] = row
                progress.add(row)
                if on_row is not None:
                    on_row(row)
    except KeyboardInterrupt as stop:
        kept = f"; {len(rows)} of {config.episodes} episodes are kept in {config.output}, the same command goes on"
        raise CancelledError(f"stopped{kept if store is not None else ''}") from stop
    finally:
        if store is not None:
            store.close()
    result = _result(config, rows.values(), len(tasks), time.perf_counter() - started)
    if store is not None:
        store.write_result(result.to_dict())
    return result


def _results(config: RolloutConfig, tasks: Sequence[Task]) -> Generator[EpisodeResult]:
    """Rows as they come; an agent or world is only opened if there is something to do."""
    if not tasks:
        return
    if config.backend == "processes":
        with contextlib.closing(ProcessPool(config)) as pool:
            yield from pool.results(tasks)
    elif config.backend == "ray":
        from backbone.rollout.ray_backend import RayPool

        with contextlib.closing(RayPool(config)) as pool_on_ray:
            yield from pool_on_ray.results(tasks)
    else:
        waiting = iter(tasks)
        with opened(config, local_watch()) as lockstep:
            yield from lockstep.results(lambda idle: next(waiting, None))


def _result(config: RolloutConfig, rows: Iterable[EpisodeResult], new: int, seconds: float) -> RolloutResult:
    episodes = tuple(sorted(rows, key=lambda row: row.index))
    own = [float(row.timing.get("seconds", 0.0)) for row in episodes]
    timing = {
        "seconds": seconds,
        "new_episodes": new,
        "episode_seconds": sum(own),
        "steps_per_s": sum(row.steps for row in episodes) / max(sum(own), 1e-9),
        "machine": platform.machine(),
    }
    return RolloutResult(config.results, config.episodes, episodes, config.execution, timing)
