"""One reading process for all documents of this process, so that a page's time limit holds whatever pdfium does.

Calls go one at a time. A call that misses its deadline, or kills the process, raises; the next one starts a fresh
process, in which documents are opened again when they are next read.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from backbone.errors import ConfigError, DataError, FoveaError, WorldError
from backbone.worlds.framing import ClosedError, DeadlineError, FrameError
from backbone.worlds.process import WorkerProcess
from backbone.worlds.worker_runtime import PROTOCOL
from docparse.documents.page import PasswordError

WORKER = Path(__file__).with_name("worker.py")
START_S = 60.0  # for the process to start
OCR_S = 120.0  # to load the OCR engine
_KNOWN: dict[str, type[FoveaError]] = {"DataError": DataError, "PasswordError": PasswordError}
REMEDY = "pip install -e '.[documents]'"
_keys = (
    itertools.count()
)  # of documents, and of processes: a fork goes on counting, so that nothing is taken for another
_generations = itertools.count(1)


class PageTimeoutError(DataError):
    """A page, or the opening of a document, took longer than its limit and was given up."""


class Workshop:
    """The reading process and who may talk to it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.RLock()
        self._process: WorkerProcess | None = None
        self._abandoned: deque[int] = deque()  # documents to be closed; filled by finalizers, which must not wait
        self.generation = 0  # of the process: what was opened in an earlier one is gone

    def abandon(self, key: int) -> None:
        """Close a document at the next occasion; never waits."""
        self._abandoned.append(key)

    @property
    def lock(self) -> threading.RLock:
        """Held around calls that belong together."""
        return self._lock

    def call(self, method: str, seconds: float, **arguments: Any) -> Any:
        """One call within ``seconds`` (waiting for other calls not counted).

        Raises:
            PageTimeoutError: it took longer.
            DataError, PasswordError: what the method raised, or the process died over it.
            ConfigError: a library is missing.
        """
        with self._lock:
            process = self._process or self._start()
            try:
                while self._abandoned:
                    self._exchange(process, "close_document", {"key": self._abandoned.popleft()}, START_S)
                reply = self._exchange(process, method, arguments, seconds)
            except DeadlineError as error:
                self._drop()
                raise PageTimeoutError(f"given up after {seconds:g} s; raise the limit on seconds a page") from error
            except ClosedError as error:
                self._mourn(process, error)
            except FrameError as error:
                self._drop()
                raise DataError(f"the reading process could not pass it on: {error}") from error
            except BaseException:  # Ctrl-C: the answer is still to come, so the connection is of no more use
                self._drop()
                raise
        if not reply["ok"]:
            _raise(reply["error"])
        return reply["value"]

    def stop(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            self._drop()

    @property
    def pid(self) -> int | None:
        """The process id, or None while there is none."""
        return self._process.pid if self._process else None

    def _start(self) -> WorkerProcess:
        self._process = WorkerProcess(Path(sys.executable), "document reader")
        self.generation = next(_generations)
        self._abandoned.clear()
        try:
            hello = {"protocol": PROTOCOL, "worker": str(WORKER), "arguments": {}}
            reply = self._exchange(self._process, "hello", hello, START_S)
        except (DeadlineError, ClosedError, FrameError) as error:
            words = self._process.last_words()
            self._drop()
            raise WorldError(f"the reading process did not start: {error}\n{words}") from error
        if not reply["ok"]:
            self._drop()
            raise WorldError(f"the reading process did not start: {reply['error']['traceback']}")
        return self._process

    def _exchange(self, process: WorkerProcess, method: str, arguments: Mapping[str, Any], seconds: float) -> Any:
        deadline = time.monotonic() + seconds if math.isfinite(seconds) else math.inf
        process.channel.send({"call": method, "arguments": dict(arguments)}, deadline)
        return process.channel.receive(deadline)

    def _mourn(self, process: WorkerProcess, error: Exception) -> NoReturn:
        by_itself = process.exited(wait_s=1.0)
        process.stop()
        ending = process.how_it_ended() if by_itself else "it closed the connection"
        self._drop()
        raise DataError(f"the reading process died over it ({ending}); the file is damaged or too large") from error

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop()


def _raise(error: Mapping[str, str]) -> NoReturn:
    kind, message = error["type"], error["message"]
    if kind in _KNOWN:
        raise _KNOWN[kind](message)
    if kind in ("ImportError", "ModuleNotFoundError"):
        raise ConfigError(f"reading documents needs a library that is missing ({message}): {REMEDY}")
    if kind == "MemoryError":
        raise DataError("not enough memory to read it; lower the limit on pixels")
    raise DataError(f"damaged: {kind}: {message}")


_shared: Workshop | None = None
_shared_lock = threading.Lock()


def shared_workshop() -> Workshop:
    """The one of this process; a fork gets its own."""
    global _shared
    with _shared_lock:
        _shared = _shared or Workshop()
        return _shared


def new_key() -> int:
    """A number for a document."""
    return next(_keys)


def _after_fork() -> None:  # the child must not talk over its parent's connection, nor wait for its locks
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def as_array(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Bytes as an array that can be sent."""
    return np.frombuffer(data, np.uint8)
