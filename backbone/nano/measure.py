"""What nano can do, in numbers, on generated scenes it never saw: the same seeds every time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from backbone.curriculum import shapes, text
from backbone.curriculum.sample import Message
from backbone.curriculum.scenes import Scene
from backbone.nano.build import build_processor
from backbone.nano.config import VOCABULARY, NanoConfig
from backbone.pixels import Pixels
from backbone.tokenizer import build_tokenizer

HELD_OUT_SEED = 7_000  # far below the seeds of training
SIZE = (256, 256)
BATCH = 32
Conversation = tuple[Message, ...]


def engine(model: Any, config: NanoConfig) -> Any:
    """The local engine around a model in memory."""
    from backbone.local import LocalVLM

    pixels = Pixels(config.minimum_pixels, config.maximum_pixels, config.factor)
    processor = build_processor(config, build_tokenizer(VOCABULARY))
    return LocalVLM("nano (in training)", model, processor, pixels, cache_mebibytes=0)


def measure(model: Any, config: NanoConfig, items: int, seed: int = HELD_OUT_SEED) -> dict[str, float]:
    """Mean IoU of grounding and accuracy of every other ability, each over ``items`` held-out questions."""
    vlm = engine(model, config)
    ious = grounding_ious(vlm, items, seed)
    scores = {"iou": float(np.mean(ious)), "iou_over_half": float(np.mean([v > 0.5 for v in ious]))}
    return scores | {name: float(np.mean(right)) for name, right in abilities(vlm, items, seed).items()}


def grounding_ious(vlm: Any, items: int, seed: int = HELD_OUT_SEED) -> list[float]:
    """IoU of one box each, scenes of up to eight things; an unreadable answer counts 0."""
    rng = np.random.default_rng(seed)
    asked = [grounding(rng) for _ in range(items)]
    pairs = zip(generate(vlm, asked), asked, strict=True)
    return [box_iou(first_box(text), first_box(answer_of(c))) for text, c in pairs]


def abilities(vlm: Any, items: int, seed: int = HELD_OUT_SEED) -> dict[str, list[bool]]:
    """For every ability, whether each answer equals the target exactly."""
    scores: dict[str, list[bool]] = {}
    for index, (name, make) in enumerate(ABILITIES.items()):
        rng = np.random.default_rng([seed, index])
        asked = [make(rng) for _ in range(items)]
        pairs = zip(generate(vlm, asked, 16), asked, strict=True)
        scores[name] = [text.strip() == answer_of(c) for text, c in pairs]
    return scores


def grounding(rng: Generator) -> Conversation:
    """One thing to be located among up to eight."""
    while True:
        scene = shapes.shape_scene(rng, SIZE, int(rng.integers(1, 9)))
        if things := shapes.unique_things(scene):
            return shapes.ground_thing(rng, scene, things[int(rng.integers(len(things)))])


def _of(question: Callable[[Generator, Scene], Conversation | None]) -> Callable[[Generator], Conversation]:
    def make(rng: Generator) -> Conversation:
        while True:
            made = question(rng, shapes.shape_scene(rng, SIZE, int(rng.integers(1, 9))))
            if made is not None:
                return made

    return make


def _text(rng: Generator) -> Conversation:
    while True:
        for made in text.short_text(rng, SIZE).conversations:
            if not answer_of(made).startswith("["):
                return made


ABILITIES: dict[str, Callable[[Generator], Conversation]] = {
    "name": _of(shapes.name_at),
    "colour": _of(shapes.colour_of),
    "shape": _of(shapes.shape_of),
    "count": _of(shapes.count_group),
    "exists": _of(shapes.exists),
    "relation": _of(shapes.relation),
    "larger": _of(shapes.larger),
    "more": _of(shapes.more),
    "symbol": _of(shapes.symbol_on),
    "text": _text,
}


def answer_of(conversation: Conversation) -> str:
    """The target text of a one-turn conversation."""
    return "".join(part["text"] for part in conversation[-1]["content"])


def generate(vlm: Any, conversations: list[Conversation], limit: int = 64) -> list[str]:
    """Greedy answers, computed in batches of pictures of one size."""
    texts: list[str] = []
    for start in range(0, len(conversations), BATCH):
        prompts = [c[:-1] for c in conversations[start : start + BATCH]]
        texts += [g.texts[0] for g in vlm.generate_batch(prompts, max_new_tokens=limit)]
    return texts


def first_box(text: str) -> tuple[float, float, float, float] | None:
    """The first ``bbox_2d`` of a JSON answer, None if there is none."""
    found = re.search(r'"bbox_2d": (\[[^\]]*\])', text)
    try:
        numbers = json.loads(found.group(1)) if found else []
    except json.JSONDecodeError:
        return None
    return tuple(float(v) for v in numbers) if len(numbers) == 4 else None  # type: ignore[return-value]


def box_iou(a: tuple[float, ...] | None, b: tuple[float, ...] | None) -> float:
    """Intersection over union of two corner boxes; 0 where one is missing or empty."""
    if a is None or b is None:
        return 0.0
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h
    return float(w * h / union)
