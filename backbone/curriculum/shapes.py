"""Questions about generated shape scenes: naming, counting, comparing, relations, grounding, reading one symbol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator

from backbone.curriculum.photos import training_photos
from backbone.curriculum.sample import Message, Sample, ask, box_pieces, source
from backbone.curriculum.scenes import COLOURS, SHAPES, SYMBOLS, Scene, Thing, random_scene

Conversation = tuple[Message, ...]
Question = Callable[[Generator, Scene], Conversation | None]
LETTERS = "ABCD"
SMALLEST = 12  # pixels along the side of a thing
READABLE = 24  # a symbol on a thing narrower than this many pixels is not asked for
QUESTIONS_PER_IMAGE = 8


@source("shapes", weight=4.0)
def shapes(rng: Generator, size: tuple[int, int]) -> Sample:
    """One to eight shapes of mixed sizes with several questions about them."""
    scene = shape_scene(rng, size, int(rng.integers(1, 9)))
    return Sample(scene.image, question_set(rng, scene, QUESTIONS_PER_IMAGE), scene.things)


@source("crowded", weight=0.0)
def crowded(rng: Generator, size: tuple[int, int]) -> Sample:
    """As many shapes as there is room for: the most to learn per pixel while the vision tower warms up."""
    count = int(rng.integers(4, 12))
    scene = random_scene(rng, size, count, side=(0.12, 0.42), photos=training_photos(), symbol_chance=0.35)
    return Sample(scene.image, (listing_all(scene),), scene.things)


@source("lettered", weight=0.0)
def lettered_scene(rng: Generator, size: tuple[int, int]) -> Sample:
    """A few large shapes that all bear a letter or digit, as in close-ups: what reading symbols is learned from."""
    count = int(rng.integers(1, 5))
    high = min(0.9, 0.95 / np.sqrt(count))
    scene = random_scene(rng, size, count, side=(0.3, high), photos=training_photos(), symbol_chance=1.0)
    asked = [symbol_on(rng, scene) for _ in scene.things] + [name_at(rng, scene)]
    return Sample(scene.image, tuple(c for c in asked if c is not None), scene.things)


def listing_all(scene: Scene) -> Conversation:
    """All names in reading order."""
    ordered = sorted(scene.things, key=lambda t: (t.box[1], t.box[0]))
    return ask(scene.image, "What is in the image?", ", ".join(t.name for t in ordered))


def shape_scene(rng: Generator, size: tuple[int, int], count: int) -> Scene:
    """A scene whose things are mostly of one scale: large ones when they are few, sometimes all small."""
    low, high = (0.1, 0.36) if rng.random() < 0.75 else (0.04, 0.14)
    low = max(low, SMALLEST / min(size))
    high = min(high, 0.9 / np.sqrt(count))
    return random_scene(
        rng, size, count, side=(low, max(high, low + 0.02)), photos=training_photos(), symbol_chance=0.35
    )


def question_set(rng: Generator, scene: Scene, count: int) -> tuple[Conversation, ...]:
    """``count`` conversations: half of them grounding, the others of any kind the scene allows, without repeats."""
    made: list[Conversation] = []
    targets = [unique[i] for i in rng.permutation(len(unique))] if (unique := unique_things(scene)) else []
    made += [ground_thing(rng, scene, thing) for thing in targets[: count // 2]]
    for _ in range(4 * count):
        if len(made) >= count:
            break
        conversation = OTHERS[int(rng.integers(len(OTHERS)))](rng, scene)
        if conversation is not None:
            made.append(conversation)
    return tuple(made)


def unique_things(scene: Scene) -> list[Thing]:
    """Things whose name occurs once in the scene."""
    names = Counter(t.name for t in scene.things)
    return [t for t in scene.things if names[t.name] == 1]


def ground_thing(rng: Generator, scene: Scene, thing: Thing) -> Conversation:
    """``Locate the red circle.`` -> its box as JSON."""
    size = scene.image.shape[1], scene.image.shape[0]
    wording = _pick(rng, ("Locate the {}.", "Where is the {}? Give its box.", "Find the {}."))
    return ask(scene.image, wording.format(thing.name), *box_pieces([(thing.box, thing.name)], size))


def ground_several(rng: Generator, scene: Scene) -> Conversation | None:
    """All things of one colour or shape, in reading order; at most three."""
    kind, value, hits = _group(rng, scene)
    if not 1 <= len(hits) <= 3:
        return None
    size = scene.image.shape[1], scene.image.shape[0]
    hits = sorted(hits, key=lambda t: (t.box[1], t.box[0]))
    text = f"Locate every {value}." if kind == "shape" else f"Locate every {value} object."
    return ask(scene.image, text, *box_pieces([(t.box, t.name) for t in hits], size))


def name_at(rng: Generator, scene: Scene) -> Conversation | None:
    """The name of what lies in a given box: grounding the other way round."""
    thing = _pick(rng, scene.things)
    size = scene.image.shape[1], scene.image.shape[0]
    numbers = [round(v * 1000 / size[i % 2]) for i, v in enumerate(thing.box)]
    return ask(scene.image, f"What is at [{', '.join(map(str, numbers))}]?", (thing.name, thing.box))


def count_group(rng: Generator, scene: Scene) -> Conversation | None:
    """How many things share a colour, a shape, or both."""
    kind, value, hits = _group(rng, scene)
    if rng.random() < 0.15:
        return ask(scene.image, "How many objects are there?", str(len(scene.things)))
    noun = f"{value}s" if kind == "shape" else f"{value} objects"
    return ask(scene.image, f"How many {_plural(noun)} are there?", str(len(hits)))


def exists(rng: Generator, scene: Scene) -> Conversation | None:
    """Whether a named thing is there; absent names share a colour or shape with what is."""
    present = {t.name for t in scene.things}
    if rng.random() < 0.5:
        return ask(scene.image, f"Is there a {_pick(rng, sorted(present))}?", "yes")
    colours = [t.colour for t in scene.things] if rng.random() < 0.5 else list(COLOURS)
    name = f"{_pick(rng, colours)} {_pick(rng, SHAPES)}"
    return None if name in present else ask(scene.image, f"Is there a {name}?", "no")


def colour_of(rng: Generator, scene: Scene) -> Conversation | None:
    """The colour of the only thing of its shape."""
    shapes_seen = Counter(t.shape for t in scene.things)
    alone = [t for t in scene.things if shapes_seen[t.shape] == 1]
    if not alone:
        return None
    thing = _pick(rng, alone)
    return choice_or_word(rng, scene, f"What color is the {thing.shape}?", thing.colour, list(COLOURS), thing)


def shape_of(rng: Generator, scene: Scene) -> Conversation | None:
    """The shape of the only thing of its colour."""
    colours_seen = Counter(t.colour for t in scene.things)
    alone = [t for t in scene.things if colours_seen[t.colour] == 1]
    if not alone:
        return None
    thing = _pick(rng, alone)
    return choice_or_word(rng, scene, f"What shape is the {thing.colour} object?", thing.shape, list(SHAPES), thing)


def symbol_on(rng: Generator, scene: Scene) -> Conversation | None:
    """The letter or digit on a thing large enough to be read."""
    readable = [t for t in unique_things(scene) if t.symbol and min(_sides(t)) >= READABLE]
    if not readable:
        return None
    thing = _pick(rng, readable)
    letter = thing.symbol.isalpha()
    others = [t.symbol for t in scene.things if t.symbol and t is not thing and t.symbol.isalpha() == letter]
    pool = others + [s for s in rng.permutation(list(SYMBOLS)).tolist() if s.isalpha() == letter]
    word = "letter" if letter else "digit"
    return choice_or_word(rng, scene, f"What {word} is on the {thing.name}?", thing.symbol, pool, thing)


def relation(rng: Generator, scene: Scene) -> Conversation | None:
    """Where one thing lies relative to another, when one direction is clear."""
    things = unique_things(scene)
    if len(things) < 2:
        return None
    a, b = (things[i] for i in rng.permutation(len(things))[:2])
    direction = direction_of(a, b)
    if direction is None:
        return None
    question = f"Where is the {a.name} relative to the {b.name}?"
    return choice_or_word(rng, scene, question, direction, ["left", "right", "above", "below"], a)


def larger(rng: Generator, scene: Scene) -> Conversation | None:
    """Which of two things is larger, when the areas differ clearly."""
    things = unique_things(scene)
    if len(things) < 2:
        return None
    a, b = (things[i] for i in rng.permutation(len(things))[:2])
    if max(a.area, b.area) < 1.5 * min(a.area, b.area):
        return None
    return ask(scene.image, f"Which is larger, the {a.name} or the {b.name}?", max(a, b, key=lambda t: t.area).name)


def more(rng: Generator, scene: Scene) -> Conversation | None:
    """Whether there are more of one shape than of another."""
    seen = Counter(t.shape for t in scene.things)
    if len(seen) < 2:
        return None
    a, b = (sorted(seen)[i] for i in rng.permutation(len(seen))[:2])
    plural = _plural(f"{a}s"), _plural(f"{b}s")
    return ask(scene.image, f"Are there more {plural[0]} than {plural[1]}?", "yes" if seen[a] > seen[b] else "no")


def listing(rng: Generator, scene: Scene) -> Conversation | None:
    """All names in reading order, when they are few."""
    if len(scene.things) > 4:
        return None
    return listing_all(scene)


OTHERS: tuple[Question, ...] = (
    ground_several,
    name_at,
    name_at,
    count_group,
    exists,
    colour_of,
    shape_of,
    symbol_on,
    symbol_on,
    relation,
    relation,
    larger,
    more,
    listing,
)


def direction_of(a: Thing, b: Thing) -> str | None:
    """Direction of ``a`` seen from ``b``; None where it is not at least twice as clear as the other axis."""
    dx, dy = a.centre[0] - b.centre[0], a.centre[1] - b.centre[1]
    if abs(dx) > 2 * abs(dy):
        return "left" if dx < 0 else "right"
    if abs(dy) > 2 * abs(dx):
        return "above" if dy < 0 else "below"
    return None


def choice_or_word(
    rng: Generator, scene: Scene, question: str, answer: str, pool: Sequence[str], thing: Thing
) -> Conversation:
    """The question with a word for an answer, or (half the time) with four lettered options and a letter."""
    if rng.random() < 0.5:
        return ask(scene.image, question, (answer, thing.box))
    text, letter = lettered(rng, question, answer, pool)
    return ask(scene.image, text, (letter, thing.box))


def lettered(rng: Generator, question: str, answer: str, pool: Sequence[str]) -> tuple[str, str]:
    """``question`` with the answer and three others of ``pool`` as options A to D, and the right letter."""
    others = [w for w in dict.fromkeys(pool) if w != answer]
    picked = [others[i] for i in rng.permutation(len(others))[:3]] if len(others) <= 10 else others[:3]
    options = [*picked, answer]
    options = [options[i] for i in rng.permutation(len(options))]
    lines = [f"{letter}. {text}" for letter, text in zip(LETTERS, options, strict=True)]
    return "\n".join([question, *lines, "Answer with the letter only."]), LETTERS[options.index(answer)]


def _group(rng: Generator, scene: Scene) -> tuple[str, str, list[Thing]]:
    """A colour or shape, mostly one that occurs, and the things that have it."""
    kind = "shape" if rng.random() < 0.6 else "colour"
    present = [getattr(t, kind) for t in scene.things]
    absent = SHAPES if kind == "shape" else tuple(COLOURS)
    value = _pick(rng, present if rng.random() < 0.85 else absent)
    return kind, value, [t for t in scene.things if getattr(t, kind) == value]


def _sides(thing: Thing) -> tuple[float, float]:
    return thing.box[2] - thing.box[0], thing.box[3] - thing.box[1]


def _plural(noun: str) -> str:
    return noun.replace("crosss", "crosses")


def _pick(rng: Generator, options: Sequence[object]):  # type: ignore[no-untyped-def]
    return options[int(rng.integers(len(options)))]
