"""When to look around and think: the policy's own ``obs``, or a rule it is compared with, on the same weights.

Every rule but ``never`` keeps the paper's limits between two looks: from ``offer_after`` actions on ``obs`` is called
for, at ``force_after`` it is forced (section 2.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from backbone.errors import ConfigError
from navigation.config import NavigationConfig

Strategy = Literal["learned", "threshold", "never", "always", "fixed", "random"]
# start: an episode's first; policy: the model wrote obs; offered and forced: the limits; strategy: a rule;
# blocked: a step ahead changed nothing; context: no room for another frame; asked: from outside, as stagnation does in
# rollouts for training.
Why = Literal["start", "policy", "offered", "forced", "strategy", "blocked", "context", "asked"]
STREAM = 0x0B5  # keeps these dice apart from those of the decoding


@dataclass(frozen=True)
class SwitchConfig:
    """Which rule decides.

    ``learned``: the model's own ``obs``. ``threshold``: its probability of ``obs`` among the five actions, at least
    ``threshold``. ``never``: stage 1's form, without memory and thought. ``always``: before every action. ``fixed``:
    every ``period`` actions, the look counted as one of them, as in segments. ``random``: with probability ``rate``
    before every action.
    """

    strategy: Strategy = "learned"
    threshold: float = 0.5
    period: int = 16
    rate: float = 0.03

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise ConfigError(f"strategy must be one of {', '.join(get_args(Strategy))}, got {self.strategy!r}")
        if not (0.0 <= self.threshold <= 1.0 and 0.0 <= self.rate <= 1.0):
            raise ConfigError(
                f"threshold and rate must lie from 0 to 1, got {self.threshold} and {self.rate} ({self.strategy})"
            )
        if not isinstance(self.period, int) or self.period < 2:
            raise ConfigError(f"period counts the look itself and one action at least, got {self.period!r}")

    @property
    def thinks(self) -> bool:
        """Whether there are slow turns at all."""
        return self.strategy != "never"

    @property
    def needs_probability(self) -> bool:
        """Whether the rule rests on the probability of ``obs``."""
        return self.strategy == "threshold"


class Switch:
    """The rule within one episode; its dice depend on the episode's seed alone."""

    def __init__(self, config: SwitchConfig, limits: NavigationConfig, seed: int) -> None:
        """Nothing was done yet."""
        self.config, self._limits = config, limits
        self._generator = np.random.default_rng((STREAM, seed))

    @property
    def policy_may(self) -> bool:
        """Whether ``obs`` is among the model's own choices."""
        return self.config.strategy == "learned"

    def before(self, since: int) -> Why | None:
        """Whether to look around whatever the model says, ``since`` actions after the last look."""
        strategy, config = self.config.strategy, self.config
        if strategy == "never":
            return None
        if strategy == "always" and since >= 1:
            return "strategy"
        if strategy == "fixed" and since >= config.period - 1:
            return "strategy"
        if strategy == "random" and since >= 1 and self._generator.random() < config.rate:
            return "strategy"
        return "forced" if since >= self._limits.force_after else None

    def after(self, log_obs: float | None, since: int) -> Why | None:
        """Whether to look around, now that the model's log-probability of ``obs`` is known (None: it is not)."""
        if log_obs is None:
            return None
        probability = math.exp(log_obs)
        if self.config.strategy == "threshold" and probability >= self.config.threshold:
            return "policy"
        own = self.config.strategy in ("learned", "threshold")
        if own and since >= self._limits.offer_after and probability >= self._limits.offer_probability:
            return "offered"
        return None
