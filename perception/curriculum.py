"""What nano learns for perception on mini-V* scenes: the prompts of both stages, the zoom loop, the plain question.

Training seeds and training photographs only; the benchmark's held-out seeds and photographs are never touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from PIL import Image as Pictures

from backbone.contracts import Box, Image
from backbone.curriculum.sample import Message, Region, Sample, ask, box_pieces, reply, source
from backbone.curriculum.scenes import Thing
from backbone.nano.config import NanoConfig
from backbone.pixels import Pixels
from perception import prompts
from perception.benchmarks.ministar import SEEDS, MiniStarScene, Question, questions, scene
from perception.benchmarks.scene_image import Badge

Conversation = tuple[Message, ...]
CROP = 224  # nano's close-ups
TRAIN_SEED_LIMIT = 5 * 10**8  # the upper half of the training seeds is left to the recipe that trains perception alone
MOST_LISTED = 3  # stage 1 lists at most this many badges in training


def nano_pixels(config: NanoConfig | None = None) -> Pixels:
    """Nano's pixel limits."""
    config = config or NanoConfig()
    return Pixels(config.minimum_pixels, config.maximum_pixels, config.factor)


@source("search", weight=2.0)
def search(rng: Generator, size: tuple[int, int]) -> Sample:
    """A mini-V* scene at about 256 px: stage 1, locating badges, relations, and one answer from a close-up."""
    drawn = _scene(rng)
    image, things = shown(drawn, 256)
    asked = questions(drawn)
    first = asked["attribute"]
    makers = [
        stage_one(image, things, first),
        stage_one(image, things, asked["relation"]),
        stage_two(rng, drawn, image, first),
        *[_locate(rng, image, things[i]) for i in rng.permutation(len(things))[:2].tolist()],
        _direct(image, things, asked["relation"]),
        _direct(image, things, first),
        stage_one(image, things, asked["shape"], every=True),
    ]
    order = rng.permutation(len(makers)).tolist()
    return Sample(image, tuple(makers[i] for i in order), things)


@source("close_up", weight=1.0)
def close_up(rng: Generator, size: tuple[int, int]) -> Sample:
    """Answers from close-ups: stage 2 with one to three crops, and the zoom loop."""
    drawn = _scene(rng)
    image, things = shown(drawn, 256)
    asked = questions(drawn)
    kind = "attribute" if rng.random() < 0.7 else ("shape" if rng.random() < 0.5 else "relation")
    makers = [stage_two(rng, drawn, image, asked[kind]), zoom(rng, drawn, image, things, asked["attribute"])]
    if rng.random() < 0.3:
        makers.append(zoom(rng, drawn, image, things, asked["relation"]))
    return Sample(image, tuple(makers), things)


@source("native", weight=0.5)
def native(rng: Generator, size: tuple[int, int]) -> Sample:
    """The same questions on larger views, 384 to 640 px, where symbols begin to be readable."""
    drawn = _scene(rng)
    image, things = shown(drawn, int(rng.choice([384, 512, 512, 640])))
    asked = questions(drawn)
    makers = [_direct(image, things, q) for q in asked.values()]
    makers += [_locate(rng, image, things[i]) for i in rng.permutation(len(things))[:2].tolist()]
    return Sample(image, tuple(makers), things)


def _scene(rng: Generator) -> MiniStarScene:
    seed = SEEDS["train"].start + int(rng.integers(TRAIN_SEED_LIMIT))
    return scene(seed, "train", int(rng.choice([1024, 1024, 1024, 2048, 2048, 4096])))


def fitted(image: Image, pixels: Pixels) -> Image:
    """The picture as the processor resizes it, so that its sides are multiples of one visual token."""
    width, height = pixels.resize(image.shape[1], image.shape[0])
    if (height, width) == image.shape[:2]:
        return image
    return np.asarray(Pictures.fromarray(image).resize((width, height), Pictures.Resampling.BICUBIC))


def shown(drawn: MiniStarScene, longest: int) -> tuple[Image, tuple[Thing, ...]]:
    """The scene at ``longest`` px as the model sees it, and its badges in pixels of that view."""
    image = fitted(drawn.resized(longest), nano_pixels())
    sx, sy = image.shape[1] / drawn.size[0], image.shape[0] / drawn.size[1]
    things = tuple(Thing(b.colour, b.shape, _scaled(b.box, sx, sy), b.symbol) for b in drawn.badges)
    return image, things


def stage_one(image: Image, things: Sequence[Thing], question: Question, every: bool = False) -> Conversation:
    """The perception prompt; the reply lists the badges that hold the evidence (``every``: all that may)."""
    chosen = [things[i] for i in question.targets] if not every else list(things)
    chosen = sorted(chosen, key=lambda t: (t.box[1], t.box[0]))[:MOST_LISTED] if every else chosen
    size = image.shape[1], image.shape[0]
    pieces = box_pieces([(t.box, t.name) for t in chosen], size)
    return (*prompts.perception_messages(image, question.text), reply(*pieces))


def stage_two(rng: Generator, drawn: MiniStarScene, image: Image, question: Question) -> Conversation:
    """The reasoning prompt with close-ups of the targets, loosely cut, and sometimes of another badge."""
    chosen = list(question.targets)
    others = [i for i in range(len(drawn.badges)) if i not in chosen]
    if others and rng.random() < 0.4:
        chosen.append(others[int(rng.integers(len(others)))])
    chosen = [chosen[i] for i in rng.permutation(len(chosen)).tolist()]
    crops = [tagged(rng, drawn, drawn.badges[i]) for i in chosen]
    letter = prompts.LETTERS[question.answer]
    text = prompts.multiple_choice(question.text, question.options)
    plain = rng.random() < 0.2
    messages = prompts.reasoning_messages(image, crops, question.text if plain else text)
    return (*messages, reply(question.options[question.answer] if plain else letter))


def tagged(rng: Generator, drawn: MiniStarScene, badge: Badge) -> tuple[str, Image]:
    """A close-up around a badge, as inexact as stage 1 is, with its tag."""
    box = loose_box(rng, badge.box, drawn.size)
    numbers = [round(v * 1000 / drawn.size[i % 2]) for i, v in enumerate(box.corners)]
    return prompts.crop_tag(badge.name, numbers), cropped(drawn, box)


def cropped(drawn: MiniStarScene, box: Box) -> Image:
    """The pixels of a region at nano's close-up size: shorter side 224 where the cap allows it, as in use."""
    scale = CROP / max(box.width, box.height)
    image = drawn.crop(box, max(1, round(box.width * scale)), max(1, round(box.height * scale)))
    return fitted(image, nano_pixels())


def loose_box(rng: Generator, box: Box, size: tuple[int, int]) -> Box:
    """A box about ``box``: shifted by up to a third of its side and 1.1 to 2.2 times as large, inside the picture."""
    side = max(box.width, box.height)
    cx = (box.x0 + box.x1) / 2 + side * rng.uniform(-0.33, 0.33)
    cy = (box.y0 + box.y1) / 2 + side * rng.uniform(-0.33, 0.33)
    half_w, half_h = (max(32.0, side * rng.uniform(1.1, 2.2) / 2) * rng.uniform(0.85, 1.15) for _ in range(2))
    return Box.clamped((cx - half_w, cy - half_h, cx + half_w, cy + half_h), *size, label=box.label)


def zoom(
    rng: Generator, drawn: MiniStarScene, image: Image, things: Sequence[Thing], question: Question
) -> Conversation:
    """The zoom loop: one call for each target, then the letter."""
    text = prompts.multiple_choice(question.text, question.options)
    messages: list[Message] = prompts.zoom_messages(image, text)
    for index in question.targets:
        box = things[index].box
        size = image.shape[1], image.shape[0]
        numbers = [round(v * 1000 / size[i % 2]) for i, v in enumerate(box)]
        call = prompts.tool_call(numbers, things[index].name)
        head, middle, tail = _around(call, ", ".join(map(str, numbers)))
        turn = prompts.tool_turn(call, cropped(drawn, loose_box(rng, drawn.badges[index].box, drawn.size)))
        messages += [reply(head, (middle, box), tail), *turn[1:]]
    return (*messages, reply(prompts.LETTERS[question.answer]))


def _around(text: str, part: str) -> tuple[str, str, str]:
    start = text.index(part)
    return text[:start], part, text[start + len(part) :]


def _locate(rng: Generator, image: Image, thing: Thing) -> Conversation:
    size = image.shape[1], image.shape[0]
    return ask(image, f"Locate the {thing.name}.", *box_pieces([(thing.box, thing.name)], size))


def _direct(image: Image, things: Sequence[Thing], question: Question) -> Conversation:
    text = prompts.multiple_choice(question.text, question.options)
    focus: Any = things[question.targets[0]].box
    letter = prompts.LETTERS[question.answer]
    return (*prompts.direct_messages(image, text), reply((letter, focus)))


def _scaled(box: Box, sx: float, sy: float) -> Region:
    return box.x0 * sx, box.y0 * sy, box.x1 * sx, box.y1 * sy
