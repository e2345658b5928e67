"""Which examples make which batch: a pure function of the batch's number, so that a run can go on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.curriculum import easy_vqa, shapes, text  # noqa: F401 - importing registers the sources
from backbone.curriculum.sample import Sample, get_source
from backbone.errors import ConfigError, DataError
from navigation import curriculum  # noqa: F401 - likewise
from navigation.batches import Encoder
from navigation.config import NavigationConfig
from navigation.examples import Example, Place, places_of
from navigation.records import list_episodes, read_trajectory

SORTED = 8  # batches whose examples are sorted by length together, so that little is padding
TOGETHER = 2  # of them follow each other in order of length


@dataclass(frozen=True)
class Questions:
    """Co-training on questions about single pictures: the share of batches, and the sources of the curriculum."""

    share: float = 0.0  # OUR CHOICE: 0.2 in stage 2
    sources: tuple[tuple[str, float], ...] = (("homes", 0.7), ("shapes", 0.2), ("easy_vqa", 0.1))
    size: tuple[int, int] = (160, 128)  # width and height of generated pictures

    def __post_init__(self) -> None:
        if not 0.0 <= self.share < 1.0 or not self.sources or min(w for _, w in self.sources) <= 0:
            raise ConfigError(f"co-training needs a share in [0, 1) and sources with positive weights, got {self}")


def find_places(folders: Sequence[Path], config: NavigationConfig) -> list[Place]:
    """All examples of some folders of episodes, in order; `DataError` if a folder has none."""
    found: list[Place] = []
    for folder in folders:
        own = [place for path in list_episodes(folder) for place in places_of(read_trajectory(path), path, config)]
        if not own:
            raise DataError(f"{folder}: its episodes hold nothing to learn; do they have thoughts?")
        found += own
    return found


class Batches:
    """Batches of ``size`` examples of about equal length; every epoch is a new permutation drawn from the seed."""

    def __init__(
        self,
        encoder: Encoder,
        places: Sequence[Place],
        config: NavigationConfig,
        size: int,
        seed: int,
        questions: Questions | None = None,
        patches: bool = True,
    ) -> None:
        """``questions`` takes the place of the trajectories in some batches; ``patches`` as in `Encoder.batch`."""
        if not places:
            raise DataError("there are no examples to learn from")
        self._encoder, self._places, self._config = encoder, list(places), config
        self._size, self._seed, self._questions, self._patches = size, seed, questions or Questions(), patches
        self._order: tuple[int, NDArray[np.int64]] | None = None  # of the epoch drawn from last

    def at(self, index: int) -> dict[str, Any]:
        """Batch ``index`` as tensors."""
        return self._encoder.batch([self._encoder.row(e) for e in self.examples(index)], patches=self._patches)

    def examples(self, index: int) -> list[Example]:
        """The examples of batch ``index``."""
        rng = np.random.default_rng([self._seed, index, 0xC0])
        if rng.random() < self._questions.share:
            return self._asked(rng)
        return [place.load(self._config) for place in self.places(index)]

    def places(self, index: int) -> list[Place]:
        """Where the trajectories' examples of batch ``index`` are found."""
        block = self._size * SORTED
        drawn = [self._place(index // SORTED * block + i) for i in range(block)]
        drawn.sort(key=lambda p: p.pictures)
        rng = np.random.default_rng([self._seed, index // SORTED, 0xC1])
        # neighbours in length stay together: processes that share a step would wait for the one with the longest batch
        order = rng.permutation(SORTED // TOGETHER)[:, None] * TOGETHER + np.arange(TOGETHER)
        begin = int(order.ravel()[index % SORTED]) * self._size
        return drawn[begin : begin + self._size]

    def _place(self, position: int) -> Place:
        count = len(self._places)
        epoch, known = position // count, self._order
        if known is None or known[0] != epoch:
            known = epoch, np.random.default_rng([self._seed, epoch, 0xC2]).permutation(count)
            self._order = known
        return self._places[int(known[1][position % count])]

    def _asked(self, rng: np.random.Generator) -> list[Example]:
        """As many questions as a batch has examples, about as few pictures as give them."""
        names = [n for n, _ in self._questions.sources]
        weights = np.array([w for _, w in self._questions.sources])
        found: list[Example] = []
        while len(found) < self._size:
            name = names[int(rng.choice(len(names), p=weights / weights.sum()))]
            found += question_examples(name, get_source(name).make(rng, self._questions.size))
        return found[: self._size]


def question_examples(name: str, sample: Sample) -> list[Example]:
    """The conversations of a sample of the curriculum; every reply is learned."""
    return [
        Example(f"{name}/{i}", messages, (True,) * sum(m["role"] == "assistant" for m in messages))
        for i, messages in enumerate(sample.conversations)
    ]
