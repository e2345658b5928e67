"""What nano learns about homes: questions on single frames with exact answers from the simulator's own state.

Training homes only; `navigation.glimpses` keeps the others apart. Importing this opens no display.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from numpy.random import Generator

from backbone.curriculum.sample import Message, Sample, ask, box_pieces, source
from navigation.glimpse_maps import maps
from navigation.glimpses import Glimpse, Seen, glimpse
from navigation.homes.furniture import GOAL_CATEGORIES, KINDS, words

Conversation = tuple[Message, ...]
Question = Callable[[Generator, Glimpse], Conversation | None]
QUESTIONS_PER_IMAGE = 8
CLEAR = 0.006  # share of the picture from which a thing is asked about
LISTED = 6  # at most so many categories are listed
SMALLEST = 8  # pixels along a side of a box that is asked for
AHEAD_DEG, ASIDE_DEG = 10.0, 14.0  # up to the first a thing is ahead, from the second on left or right
FREE_M = 2.5  # from here on nothing is ahead


@source("homes", weight=1.5)
def homes(rng: Generator, size: tuple[int, int]) -> Sample:
    """A frame of a generated training home of about ``size`` pixels, and up to eight questions about it."""
    whole = (max(32, size[0] // 32 * 32), max(32, size[1] // 32 * 32))
    shown = glimpse(rng, whole)
    return Sample(shown.rgb, question_set(rng, shown, QUESTIONS_PER_IMAGE), maps=maps(shown))


def question_set(rng: Generator, shown: Glimpse, count: int) -> tuple[Conversation, ...]:
    """At most ``count`` conversations without repeats, the boxes of up to three things among them."""
    made = [locate(rng, shown, s) for s in _some(rng, _single(shown), 3)]
    for _ in range(4 * count):
        if len(made) >= count:
            break
        conversation = QUESTIONS[int(rng.integers(len(QUESTIONS)))](rng, shown)
        if conversation is not None and all(_asked(conversation) != _asked(c) for c in made):
            made.append(conversation)
    return tuple(made[i] for i in rng.permutation(len(made)))


def listing(rng: Generator, shown: Glimpse) -> Conversation | None:
    """Which categories are in view, the largest first; not asked where one is only just in view."""
    names = list(dict.fromkeys(words(s.category) for s in shown.seen if s.share >= CLEAR))
    if len(names) > LISTED or any(CLEAR / 2 <= s.share < CLEAR for s in shown.seen):
        return None
    text = _pick(rng, ("Which objects are in view?", "What objects can you see?", "List the objects in view."))
    return ask(shown.rgb, text, ", ".join(names) if names else "none")


def exists(rng: Generator, shown: Glimpse) -> Conversation | None:
    """Whether a category is in view: yes and no equally often; never asked of what is only just in view."""
    clear = sorted({s.category for s in shown.seen if s.share >= CLEAR})
    any_of = {s.category for s in shown.seen}
    yes = bool(rng.random() < 0.5)
    pool = clear if yes else [c for c in KINDS if c not in any_of]
    if not pool:
        return None
    text = _pick(rng, ("Is there a {} in view?", "Do you see a {}?", "Is there a {}?"))
    name = str(_pick(rng, pool))
    boxes = [s for s in shown.seen if s.category == name]
    answer = ("yes", boxes[0].box) if yes else "no"
    return ask(shown.rgb, text.format(words(name)), answer)


def locate(rng: Generator, shown: Glimpse, thing: Seen) -> Conversation:
    """``Where is the sofa?`` -> its box as JSON."""
    text = _pick(rng, ("Locate the {}.", "Where is the {}? Give its box.", "Find the {}."))
    return ask(
        shown.rgb, text.format(words(thing.category)), *box_pieces([(thing.box, words(thing.category))], shown.size)
    )


def name_at(rng: Generator, shown: Glimpse) -> Conversation | None:
    """The category of what lies in a given box."""
    thing = _one(rng, [s for s in shown.seen if s.share >= CLEAR and _wide(s)])
    if thing is None:
        return None
    numbers = [round(v * 1000 / shown.size[i % 2]) for i, v in enumerate(thing.box)]
    return ask(shown.rgb, f"What is at [{', '.join(map(str, numbers))}]?", (words(thing.category), thing.box))


def what_ahead(rng: Generator, shown: Glimpse) -> Conversation | None:
    """What lies straight ahead, and how far away it is."""
    name, metres = shown.ahead
    text = _pick(rng, ("What is straight ahead, and how far?", "What is ahead?"))
    return ask(shown.rgb, text, f"{words(name)}, {rounded(metres)} m")


def blocked(rng: Generator, shown: Glimpse) -> Conversation | None:
    """Whether the body can go some way straight ahead: as often yes as no, where the place allows both."""
    free = shown.free_m
    ways = (0.25, 0.5, 1.0, 2.0)
    yes = bool(rng.random() < 0.5)
    pool = [w for w in ways if (free >= w + 0.05 if yes else free < w - 0.05)]
    if not pool:
        return None
    near = min(pool, key=lambda w: abs(w - free))  # the hardest one, half of the time
    way = near if rng.random() < 0.5 else _pick(rng, pool)
    return ask(shown.rgb, f"Can I move ahead {way:g} m?", "yes" if yes else "no")


def free_way(rng: Generator, shown: Glimpse) -> Conversation | None:
    """How far the way ahead is free."""
    if shown.free_m >= FREE_M and rng.random() < 0.5:  # otherwise most answers would be this one
        return None
    text = _pick(rng, ("How far is the way ahead free?", "How far can I move ahead?"))
    answer = f"more than {FREE_M:g} m" if shown.free_m >= FREE_M else f"{rounded(shown.free_m)} m"
    return ask(shown.rgb, text, answer)


def door_way(rng: Generator, shown: Glimpse) -> Conversation | None:
    """Which way the nearest doorway in sight is; sometimes there is none."""
    if not shown.doors:
        none = rng.random() < 0.3
        return ask(shown.rgb, "Which way is the door?", "no door in view") if none else None
    way = side(shown.doors[0].bearing)
    if way is None:
        return None
    answer = f"{way}, {rounded(shown.doors[0].distance)} m"
    return ask(shown.rgb, _pick(rng, ("Which way is the nearest door?", "Which way is the door?")), answer)


def object_way(rng: Generator, shown: Glimpse) -> Conversation | None:
    """Which way the only thing of its category is: left, ahead or right."""
    thing = _one(rng, _single(shown))
    way = side(thing.bearing) if thing else None
    if thing is None or way is None:
        return None
    return ask(shown.rgb, f"Which way is the {words(thing.category)}?", (way, thing.box))


def distance(rng: Generator, shown: Glimpse) -> Conversation | None:
    """How far the only thing of its category is."""
    thing = _one(rng, _single(shown))
    if thing is None:
        return None
    text = _pick(rng, ("How far is the {}?", "How far away is the {}?"))
    return ask(shown.rgb, text.format(words(thing.category)), (f"{rounded(thing.distance)} m", thing.box))


QUESTIONS: tuple[Question, ...] = (
    listing,
    listing,
    exists,
    exists,
    name_at,
    what_ahead,
    blocked,
    blocked,
    free_way,
    door_way,
    object_way,
    distance,
)


def side(bearing: float) -> str | None:
    """``left``, ``ahead`` or ``right`` of a bearing (radians to the left); None between them."""
    degrees = math.degrees(bearing)
    if abs(degrees) <= AHEAD_DEG:
        return "ahead"
    if abs(degrees) < ASIDE_DEG:
        return None
    return "left" if degrees > 0 else "right"


def rounded(metres: float) -> str:
    """Metres as they are said: steps of a quarter below one, of a half below four, then whole ones."""
    step = 0.25 if metres < 1 else 0.5 if metres < 4 else 1.0
    return f"{round(metres / step) * step:g}"


def _single(shown: Glimpse) -> list[Seen]:
    """Clear things that are looked for, each the only one in view of its category."""
    count: dict[str, int] = {}
    for s in shown.seen:
        count[s.category] = count.get(s.category, 0) + 1
    chosen = [s for s in shown.seen if s.share >= CLEAR and _wide(s) and count[s.category] == 1]
    return [s for s in chosen if s.category in GOAL_CATEGORIES] or chosen


def _wide(thing: Seen) -> bool:
    return min(thing.box[2] - thing.box[0], thing.box[3] - thing.box[1]) >= SMALLEST


def _asked(conversation: Conversation) -> str:
    return str(conversation[0]["content"][1]["text"])


def _some(rng: Generator, things: Sequence[Seen], most: int) -> list[Seen]:
    return [things[i] for i in rng.permutation(len(things))[:most]]


def _one(rng: Generator, things: Sequence[Seen]) -> Seen | None:
    return things[int(rng.integers(len(things)))] if things else None


def _pick(rng: Generator, options: Sequence[object]):  # type: ignore[no-untyped-def]
    return options[int(rng.integers(len(options)))]
