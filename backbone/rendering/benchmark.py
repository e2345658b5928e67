"""Frames per second of the renderer here: ``python -m backbone.rendering.benchmark [--boxes N] [--seconds S]``."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from backbone.rendering.mesh import Camera, Mesh
from backbone.rendering.projection import look_at
from backbone.rendering.renderer import Renderer
from backbone.rendering.shapes import MeshBuilder


def boxes(count: int, seed: int = 0) -> Mesh:
    """``count`` boxes scattered over 20 m x 20 m, 12 triangles each."""
    random, builder = np.random.default_rng(seed), MeshBuilder()
    for index in range(count):
        low = random.uniform((-10, 0, -10), (10, 2, 10))
        builder.box(low, low + random.uniform(0.1, 1.0, 3), (0.0, 0.0, 1.0, 1.0), index + 1)
    return builder.build()


def frames_per_second(mesh: Mesh, size: tuple[int, int], all_outputs: bool, seconds: float) -> tuple[float, float, str]:
    """Frames a second of wall time and of processor time with a turning camera, and the device's name."""
    atlas = np.random.default_rng(0).integers(0, 255, (256, 256, 3), np.uint8)
    with Renderer(*size, atlas) as renderer:
        drawn = [(renderer.upload(mesh), np.eye(4))]
        renderer.render(drawn, Camera(look_at((8, 1.5, 0), (0, 1, 0)), 79.0))  # compiles the shaders
        begin, used, frames = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - begin < seconds:
            eye = (8 * np.cos(frames * 0.1), 1.5, 8 * np.sin(frames * 0.1))
            camera = Camera(look_at(eye, (0, 1, 0)), 79.0)
            renderer.render(drawn, camera, depth=all_outputs, ids=all_outputs)
            frames += 1
        return frames / (time.perf_counter() - begin), frames / (time.process_time() - used), renderer.device


def main(argv: list[str] | None = None) -> int:
    """Print one line an image size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boxes", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args(argv)
    mesh = boxes(options.boxes)
    for size in ((128, 128), (224, 224), (256, 256), (640, 480)):
        for outputs, what in ((False, "colour"), (True, "colour, depth, ids")):
            wall, used, device = frames_per_second(mesh, size, outputs, options.seconds)
            sys.stdout.write(
                f"{size[0]} x {size[1]}, {options.boxes * 12} triangles, {what}: {wall:.0f} frames/s, "
                f"{used:.0f} a processor second, {device}\n"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
