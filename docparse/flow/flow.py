"""K proximal steps in a row, coarse to fine: the whole way of an evidence law, with a report of every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backbone.errors import DataError
from docparse.flow.config import FlowConfig
from docparse.flow.cost import ground_cost, log_law
from docparse.flow.grids import Refined, Support, assign_words, refine, sparsify, subdivide
from docparse.flow.kernel import full_precision
from docparse.flow.step import StepResult, energy, log_jko_step, log_mirror_step

# (step k, supports, laws before the step (N,) each) -> potentials (N,) each
PotentialFn = Callable[[int, Sequence[Support], Sequence[Tensor]], Sequence[Tensor]]
# (step k, document, children) -> weights (M,) >= 0 of the children: ink, words, anything that says where content is
WeightFn = Callable[[int, int, Support], Tensor]


@dataclass(frozen=True)
class FlowStep:
    """One step of one document."""

    support: Support  # N particles
    log_before: Tensor  # (N,) the law the step started from, on this support
    log_rho: Tensor  # (N,) the law after it
    potential: Tensor  # (N,) V_k
    residual: float  # L1, see `step.StepResult`
    converged: bool
    iterations: int  # of the batch
    dropped: float  # mass left out when this support was chosen
    energy_before: Tensor  # () F_k of the law before
    energy: Tensor  # () F_k of the law after
    tau: float
    epsilon: float
    entropy: float

    @property
    def rho(self) -> Tensor:
        """The law after the step (N,)."""
        return self.log_rho.exp()

    @property
    def rho_before(self) -> Tensor:
        """The law before the step (N,)."""
        return self.log_before.exp()


@dataclass(frozen=True)
class FlowResult:
    """The way of one document's law."""

    steps: tuple[FlowStep, ...]

    @property
    def support(self) -> Support:
        """Where the last law lies."""
        return self.steps[-1].support

    @property
    def log_rho(self) -> Tensor:
        """Logarithm of the last law (N,)."""
        return self.steps[-1].log_rho

    @property
    def rho(self) -> Tensor:
        """The last law (N,), total mass 1."""
        return self.steps[-1].rho

    @property
    def converged(self) -> bool:
        """Every step reached its tolerance."""
        return all(step.converged for step in self.steps)


def run_flow(
    initial: Support,
    potential_fn: PotentialFn,
    config: FlowConfig,
    *,
    rho: Tensor | None = None,
    words: Support | None = None,
    weight_fn: WeightFn | None = None,
) -> FlowResult:
    """The flow of one document; see `run_flows`."""
    laws = None if rho is None else [rho]
    document_words = None if words is None else [words]
    return run_flows([initial], potential_fn, config, rhos=laws, words=document_words, weight_fn=weight_fn)[0]


@full_precision
def run_flows(
    initial: Sequence[Support],
    potential_fn: PotentialFn,
    config: FlowConfig,
    *,
    rhos: Sequence[Tensor] | None = None,
    words: Sequence[Support] | None = None,
    weight_fn: WeightFn | None = None,
) -> list[FlowResult]:
    """Flow the laws of a batch of documents; step k of all documents is solved as one padded batch.

    Before each step the law is carried to the grid (or, at the last step of a config with ``words``, to the words) and
    cut down to the sparse support; then ``potential_fn`` is asked, once for the batch, and the step taken. Gradients
    run through all steps: laws, splitting, and, as far as the caller lets them, potentials.

    Args:
        initial: each document's cells at ``config.levels[0]`` (or any subset), `grids.page_grid`.
        potential_fn: gives V_k (N,) for each document; low where the evidence is.
        config: the schedule and the geometry.
        rhos: (N,) initial laws; None: proportional to area.
        words: all words of each document, `grids.word_support`; needed if ``config.words``.
        weight_fn: how a parent's mass is divided among its children; None: equally.

    Returns:
        One result a document, in order.

    Raises:
        DataError: supports that are not on the first level's grid, words missing, or what a step refuses.
    """
    laws = _start(initial, rhos, config)
    done: list[list[FlowStep]] = [[] for _ in initial]
    for k in range(config.steps):
        if k > 0 or config.on_words(0):
            for i, law in enumerate(laws):
                laws[i] = _carry(law, k, i, config, words, weight_fn)
        for steps, step in zip(done, _step(laws, potential_fn, k, config), strict=True):
            steps.append(step)
        laws = [
            Refined(s[-1].support, s[-1].log_rho, law.parent, law.dropped) for s, law in zip(done, laws, strict=True)
        ]
    return [FlowResult(tuple(steps)) for steps in done]


def _start(initial: Sequence[Support], rhos: Sequence[Tensor] | None, config: FlowConfig) -> list[Refined]:
    if not initial or (rhos is not None and len(rhos) != len(initial)):
        raise DataError(f"flow: {len(initial)} documents, {len(rhos or [])} laws; needs at least one, and equally many")
    starts = []
    for i, support in enumerate(initial):
        if support.grid.cells != config.levels[0] or not len(support):
            raise DataError(f"flow: document {i} has {len(support)} particles on a grid of {support.grid.cells} cells, "
                            f"the first step needs some on levels[0] = {config.levels[0]}")  # fmt: skip
        rho = support.uniform() if rhos is None else rhos[i]
        if rho.shape != (len(support),):
            raise DataError(f"flow: document {i} has {len(support)} particles and a law {tuple(rho.shape)}")
        starts.append(sparsify(support, log_law(rho[None])[0], config.keep, config.max_particles))
    return starts


def _carry(
    law: Refined, k: int, i: int, config: FlowConfig, words: Sequence[Support] | None, weight_fn: WeightFn | None
) -> Refined:
    """The law of document i on the support of step k."""
    if config.on_words(k):
        if words is None or len(words) <= i:
            raise DataError("flow: the last step runs on words; give the words of every document")
        children = assign_words(law.support, words[i])
    else:
        children = subdivide(law.support, config.levels[k])
    weights = None if weight_fn is None else weight_fn(k, i, children[0])
    return refine(law.support, law.log_rho, children, weights, keep=config.keep, limit=config.max_particles)


def _step(laws: Sequence[Refined], potential_fn: PotentialFn, k: int, config: FlowConfig) -> list[FlowStep]:
    """Step k of all documents as one padded batch."""
    supports = [law.support for law in laws]
    potentials = list(potential_fn(k, supports, [law.log_rho.exp() for law in laws]))
    if [tuple(v.shape) for v in potentials] != [(len(s),) for s in supports]:
        got, expected = [tuple(v.shape) for v in potentials], [len(s) for s in supports]
        raise DataError(f"flow: step {k}: potentials of the shapes {got[:4]}, expected the lengths {expected[:4]}")
    log_rho = pad([law.log_rho for law in laws], -math.inf)
    potential = pad(potentials, 0.0)
    tau, eps, weight = config.tau_at(k), config.epsilon_at(k), config.entropy_at(k)
    if config.geometry == "kl":
        valid = _valid(supports, log_rho.device)
        result = log_mirror_step(log_rho, potential, tau, weight, valid=valid)
    else:
        result = _transport(supports, log_rho, potential, k, config)
    before, after = energy(log_rho, potential, weight), energy(result.log_rho, potential, weight)
    steps = []
    for i, law in enumerate(laws):
        new = result.log_rho[i, : len(law.support)]
        report = float(result.residual[i]), bool(result.converged[i]), result.iterations, float(law.dropped)
        energies = before[i], after[i]
        steps.append(FlowStep(law.support, law.log_rho, new, potentials[i], *report, *energies, tau, eps, weight))
    return steps


def _transport(
    supports: Sequence[Support], log_rho: Tensor, potential: Tensor, k: int, config: FlowConfig
) -> StepResult:
    points = pad([s.points for s in supports], 0.0).to(log_rho)
    pages = pad([s.pages for s in supports], 0).to(log_rho.device)
    cost = ground_cost(points, pages=pages, kappa=config.kappa)
    return log_jko_step(
        log_rho, potential, cost, config.tau_at(k), config.epsilon_at(k), config.entropy_at(k),
        relaxation=config.relaxation, iterations=config.iterations, tolerance=config.tolerance,
        valid=_valid(supports, log_rho.device),
    )  # fmt: skip


def _valid(supports: Sequence[Support], device: torch.device) -> Tensor:
    """(B, N) bool: which particles of a padded batch are there."""
    lengths = torch.tensor([len(s) for s in supports], device=device)
    return torch.arange(int(lengths.max()), device=device) < lengths[:, None]


def pad(rows: Sequence[Tensor], value: float) -> Tensor:
    """Tensors (N_b, ...) as one (B, max N_b, ...), filled up with ``value``."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)
