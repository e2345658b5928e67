"""Whether each world can be used on this machine, without importing its simulator unless that is asked for."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

from apps.environments import RECIPES
from apps.worlds import WORLDS

State = Literal["ready", "missing", "outdated", "broken"]
TRIAL_TIMEOUT_S = 180.0
# The packages of a world that runs in Fovea's own interpreter.
PACKAGES = {
    "rooms": ("moderngl",),
    "metaworld": ("mujoco", "metaworld"),
    "highway": ("highway_env", "moderngl"),
}
TRIAL = """
import sys
import numpy as np
from apps.worlds import world_config_class
config = world_config_class(sys.argv[1])()
world = config.make()
world.reset(seed=0, options=config.options(0))
world.step(np.array(world.action_spec.low, np.float32))
world.close()
"""


@dataclass(frozen=True)
class WorldState:
    """One world's state; ``remedy`` is empty where it is ready."""

    name: str
    system: str
    summary: str
    state: State
    detail: str
    remedy: str = ""


def world_state(name: str, *, deep: bool = False) -> WorldState:
    """Look a world up; with ``deep`` also open it in a process of its own and take one step."""
    entry = WORLDS[name]
    state, detail = _environment(name) if name in RECIPES else _packages(name)
    if state == "ready" and deep:
        state, detail = _trial(name)
    remedy = "" if state == "ready" else entry.remedy
    if name in RECIPES and state in ("outdated", "broken"):
        remedy = f"fovea worlds install {name} --force"
    return WorldState(name, entry.system, entry.summary, state, detail, remedy)


def _environment(name: str) -> tuple[State, str]:
    from apps.environments.install import environment_state

    return environment_state(name)


def _packages(name: str) -> tuple[State, str]:
    missing = [package for package in PACKAGES[name] if importlib.util.find_spec(package) is None]
    if missing:
        return "missing", f"not installed: {', '.join(missing)}"
    return "ready", "in Fovea's own interpreter"


def _trial(name: str) -> tuple[State, str]:
    command = [sys.executable, "-c", TRIAL, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_TIMEOUT_S)  # noqa: S603
    except subprocess.TimeoutExpired:
        return "broken", f"one step took more than {TRIAL_TIMEOUT_S:.0f} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return "broken", next((line for line in lines if "Error: " in line), lines[-1])
    return "ready", "one step was taken"
