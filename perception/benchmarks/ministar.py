"""mini-V*: tiny badges hidden in large collages of real photographs, with questions whose answer is known exactly.

At 256 px a badge is a coloured blob of 8 to 14 px whose symbol cannot be read; only a close-up of the original shows
it. Seeds and photographs of the train and the held-out split are disjoint. Everything is a pure function of the seed.

    python -m perception.benchmarks.ministar --count 6 --output DIR
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from backbone.contracts import FloatArray
from backbone.curriculum.scenes import COLOURS, SYMBOLS
from backbone.errors import ConfigError, DataError
from perception.benchmarks.items import Benchmark, Item
from perception.benchmarks.photographs import Photograph, Split, photographs
from perception.benchmarks.scene_image import Badge, SceneImage, Tile

SIZES = (1024, 2048, 4096, 8192)  # longer side, px
ASPECTS = (4 / 3, 16 / 9, 1.0)
SIDES = (0.032, 0.055)  # badge side, of the longer side
SEEDS: dict[Split, range] = {"train": range(0, 10**9), "held_out": range(10**9, 10**9 + 10**6)}
# Shapes roomy enough for a symbol. Members of one group look alike at 8 px: never two of one colour in a scene.
SHAPE_GROUPS = (("circle", "hexagon"), ("square", "diamond"), ("triangle", "heart"), ("star", "cross"))
BADGE_COLOURS = tuple(name for name in COLOURS if name not in ("gray", "brown"))  # those two hide in photographs
LETTERS = tuple(s for s in SYMBOLS if s.isalpha())
DIGITS = tuple(s for s in SYMBOLS if s.isdigit())
KINDS: dict[str, float] = {"attribute": 0.5, "shape": 0.1, "relation": 0.4}  # V*Bench: 60 % attributes, 40 % relations
DIRECTIONS = ("left", "right", "above", "below")

_BLURRED = 32  # longer side of the view that badge colours are compared with: a pixel is about one badge
_GROUP_OF = {shape: index for index, group in enumerate(SHAPE_GROUPS) for shape in group}


@dataclass(frozen=True)
class MiniStarScene(SceneImage):
    """A picture with its badges. Badges 0 and 1 lie clearly beside or clearly above one another."""

    seed: int = 0
    split: Split = "train"


@dataclass(frozen=True)
class Question:
    """A question on one scene; ``targets`` index the badges that hold the evidence."""

    kind: str
    text: str
    options: tuple[str, ...]
    answer: int
    targets: tuple[int, ...]


def scene(seed: int, split: Split, longest: int | None = None, folder: Path | None = None) -> MiniStarScene:
    """The scene of a seed; ``longest`` is its longer side in pixels, by default drawn from `SIZES` by the seed.

    Raises:
        DataError: the seed lies outside the split's range `SEEDS`, or its photographs are not installed.
        ConfigError: ``longest`` outside 256 to 8192.
    """
    if split not in SEEDS or seed not in SEEDS[split]:
        known = ", ".join(f"{name} {r.start} to {r.stop - 1}" for name, r in SEEDS.items())
        raise DataError(f"mini-V* seed {seed} is not one of split {split!r}; seeds: {known}")
    rng = np.random.default_rng(seed)
    drawn = int(rng.choice(SIZES))
    longest = drawn if longest is None else longest
    if not 256 <= longest <= max(SIZES):
        raise ConfigError(f"mini-V* scenes are 256 to {max(SIZES)} px long, got {longest}")
    short = round(longest / ASPECTS[int(rng.integers(len(ASPECTS)))])
    width, height = (longest, short) if rng.random() < 0.8 else (short, longest)
    tiles = _collage(rng, width, height, photographs(split, folder))
    badges = _badges(rng, SceneImage(width, height, tiles, ()))
    return MiniStarScene(width, height, tiles, badges, seed=seed, split=split)


def questions(of: MiniStarScene) -> dict[str, Question]:
    """One question of every kind, by kind."""
    rng = np.random.default_rng((of.seed, 1))
    return {
        "attribute": _attribute(rng, of.badges),
        "shape": _shape(rng, of.badges),
        "relation": _relation(rng, of.badges),
    }


def benchmark(
    count: int,
    split: Split = "held_out",
    *,
    sizes: Sequence[int] = SIZES,
    kinds: Mapping[str, float] | None = None,
    offset: int = 0,
    folder: Path | None = None,
) -> Benchmark:
    """``count`` items, their sizes in turn, their kinds in the given proportions; ``offset`` skips that many seeds.

    Item ``i`` is the same whatever ``count`` is, so a longer run contains the shorter one.
    """
    kinds = KINDS if kinds is None else kinds
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown or not kinds or min(kinds.values()) < 0 or sum(kinds.values()) <= 0:
        raise ConfigError(f"kinds must be weights >= 0 of {', '.join(KINDS)}, got {dict(kinds)}")
    if count < 1 or offset < 0 or offset + count > len(SEEDS[split]):
        raise ConfigError(f"mini-V* {split} has {len(SEEDS[split])} seeds, asked for {count} from {offset} on")
    items = tuple(_item(SEEDS[split][offset + i], split, sizes[i % len(sizes)], kinds, folder) for i in range(count))
    return Benchmark("ministar", split, items)


def _item(seed: int, split: Split, longest: int, kinds: Mapping[str, float], folder: Path | None) -> Item:
    weights = np.array(list(kinds.values()), float)
    kind = str(np.random.default_rng((seed, 2)).choice(list(kinds), p=weights / weights.sum()))
    drawn = scene(seed, split, longest, folder)
    question = questions(drawn)[kind]
    return Item(
        id=f"ministar-{split}-{seed}-{longest}-{kind}",
        kind=kind,
        question=question.text,
        options=question.options,
        answer=question.answer,
        load=functools.partial(scene, seed, split, longest, folder),
        boxes=tuple(drawn.badges[i].box for i in question.targets),
        seed=seed,
    )


# Layout


def _badges(rng: Generator, ground: SceneImage) -> tuple[Badge, ...]:
    width, height = ground.size
    blurred = ground.resized(_BLURRED).astype(np.float32)
    count = int(rng.integers(2, 7))
    names = _names(rng, count, repeat_colours=rng.random() < 0.3)
    symbols = rng.choice(LETTERS if rng.random() < 0.8 else DIGITS, count, replace=False).tolist()
    longest = max(width, height)
    axis = int(rng.integers(2))  # badges 0 and 1 differ clearly along this one
    placed: list[Badge] = []
    for (colour, shape), symbol in zip(names, symbols, strict=True):
        rgb = np.clip(np.array(COLOURS[colour]) + rng.integers(-12, 13, 3), 0, 255)
        for attempt in range(400):
            side = longest * rng.uniform(*SIDES)
            centre = (rng.uniform(side, width - side), rng.uniform(side, height - side))
            apart = all(_apart(centre, side, other) for other in placed)
            clear = len(placed) != 1 or _clear(placed[0].centre, centre, axis, longest)
            if apart and clear and (attempt > 200 or _stands_out(rgb, centre, blurred, longest)):
                placed.append(Badge(colour, shape, str(symbol), centre, side, (int(rgb[0]), int(rgb[1]), int(rgb[2]))))
                break
            if attempt % 40 == 39 and len(placed) == 1:  # the first lies where no partner fits: move it
                first = placed[0]
                spot = (rng.uniform(first.side, width - first.side), rng.uniform(first.side, height - first.side))
                placed[0] = Badge(first.colour, first.shape, first.symbol, spot, first.side, first.rgb)
    if len(placed) < 2:
        raise DataError(f"no room for two badges in a scene of {width} x {height}")
    return tuple(placed)


def _apart(centre: tuple[float, float], side: float, other: Badge) -> bool:
    """Whether more than half a side of the larger badge lies between the two squares."""
    gap = (side + other.side) / 2 + 0.5 * max(side, other.side)
    return abs(centre[0] - other.centre[0]) > gap or abs(centre[1] - other.centre[1]) > gap


def _stands_out(rgb: NDArray[np.int64], centre: tuple[float, float], blurred: FloatArray, longest: int) -> bool:
    """Whether the colour differs from the ground around its centre by more than 70 RGB units (Euclidean)."""
    row, column = (int(v * max(blurred.shape) / longest) for v in (centre[1], centre[0]))
    return float(np.linalg.norm(blurred[row, column] - rgb)) > 70


def _clear(a: tuple[float, float], b: tuple[float, float], axis: int, longest: int) -> bool:
    """Whether the offset along ``axis`` is at least 15 % of the longer side and twice that across it."""
    along, across = abs(a[axis] - b[axis]), abs(a[1 - axis] - b[1 - axis])
    return along >= 0.15 * longest and along >= 2 * across


def _names(rng: Generator, count: int, repeat_colours: bool) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    while len(chosen) < count:
        colour, shape = str(rng.choice(BADGE_COLOURS)), str(rng.choice(list(_GROUP_OF)))
        if repeat_colours and chosen and rng.random() < 0.5:
            colour = chosen[int(rng.integers(len(chosen)))][0]
        same = [other for c, other in chosen if c == colour]
        if not same or (repeat_colours and all(_GROUP_OF[shape] != _GROUP_OF[other] for other in same)):
            chosen.append((colour, shape))
    return chosen


def _collage(rng: Generator, width: int, height: int, photos: tuple[Photograph, ...]) -> tuple[Tile, ...]:
    """Columns of tiles with uneven borders: one photograph, or up to 4 x 3 parts of several (larger pictures more)."""
    most = 2 + (max(width, height) >= 2048) + (max(width, height) >= 4096)
    columns = int(rng.integers(1, most + 1))
    tiles: list[Tile] = []
    for x0, x1 in _parts(rng, width, columns):
        for y0, y1 in _parts(rng, height, int(rng.integers(1, max(2, columns)))):
            tiles.append(_tile(rng, (x0, y0, x1, y1), photos[int(rng.integers(len(photos)))]))
    return tuple(tiles)


def _parts(rng: Generator, length: int, count: int) -> list[tuple[float, float]]:
    weights = rng.uniform(0.6, 1.4, count)
    edges = [0.0, *(np.cumsum(weights) / weights.sum() * length).tolist()]
    edges[-1] = float(length)
    return list(itertools.pairwise(edges))


def _tile(rng: Generator, box: tuple[float, float, float, float], photo: Photograph) -> Tile:
    """A random part of the photograph with the tile's aspect, at least 70 % of the largest that fits."""
    wide, high = photo.size
    aspect = (box[2] - box[0]) / (box[3] - box[1])
    w = min(wide, high * aspect) * rng.uniform(0.7, 1.0)
    u, v = rng.uniform(0, wide - w), rng.uniform(0, high - w / aspect)
    gain = rng.uniform(0.75, 1.15) * rng.uniform(0.93, 1.07, 3)
    source = (float(u), float(v), float(u + w), float(v + w / aspect))
    return Tile(box, photo, source, bool(rng.random() < 0.5), (float(gain[0]), float(gain[1]), float(gain[2])))


# Questions


def _attribute(rng: Generator, badges: Sequence[Badge]) -> Question:
    target = int(rng.integers(len(badges)))
    right = badges[target].symbol
    pool = LETTERS if right in LETTERS else DIGITS
    options, answer = _options(rng, right, [b.symbol for b in badges], pool)
    word = "letter" if right in LETTERS else "digit"
    return Question("attribute", f"What {word} is on the {badges[target].name}?", options, answer, (target,))


def _shape(rng: Generator, badges: Sequence[Badge]) -> Question:
    target = int(rng.integers(len(badges)))
    symbol = badges[target].symbol
    pool = [f"{colour} {shape}" for colour in BADGE_COLOURS for shape in _GROUP_OF]
    options, answer = _options(rng, badges[target].name, [b.name for b in badges], pool)
    word = "letter" if symbol in LETTERS else "digit"
    return Question("shape", f"What shape is around the {word} {symbol}?", options, answer, (target,))


def _relation(rng: Generator, badges: Sequence[Badge]) -> Question:
    first, second = (0, 1) if rng.random() < 0.5 else (1, 0)
    a, b = badges[first].centre, badges[second].centre
    dx, dy = a[0] - b[0], a[1] - b[1]
    right = ("left" if dx < 0 else "right") if abs(dx) > abs(dy) else ("above" if dy < 0 else "below")
    options, answer = _options(rng, right, (), DIRECTIONS)
    text = f"Where is the {badges[first].name} relative to the {badges[second].name}?"
    return Question("relation", text, options, answer, (first, second))


def _options(
    rng: Generator, right: str, scene_values: Sequence[str], pool: Sequence[str]
) -> tuple[tuple[str, ...], int]:
    """Four options: the right one, then values that stand in the scene, then others; in random order."""
    near = [v for v in scene_values if v != right]
    far = [v for v in pool if v != right and v not in near]
    wrong = [near[i] for i in rng.permutation(len(near))] + [far[i] for i in rng.permutation(len(far))]
    options = [right, *wrong[:3]]
    order = rng.permutation(4).tolist()
    return tuple(options[i] for i in order), order.index(0)


if __name__ == "__main__":
    from perception.benchmarks.preview import main

    main()
