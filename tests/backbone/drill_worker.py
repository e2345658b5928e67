"""A small world for fault drills: ``faults`` in reset's options, or in the arguments, say what goes wrong and when."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np

SIZE = 128


def misbehave(fault: str) -> None:
    """Do what the fault says, here and now."""
    if fault == "raise":
        raise ValueError("the drill raises")
    if fault == "exit":
        sys.exit("the drill calls sys.exit")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "crash":
        sys.stdout.write("about to read address 0\n")
        ctypes.string_at(0)
    if fault == "hang":
        time.sleep(600)
    if fault == "hang in native code":  # holds the interpreter's lock, so no other thread runs
        ctypes.PyDLL(None).sleep(600)
    if fault == "garbage":
        os.write(_socket(), b"no message at all, but long enough to be read as one")
    if fault == "huge":
        os.write(_socket(), b"FVW1" + b"\xff" * 12)


def _socket() -> int:
    return next(fd for fd in range(3, 64) if _is_socket(fd))


def _is_socket(fd: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    except OSError:
        return False


class Drill:
    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        self.faults: dict[str, str] = {}
        self.steps = 0
        self.seed = -1
        misbehave(arguments.get("on_open", ""))
        if arguments.get("child"):
            self.child = subprocess.Popen(["sleep", "600"])  # noqa: S607

    def spec(self) -> dict[str, Any]:
        limits: dict[str, Any] = {"low": [-1.0, -1.0], "high": [1.0, 1.0]}
        fields = {"names": ["a", "b"], "units": ["m", "rad"], **limits, "control_hz": 10.0, "kind": "continuous"}
        return {"name": "drill", "action_spec": fields, "max_steps": self.arguments.get("max_steps", 8)}

    def reset(self, seed: int, options: dict[str, Any]) -> dict[str, Any]:
        sys.stdout.write("the drill chatters on stdout\n")
        self.faults, self.steps, self.seed = dict(options.get("faults", {})), 0, seed
        misbehave(self.faults.get("reset", ""))
        return self.observation()

    def step(self, action: Any) -> dict[str, Any]:
        self.steps += 1
        fault = self.faults.get(f"step {self.steps}", "")
        misbehave(fault)
        reply = self.observation()
        reply["info"]["action"] = action
        if fault == "nan state":
            reply["state"][0] = np.nan
        if fault == "nan reward":
            reply["reward"] = float("nan")
        if fault == "wrong image":
            reply["images"] = {"front": np.zeros((4, 4), np.uint8)}
        if fault == "objects":
            reply["info"]["thing"] = object()
        if fault == "no success":
            reply["info"] = {}
        if fault == "big":
            reply["images"] = {f"camera {i}": np.full((512, 512, 3), i, np.uint8) for i in range(8)}
        return reply

    def observation(self) -> dict[str, Any]:
        generator = np.random.default_rng([self.seed, self.steps])
        return {
            "images": {"front": generator.integers(0, 256, (SIZE, SIZE, 3), np.uint8)},
            "depths": {"front": generator.random((SIZE, SIZE), np.float32)},
            "state": np.arange(4, dtype=np.float32),
            "instruction": "drill",
            "time_s": 0.1 * self.steps,
            "reward": 0.0,
            "terminated": False,
            "truncated": False,
            "info": {"success": False},
        }

    def describe(self) -> dict[str, Any]:
        return {"seed": self.seed, "steps": self.steps}

    def expert_action(self) -> list[float]:
        return [0.5, -0.5]

    def metrics(self) -> dict[str, float]:
        return {"success": 0.0, "path_length": float(self.steps)}

    def draw(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)

    def echo(self, **values: Any) -> dict[str, Any]:
        return values

    def fail(self) -> None:
        misbehave("raise")

    def about(self) -> dict[str, Any]:
        child = self.child.pid if self.arguments.get("child") else 0
        return {"pid": os.getpid(), "path": sys.path, "environment": sorted(os.environ), "child": child}

    def close(self) -> None:
        misbehave(self.arguments.get("on_close", ""))


def open_world(arguments: dict[str, Any]) -> Drill:
    return Drill(arguments)
