"""Measures of object navigation as pure functions: success, SPL, SoftSPL, SOT, and their intervals over episodes.

Habitat's formulas, made total: every result is finite for every input that is a distance. Where theirs divide by zero
or by infinity the value is defined here, in the function's docstring.

Symbols: ``l`` metres of the shortest path from the start to the nearest goal, ``p`` metres walked, ``d`` metres of the
shortest path that were left at the end, ``S`` 1 for success and 0 otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from backbone.errors import DataError
from backbone.statistics import Interval, bootstrap_mean, wilson

VIEWPOINT_RADIUS_M = 0.1  # Habitat's ObjectNav: stopped this near (along the floor) to a point that sees the object
OBJECT_RADIUS_M = 1.0  # Hydra-Nav's rule: stopped this near (in a straight line over the floor) to the object itself
UNREACHABLE_M = 10_000.0  # stands for an infinite distance in results, so that means stay finite; farther than any home
SECONDS_PER_TOKEN = 0.015  # tau of SOT, section 7 of the paper
TAUS = (0.0075, 0.015, 0.03, 0.06, 0.12, 0.24, 0.48)  # the paper's range of sensitivity, doubling


@dataclass(frozen=True)
class ActionTimes:
    """Seconds one action takes a robot (Hydra-Nav, section 7). A panorama is the four-picture look around."""

    move: float = 1.0
    turn: float = 0.6
    panorama: float = 4.0
    stop: float = 0.1

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            _distance(value, f"action times: {name}", infinite=False)


@dataclass(frozen=True)
class Actions:
    """How many actions of each kind were executed, and how many tokens were generated on the way."""

    moves: int = 0
    turns: int = 0
    panoramas: int = 0
    stops: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0:
                raise DataError(f"actions: {name} must not be negative, got {value}")


def success(stopped: bool, distance_m: float, radius_m: float = VIEWPOINT_RADIUS_M) -> bool:
    """Whether the agent called stop with less than ``radius_m`` left; standing there without a stop is none."""
    return bool(stopped) and _distance(distance_m, "success: distance") < radius_m


def spl(succeeded: bool, shortest_m: float, walked_m: float) -> float:
    """``S l / max(l, p)``, 0 to 1.

    Defined besides: a start at the goal without a move (0/0) scores 1, an unreachable goal (l infinite) scores 0.
    """
    return float(succeeded) * _efficiency(shortest_m, walked_m)


def soft_spl(distance_m: float, shortest_m: float, walked_m: float) -> float:
    """``max(0, 1 - d / l) * l / max(l, p)``, 0 to 1: progress counts although nobody stopped.

    Defined besides: with ``l`` 0 the progress is 1 where ``d`` is 0 and 0 elsewhere; infinite ``l`` or ``d`` scores 0.
    """
    left = _distance(distance_m, "SoftSPL: distance")
    efficiency = _efficiency(shortest_m, walked_m)
    if math.isinf(left) or math.isinf(shortest_m):
        return 0.0
    progress = max(0.0, 1.0 - left / shortest_m) if shortest_m > 0 else float(left == 0)
    return progress * efficiency


def sot_time(actions: Actions, tau: float = SECONDS_PER_TOKEN, times: ActionTimes | None = None) -> float:
    """Seconds an episode takes: execution of every action, and ``tau`` seconds for every generated token."""
    _distance(tau, "SOT: tau", infinite=False)
    t = times or ActionTimes()
    executed = actions.moves * t.move + actions.turns * t.turn + actions.panoramas * t.panorama + actions.stops * t.stop
    return executed + tau * actions.tokens


def optimal_time(expert: Actions, shortest_m: float, step_m: float = 0.25, times: ActionTimes | None = None) -> float:
    """Seconds of the shortest path: the follower's own moves, turns and stop, at least the straight walk's.

    Departs from the paper in saying what it leaves open: turns and the stop count. An unreachable goal takes forever.
    """
    t = times or ActionTimes()
    if math.isinf(_distance(shortest_m, "SOT: shortest path")):
        return math.inf
    return max(sot_time(Actions(expert.moves, expert.turns, 0, expert.stops), 0.0, t), shortest_m / step_m * t.move)


def sot(succeeded: bool, optimal_s: float, actual_s: float) -> float:
    """``S * T_optimal / T_actual``, at most 1.

    Defined besides: two zero times score 1, an infinite optimal time scores 0.
    """
    return float(succeeded) * _efficiency(optimal_s, actual_s)


def sot_curve(
    succeeded: bool, optimal_s: float, actions: Actions, taus: Sequence[float] = TAUS, times: ActionTimes | None = None
) -> dict[float, float]:
    """SOT for every ``tau``: how much of the verdict hangs on the price of a token."""
    return {tau: sot(succeeded, optimal_s, sot_time(actions, tau, times)) for tau in taus}


@dataclass(frozen=True)
class Outcome:
    """What is measured of one episode. Distances in metres; infinite ones mean that no path leads there.

    ``distance_m`` runs along the floor to the nearest view point, ``object_m`` straight over the floor to the nearest
    goal object, ``closest_m`` is the least ``distance_m`` of the episode.
    """

    shortest_m: float
    walked_m: float
    distance_m: float
    object_m: float
    closest_m: float
    stopped: bool
    actions: Actions
    expert: Actions  # what the shortest path follower would have done from the start
    steps: int
    collisions: int = 0
    step_m: float = 0.25  # the length of one move


def outcome_metrics(
    outcome: Outcome, distance_to: Literal["view_points", "object"] = "view_points", radius_m: float | None = None
) -> dict[str, float]:
    """Every measure of one episode, all finite.

    ``success``, ``spl`` and ``sot`` follow the rule ``distance_to``: within ``radius_m`` (0.1 by default) of a view
    point, or (1.0 by default) of the object. Both rules with their own radii stand beside, as ``success_view_point``
    (Habitat's) and ``success_object`` (Hydra-Nav's).

    ``oracle_success`` would have stopped at the best moment; ``reachable`` is 0 where no path leads to any goal, and
    then ``distance_to_goal`` holds `UNREACHABLE_M`.
    """
    o = outcome
    near, radius = (o.distance_m, VIEWPOINT_RADIUS_M) if distance_to == "view_points" else (o.object_m, OBJECT_RADIUS_M)
    reached = success(o.stopped, near, radius if radius_m is None else radius_m)
    fastest = optimal_time(o.expert, o.shortest_m, o.step_m)
    return {
        "success": float(reached),
        "success_view_point": float(success(o.stopped, o.distance_m)),
        "success_object": float(success(o.stopped, o.object_m, OBJECT_RADIUS_M)),
        "oracle_success": float(success(True, o.closest_m)),
        "spl": spl(reached, o.shortest_m, o.walked_m),
        "soft_spl": soft_spl(o.distance_m, o.shortest_m, o.walked_m),
        "sot": sot(reached, fastest, sot_time(o.actions)),
        "optimal_time": min(fastest, UNREACHABLE_M),
        "execution_time": sot_time(o.actions),
        "path_length": float(o.walked_m),
        "shortest_path": finite_distance(o.shortest_m),
        "distance_to_goal": finite_distance(o.distance_m),
        "distance_to_object": finite_distance(o.object_m),
        "reachable": float(math.isfinite(o.shortest_m)),
        "stopped": float(o.stopped),
        "collisions": float(o.collisions),
        "steps": float(o.steps),
    }


def distance_of(metres: float | None) -> float:
    """The distance itself, infinite for None, by which a simulator says that there is no path."""
    return math.inf if metres is None else _distance(metres, "distance")


def finite_distance(metres: float) -> float:
    """The distance itself, or `UNREACHABLE_M` for an infinite one."""
    return min(_distance(metres, "distance"), UNREACHABLE_M)


def aggregate(rows: Sequence[Mapping[str, float]], seed: int = 0) -> dict[str, Interval]:
    """Mean of every measure over episodes with its 95 % interval: Wilson's for 0/1 measures, bootstrap otherwise.

    Raises:
        DataError: no rows, a row with other measures than the first, or a value that is not finite (its row is named).
    """
    if not rows:
        raise DataError("aggregate: there are no episodes to average; were all of them left out?")
    names = tuple(rows[0])
    for i, row in enumerate(rows):
        if set(row) != set(names):
            raise DataError(
                f"aggregate: row {i} has other measures than row 0: {sorted(set(row) ^ set(names))} in only one"
            )
        bad = [f"{name} = {row[name]}" for name in names if not math.isfinite(row[name])]
        if bad:
            raise DataError(f"aggregate: row {i} is not finite: {', '.join(bad)}; one such row would spoil every mean")
    return {name: _interval([float(row[name]) for row in rows], name, seed) for name in names}


BINARY = frozenset({"success", "success_view_point", "success_object", "oracle_success", "reachable", "stopped"})


def _interval(values: list[float], name: str, seed: int) -> Interval:
    if name in BINARY:
        if not set(values) <= {0.0, 1.0}:
            raise DataError(f"aggregate: {name} must be 0 or 1, got {sorted(set(values) - {0.0, 1.0})[:3]}")
        return wilson(int(sum(values)), len(values))
    return bootstrap_mean(values, seed=seed)


def _efficiency(best: float, spent: float) -> float:
    """``best / max(best, spent)`` with 0/0 = 1 and an infinite best = 0."""
    best, spent = _distance(best, "shortest path"), _distance(spent, "path walked", infinite=False)
    if math.isinf(best):
        return 0.0
    longer = max(best, spent)
    return best / longer if longer > 0 else 1.0


def _distance(value: float, where: str, infinite: bool = True) -> float:
    if math.isnan(value) or value < 0 or (math.isinf(value) and not infinite):
        raise DataError(f"{where} must be a number of at least 0{'' if infinite else ' and finite'}, got {value}")
    return float(value)
