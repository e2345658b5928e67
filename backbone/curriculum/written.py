"""Scenes written out as text: the same questions as about pictures, so that looking things up is learned cheaply."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from backbone.curriculum.sample import Message, Sample, source
from backbone.curriculum.scenes import Scene
from backbone.curriculum.shapes import question_set, shape_scene

BLANK = 32  # side of the empty picture that stands first, one visual token of nano
QUESTIONS_PER_SCENE = 8


@source("written", weight=0.0)
def written(rng: Generator, size: tuple[int, int]) -> Sample:
    """A scene of one to eight shapes as a list of names, boxes and symbols, and what is asked about such scenes."""
    scene = shape_scene(rng, size, int(rng.integers(1, 9)))
    blank = np.full((BLANK, BLANK, 3), 127, np.uint8)
    text = description(rng, scene) + "\n"
    conversations: list[tuple[Message, ...]] = []
    for first, answer in question_set(rng, scene, QUESTIONS_PER_SCENE):
        question = first["content"][1]["text"]
        content = [{"type": "image", "image": blank}, {"type": "text", "text": text + question}]
        parts = [{**part, "focus": None} for part in answer["content"]]
        conversations.append(({"role": "user", "content": content}, {"role": "assistant", "content": parts}))
    return Sample(blank, tuple(conversations))


def description(rng: Generator, scene: Scene) -> str:
    """One line per thing in random order: ``red circle K [120, 80, 310, 270]``."""
    size = scene.image.shape[1], scene.image.shape[0]
    lines = []
    for thing in scene.things:
        numbers = [round(v * 1000 / size[i % 2]) for i, v in enumerate(thing.box)]
        symbol = f" {thing.symbol}" if thing.symbol else ""
        lines.append(f"{thing.name}{symbol} [{', '.join(map(str, numbers))}]")
    return "\n".join(lines[i] for i in rng.permutation(len(lines)))
