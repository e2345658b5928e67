"""Deadlines of episodes: how a call into a world or an agent that never returns is ended.

A call is interrupted by whoever can: here by an alarm signal, in a worker process by the parent, which reads the
present call's deadline from shared memory and kills the process.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

SEVERAL = -2  # stands for the index while one inference serves several episodes
NONE = -1  # no call is going on
FOREVER_S = 1e9  # what timers and shared memory can hold


class Overtime(BaseException):
    """The present call ran past its deadline. No `Exception`, so that no handler of a world or agent swallows it."""


class Stopped(BaseException):
    """The parent asked this worker to stop, or is gone."""


class Watch(Protocol):
    """Watches one call at a time."""

    def __call__(self, index: int, seconds: float) -> contextlib.AbstractContextManager[None]:
        """Watch a call made for episode ``index`` that may take ``seconds``."""
        ...


@contextlib.contextmanager
def unwatched(index: int, seconds: float) -> Iterator[None]:
    """Watch nothing: a call that never returns is never ended."""
    yield


@contextlib.contextmanager
def alarm(index: int, seconds: float) -> Iterator[None]:
    """Raise `Overtime` in the main thread after ``seconds``; code that never returns to Python is not reached."""

    def ring(number: int, frame: Any) -> None:
        raise Overtime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def local_watch() -> Watch:
    """What this thread can do by itself: an alarm in the main thread, nothing in others."""
    usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    return alarm if usable else unwatched


class SharedWatch:
    """Publishes the present call's episode and deadline to the parent process through shared memory.

    The clock is the system's monotonic one, which all processes of a machine share.
    """

    def __init__(self, slots: Any) -> None:
        """``slots`` is a shared array of two doubles."""
        self._slots = slots
        self._slots[0], self._slots[1] = float(NONE), 0.0

    @contextlib.contextmanager
    def __call__(self, index: int, seconds: float) -> Iterator[None]:
        """Publish the deadline for the length of the call."""
        self._slots[1] = time.monotonic() + seconds
        self._slots[0] = float(index)
        try:
            yield
        finally:
            self._slots[0] = float(NONE)


def overdue(slots: Any, now: float) -> int | None:
    """The episode whose present call is past its deadline (`SEVERAL` for a shared inference), if any."""
    index = int(slots[0])
    return index if index != NONE and now > slots[1] else None
