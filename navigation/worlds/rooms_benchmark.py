"""Speed and expert of ``rooms`` here: ``python -m navigation.worlds.rooms_benchmark [--steps N] [--episodes N]``.

For one core: ``taskset -c 0 env OMP_NUM_THREADS=1 LP_NUM_THREADS=1 python -m ...``.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from navigation.worlds.rooms import RoomsConfig


def steps_per_second(size: int, steps: int, seed: int) -> tuple[float, float, float]:
    """Steps a second of wall time and of processor time with RGB and depth, and seconds of the reset before."""
    world = RoomsConfig(width=size, height=size, depth=True, max_steps=steps + 1).make()
    begin = time.perf_counter()
    world.reset(seed=seed)
    reset = time.perf_counter() - begin
    actions = np.random.default_rng(seed).choice([1, 1, 2, 3], steps)  # forward half of the time
    begin, used = time.perf_counter(), time.process_time()
    for action in actions:
        world.step(np.array([action], np.float32))
    rates = steps / (time.perf_counter() - begin), steps / (time.process_time() - used)
    world.close()
    return *rates, reset


def expert_means(episodes: int, split: str) -> dict[str, float]:
    """Means of the expert's measures over the episodes of seeds 0, 1, ..."""
    world = RoomsConfig(width=16, height=16, split="val" if split == "val" else "train").make()
    rows = []
    for seed in range(episodes):
        world.reset(seed=seed)
        over = False
        while not over:
            _, _, terminated, truncated, _ = world.step(world.expert_action())
            over = terminated or truncated
        rows.append(world.metrics())
    world.close()
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main(argv: list[str] | None = None) -> int:
    """Print one line an image size, and the expert's means if episodes are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=0)
    parser.add_argument("--split", choices=("train", "val"), default="train")
    options = parser.parse_args(argv)
    for size in (128, 224, 256):
        wall, used, reset = steps_per_second(size, options.steps, 1)
        sys.stdout.write(
            f"{size} x {size} RGB-D: {wall:.0f} steps/s, {used:.0f} a processor second; reset {reset:.2f} s\n"
        )
    if options.episodes:
        means = expert_means(options.episodes, options.split)
        sys.stdout.write(f"expert, {options.episodes} episodes of {options.split}: {means}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
