"""Write mini-V* scenes with their boxes drawn, so that a person can look at them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import cv2
import numpy as np
import tyro

from backbone.contracts import Box, Image
from perception.benchmarks.ministar import SEEDS, questions, scene
from perception.benchmarks.photographs import Split


def preview(
    output: Path, count: int = 6, longest: int | None = None, split: Split = "held_out", folder: Path | None = None
) -> None:
    """For each scene: the 256 px view, a 1024 px view with boxes, close-ups of all badges, and the questions as JSON.

    Example: ``python -m perception.benchmarks.ministar --count 6 --output previews``

    Args:
        output: folder to write to.
        count: number of scenes.
        longest: longer side in pixels; by default drawn from the mix by the seed.
        split: train or held_out.
        folder: more photographs.
    """
    output.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS[split][:count]:
        drawn = scene(seed, split, longest, folder)
        view = drawn.resized(1024)
        scale = max(view.shape[:2]) / max(drawn.size)
        for badge in drawn.badges:
            x0, y0, x1, y1 = (round(v * scale) for v in badge.box.corners)
            cv2.rectangle(view, (x0 - 3, y0 - 3), (x1 + 3, y1 + 3), (255, 0, 255), 1)
        closeups = [drawn.crop(_around(b.box, drawn.size), 160, 160) for b in drawn.badges]
        _write(output / f"{seed}-256.png", drawn.resized(256))
        _write(output / f"{seed}-boxes.png", view)
        _write(output / f"{seed}-badges.png", np.concatenate(closeups, 1))
        asked = {k: [q.text, *q.options, q.options[q.answer]] for k, q in questions(drawn).items()}
        (output / f"{seed}.json").write_text(json.dumps({"size": drawn.size, "questions": asked}, indent=1))


def _around(box: Box, size: tuple[int, int]) -> Box:
    half = 0.7 * max(box.width, box.height)
    x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    return Box.clamped((math.floor(x - half), math.floor(y - half), x + half, y + half), *size)


def _write(path: Path, image: Image) -> None:
    cv2.imwrite(str(path), image[..., ::-1])


def main() -> None:
    """Command line."""
    tyro.cli(preview)
