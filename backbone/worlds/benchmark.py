"""What the bridge costs a step: ``python -m backbone.worlds.benchmark [--python PATH] [--size 128] [--steps 2000]``.

The same small world, whose step takes no time of its own, is stepped in this process and through the bridge. Prints
one JSON: milliseconds a step (median, 99th percentile) for both, and the difference of the medians.

This file is also the worker file: it needs no more than NumPy until `main`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class StillWorld:
    """One RGB-D camera that shows the same two pictures in turn."""

    def __init__(self, size: int) -> None:
        """Prepare pictures of ``size`` x ``size``."""
        draw = np.random.default_rng(0)
        self._images = [draw.integers(0, 256, (size, size, 3), np.uint8) for _ in range(2)]
        self._depths = [draw.random((size, size), np.float32) for _ in range(2)]
        self._steps = 0

    def spec(self) -> dict[str, Any]:
        """One action that does nothing."""
        action = {"names": ["wait"], "units": ["share"], "low": [0.0], "high": [1.0], "control_hz": 10.0}
        return {"name": "still", "action_spec": action, "max_steps": 1 << 30}

    def reset(self, seed: int, options: dict[str, Any]) -> dict[str, Any]:
        """Begin again."""
        self._steps = 0
        return self.step(None)

    def step(self, action: Any) -> dict[str, Any]:
        """Show the next picture."""
        self._steps += 1
        return {
            "images": {"front": self._images[self._steps % 2]},
            "depths": {"front": self._depths[self._steps % 2]},
            "state": np.zeros(8, np.float32),
            "instruction": "wait",
            "time_s": 0.1 * self._steps,
            "reward": 0.0,
            "terminated": False,
            "truncated": False,
            "info": {"success": False},
        }


def open_world(arguments: dict[str, Any]) -> StillWorld:
    """The world of this worker file."""
    return StillWorld(int(arguments["size"]))


def _times(step: Callable[[], Any], steps: int) -> dict[str, float]:
    spent = []
    for _ in range(steps):
        begun = time.perf_counter()
        step()
        spent.append(1e3 * (time.perf_counter() - begun))
    return {"median_ms": round(float(np.median(spent)), 4), "p99_ms": round(float(np.percentile(spent, 99)), 4)}


def measure(python: Path, size: int, steps: int) -> dict[str, Any]:
    """Both ways of stepping, and what the bridge adds."""
    from backbone.contracts import Observation
    from backbone.worlds.bridge import BridgedWorld

    world, action = StillWorld(size), np.zeros(1, np.float32)

    def here() -> Observation:
        reply = world.step(action)
        return Observation(reply["images"], reply["instruction"], reply["state"], reply["time_s"], reply["depths"])

    bridged = BridgedWorld(Path(__file__), python, {"size": size})
    try:
        bridged.reset(seed=0)
        _times(lambda: bridged.step(action), min(steps, 100))  # the first messages find cold caches
        found = {"in_process": _times(here, steps), "bridged": _times(lambda: bridged.step(action), steps)}
    finally:
        bridged.close()
    added = found["bridged"]["median_ms"] - found["in_process"]["median_ms"]
    return {"size": size, "steps": steps, **bridged.about, **found, "added_ms": round(added, 4)}


def main(argv: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what the bridge costs a step")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the worker's interpreter")
    parser.add_argument("--size", type=int, default=128, help="pixels of the square RGB-D camera")
    parser.add_argument("--steps", type=int, default=2000)
    given = parser.parse_args(argv)
    sys.stdout.write(json.dumps(measure(given.python, given.size, given.steps)) + "\n")


if __name__ == "__main__":
    main()
