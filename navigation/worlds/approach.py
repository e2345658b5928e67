"""The last metres of a shortest path in steps of fixed length and fixed turns: a small best-first search.

A greedy follower misses a point that its steps pass by; this finds the shortest sequence of turns and moves that ends
within reach. Runs in the worker's interpreter too: Python 3.8 or newer, the standard library only.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, Callable, Sequence  # noqa: UP035 - for Python 3.8

TURN_COST = 0.02  # metres a turn counts as: of two equal ways the one with fewer turns
GRAIN = 0.02  # metres; places nearer than this, with the same heading, are one
MAX_PLACES = 3000


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
        None where no such place is found among the `MAX_PLACES` most promising.
    """
    around = max(1, round(2 * math.pi / turn))
    serial = 0  # heapq must never compare places
    queue: list[Any] = [(distance(position), serial, 0.0, position, 0, ())]
    seen: set[Any] = set()
    while queue and len(seen) < MAX_PLACES:
        _, _, spent, place, turned, actions = heapq.heappop(queue)
        key = (*(round(float(v) / GRAIN) for v in place), turned % around)
        if key in seen:
            continue
        seen.add(key)
        if distance(place) < reach:
            return list(_flat(actions))
        ahead = move(place, heading + turned * turn)
        options = [(spent + TURN_COST, place, (turned + 1) % around, "turn_left")]
        options.append((spent + TURN_COST, place, (turned - 1) % around, "turn_right"))
        if math.dist(ahead, place) > step / 4:  # not into a wall
            options.append((spent + step, ahead, turned, "move_forward"))
        for cost, there, facing, name in options:
            left = distance(there)
            if math.isfinite(left):
                serial += 1
                queue_entry = (cost + left, serial, cost, there, facing, (actions, name))
                heapq.heappush(queue, queue_entry)
    return None


def _flat(linked: Any) -> list[str]:
    """The names in a chain ``((((), a), b), c)``, in order."""
    names: list[str] = []
    while linked:
        linked, name = linked
        names.append(name)
    return names[::-1]
