"""A report of episodes of navigation, and the paired comparison of two: pure functions of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial, reduce
from typing import Any

from backbone.errors import DataError
from backbone.rollout.results import EpisodeResult
from backbone.statistics import Interval, bootstrap_mean, mcnemar, paired_difference, percentiles, wilson
from navigation.failures import ORDER, classify, taxonomy
from navigation.metrics import SECONDS_PER_TOKEN, TAUS
from navigation.timing import Reasoning, episode_sot, episode_time, reasoning_of, sot_sensitivity, tokens_of

Json = dict[str, Any]
Value = Callable[[EpisodeResult], float]

TASK = "find the "  # how an instruction begins; the category follows


def category_of(row: EpisodeResult) -> str:
    """What was looked for: ``find the tv monitor`` -> ``tv monitor``."""
    return row.instruction.removeprefix(TASK) or "unknown"


def measure(row: EpisodeResult, name: str) -> float:
    """A measure of an episode; 0 for one that failed to run, so that nobody gains by crashing."""
    if row.status != "scored":
        return 0.0
    if name == "sot":
        return episode_sot(row)
    return float(row.success) if name == "success" else float(row.metrics[name])


RATES = ("success", "success_view_point", "success_object", "oracle_success")
MEANS = ("spl", "soft_spl", "sot")


def headline(rows: Sequence[EpisodeResult], seed: int = 0) -> Json:
    """SR under both rules with Wilson's interval, SPL, SoftSPL and SOT with bootstrap intervals; failed rows are 0."""
    out: Json = {}
    for name in RATES:
        out[name] = asdict(wilson(int(sum(measure(row, name) for row in rows)), len(rows)))
    for name in MEANS:
        out[name] = asdict(bootstrap_mean([measure(row, name) for row in rows], seed=seed))
    return out


def report(rows: Sequence[EpisodeResult], expected: int, seed: int = 0) -> Json:
    """Everything that is told of a run.

    Raises:
        DataError: no rows.
    """
    if not rows:
        raise DataError("there are no episodes to report; were all of them left out?")
    scored = [row for row in rows if row.status == "scored"]
    categories = sorted({category_of(row) for row in scored})
    return {
        "n": {
            "expected": expected,
            "scored": len(scored),
            "failed": len(rows) - len(scored),
            "missing": expected - len(rows),
        },
        "errors": dict(sorted(Counter(row.error.type for row in rows if row.error).items())),
        **headline(rows, seed),
        "sot_sensitivity": {tau: asdict(value) for tau, value in sot_sensitivity(rows, TAUS, seed).items()},
        "seconds_per_token": SECONDS_PER_TOKEN,
        "reasoning": reasoning(scored, seed) if scored else None,
        "failures": failures(scored) if scored else None,
        "costs": costs(scored, seed) if scored else None,
        "by_category": {name: headline([r for r in scored if category_of(r) == name], seed) for name in categories},
    }


def reasoning(rows: Sequence[EpisodeResult], seed: int = 0) -> Json:
    """The reasoning ratio over all actions and as a mean of episodes, and why the robot looked around.

    ``forced_share`` is the part of the looks, those at the start left out, that the rule of 30 and 35 brought about:
    where it is near 1, nothing adaptive is left to be praised.
    """
    each = [reasoning_of(row) for row in rows]
    whole = reduce(Reasoning.__add__, each)
    return {
        "ratio": whole.ratio,
        "ratio_per_episode": asdict(bootstrap_mean([r.ratio for r in each], seed=seed)),
        "slow": whole.slow,
        "fast": whole.fast,
        "looks": dict(whole.looks),
        "forced_share": whole.forced_share,
        "repaired_replies": whole.repaired,
    }


def failures(rows: Sequence[EpisodeResult]) -> Json | None:
    """How many episodes ended in which way, each with Wilson's interval; None for worlds that were not watched."""
    if any("stagnated" not in row.metrics for row in rows):
        return None
    counts = taxonomy([row.metrics for row in rows])
    return {name: asdict(wilson(counts[name], len(rows))) | {"count": counts[name]} for name in (*ORDER, "never_saw")}


def costs(rows: Sequence[EpisodeResult], seed: int = 0) -> Json:
    """What an episode costs: tokens, steps, seconds by the paper's clock and by ours."""
    values: dict[str, Value] = {
        "steps": lambda row: float(row.steps),
        "collisions": lambda row: float(row.metrics.get("collisions", 0.0)),
        "execution_s": lambda row: float(row.metrics["execution_time"]),
        "clock_s": lambda row: episode_time(row),
        "generated_tokens": lambda row: float(tokens_of(row)),
        "prompt_tokens": lambda row: float(row.ledger.get("prompt_tokens", 0)),
        "visual_tokens": lambda row: float(row.ledger.get("visual_tokens", 0)),
        "forward_passes": lambda row: float(row.ledger.get("forward_passes", 0)),
    }
    means = {name: asdict(bootstrap_mean([f(row) for row in rows], seed=seed)) for name, f in values.items()}
    wall = [float(row.timing["seconds"]) for row in rows if "seconds" in row.timing]
    return {**means, "timing": {"wall_s": percentiles(wall)} if wall else {}}


def compare(a: Sequence[EpisodeResult], b: Sequence[EpisodeResult], seed: int = 0) -> Json:
    """Paired differences ``a - b`` over the episodes both runs have, with 95 % intervals, and McNemar's test.

    Rows that failed count as 0. Episodes of only one run are counted in ``n``.

    Raises:
        DataError: none in common, or an episode that is not the same task in both.
    """
    left, right = ({row.index: row for row in rows} for rows in (a, b))
    common = sorted(left.keys() & right.keys())
    if not common:
        raise DataError(f"the two runs have no episode in common ({len(left)} and {len(right)} episodes)")
    pairs = [(left[i], right[i]) for i in common]
    for x, y in pairs:
        asked = x.instruction != y.instruction and x.instruction and y.instruction
        if x.seed != y.seed or dict(x.options) != dict(y.options) or asked:
            raise DataError(
                f"episode {x.index} is not the same in both runs (seeds {x.seed} and {y.seed}, {x.instruction!r} and "
                f"{y.instruction!r}); run both with the same world, seed and episodes"
            )
    names = (*RATES, *MEANS)
    differences = {name: asdict(_difference(pairs, partial(measure, name=name), seed)) for name in names}
    won = [(x.success, y.success) for x, y in pairs]
    return {
        "n": {"common": len(common), "only_a": len(left) - len(common), "only_b": len(right) - len(common)},
        "difference": differences,
        "mcnemar_p": mcnemar([x for x, _ in won], [y for _, y in won]),
        "only_a_succeeds": sum(x and not y for x, y in won),
        "only_b_succeeds": sum(y and not x for x, y in won),
        "sot_sensitivity": {
            f"{tau:g}": asdict(_difference(pairs, partial(episode_sot, tau=tau), seed)) for tau in TAUS
        },
        "reasoning_ratio": {
            side: reduce(Reasoning.__add__, [reasoning_of(pair[i]) for pair in pairs]).ratio
            for i, side in enumerate(("a", "b"))
        },
    }


def _difference(pairs: Sequence[tuple[EpisodeResult, EpisodeResult]], value: Value, seed: int) -> Interval:
    return paired_difference([value(x) for x, _ in pairs], [value(y) for _, y in pairs], seed=seed)


def row_summary(row: EpisodeResult) -> Mapping[str, Any]:
    """One line of a report: what was looked for, how it ended, what it took."""
    watched = row.status == "scored" and "stagnated" in row.metrics
    return {
        "index": row.index,
        "seed": row.seed,
        "category": category_of(row),
        "status": row.status,
        "end": classify(row.metrics) if watched else row.end,
        "success": row.success,
        "steps": row.steps,
        **({name: measure(row, name) for name in MEANS} if row.status == "scored" else {}),
        "reasoning": reasoning_of(row).ratio,
        "tokens": tokens_of(row),
    }
