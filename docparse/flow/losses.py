"""The loss that the proximal scheme suggests, in its two readings (see `config`: the paper's own is not public)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backbone.errors import DataError
from docparse.flow.config import FlowConfig
from docparse.flow.cost import ground_cost
from docparse.flow.divergence import sinkhorn_divergence
from docparse.flow.flow import FlowResult, FlowStep, pad
from docparse.flow.kernel import full_precision
from docparse.flow.step import closed_plan
from docparse.flow.targets import Target


@dataclass(frozen=True)
class FlowLoss:
    """The sum, and its parts for the log; each () and already weighted and averaged over documents."""

    total: Tensor
    transport: Tensor  # the Wasserstein terms
    fit: Tensor  # the likelihood terms (amortised), or the penalty on rising energy (unrolled)


def flow_loss(results: Sequence[FlowResult], targets: Sequence[Sequence[Target]], config: FlowConfig) -> FlowLoss:
    """The loss of the configured reading, averaged over documents; ``targets[document][step]``."""
    loss = amortised_loss if config.reading == "amortised" else unrolled_loss
    return loss(results, targets, config)


@full_precision
def amortised_loss(results: Sequence[FlowResult], targets: Sequence[Sequence[Target]], config: FlowConfig) -> FlowLoss:
    r"""Reading A: each step's own proximal objective, with the energy "unlikely to be the evidence".

    .. math::
        L = \sum_{k=1}^{K} w_k \left[ \frac{\gamma_W}{2 \tau_k} S(\rho_{k-1}, \rho_k) + KL(\rho^*_k \| \rho_k) \right]

    S is the Sinkhorn divergence for the cost ``|x - y|^2``, so that it stands for W2^2: twice the one for half squared
    distances at ``eps_k``. With ``config.transport = "plan"`` it is the cost of the plan that the step itself used,
    which needs no further iteration. ``rho_{k-1}`` is held constant in either. ``w_k = k / K``.
    """
    transport, fit = _zero(results), _zero(results)
    for k, (steps, wanted) in enumerate(_by_step(results, targets)):
        weight = config.weight_at(k)
        if config.transport_weight > 0:
            moved = 2 * (_plan_cost(steps, config) if config.transport == "plan" else _moved(steps, config))
            transport = transport + weight * config.transport_weight / (2 * config.tau_at(k)) * moved.mean()
        likelihood = torch.stack(
            [kl_to(t.rho, s.log_rho, config.log_floor) for s, t in zip(steps, wanted, strict=True)]
        )
        fit = fit + weight * likelihood.mean()
    return FlowLoss(transport + fit, transport, fit)


@full_precision
def unrolled_loss(results: Sequence[FlowResult], targets: Sequence[Sequence[Target]], config: FlowConfig) -> FlowLoss:
    r"""Reading B: every law of the unrolled solver near its target, and no step that raises its own energy.

    .. math::
        L = \sum_{k=1}^{K} w_k S(\rho_k, \rho^*_k) + \mu \sum_k \max(F_k(\rho_k) - F_k(\rho_{k-1}), 0)

    S as in `amortised_loss`.
    """
    transport, fit = _zero(results), _zero(results)
    for k, (steps, wanted) in enumerate(_by_step(results, targets)):
        laws, goals = [step.rho for step in steps], [t.rho.to(s.log_rho) for s, t in zip(steps, wanted, strict=True)]
        transport = transport + config.weight_at(k) * 2 * _divergence(laws, goals, steps, config).mean()
        rise = torch.stack([step.energy - step.energy_before for step in steps]).relu().mean()
        fit = fit + config.descent_weight * rise
    return FlowLoss(transport + fit, transport, fit)


def kl_to(target: Tensor, log_rho: Tensor, floor: float = -60.0) -> Tensor:
    """``KL(target || rho)`` () of laws (N,); log masses below ``floor`` count as it, and pass no gradient.

    A particle without mass (possible where mass does not move) would make it infinite.
    """
    target = target.to(log_rho)
    some = target > 0
    own = torch.where(some, target, torch.ones_like(target)).log()
    return (target * (own - log_rho.clamp_min(floor)).masked_fill(~some, 0.0)).sum()


def _moved(steps: Sequence[FlowStep], config: FlowConfig) -> Tensor:
    """(B,) Sinkhorn divergence between the laws before and after the step."""
    return _divergence([step.rho_before.detach() for step in steps], [step.rho for step in steps], steps, config)


def _plan_cost(steps: Sequence[FlowStep], config: FlowConfig) -> Tensor:
    """(B,) ``<C, pi>`` of the plan of each closed step, for half squared distances."""
    costs = []
    for step in steps:
        cost = ground_cost(step.support.points, pages=step.support.pages, kappa=config.kappa).to(step.log_rho)
        plan = closed_plan(step.log_before.detach(), step.potential, cost, step.tau, step.epsilon, config.relaxation)
        costs.append((plan * cost).sum())
    return torch.stack(costs)


def _divergence(a: Sequence[Tensor], b: Sequence[Tensor], steps: Sequence[FlowStep], config: FlowConfig) -> Tensor:
    """(B,) Sinkhorn divergence for half squared distances between two laws on each step's support, as one batch."""
    first = a[0]
    points = pad([step.support.points for step in steps], 0.0).to(first)
    pages = pad([step.support.pages for step in steps], 0).to(first.device)
    cost = ground_cost(points, pages=pages, kappa=config.kappa)
    count = config.loss_iterations
    return sinkhorn_divergence(pad(a, 0.0), pad(b, 0.0), cost, steps[0].epsilon, iterations=count, tolerance=1e-4)


def _by_step(
    results: Sequence[FlowResult], targets: Sequence[Sequence[Target]]
) -> list[tuple[list[FlowStep], list[Target]]]:
    """Steps and targets of all documents, grouped by k."""
    counts = {len(r.steps) for r in results} | {len(t) for t in targets}
    if len(results) != len(targets) or len(counts) != 1:
        raise DataError(
            f"loss: {len(results)} flows, {len(targets)} lists of targets, {sorted(counts)} steps; must agree"
        )
    return [
        ([result.steps[k] for result in results], [target[k] for target in targets]) for k in range(max(counts))
    ]  # fmt: skip


def _zero(results: Sequence[FlowResult]) -> Tensor:
    if not results:
        raise DataError("loss: no document")
    return results[0].log_rho.new_zeros(())
