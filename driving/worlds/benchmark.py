"""Speed of the highway world here: ``python -m driving.worlds.benchmark [--steps N] [--width W] [--height H]``."""

from __future__ import annotations

import argparse
import sys
import time

from driving.worlds.highway import SCENARIOS, HighwayConfig


def measure(scenario: str, steps: int, width: int, height: int) -> dict[str, float]:
    """Steps a second with three cameras, by the wall clock and by processor time, without and with the expert."""
    world = HighwayConfig(scenario, width=width, height=height).make()
    world.reset(seed=0)
    spent = {"step": [0.0, 0.0], "expert": [0.0, 0.0]}
    seed = 0
    try:
        for _ in range(steps):
            marks = [(time.perf_counter(), time.process_time())]
            action = world.expert_action()
            marks.append((time.perf_counter(), time.process_time()))
            *_, terminated, truncated, _ = world.step(action)
            marks.append((time.perf_counter(), time.process_time()))
            for name, before, after in (("expert", marks[0], marks[1]), ("step", marks[1], marks[2])):
                spent[name] = [total + b - a for total, a, b in zip(spent[name], before, after, strict=True)]
            if terminated or truncated:
                seed += 1
                world.reset(seed=seed)
    finally:
        world.close()
    both = [a + b for a, b in zip(spent["step"], spent["expert"], strict=True)]
    return {
        "steps/s": steps / spent["step"][0],
        "steps a processor second": steps / spent["step"][1],
        "with the expert": steps / both[0],
        "with the expert, a processor second": steps / both[1],
    }


def main(argv: list[str] | None = None) -> int:
    """Print one line a scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--height", type=int, default=96)
    options = parser.parse_args(argv)
    for scenario in SCENARIOS:
        found = measure(scenario, options.steps, options.width, options.height)
        sys.stdout.write(f"{scenario}: " + ", ".join(f"{value:.0f} {name}" for name, value in found.items()) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
