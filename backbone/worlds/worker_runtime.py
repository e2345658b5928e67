"""The worker's side of the bridge: opens a world from a worker file and answers calls until its client is gone.

Started by `backbone.worlds.process` in the world's own interpreter as
``PYTHON worker_runtime.py SOCKET_FD CLIENT_PID``. Needs Python 3.8 or newer, NumPy and ``framing.py`` beside it;
imports nothing else of Fovea. A worker file defines ``open_world(arguments)``, whose result has ``spec()`` and the
methods that are called: ``reset(seed, options)``, ``step(action)``, ``close()`` and any further public ones.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib.util
import os
import platform
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

PROTOCOL = 1
TRACEBACK_CHARACTERS = 6000
OWN_FILES = ("worker_runtime.py", "framing.py")
PR_SET_PDEATHSIG = 1


def load_file(name: str, path: str) -> Any:
    """The module at ``path``, so that neither folder gets onto ``sys.path`` where it could shadow other packages."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def die_with(client: int) -> None:
    """End when the client does, even if it is killed or this process hangs in native code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != client:  # it died before the line above
        os._exit(1)

    def watch() -> None:
        while os.getppid() == client:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, name="watch", daemon=True).start()


def chatter_to_stderr() -> None:
    """What a simulator prints, from Python or from C, goes to stderr, whose end the client shows with a failure."""
    sys.stdout.flush()
    os.dup2(2, 1)
    sys.stdout = sys.stderr


def describe_error(error: BaseException) -> dict[str, str]:
    """The error as text: its type, its message, and the end of its traceback without the bridge's own frames."""
    trace = traceback.TracebackException.from_exception(error)
    trace.stack[:] = [frame for frame in trace.stack if os.path.basename(frame.filename) not in OWN_FILES]
    return {
        "type": type(error).__name__,
        "message": str(error)[:TRACEBACK_CHARACTERS],
        "traceback": "".join(trace.format())[-TRACEBACK_CHARACTERS:],
    }


class Server:
    """One world behind one connection."""

    def __init__(self, channel: Any, framing: Any) -> None:
        """Serve ``channel``; the world is opened by the first call, ``hello``."""
        self.channel = channel
        self.framing = framing
        self.world: Any = None

    def run(self) -> None:
        """Answer calls in order until ``close`` or until the client is gone."""
        try:
            while True:
                request = self.channel.receive()
                name = request["call"]
                self.answer(lambda: self.dispatch(name, request["arguments"]))  # noqa: B023 - called at once
                if name == "close":
                    return
        except self.framing.ClosedError:
            return

    def answer(self, work: Callable[[], Any]) -> None:
        """Send the value of ``work``, or what it raised; also when the value cannot be sent."""
        try:
            self.channel.send({"ok": True, "value": work()})
        except self.framing.ClosedError:
            raise
        except BaseException as error:  # also SystemExit: some simulators call sys.exit
            self.channel.send({"ok": False, "error": describe_error(error)})

    def dispatch(self, name: str, arguments: dict[str, Any]) -> Any:
        """Do one call."""
        if name == "hello":
            return self.hello(**arguments)
        if name == "close":
            world, self.world = self.world, None
            if world is not None and hasattr(world, "close"):
                world.close()
            return None
        if self.world is None:
            raise RuntimeError("the world is not open")
        method = getattr(self.world, name, None)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"{type(self.world).__name__} has no method {name!r}")
        return method(**arguments)

    def hello(self, protocol: int, worker: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Open the world of the worker file; what it is, and in what it runs."""
        import numpy

        if protocol != PROTOCOL:
            raise RuntimeError(f"the client speaks protocol {protocol!r}, the worker {PROTOCOL!r}")
        self.world = load_file("fovea_world_worker", worker).open_world(arguments)
        return {
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "pid": os.getpid(),
            "spec": self.world.spec(),
        }


def main(argv: list[str]) -> None:
    """Serve the socket of the client."""
    descriptor, client = int(argv[1]), int(argv[2])
    die_with(client)
    os.set_inheritable(descriptor, False)  # a simulator's own children must not keep the connection open
    chatter_to_stderr()
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(
            signal.SIGUSR1, all_threads=False
        )  # the client asks for the stack before it ends a worker that hangs
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle
    framing = load_file("fovea_framing", os.path.join(os.path.dirname(os.path.abspath(__file__)), "framing.py"))
    server = Server(framing.Channel(socket.socket(fileno=descriptor)), framing)
    server.run()
    try:
        server.dispatch("close", {})  # where the client left without a word
    finally:
        sys.stderr.flush()
        os._exit(0)  # simulators are prone to crash or hang while the interpreter is torn down


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file: its modules are not the worker's
    main(sys.argv)
