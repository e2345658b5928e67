"""`habitat` measured: ``python -m navigation.worlds.habitat_benchmark [--homes 20] [--pairs 10] [--views 5]``.

Prints steps a second through the bridge, how far its shortest ways are from those of `rooms` between random places,
and how well the classes that both show from random places agree. For one core:
``taskset -c 0 env OMP_NUM_THREADS=1 python -m ...``.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import numpy as np
from numpy.typing import NDArray

from navigation.worlds.habitat import HabitatConfig, HabitatWorld
from navigation.worlds.habitat_export import WALK_HEIGHT
from navigation.worlds.navigation_world import rotation_xyzw
from navigation.worlds.rooms_scene import Scene
from navigation.worlds.rooms_view import View

Points = NDArray[np.float64]
SIZE, HFOV_DEG, EYE_M = 128, 79.0, 0.88
LEAST_PIXELS = 30  # of a class in either picture


def steps_per_second(depth: bool, steps: int) -> tuple[float, float]:
    """Steps a second of wall time with a camera of `SIZE`: mean, and best of four parts."""
    world = HabitatConfig(split="val", homes=1, width=SIZE, height=SIZE, depth=depth, max_steps=steps + 1).make()
    try:
        world.reset(seed=0)
        actions = np.random.default_rng(0).choice([1, 1, 2, 3], (4, steps // 4)).astype(np.float32)
        spent = []
        for part in actions:
            begun = time.perf_counter()
            for action in part:
                world.step(np.array([action]))
            spent.append(time.perf_counter() - begun)
    finally:
        world.close()
    return actions.size / sum(spent), actions.shape[1] / min(spent)


def places(scene: Scene, count: int, seed: int) -> Points:
    """``count`` random places (count, 2) on a home's free floor."""
    random, bounds = np.random.default_rng(seed), scene.floor.free.bounds
    found: list[Points] = []
    while len(found) < count:
        place = random.uniform(bounds[:2], bounds[2:])
        if scene.floor.contains(place):
            found.append(place)
    return np.array(found)


def way_ratios(world: HabitatWorld, home: int, count: int) -> list[float]:
    """Habitat's shortest way over that of `rooms` for random pairs of places in a home; infinite where it has none."""
    world.reset(seed=0, options={"home": home})
    scene = world.task.home
    assert scene is not None  # noqa: S101 - homes are generated here
    pairs = places(scene, 2 * count, home).reshape(count, 2, 2)
    raised = np.insert(pairs, 1, WALK_HEIGHT, axis=2).astype(np.float32)
    theirs = world.call("geodesics", starts=raised[:, 0], ends=raised[:, 1])
    ours = [scene.floor.distance(start, end) for start, end in pairs]
    return [math.inf if t is None else t / o for t, o in zip(theirs, ours, strict=True)]


def class_overlaps(world: HabitatWorld, view: View, home: int, count: int) -> list[float]:
    """Intersection over union of each class's pixels in both worlds, from random poses in a home."""
    world.reset(seed=0, options={"home": home})
    scene = world.task.home
    assert scene is not None  # noqa: S101 - homes are generated here
    view.show(scene)
    headings = np.random.default_rng(home).uniform(-math.pi, math.pi, count)
    overlaps = []
    for (x, z), heading in zip(places(scene, count, 1000 + home), headings.tolist(), strict=True):
        ours = view.render(np.array([x, z]), heading, ids=True).ids
        seen = world.call("look", position=[x, WALK_HEIGHT, z], rotation_xyzw=list(rotation_xyzw(heading)))
        a, b = scene.category_numbers[ours], scene.category_numbers[seen["ids"]]
        for number in np.union1d(a, b):
            either = ((a == number) | (b == number)).sum()
            if either >= LEAST_PIXELS:
                overlaps.append(float(((a == number) & (b == number)).sum() / either))
    return overlaps


def main(argv: list[str] | None = None) -> int:
    """Measure and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--homes", type=int, default=20, help="of the split val, from 0")
    parser.add_argument("--pairs", type=int, default=10, help="of places in each home")
    parser.add_argument("--views", type=int, default=5, help="in each home")
    parser.add_argument("--steps", type=int, default=1200)
    given = parser.parse_args(argv)
    for depth in (False, True):
        mean, best = steps_per_second(depth, given.steps)
        kind = "RGB-D" if depth else "RGB"
        sys.stdout.write(f"{SIZE} x {SIZE} {kind}: {mean:.0f} steps/s, {best:.0f} in the best quarter\n")
    world = HabitatConfig(split="val", homes=given.homes, width=SIZE, height=SIZE, hfov_deg=HFOV_DEG).make()
    view = View(SIZE, SIZE, HFOV_DEG, EYE_M)
    try:
        ratios = np.array([r for home in range(given.homes) for r in way_ratios(world, home, given.pairs)])
        overlaps = [o for home in range(given.homes) for o in class_overlaps(world, view, home, given.views)]
    finally:
        view.close()
        world.close()
    away = np.abs(ratios - 1)
    middle, high, most = np.percentile(away, [50, 95, 100])
    sys.stdout.write(
        f"shortest ways of {len(away)} pairs differ by {middle:.2%} (median), {high:.2%} (95 % of them are below), "
        f"{most:.2%} at most; {np.mean(away <= 0.05):.1%} by no more than 5 %\n"
        f"classes in {given.homes * given.views} views, {len(overlaps)} masks: mean IoU {np.mean(overlaps):.3f}, "
        f"least {np.min(overlaps):.3f}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
