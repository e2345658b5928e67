"""Questions that the shipped model answers, with the pictures they are about."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PIL import Image as PillowModule
from PIL import ImageDraw

from backbone.contracts import Image


@dataclass(frozen=True)
class Example:
    """One example of the Search tab."""

    title: str
    image: Image = field(repr=False)
    question: str
    options: tuple[str, ...] = ()


def search_examples() -> tuple[Example, ...]:
    """Large pictures with small things in them, drawn here, the same every time."""
    canvas = PillowModule.fromarray(_ground(1024, 1536))
    draw = ImageDraw.Draw(canvas)
    draw.ellipse((1000, 250, 1060, 310), fill=(215, 35, 35))
    draw.rectangle((250, 620, 330, 700), fill=(40, 80, 215))
    picture = np.asarray(canvas)
    return (
        Example("What colour is the circle?", picture, "What colour is the circle?"),
        Example("Circle, with options", picture, "What colour is the circle?", ("red", "green", "blue", "yellow")),
    )


def _ground(height: int, width: int) -> Image:
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(0).normal(0, 6, (height, width, 1))
    base = np.stack([150 + 60 * y / height, 170 + 30 * x / width, 190 - 50 * y / height], -1)
    return np.clip(base + noise, 0, 255).astype(np.uint8)
