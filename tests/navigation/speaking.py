"""A model that replies what a test scripts and records what it was shown; and frames to show."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from backbone.boxes import BoxConvention
from backbone.contracts import ActionSpec, Observation, Stage
from backbone.pixels import Pixels
from backbone.vlm import VLM, Generation
from navigation.worlds.navigation_world import ACTIONS, LOOK_AROUND, PANORAMA

WITH_LOOK = ActionSpec.discrete((*ACTIONS, LOOK_AROUND), 1.0)
PLAIN = ActionSpec.discrete(ACTIONS, 1.0)


@dataclass
class SpeakingVLM(VLM):
    """``thoughts`` answer free generation, ``actions`` constrained ones, in order; the last one is repeated."""

    thoughts: list[str] = field(default_factory=lambda: ["<think_start>a door<think_end>\nMoveAhead 0.25"])
    actions: list[str] = field(default_factory=lambda: ["MoveAhead 0.25"])
    calls: list[dict] = field(default_factory=list)
    name: str = "speaking"
    family: str = "qwen3_vl"

    def __post_init__(self):
        self.pixels = Pixels(32 * 32, 4096 * 1024, 32)
        self.boxes = BoxConvention.for_family(self.family)

    def generate(self, prompt, **options):
        self.calls.append({"messages": list(prompt), **options})
        replies = self.actions if options.get("choices") else self.thoughts
        text = replies.pop(0) if len(replies) > 1 else replies[0]
        if options.get("choices"):
            assert text in options["choices"], (text, options["choices"])
        if options.get("on_text"):
            for word in text.split(" "):
                options["on_text"](0, word + " ")
        count = len(text.split())
        done = count <= options.get("max_new_tokens", 128)
        stage = Stage(options.get("stage", "generate"), 0, 100 * len(prompt), 0, count, count, 5.0, 1.0)
        return Generation((text,), (tuple(range(count)),), ((-0.1,) * count,), (done,), stage)

    def generate_batch(self, prompts, **options):
        return [self.generate(prompt, **options) for prompt in prompts]


def images_of(call):
    """First pixel of every picture of a call, in order."""
    parts = [p for m in call["messages"] for p in m["content"] if p["type"] == "image"]
    return [int(p["image"].flat[0]) for p in parts]


def text_of(call):
    return "".join(p.get("text", "") for m in call["messages"] for p in m["content"])


def seen(value, around=False, size=(128, 160)):
    """What a world with a look around shows: a grey frame, and grey ones around it if it just looked."""
    values = [value, value + 1, value + 2, value + 3] if around else [value, 0, 0, 0]
    images = {n: np.full((*size, 3), v, np.uint8) for n, v in zip(PANORAMA, values, strict=True)}
    return Observation(images, "find the bed", None, 0.0)


def front(value):
    return Observation({"front": np.full((128, 160, 3), value, np.uint8)}, "find the bed", None, 0.0)


def noise(seed, around=False):
    draw = np.random.default_rng(seed)
    images = {n: draw.integers(1, 255, (128, 160, 3), np.uint8) for n in PANORAMA}
    if not around:
        images = {n: i if n == "front" else np.zeros_like(i) for n, i in images.items()}
    return Observation(images, "find the bed", None, 0.0)
