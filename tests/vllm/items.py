"""Twenty questions about generated pictures: one and two images, sizes that are enlarged, kept and reduced, and a
system message; and a model of nano's architecture whose answers depend on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from backbone.nano.build import build_model, save_nano
from backbone.nano.config import NanoConfig
from backbone.vlm import Message

COUNT = 20
# (width, height): below nano's smallest area, odd sides, exact multiples of 32, long and thin, above the largest below.
SIZES = ((64, 48), (223, 301), (256, 256), (320, 64), (417, 233), (640, 480))
QUESTIONS = ("What is this?", "How many things are there?", "Where is the red one?", "Answer yes or no: is it large?")
# Random weights as they are initialised hardly look at their input; larger ones answer each picture differently.
GAIN = 4.0


def questions() -> list[list[Message]]:
    """The conversations, always the same."""
    return [_conversation(np.random.default_rng(1000 + i), i) for i in range(COUNT)]


def random_nano(folder: Path) -> None:
    """Write a float32 model of nano's architecture with seeded random weights."""
    config = NanoConfig()
    model = build_model(config, seed=0)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim >= 2:
                weights.mul_(GAIN)
    save_nano(model, config, folder, torch.float32)


def _conversation(generator: np.random.Generator, index: int) -> list[Message]:
    pictures = [_picture(generator, SIZES[(index + k) % len(SIZES)]) for k in range(1 + (index % 5 == 4))]
    content = [{"type": "image", "image": picture} for picture in pictures]
    content.append({"type": "text", "text": QUESTIONS[index % len(QUESTIONS)]})
    system = [{"role": "system", "content": "Answer briefly."}] if index % 7 == 3 else []
    return [*system, {"role": "user", "content": content}]


def _picture(generator: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    image = Image.fromarray(generator.integers(0, 64, (size[1], size[0], 3), np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(int(generator.integers(2, 7))):
        x, y = (int(generator.integers(0, side)) for side in size)
        radius = int(generator.integers(8, 60))
        shape = (draw.ellipse, draw.rectangle)[int(generator.integers(2))]
        shape(
            (x - radius, y - radius, x + radius, y + radius), fill=tuple(int(v) for v in generator.integers(0, 256, 3))
        )
    return np.asarray(image).copy()
