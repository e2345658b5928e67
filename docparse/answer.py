"""From the last law to an answer: the regions that hold the mass, and the words in them that say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docparse.config import DocparseConfig
from docparse.fields.words import DocumentWords
from docparse.regions import FoundRegion, find_regions
from docparse.snapping import snapped

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reading:
    """An extractive answer. Without one (``text`` is None) the mass did not settle; ``regions`` is then empty."""

    text: str | None
    regions: tuple[FoundRegion, ...]  # boxes in page units, heaviest first
    words: tuple[int, ...]  # the answer's words, indices into the document's
    settled: float  # probability that the answer stands in the document
    confidence: float  # that, times the mass in the regions


def read_answer(
    words: DocumentWords, mass: FloatArray, belongs: FloatArray, settled: float, config: DocparseConfig
) -> Reading:
    """The answer under a law over words.

    Args:
        words: of the document.
        mass: (n,) of each word.
        belongs: (n,) logits that a word is part of the answer.
        settled: probability that there is an answer.
        config: thresholds.
    """
    carrying = np.flatnonzero(mass > 0)
    if settled < config.settled or not len(carrying):
        return Reading(None, (), (), settled, 0.0)
    found = find_regions(
        mass[carrying],
        words.boxes[carrying].astype(np.float64),
        words.page[carrying],
        config.regions,
        _among(words.right[carrying], carrying, len(words)),
    )
    regions = tuple(_over_words(region, carrying) for region in found)
    chosen = [answer_words(region.members, belongs, words, config) for region in regions]
    text = ", ".join(spell(words.texts, run) for run in sorted(chosen, key=lambda run: run[0]))
    held = min(1.0, sum(region.mass for region in regions))
    regions = tuple(snapped(region, words, config.regions) for region in regions)
    return Reading(text, regions, tuple(i for run in chosen for i in run), settled, settled * held)


def answer_words(
    members: NDArray[np.int64], belongs: FloatArray, words: DocumentWords, config: DocparseConfig
) -> list[int]:
    """The answer's words within a region, in reading order; never none."""
    inside = _within(members, words)
    scores = belongs[inside]
    yes = inside[scores > 0]
    if not len(yes):
        yes = inside[[int(scores.argmax())]]
    runs = np.split(yes, np.flatnonzero(np.diff(yes) > 2) + 1)  # one doubtful word does not part an answer
    best = max(runs, key=lambda run: (float(np.maximum(belongs[run], 0).sum()), -int(run[0])))
    whole = np.arange(best[0], best[-1] + 1)
    return [int(i) for i in whole[: config.longest_answer]]


def spell(texts: Sequence[str], run: Sequence[int]) -> str:
    """The words of a run as a text, without marks that end a sentence or label around it."""
    text = " ".join(texts[i] for i in run)
    return text.strip(" ,;:") if len(run) < 8 else text.strip()


def _within(members: NDArray[np.int64], words: DocumentWords) -> NDArray[np.int64]:
    """All words, in reading order, that lie in the box around the region's own."""
    x0, y0 = words.boxes[members, :2].min(0)
    x1, y1 = words.boxes[members, 2:].max(0)
    centre = (words.boxes[:, :2] + words.boxes[:, 2:]) / 2
    here = (words.page == words.page[members[0]]) & (centre[:, 0] >= x0) & (centre[:, 0] <= x1)
    return np.flatnonzero(here & (centre[:, 1] >= y0) & (centre[:, 1] <= y1))


def _among(index: NDArray[np.int64], chosen: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Indices of words as indices into the chosen ones, -1 for those that are not among them."""
    place = np.full(count + 1, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    return place[np.where(index < 0, count, index)]


def _over_words(region: FoundRegion, carrying: NDArray[np.int64]) -> FoundRegion:
    return FoundRegion(region.page, region.box, region.mass, carrying[region.members])
