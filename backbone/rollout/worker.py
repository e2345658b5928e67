"""What runs episodes in one process, and the loop of a worker process that its parent feeds through a pipe."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from backbone.errors import WorldError
from backbone.rollout.config import Episode, RolloutConfig
from backbone.rollout.episode import EpisodeSettings
from backbone.rollout.failures import contained, describe_error, suppressed
from backbone.rollout.limits import FOREVER_S, SEVERAL, Overtime, SharedWatch, Stopped, Watch, alarm
from backbone.rollout.lockstep import Lockstep, Task
from backbone.rollout.store import film_path
from backbone.rollout.video import Film
from backbone.worlds.world import World

STOP_SLOT = 2  # of the shared array, after the call's episode and its deadline
SLOTS = 3
GRACE_S = 2.0  # an alarm ends most late calls; the parent kills the process for those it does not reach
ORPHAN_GRACE_S = 5.0  # for worlds to be closed after the parent died


@contextlib.contextmanager
def opened(config: RolloutConfig, watch: Watch) -> Iterator[Lockstep]:
    """The world and the agent of ``config``, ready to run episodes; both are closed afterwards.

    Raises `WorldError` where either of them is not there within the settings' ``start_timeout_s``.
    """

    def make_world() -> World:
        what = f"the world {config.world.world} cannot be opened"
        with contained(what), _in_time(what, config.start_timeout_s, watch):
            return config.world.make()

    world = make_world()
    lockstep: Lockstep | None = None
    agent = None
    try:
        what = f"the agent {config.agent.agent} cannot be made"
        with contained(what), _in_time(what, config.start_timeout_s, watch):
            agent = config.agent.make(world.action_spec)
        settings = EpisodeSettings(
            execute=config.execute, max_steps=config.max_steps, timeout_s=config.episode_timeout_s, watch=watch
        )
        with _threads(config.threads):
            lockstep = Lockstep(make_world, agent, settings, config.batch, lambda e: _film(config, e), world)
            yield lockstep
    finally:
        if lockstep is not None:
            lockstep.close()
        else:
            with suppressed():
                world.close()
        close = getattr(agent, "close", None)
        if close is not None:
            with contained(f"the agent {config.agent.agent} cannot be closed"):
                close()


@contextlib.contextmanager
def _in_time(what: str, seconds: float, watch: Watch) -> Iterator[None]:
    """Give up what does not return; no episode is to blame for it, and all of them need it."""
    try:
        with watch(SEVERAL, min(seconds, FOREVER_S)):
            yield
    except Overtime as error:
        at = traceback.extract_tb(error.__traceback__)[-2]  # the last frame is the alarm's own
        raise WorldError(
            f"{what}: it did not return within {seconds:g} s (start_timeout_s) and hung at {at.filename}:{at.lineno}; "
            "give it more time, or look at what it waits for"
        ) from error


def _film(config: RolloutConfig, episode: Episode) -> Film | None:
    if config.output is None or not config.films(episode.index):
        return None
    return Film(film_path(config.output, episode.index), config.agent.agent)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch, if something here uses it, compute with ``count`` threads, and restore what it had before."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def work(config: RolloutConfig, connection: Connection, slots: Any, crash_log: Path) -> None:
    """A worker process: sends ``("ready", None)`` or ``("failed", error)``, then ``("row", row)`` for every task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    with crash_log.open("w") as log:
        faulthandler.enable(log)  # a segmentation fault leaves its stack there
        if hasattr(faulthandler, "register"):
            faulthandler.register(signal.SIGUSR1, log)  # the parent asks where a late call hangs
        threading.Thread(target=_die_with_parent, args=(slots,), daemon=True).start()
        with contextlib.suppress(Stopped, BrokenPipeError, EOFError):
            _serve(config, connection, slots)
        faulthandler.disable()
        if hasattr(faulthandler, "register"):
            faulthandler.unregister(signal.SIGUSR1)


def _serve(config: RolloutConfig, connection: Connection, slots: Any) -> None:
    started = False
    try:
        with opened(config, _watch(slots)) as lockstep:
            connection.send(("ready", None))
            started = True
            for row in lockstep.results(_receiver(connection, slots)):
                connection.send(("row", row))
    except (Stopped, BrokenPipeError, EOFError):
        raise
    except BaseException as error:
        connection.send(("failed" if not started else "broken", describe_error(error)))


def _receiver(connection: Connection, slots: Any) -> Callable[[bool], Task | None]:
    def next_task(idle: bool) -> Task | None:
        if slots[STOP_SLOT]:
            raise Stopped
        if not idle and not connection.poll(0):
            return None
        task = connection.recv()
        if task is None:
            raise Stopped
        assert isinstance(task, Task)  # noqa: S101 - for the type checker: the parent sends nothing else
        return task

    return next_task


def _watch(slots: Any) -> Watch:
    shared = SharedWatch(slots)

    @contextlib.contextmanager
    def watch(index: int, seconds: float) -> Iterator[None]:
        if slots[STOP_SLOT]:
            raise Stopped
        with shared(index, seconds + GRACE_S), alarm(index, seconds):
            yield

    return watch


def _die_with_parent(slots: Any) -> None:
    parent = parent_process()
    if parent is None:
        return
    wait([parent.sentinel])
    slots[STOP_SLOT] = 1.0
    time.sleep(ORPHAN_GRACE_S)
    os._exit(1)
