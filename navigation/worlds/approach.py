"""The last metres of a shortest path in steps of fixed length and fixed turns: a small best-first search.

A greedy follower misses a point that its steps pass by; this finds a short sequence of turns and moves that ends within
reach. Runs in the worker's interpreter too: Python 3.8 or newer, the standard library only.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, Callable, Sequence  # noqa: UP035 - for Python 3.8

TURN_COST = 0.02  # metres a turn counts as: of two equal ways the one with fewer turns
GRAIN = 0.02  # metres; places nearer than this are one
MAX_MOVES = 12000  # tried in one search

# What a step still to go counts as, in one search after the other: 1 finds the shortest way, but spread over many ways
# that are about as long it may not come to an end; a greater one does, on a way that is longer by at most that factor.
GREEDS = (1.0, 1.3, 2.0)


def approach(
    position: Sequence[float],
    heading: float,
    move: Callable[[Any, float], Any],
    distance: Callable[[Any], float],
    reach: float,
    turn: float,
    step: float,
) -> list[str] | None:
    """Actions (``turn_left``, ``turn_right``, ``move_forward``) to a place with ``distance`` below ``reach``.

    Args:
        position: where the body stands (3,).
        heading: radians to the left of -z.
        move: the place after one step from a place along a heading, collisions included.
        distance: metres along the floor from a place to the goal, infinite for none.
        reach: metres; the search ends strictly within.
        turn: radians of one turn.
        step: metres of one move.

    Returns:
        None where no such place is found in `MAX_MOVES` moves of any search.
    """
    around = max(1, round(2 * math.pi / turn))

    def options(place: Any, turned: int) -> list[tuple[Any, int, float, float]]:
        """One step in every direction that is not into a wall: place, heading in turns, cost, metres left."""
        found = []
        for k in range(around):
            ahead = move(place, heading + (turned + k) * turn)
            left = distance(ahead) if math.dist(ahead, place) > step / 4 else math.inf
            if math.isfinite(left):
                cost = step + TURN_COST * min(k, around - k)
                found.append((ahead, (turned + k) % around, cost, left))
        return found

    for greed in GREEDS:
        headings = _search(position, distance(position), options, reach, step, greed, MAX_MOVES // around)
        if headings is not None:
            return _names(headings, around)
    return None


def _search(
    position: Any,
    left: float,
    options: Callable[[Any, int], Any],
    reach: float,
    step: float,
    greed: float,
    most: int,
) -> list[int] | None:
    """The heading (in turns) of every step of a way within reach, after at most ``most`` places; None for none."""
    serial = 0  # heapq must never compare places
    queue: list[Any] = [(greed * _to_go(left, reach, step), serial, 0.0, left, position, 0, ())]
    seen: set[Any] = set()
    while queue and len(seen) < most:
        _, _, spent, left, place, turned, before = heapq.heappop(queue)
        if left < reach:
            return list(_unlinked(before))
        key = tuple(round(float(v) / GRAIN) for v in place)
        if key in seen:
            continue
        seen.add(key)
        for there, facing, cost, then in options(place, turned):
            serial += 1
            rank = spent + cost + greed * _to_go(then, reach, step)
            heapq.heappush(queue, (rank, serial, spent + cost, then, there, facing, (before, facing)))
    return None


def _to_go(left: float, reach: float, step: float) -> float:
    """Metres of the whole steps that ``left`` metres to the goal take at least; two where one would go too far."""
    if left < reach:
        return 0.0
    if left <= step - reach:
        return 2 * step
    return step * max(1, math.ceil((left - reach) / step))


def _names(headings: Sequence[int], around: int) -> list[str]:
    """The actions that step along ``headings``, in turns to the left from the present one, the shorter way round."""
    names: list[str] = []
    facing = 0
    for heading in headings:
        turns = (heading - facing) % around
        names += ["turn_left"] * turns if turns <= around - turns else ["turn_right"] * (around - turns)
        names.append("move_forward")
        facing = heading
    return names


def _unlinked(linked: Any) -> list[int]:
    """The values in a chain ``((((), a), b), c)``, in order."""
    values: list[int] = []
    while linked:
        linked, value = linked
        values.append(value)
    return values[::-1]
