"""LIBERO's speed here: ``python -m vla.worlds.libero_benchmark [--size 128] [--steps 100] [--suite libero_object]``.

Prints one JSON: seconds to start, of the first reset of a task (which opens its scene) and of a second one, and steps a
second with both cameras and with one, of wall time. For one core: ``taskset -c 0 env OMP_NUM_THREADS=1 python -m ...``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np

from vla.worlds.libero import CAMERAS, LiberoConfig


def measure(suite: str, size: int, cameras: tuple[str, ...], steps: int) -> dict[str, float]:
    """Start, resets and steps of task 0 with random small motions."""
    begun = time.perf_counter()
    world = LiberoConfig(suite=suite, width=size, height=size, cameras=cameras, max_steps=min(steps + 1, 900)).make()
    marks = [time.perf_counter() - begun]
    try:
        for init in (0, 1):
            begun = time.perf_counter()
            world.reset(seed=0, options={"task": 0, "init": init})
            marks.append(time.perf_counter() - begun)
        low, high = (np.asarray(side, np.float32) for side in (world.action_spec.low, world.action_spec.high))
        actions = np.random.default_rng(0).uniform(0.2 * low, 0.2 * high, (steps, len(low))).astype(np.float32)
        begun = time.perf_counter()
        for action in actions:
            world.step(action)
        rate = steps / (time.perf_counter() - begun)
    finally:
        world.close()
    names = ("start_s", "first_reset_s", "second_reset_s")
    return {**{name: round(mark, 2) for name, mark in zip(names, marks, strict=True)}, "steps_per_s": round(rate, 1)}


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="LIBERO's speed")
    parser.add_argument("--suite", default="libero_object")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args(argv)
    found = {"+".join(c): measure(given.suite, given.size, c, given.steps) for c in (CAMERAS, CAMERAS[:1])}
    sys.stdout.write(json.dumps({"suite": given.suite, "size": given.size, **found}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
