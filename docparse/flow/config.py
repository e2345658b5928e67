"""Settings of the flow. Each constant names its source.

STATED: in the abstract of "A Progressive Evidence Localization Framework Based on Wasserstein Gradient Flows for
Document Visual Question Answering" (ICML 2026), the only part that is public. OUR CHOICE: everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from backbone.errors import ConfigError

Geometry = Literal["wasserstein", "kl"]
Reading = Literal["amortised", "unrolled"]
Transport = Literal["divergence", "plan"]


@dataclass(frozen=True)
class FlowConfig:
    """One schedule of K = ``len(levels)`` steps, coarse to fine (STATED), and the constants of its losses.

    Step k = 0..K-1 runs on the grid of ``levels[k]`` cells along the longer side, whose cell size is
    ``h_k = 1 / levels[k]``, with step size ``tau 2^-k``, regularisation ``epsilon_scale h_k^2`` and entropy weight
    ``entropy 4^-k`` (with the default powers and decays).
    """

    levels: tuple[int, ...] = (8, 16, 32, 64)  # OUR CHOICE; STATED: coarse-grained to fine-grained
    words: bool = False  # OUR CHOICE: the last step runs on words instead of cells; h_K stays that of its level
    word_steps: int = 1  # OUR CHOICE: how many of the last steps run on words, if any does
    geometry: Geometry = "wasserstein"  # STATED; "kl": the rival that re-weights mass where it lies (mirror descent)
    tau: float = 0.5  # OUR CHOICE: tau_0
    tau_decay: float = 0.5  # OUR CHOICE: the trust region shrinks
    entropy: float = 0.5  # OUR CHOICE: lambda_0; 0 takes the closed form
    entropy_decay: float = 0.25  # OUR CHOICE: the stationary law exp(-V / lambda) sharpens
    epsilon_scale: float = 1.0  # OUR CHOICE: c in eps_k = c h_0^2 (h_k / h_0)^p
    epsilon_power: float = 2.0  # OUR CHOICE: p; below 2 later steps may still carry mass far
    relaxation: float = 0.0  # OUR CHOICE: 0 balanced, to 1: how freely a place without prospects gives up its mass
    kappa: float = 0.25  # OUR CHOICE: price of a change of page; 1/2 is that of a page's whole longer side
    keep: float = 0.995  # OUR CHOICE: mass the sparse support keeps
    max_particles: int = 1024  # OUR CHOICE: bounds N^2
    iterations: int = 30  # OUR CHOICE: most evaluations of a step with entropy
    tolerance: float = 1e-4  # OUR CHOICE: L1 residual at which a step has converged

    reading: Reading = "amortised"  # OUR CHOICE: of "derive a loss from JKO" (STATED); see `losses`
    transport_weight: float = 0.1  # OUR CHOICE: gamma_W
    transport: Transport = "divergence"  # OUR CHOICE: what it weighs; "plan": the cost of the step's own plan
    descent_weight: float = 0.1  # OUR CHOICE: mu of the unrolled reading
    blur: float = 0.25  # OUR CHOICE: target k = 1..K is blurred by ``blur 2^-k`` of the page, the last is not
    log_floor: float = -60.0  # OUR CHOICE: log mass below it counts as it in the likelihood term
    loss_iterations: int = 50  # OUR CHOICE: Sinkhorn iterations inside a loss

    def __post_init__(self) -> None:
        if not self.levels or any(level < 1 for level in self.levels):
            raise ConfigError(f"flow: levels {self.levels}: at least one, each at least 1 cell")
        for coarse, fine in zip(self.levels, self.levels[1:], strict=False):
            if fine < coarse or fine % coarse:
                raise ConfigError(f"flow: levels {self.levels}: {fine} is no multiple of {coarse}, cells must nest")
        choices = {"geometry": get_args(Geometry), "reading": get_args(Reading), "transport": get_args(Transport)}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(f"flow: {name} {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        for name in ("tau", "tau_decay", "entropy_decay", "epsilon_scale", "tolerance"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"flow: {name} must be finite and above 0, got {getattr(self, name)}")
        for name in ("entropy", "epsilon_power", "kappa", "transport_weight", "descent_weight", "blur"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"flow: {name} must be finite and at least 0, got {getattr(self, name)}")
        for name in ("word_steps", "max_particles", "iterations", "loss_iterations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"flow: {name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.relaxation <= 1 or (self.relaxation > 0 and self.entropy > 0):
            raise ConfigError(
                f"flow: needs 0 <= relaxation <= 1, and entropy 0 unless it is 0; got {self.relaxation}, {self.entropy}"
            )
        if self.transport == "plan" and (self.entropy > 0 or self.geometry == "kl"):
            raise ConfigError("flow: transport plan needs the closed step: entropy 0 and the geometry wasserstein")
        if not 0 < self.keep <= 1 or not self.log_floor < 0:
            raise ConfigError(f"flow: needs 0 < keep <= 1 and log_floor < 0, got {self.keep} and {self.log_floor}")

    @property
    def steps(self) -> int:
        """K."""
        return len(self.levels)

    def on_words(self, k: int) -> bool:
        """Whether step k = 0..K-1 runs on words."""
        return self.words and k >= self.steps - self.word_steps

    def tau_at(self, k: int) -> float:
        """Step size of step k = 0..K-1."""
        return self.tau * self.tau_decay**k

    def epsilon_at(self, k: int) -> float:
        """Entropic regularisation of step k, in units of the cost (squared page lengths)."""
        first, own = self.levels[0], self.levels[k]
        return float(self.epsilon_scale / first**2 * (first / own) ** self.epsilon_power)

    def entropy_at(self, k: int) -> float:
        """Weight of the entropy in the energy of step k."""
        return self.entropy * self.entropy_decay**k

    def blur_at(self, k: int) -> float:
        """Standard deviation, in page units, of the blurred target of step k = 0..K-1; 0 at the last."""
        return 0.0 if k == self.steps - 1 else self.blur * 0.5 ** (k + 1)

    def weight_at(self, k: int) -> float:
        """Weight of step k in the losses, ``(k + 1) / K``."""
        return (k + 1) / self.steps


PRESETS = {
    "flow": FlowConfig(),
    "words": FlowConfig(words=True),
    "kl": FlowConfig(geometry="kl"),
    # K = 1 at the finest level; a page of 64 x 64 cells must fit whole, since nothing coarser has chosen among them
    "one-step": FlowConfig(levels=(64,), max_particles=4096),
    "closed": FlowConfig(entropy=0.0),
}
