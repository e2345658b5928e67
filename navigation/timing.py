"""Time and reasoning of episodes as pure functions of their rows: SOT over the price of a token, ratios, shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backbone.errors import DataError
from backbone.rollout.results import EpisodeResult
from backbone.statistics import Interval, bootstrap_mean
from navigation.metrics import SECONDS_PER_TOKEN, TAUS, sot

LOOK = "obs: "  # how the status of a look around begins; its reason follows
REPAIRED = ", repaired"


def episode_time(row: EpisodeResult, tau: float = SECONDS_PER_TOKEN) -> float:
    """Seconds of an episode: every executed action, and ``tau`` for every generated token (section 7)."""
    return _measure(row, "execution_time") + tau * tokens_of(row)


def tokens_of(row: EpisodeResult) -> int:
    """Generated tokens of an episode, thoughts and actions."""
    return int(row.ledger.get("generated_tokens", 0))


def episode_sot(row: EpisodeResult, tau: float = SECONDS_PER_TOKEN) -> float:
    """``S T_optimal / T_actual`` of an episode; 0 for one that failed to run."""
    if row.status != "scored":
        return 0.0
    return sot(row.success, _measure(row, "optimal_time"), episode_time(row, tau))


def sot_sensitivity(rows: Sequence[EpisodeResult], taus: Sequence[float] = TAUS, seed: int = 0) -> dict[str, Interval]:
    """Mean SOT with its interval for every price of a token; failed rows count as 0."""
    return {f"{tau:g}": bootstrap_mean([episode_sot(row, tau) for row in rows], seed=seed) for tau in taus}


@dataclass(frozen=True)
class Reasoning:
    """How often an episode, or several, looked around and thought, and why.

    ``acts`` are fast and slow actions together, ``looks`` looks around by their reason, ``repaired`` decisions whose
    reply could not be read at once.
    """

    fast: int
    slow: int
    looks: Mapping[str, int]
    repaired: int

    @property
    def acts(self) -> int:
        """Fast and slow actions."""
        return self.fast + self.slow

    @property
    def ratio(self) -> float:
        """Share of actions that were thought about, 0 to 1; 0 where nothing was done."""
        return self.slow / self.acts if self.acts else 0.0

    @property
    def forced_share(self) -> float:
        """Share of looks, the one at the start left out, that a limit forced or called for; 0 where there is none."""
        counted = sum(n for why, n in self.looks.items() if why != "start")
        return (self.looks.get("forced", 0) + self.looks.get("offered", 0)) / counted if counted else 0.0

    def __add__(self, other: Reasoning) -> Reasoning:
        looks = {why: self.looks.get(why, 0) + other.looks.get(why, 0) for why in sorted({*self.looks, *other.looks})}
        return Reasoning(self.fast + other.fast, self.slow + other.slow, looks, self.repaired + other.repaired)


def reasoning_of(row: EpisodeResult) -> Reasoning:
    """From the counts of statuses in an episode's row; agents that do not think have no status of that kind."""
    fast = slow = repaired = 0
    looks: dict[str, int] = {}
    for status, count in row.statuses.items():
        plain = status.removesuffix(REPAIRED)
        repaired += count if plain != status else 0
        if plain.startswith(LOOK):
            why = plain.removeprefix(LOOK)
            looks[why] = looks.get(why, 0) + count
        elif plain == "slow":
            slow += count
        elif plain != "looking":
            fast += count
    return Reasoning(fast, slow, looks, repaired)


def _measure(row: EpisodeResult, name: str) -> float:
    if name not in row.metrics:
        raise DataError(f"episode {row.index} has no {name}; SOT needs a world of navigation, such as rooms or habitat")
    return float(row.metrics[name])
