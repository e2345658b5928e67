"""A world in another Python interpreter, as a `World` of this one.

The simulator's side is a worker file (NumPy and the simulator only) that defines ``open_world(arguments)``; see
`backbone.worlds.worker_runtime`. Its ``reset(seed, options)`` and ``step(action)`` return a dict with ``images``
{name: uint8 (H, W, 3)}, ``depths`` {name: float32 (H, W)}, ``state`` float32 (S,) or None, ``instruction``, ``time_s``,
``reward``, ``terminated``, ``truncated`` and ``info`` (with ``success``).

Whatever goes wrong on the other side is a `WorldError` here that carries the worker's own traceback or last words. A
failed reset or step, a death or a missed deadline ends the worker; the next `reset` starts a fresh one.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from backbone.contracts import ActionSpec, FloatArray, Image, Observation, check_image
from backbone.errors import DataError, WorldError
from backbone.worlds.framing import ClosedError, DeadlineError, FrameError
from backbone.worlds.process import WorkerProcess
from backbone.worlds.worker_runtime import PROTOCOL
from backbone.worlds.world import Info, Step, World, check_action

START_TIMEOUT_S = 120.0
STEP_TIMEOUT_S = 60.0
TRACEBACK_LINES = 16


class BridgedWorld(World):
    """Calls go to the worker in order, one at a time; a subclass may turn replies into observations by `observe`."""

    def __init__(
        self,
        worker: Path,
        python: Path,
        arguments: Mapping[str, Any] | None = None,
        *,
        start_timeout_s: float = START_TIMEOUT_S,
        step_timeout_s: float = STEP_TIMEOUT_S,
        reset_timeout_s: float | None = None,
    ) -> None:
        """Start ``python`` on the worker file ``worker`` and open its world with ``arguments`` (JSON values, arrays).

        ``reset_timeout_s`` is by default the start's. Raises `WorldError` if the worker does not get that far.
        """
        self._worker_file, self._python = Path(worker).absolute(), Path(python)
        self._arguments = dict(arguments or {})
        self._limits = {"hello": start_timeout_s, "reset": reset_timeout_s or start_timeout_s}
        self._step_timeout_s = step_timeout_s
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._closed = False
        self._running = False  # an episode is under way and may be stepped
        self._begun = False  # there is an episode to ask about, running or ended
        self._steps = 0
        self.name = self._worker_file.stem.removesuffix("_worker")
        self.about: dict[str, str] = {}  # the worker's Python and NumPy
        if not self._worker_file.is_file():
            raise WorldError(f"{self.name}: there is no worker file {self._worker_file}")
        self.restart()

    # the World ---------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin the episode of ``seed``, on a fresh worker if the last one failed."""
        self._check_open()
        if self._process is None:
            self.restart()
        self._running = self._begun = False
        reply = self._exchange("reset", {"seed": int(seed), "options": dict(options or {})})
        observation, _, _, _, info = self._read(reply, "reset")
        self._running = self._begun = True
        self._steps = 0
        return observation, info

    def step(self, action: FloatArray) -> Step:
        """Apply one action; the episode ends by the worker's word or at ``max_steps``."""
        self._check_open()
        if not self._running:
            raise WorldError(f"{self.name}: step was called {self._when()}; call reset first")
        values = check_action(action, self.action_spec, self.name)
        reply = self._exchange("step", {"action": values})
        observation, reward, terminated, truncated, info = self._read(reply, "step")
        self._steps += 1
        truncated = truncated or (self._steps >= self.max_steps and not terminated)
        self._running = not (terminated or truncated)
        return observation, reward, terminated, truncated, info

    def describe(self) -> dict[str, Any]:
        """Privileged state, as the worker gives it."""
        value = self._ask("describe")
        if not isinstance(value, dict):
            raise WorldError(f"{self.name}: describe returned a {type(value).__name__}, expected a dict")
        return value

    def expert_action(self) -> FloatArray:
        """The action (A,) of the worker's expert."""
        if self._begun and not self._running:
            raise WorldError(f"{self.name}: expert_action was called {self._when()}; call reset first")
        action = np.asarray(self._ask("expert_action"), np.float32)
        return check_action(action, self.action_spec, f"{self.name}'s expert")

    def metrics(self) -> dict[str, float]:
        """Finite numbers, ``success`` and ``path_length`` among them."""
        value = self._ask("metrics")
        numbers = isinstance(value, dict) and all(isinstance(v, int | float) for v in value.values())
        if not numbers or not {"success", "path_length"} <= set(value):
            raise WorldError(f"{self.name}: metrics must be numbers with success and path_length, got {value!r}")
        return {key: float(number) for key, number in value.items()}

    def draw(self) -> Image:
        """The worker's map from above."""
        try:
            return check_image(self._ask("draw"), f"{self.name}: draw")
        except DataError as error:
            raise WorldError(str(error)) from error

    def close(self) -> None:
        """End the worker, politely if it listens; safe from another thread, whose call under way then fails."""
        self._closed = True
        self._running = self._begun = False
        process = self._process
        if process is None or os.getpid() != self._owner:
            return
        if self._lock.acquire(blocking=False):
            try:
                self._process = None
                process.close()
            finally:
                self._lock.release()
        else:
            process.stop()

    # beyond the World --------------------------------------------------------------------------------------------

    def call(self, method: str, **arguments: Any) -> Any:
        """Any further public method of the worker's world; JSON values and arrays both ways."""
        self._check_open()
        if self._process is None:
            raise WorldError(f"{self.name}: the worker has ended; reset starts a fresh one")
        return self._exchange(method, arguments)

    def restart(self) -> None:
        """End the worker, if there is one, and start a fresh one; the episode is lost."""
        self._check_open()
        self._running = self._begun = False
        if self._process is not None:
            process, self._process = self._process, None
            process.close()
        self._process = WorkerProcess(self._python, self.name)
        about = self._exchange(
            "hello", {"protocol": PROTOCOL, "worker": str(self._worker_file), "arguments": self._arguments}
        )
        try:
            self._take_spec(about["spec"])
            self.about = {"python": str(about["python"]), "numpy": str(about["numpy"])}
        except (KeyError, TypeError, ValueError) as error:
            self._fail(f"{self.name}: the worker's spec is wrong: {error}", error)

    def observe(self, reply: Mapping[str, Any]) -> Observation:
        """The observation in a reply of reset or step; raises `DataError`, `KeyError` or `TypeError` where it is wrong.

        The arrays are the ones the message was received into.
        """
        return Observation(
            reply["images"], reply["instruction"], reply.get("state"), reply["time_s"], reply.get("depths") or {}
        )

    @property
    def worker_pid(self) -> int | None:
        """The process id of the worker, or None while there is none."""
        return self._process.pid if self._process is not None else None

    # within ------------------------------------------------------------------------------------------------------

    def _take_spec(self, spec: Mapping[str, Any]) -> None:
        fields = dict(spec["action_spec"])
        lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        self.name = str(spec["name"])
        self.action_spec = ActionSpec(**{**fields, **lists})
        self.max_steps = int(spec["max_steps"])

    def _check_open(self) -> None:
        if self._closed:
            raise WorldError(f"{self.name}: the world is closed; make a new one from its config")
        if os.getpid() != self._owner:
            raise WorldError(f"{self.name}: the world belongs to another process; make one here from its config")

    def _when(self) -> str:
        return "after the end of the episode" if self._begun else "before reset"

    def _check_begun(self, method: str) -> None:
        self._check_open()
        if not self._begun:
            raise WorldError(f"{self.name}: {method} was called before reset; call reset first")

    def _ask(self, method: str) -> Any:
        self._check_begun(method)
        return self.call(method)

    def _exchange(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """One request and its answer; every way this can fail becomes a `WorldError`."""
        if not self._lock.acquire(blocking=False):
            raise WorldError(f"{self.name}: {method} while another call is under way; use one world a thread")
        try:
            process = self._process
            assert process is not None  # noqa: S101 - callers have made sure
            limit = self._limits.get(method, self._step_timeout_s)
            try:
                deadline = time.monotonic() + limit
                process.channel.send({"call": method, "arguments": dict(arguments)}, deadline)
                reply = process.channel.receive(deadline)
            except FrameError as error:
                self._fail(f"{self.name}: {method}: {error}", error)
            except DeadlineError as error:
                process.dump_stack()
                self._fail(f"{self.name}: no answer to {method} within {limit:g} s; the worker was ended", error, True)
            except ClosedError as error:
                self._mourn(process, method, error)
            except BaseException:  # Ctrl-C: the answer is still to come, so the connection is of no more use
                self._drop()
                raise
        finally:
            self._lock.release()
        if not reply["ok"]:
            self._raise(method, reply["error"])
        return reply["value"]

    def _raise(self, method: str, error: Mapping[str, str]) -> NoReturn:
        """What the worker raised. A world that failed in the middle of an episode is not to be trusted with another."""
        tail = "\n".join(error["traceback"].rstrip().splitlines()[-TRACEBACK_LINES:])
        message = f"{self.name}: {method} raised {error['type']}: {error['message']}\nthe worker's traceback:\n{tail}"
        if method in ("hello", "reset", "step"):
            self._fail(message, None)
        raise WorldError(message)

    def _mourn(self, process: WorkerProcess, method: str, error: Exception) -> NoReturn:
        if self._closed:
            self._drop()
            raise WorldError(f"{self.name}: the world was closed during {method}") from error
        by_itself = process.exited(wait_s=1.0)
        process.stop()
        ending = process.how_it_ended() if by_itself else "it closed the connection"
        self._fail(f"{self.name}: the worker died during {method}: {ending}", error, True)

    def _fail(self, message: str, error: Exception | None, with_words: bool = False) -> NoReturn:
        """End the worker and raise; the next reset starts a fresh one."""
        process = self._process
        self._drop()
        words = process.last_words() if process is not None and with_words else ""
        raise WorldError(f"{message}\nthe worker's last words:\n{words}" if words else message) from error

    def _drop(self) -> None:
        process, self._process = self._process, None
        self._running = self._begun = False
        if process is not None:
            process.stop()

    def _read(self, reply: Any, method: str) -> Step:
        try:
            info = reply["info"]
            if not isinstance(info, dict) or not isinstance(info.get("success"), bool):
                raise DataError(f"info needs success (bool), got {info!r:.200}")
            reward = float(reply["reward"])
            if not math.isfinite(reward):
                raise DataError(f"the reward is {reward}")
            return self.observe(reply), reward, bool(reply["terminated"]), bool(reply["truncated"]), info
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            self._fail(f"{self.name}: the answer to {method} is wrong: {what}", error)
