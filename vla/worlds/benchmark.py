"""Steps per second of the arm worlds here: ``python -m vla.worlds.benchmark [--libero] [--size N] [--seconds S]``."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from backbone.worlds.world import World
from vla.worlds.libero import LiberoConfig
from vla.worlds.metaworld import MetaWorldConfig


def steps_per_second(world: World, seconds: float) -> tuple[float, float]:
    """Steps a second of wall time, and of this process's processor time, without resets.

    The world's expert acts where there is one, otherwise the arm rests. A worker's processor time is not counted.
    """
    has_expert = world.name == "metaworld"
    rest = np.zeros(len(world.action_spec.names), np.float32)
    wall = used = 0.0
    steps, seed = 0, 0
    while wall < seconds:
        world.reset(seed=seed)
        seed, ended = seed + 1, False
        begin, begin_used = time.perf_counter(), time.process_time()
        while not ended and time.perf_counter() - begin + wall < seconds:
            _, _, terminated, truncated, _ = world.step(world.expert_action() if has_expert else rest)
            ended = terminated or truncated
            steps += 1
        wall += time.perf_counter() - begin
        used += time.process_time() - begin_used
    return steps / wall, steps / used


def main(argv: list[str] | None = None) -> int:
    """Print one line a world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--libero", action="store_true", help="LIBERO with its two cameras instead of Meta-World with one"
    )
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args(argv)
    size = {"width": options.size, "height": options.size}
    config = LiberoConfig(**size) if options.libero else MetaWorldConfig(**size)
    world = config.make()
    wall, used = steps_per_second(world, options.seconds)
    world.close()
    own = "" if options.libero else f", {used:.0f} steps per second of processor time"
    sys.stdout.write(f"{config.world} {options.size} x {options.size}: {wall:.0f} steps/s{own}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
