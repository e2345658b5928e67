"""A worker that misbehaves as it is told, and whether a process is still there."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from backbone.worlds.bridge import BridgedWorld

WORKER = Path(__file__).with_name("drill_worker.py")
ACTION = np.array([0.25, -0.5], np.float32)
ROOT = Path(__file__).parents[2]


def drill(**arguments: Any) -> BridgedWorld:
    return BridgedWorld(WORKER, Path(sys.executable), arguments, start_timeout_s=30, step_timeout_s=10)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b
