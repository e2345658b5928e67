"""Long-term memory: landmarks of four pictures, joined by the actions that led from one to the next (section 2.3).

A memory is a value: adding a landmark gives a new one. There are no coordinates and no map in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from backbone.contracts import Image, check_image
from backbone.errors import DataError
from navigation.actions import MOTOR
from navigation.config import EdgeStyle

VIEWS = 4  # front, left, back, right
KEPT = 64  # landmarks held, whatever the limit of those shown


@dataclass(frozen=True, eq=False)
class Landmark:
    """A place where the robot looked around: pictures ahead, to the left, behind, to the right, and when that was."""

    views: tuple[Image, Image, Image, Image]
    step: int = 0  # motor actions since the episode's start

    def __post_init__(self) -> None:
        if len(self.views) != VIEWS:
            raise DataError(f"a landmark needs {VIEWS} pictures, got {len(self.views)}")
        for i, view in enumerate(self.views):
            check_image(view, f"landmark picture {i}")


@dataclass(frozen=True, eq=False)
class Memory:
    """Landmarks, oldest first; ``edges[i]`` are the actions from landmark ``i`` to ``i + 1``.

    ``limit`` says how many of them the model is shown (`shown`). More are kept, so that those shown are spaced evenly
    over the whole way; past `KEPT` of them every second one is dropped for good.
    """

    limit: int = 10
    landmarks: tuple[Landmark, ...] = ()
    edges: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise DataError(f"a memory keeps at least one landmark, got a limit of {self.limit}")
        if len(self.edges) != max(0, len(self.landmarks) - 1):
            raise DataError(
                f"{len(self.landmarks)} landmarks need {max(0, len(self.landmarks) - 1)} edges, got {len(self.edges)}"
            )
        for edge in self.edges:
            check_edge(edge)

    def add(self, landmark: Landmark, actions: Sequence[str] = ()) -> Memory:
        """A memory with one more landmark, reached from the newest one by ``actions``.

        Raises:
            DataError: actions before the first landmark, or such as do not move the body.
        """
        if not self.landmarks:
            if actions:
                raise DataError(f"the first landmark is where the episode starts; {len(actions)} actions led nowhere")
            return Memory(self.limit, (landmark,))
        grown = Memory(self.limit, (*self.landmarks, landmark), (*self.edges, tuple(actions)))
        count = len(grown.landmarks)
        return grown if count <= max(KEPT, self.limit) else grown.only([*range(0, count - 1, 2), count - 1])

    def shown(self) -> Memory:
        """The first and the last landmark, and between them as many as the limit allows, evenly spaced by number.

        A limit of 1 keeps the last alone, and with it no edge.
        """
        if len(self.landmarks) <= self.limit:
            return self
        return self.only(kept_indices(len(self.landmarks), self.limit))

    def only(self, kept: Sequence[int]) -> Memory:
        """The landmarks ``kept`` (ascending), renumbered; the edges around a dropped one are joined."""
        edges = tuple(tuple(action for edge in self.edges[a:b] for action in edge) for a, b in pairwise(kept))
        return Memory(self.limit, tuple(self.landmarks[i] for i in kept), edges)

    @property
    def actions(self) -> int:
        """How many actions the edges hold."""
        return sum(len(edge) for edge in self.edges)


def kept_indices(count: int, limit: int) -> list[int]:
    """Which of ``count`` landmarks stay: the last, the first if there is room, and evenly spaced ones between."""
    if count <= limit:
        return list(range(count))
    if limit == 1:
        return [count - 1]
    # Whole arithmetic, halves up: distinct because the spacing is more than one.
    return [(2 * i * (count - 1) + limit - 1) // (2 * (limit - 1)) for i in range(limit)]


def check_edge(actions: Sequence[str]) -> None:
    """Raise `DataError` for an action that does not move the body."""
    for action in actions:
        if action not in MOTOR:
            raise DataError(f"an edge holds motor actions ({', '.join(MOTOR)}), got {action!r}")


def edge_text(actions: Sequence[str], style: EdgeStyle) -> str:
    """An edge in words: every action, or equal ones in a row as ``MoveAhead 0.25 x4``; ``nothing`` for none."""
    if not actions:
        return "nothing"
    if style == "list":
        return ", ".join(actions)
    runs = ((action, len(list(group))) for action, group in groupby(actions))
    return ", ".join(action if count == 1 else f"{action} x{count}" for action, count in runs)


def parse_edge(text: str) -> tuple[str, ...]:
    """The actions that `edge_text` wrote, in either style; raises `DataError` for anything else."""
    if text == "nothing":
        return ()
    actions: list[str] = []
    for part in text.split(", "):
        action, _, count = part.partition(" x")
        if action not in MOTOR or (count and not count.isdigit()):
            raise DataError(f"not an edge of a memory: {part!r} in {text[:80]!r}")
        actions += [action] * (int(count) if count else 1)
    return tuple(actions)
