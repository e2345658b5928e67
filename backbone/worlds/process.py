"""A worker process under supervision: started in a session of its own, never outliving us, ended in any state."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from backbone.errors import WorldError
from backbone.worlds.framing import Channel, ClosedError

RUNTIME = Path(__file__).with_name("worker_runtime.py")
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__")  # they belong to our interpreter
STDERR_LINES = 200
SHOWN_LINES = 12
CLOSE_S = 5.0  # for a polite end
TERMINATE_S = 1.0  # between SIGTERM and SIGKILL
STACK_S = 0.5  # for a hanging worker to write its stack


class _Starter:
    """One lasting thread that starts all workers.

    Linux ends a worker (PR_SET_PDEATHSIG) when the *thread* that started it ends, so a thread of a pool must not.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[subprocess.Popen[bytes]], Callable[[], subprocess.Popen[bytes]]]]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._run, name="fovea-workers", daemon=True).start()

    def _run(self) -> None:
        while True:
            future, start = self._jobs.get()
            try:
                future.set_result(start())
            except BaseException as error:
                future.set_exception(error)

    def start(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        future: Future[subprocess.Popen[bytes]] = Future()
        self._jobs.put((future, start))
        return future.result()


_starter: _Starter | None = None
_starter_lock = threading.Lock()


def _the_starter() -> _Starter:
    global _starter
    with _starter_lock:
        _starter = _starter or _Starter()
        return _starter


def _after_fork() -> None:  # a forked child has none of our threads
    global _starter, _starter_lock
    _starter, _starter_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class WorkerProcess:
    """One running worker and the connection to it."""

    def __init__(self, python: Path, name: str) -> None:
        """Start ``python`` on the worker runtime. Raises `WorldError` if it cannot be started at all."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        command = [str(python), str(RUNTIME), str(theirs.fileno()), str(os.getpid())]
        environment = {key: value for key, value in os.environ.items() if key not in HIDDEN}
        try:
            self._process = _the_starter().start(
                lambda: subprocess.Popen(  # noqa: S603 - the interpreter is the user's own choice
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs.fileno(),),
                    env=environment,
                    start_new_session=True,  # Ctrl-C in the terminal reaches us alone, and we end the whole group
                )
            )
        except OSError as error:
            ours.close()
            raise WorldError(f"{name}: {python} cannot be started: {error}") from error
        finally:
            theirs.close()
        self.channel = Channel(ours, partial(_check_alive, self._process))  # not a method: that would be a cycle
        self._lines: deque[str] = deque(maxlen=STDERR_LINES)
        self._reader = threading.Thread(target=_keep_lines, args=(self._process, self._lines), daemon=True)
        self._reader.start()
        self._finish = weakref.finalize(self, _end, self._process, os.getpid())  # also when the interpreter exits

    @property
    def pid(self) -> int:
        """The worker's process id, also that of its group."""
        return self._process.pid

    def last_words(self, count: int = SHOWN_LINES) -> str:
        """The end of what the worker printed; of a stack, which is printed innermost first, its beginning."""
        self._reader.join(0.2 if _has_exited(self._process) else 0.0)
        lines = [*self._lines]
        stacks = [index for index, line in enumerate(lines) if line.endswith("(most recent call first):")]
        return "\n".join(lines[stacks[-1] :][:count] if stacks else lines[-count:])

    def how_it_ended(self) -> str:
        """For example ``killed by SIGSEGV``; to be asked after `stop`."""
        code = self._process.poll()
        if code is None:
            return "still running"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def exited(self, wait_s: float = 0.0) -> bool:
        """Whether the worker has ended by itself, within ``wait_s``."""
        return _wait_exit(self._process, wait_s)

    def dump_stack(self) -> None:
        """Ask a worker that hangs to print where; its runtime answers even while native code holds the interpreter."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        _wait_exit(self._process, STACK_S)

    def close(self) -> None:
        """Ask the worker to close its world, then make sure that it and its group are gone."""
        with contextlib.suppress(Exception):  # whatever it answers, it ends below
            deadline = time.monotonic() + CLOSE_S
            self.channel.send({"call": "close", "arguments": {}}, deadline)
            self.channel.receive(deadline)
            _wait_exit(self._process, TERMINATE_S)
        self.stop()

    def stop(self) -> None:
        """End the worker and its group now; a second call does nothing."""
        self.channel.close()
        self._finish()


def _keep_lines(process: subprocess.Popen[bytes], lines: deque[str]) -> None:
    assert process.stdout is not None  # noqa: S101 - it was asked for as a pipe
    with process.stdout as stream:
        for line in iter(lambda: stream.readline(2000), b""):
            lines.append(line.decode("utf-8", "replace").rstrip())


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended, leaving it to be collected: until then its id, and its group's, stay ours."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _check_alive(process: subprocess.Popen[bytes]) -> None:
    if _has_exited(process):
        raise ClosedError("the worker has ended")


def _wait_exit(process: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    pause = 0.001
    while not _has_exited(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End the whole group; its leader is collected last, so that its id cannot be another's by then."""
    if os.getpid() != owner or process.returncode is not None:
        return  # a fork's copy of us, or collected already
    for number, patience in ((signal.SIGTERM, TERMINATE_S), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        _wait_exit(process, patience)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
