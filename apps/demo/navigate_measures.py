"""The table of measures of the Navigate tab: of one episode, or of two with the differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from backbone.rollout.results import EpisodeResult
from navigation.failures import Failure, classify
from navigation.metrics import SECONDS_PER_TOKEN
from navigation.timing import episode_sot, episode_time, reasoning_of, tokens_of

FAILED = "failed"
ENDS: dict[Failure, str] = {
    "success": "success, it stopped where the object is near and in sight",
    "misidentified": "no success, it stopped before something else",
    "stopped_short": "no success, it stopped with the object in sight but too far away",
    "gave_up": "no success, it stopped without ever having seen the object",
    "timeout_stagnated": "no success, its steps ran out, and it had come back to where it was",
    "timeout_wandering": "no success, its steps ran out on the way",
    "unreachable": "no success, no way leads to the object",
}


@dataclass(frozen=True)
class Measure:
    """One row of the table. ``better`` is 1 where more is better, -1 where less is, 0 where neither is."""

    name: str
    of: Callable[[EpisodeResult], float]
    unit: str = ""
    digits: int = 0
    better: int = 0
    hint: str = ""
    flag: bool = False  # 1 is yes, 0 is no


def _metric(name: str) -> Callable[[EpisodeResult], float]:
    return lambda row: float(row.metrics[name])


def _cost(name: str) -> Callable[[EpisodeResult], float]:
    return lambda row: float(row.ledger.get(name, 0))


MEASURES: tuple[Measure, ...] = (
    Measure(
        "success",
        _metric("success"),
        better=1,
        hint="stopped within 0.1 m of a point that sees the object",
        flag=True,
    ),
    Measure("near", _metric("success_object"), better=1, hint="stopped within 1 m of the object itself", flag=True),
    Measure("SPL", _metric("spl"), digits=3, better=1, hint="success, times shortest way by way walked"),
    Measure("SoftSPL", _metric("soft_spl"), digits=3, better=1, hint="the same with progress in place of success"),
    Measure("SOT", episode_sot, digits=3, better=1, hint="success, times shortest time by time needed"),
    Measure("way walked", _metric("path_length"), " m", 2, -1),
    Measure("shortest way", _metric("shortest_path"), " m", 2),
    Measure("way left at the end", _metric("distance_to_goal"), " m", 2, -1),
    Measure("steps", lambda row: row.steps, better=-1),
    Measure("bumps", _metric("collisions"), better=-1),
    Measure("looks around", lambda row: sum(reasoning_of(row).looks.values())),
    Measure("actions thought about", lambda row: 100 * reasoning_of(row).ratio, " %", 1),
    Measure("tokens encoded", _cost("prompt_tokens"), better=-1),
    Measure("tokens written", tokens_of, better=-1),
    Measure("robot's time", _metric("execution_time"), " s", 1, -1, "1 s a move, 0.6 a turn, 4 a look, 0.1 the stop"),
    Measure(
        "with thinking", episode_time, " s", 1, -1, f"the robot's time, and {SECONDS_PER_TOKEN:g} s a token written"
    ),
    Measure("thinking here", lambda row: row.timing["ledger_ms"] / 1000, " s", 1, -1, "as measured on this machine"),
)


def measures_html(titles: Sequence[str], rows: Sequence[EpisodeResult]) -> str:
    """One column an episode; of two the difference as well, coloured by which of them is better."""
    two = len(rows) == 2
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles) + ("<th>difference</th>" if two else "")
    body = "".join(_row(measure, [measure.of(row) for row in rows]) for measure in MEASURES)
    ended = "".join(f"<td>{classify(row.metrics).replace('_', ' ')}</td>" for row in rows) + (
        "<td></td>" if two else ""
    )
    return (
        f'<section class="fv-nav-results"><h3>Measures</h3><div class="fv-scroll"><table><thead><tr><th></th>{heads}'
        f'</tr></thead><tbody><tr data-measure="end"><th>how it ended</th>{ended}</tr>{body}</tbody></table></div>'
        "</section>"
    )


def _row(measure: Measure, values: Sequence[float]) -> str:
    cells = "".join(f"<td>{_number(measure, value)}</td>" for value in values)
    if len(values) == 2:
        cells += _difference(measure, values[1] - values[0])
    hint = f' <small class="fv-muted">{escape(measure.hint)}</small>' if measure.hint else ""
    return f'<tr data-measure="{escape(measure.name)}"><th>{escape(measure.name)}{hint}</th>{cells}</tr>'


def _difference(measure: Measure, difference: float) -> str:
    """The second less the first."""
    better = measure.better * difference
    verdict = "" if round(better, measure.digits) == 0 else ' data-better="yes"' if better > 0 else ' data-better="no"'
    return f"<td{verdict}>{_number(measure, difference, '+')}</td>"


def _number(measure: Measure, value: float, sign: str = "") -> str:
    if measure.flag and not sign:
        return "yes" if value else "no"
    value = 0.0 if round(value, measure.digits) == 0 else value  # no minus before zero
    return f"{value:{sign if value else ''},.{measure.digits}f}{measure.unit}"
