"""Distances between two evidence laws: entropic transport, the Sinkhorn divergence, and W2 between proven bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from backbone.errors import ConfigError, DataError
from docparse.flow.cost import batched_cost, log_law, per_item
from docparse.flow.kernel import full_precision, log_sum_exp

Reference = Literal["product", "counting"]


@full_precision
def entropic_cost(
    a: Tensor,
    b: Tensor,
    cost: Tensor,
    epsilon: float | Tensor,
    *,
    reference: Reference = "product",
    iterations: int = 200,
    tolerance: float = 1e-6,
    valid_a: Tensor | None = None,
    valid_b: Tensor | None = None,
) -> Tensor:
    r"""Entropic transport between two laws.

    .. math::
        W_\epsilon(a, b) = \min_{\pi 1 = a,\; \pi^\top 1 = b} \langle C, \pi \rangle + \epsilon \, KL(\pi \| r)

    with ``r = a b^T`` ("product", as in geomloss) or ``KL(pi | 1) = sum pi (log pi - 1)`` ("counting", the one in the
    Jordan-Kinderlehrer-Otto step). Solved by Sinkhorn's iterations on the log-domain potentials with annealed epsilon.
    Gradients are the envelope theorem's: exact at convergence, no iteration is kept. Not differentiable in epsilon.

    Args:
        a: (B, N) laws of total mass 1.
        b: (B, M) laws of total mass 1.
        cost: (B, N, M) or (N, M).
        epsilon: regularisation in the unit of the cost, a number or (B,).
        reference: what the plan's entropy is relative to.
        iterations: most Sinkhorn iterations at the final epsilon.
        tolerance: largest L1 violation of a marginal at which they stop.
        valid_a: (B, N) bool, see `cost.log_law`.
        valid_b: (B, M) bool.

    Returns:
        (B,) values.

    Raises:
        DataError, ConfigError: as `step.jko_step`.

    References:
        M. Cuturi, Sinkhorn distances, NeurIPS 2013. J. Feydy et al., Interpolating between optimal transport and MMD
        using Sinkhorn divergences, AISTATS 2019.
    """
    log_a, log_b, cost = _laws(a, b, cost, valid_a, valid_b)
    eps = per_item(epsilon, log_a, "epsilon").detach()
    f, g = potentials(log_a, log_b, cost, eps, iterations, tolerance)
    value = _dual(log_a, f) + _dual(log_b, g) + _through_cost(log_a, log_b, f, g, cost, eps)
    if reference == "product":
        return value
    entropies = sum((log.exp() * log.masked_fill(log == -math.inf, 0.0)).sum(-1) for log in (log_a, log_b))
    return value + eps * (entropies - 1)


@full_precision
def sinkhorn_divergence(
    a: Tensor,
    b: Tensor,
    cost: Tensor,
    epsilon: float | Tensor,
    *,
    cost_aa: Tensor | None = None,
    cost_bb: Tensor | None = None,
    iterations: int = 200,
    tolerance: float = 1e-6,
    valid_a: Tensor | None = None,
    valid_b: Tensor | None = None,
) -> Tensor:
    r"""Entropic transport without its bias: 0 if the laws agree, else above, as exactly as the iterations converge.

    .. math::
        S_\epsilon(a, b) = W_\epsilon(a, b) - \tfrac12 W_\epsilon(a, a) - \tfrac12 W_\epsilon(b, b)

    With ``C = 1/2 |x - y|^2`` it tends to ``1/2 W_2^2`` as epsilon falls. Arguments, gradients and errors as in
    `entropic_cost`.

    Args:
        a: (B, N).
        b: (B, M).
        cost: (B, N, M) or (N, M), between the supports.
        epsilon: a number or (B,).
        cost_aa: (B, N, N) or (N, N) within the first support; None: both laws have one support, so it is ``cost``.
        cost_bb: (B, M, M) or (M, M) within the second; None likewise.
        iterations: most Sinkhorn iterations at the final epsilon.
        tolerance: largest L1 violation of a marginal at which they stop.
        valid_a: (B, N) bool.
        valid_b: (B, M) bool.

    Returns:
        (B,) values.

    References:
        J. Feydy et al., AISTATS 2019, equation 3.
    """
    if (cost_aa is None or cost_bb is None) and cost.shape[-1] != cost.shape[-2]:
        raise DataError(f"sinkhorn_divergence: two supports {tuple(cost.shape)}; give cost_aa and cost_bb too")
    log_a, log_b, cost = _laws(a, b, cost, valid_a, valid_b)
    cost_a = cost if cost_aa is None else batched_cost(cost_aa, log_a, log_a, "cost_aa")
    cost_b = cost if cost_bb is None else batched_cost(cost_bb, log_b, log_b, "cost_bb")
    eps = per_item(epsilon, log_a, "epsilon").detach()
    f, g = potentials(log_a, log_b, cost, eps, iterations, tolerance)
    f_self = self_potential(log_a, cost_a, eps, iterations, tolerance)
    g_self = self_potential(log_b, cost_b, eps, iterations, tolerance)
    value = _dual(log_a, f - f_self) + _dual(log_b, g - g_self)
    value = value + _through_cost(log_a, log_b, f, g, cost, eps)
    value = value - 0.5 * _through_cost(log_a, log_a, f_self, f_self, cost_a, eps)
    return value - 0.5 * _through_cost(log_b, log_b, g_self, g_self, cost_b, eps)


@torch.no_grad()
def potentials(
    log_a: Tensor,
    log_b: Tensor,
    cost: Tensor,
    epsilon: Tensor,
    iterations: int,
    tolerance: float,
    *,
    stage: int = 3,
    relaxation: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Dual potentials f (B, N), g (B, M) of W_eps for the product reference, by annealed Sinkhorn iterations.

    ``f_i = -eps log sum_j b_j exp((g_j - C_ij) / eps)`` and likewise g. The annealing halves epsilon from the largest
    cost down, ``stage`` iterations each, so that few are needed at the end. A ``relaxation`` between 1 and 2 goes
    beyond each update (Thibault et al. 2021), which pays where epsilon is far below the costs.
    """
    f, g = torch.zeros_like(log_a), torch.zeros_like(log_b)
    ladder = _annealed(cost, epsilon)
    mass = log_a.exp()
    done = torch.zeros_like(epsilon, dtype=torch.bool)
    for number in range(len(ladder) * stage + iterations):
        final = number >= len(ladder) * stage
        eps = epsilon if final else ladder[number // stage]
        new = _soft_transform(g, log_b, cost, eps, "columns")
        if final:  # the row sums of the plan are a exp((f - new) / eps)
            violation = (mass * (((f - new) / eps[:, None]).clamp(max=60.0).exp() - 1).abs()).sum(-1)
            done = done | (violation <= tolerance)
            if bool(done.all()):
                break
        f = torch.where(done[:, None], f, torch.lerp(f, new, relaxation))
        g = torch.where(done[:, None], g, torch.lerp(g, _soft_transform(f, log_a, cost, eps, "rows"), relaxation))
    return f, _soft_transform(f, log_a, cost, epsilon, "rows") if relaxation != 1 else g


@torch.no_grad()
def self_potential(log_a: Tensor, cost: Tensor, epsilon: Tensor, iterations: int, tolerance: float) -> Tensor:
    """The one potential (B, N) of W_eps(a, a), by averaged iterations, which converge in a few."""
    f = torch.zeros_like(log_a)
    for eps in _annealed(cost, epsilon):
        f = 0.5 * (f + _soft_transform(f, log_a, cost, eps, "columns"))
    mass = log_a.exp()
    done = torch.zeros_like(epsilon, dtype=torch.bool)
    for _ in range(iterations):
        new = _soft_transform(f, log_a, cost, epsilon, "columns")
        violation = (mass * (((f - new) / epsilon[:, None]).clamp(max=60.0).exp() - 1).abs()).sum(-1)
        f = torch.where(done[:, None], f, 0.5 * (f + new))
        done = done | (violation <= tolerance)
        if bool(done.all()):
            break
    return f


@dataclass(frozen=True)
class Wasserstein2:
    """W2 between two laws in page units, with bounds that are proven for these laws (float rounding aside)."""

    distance: float
    low: float
    high: float


@full_precision
@torch.no_grad()
def wasserstein2(a: Tensor, b: Tensor, cost: Tensor, *, epsilon: float = 5e-5, iterations: int = 400) -> Wasserstein2:
    r"""Near-exact :math:`W_2(a, b) = (\min_\pi \sum_{ij} \pi_{ij} |x_i - y_j|^2)^{1/2}` of one pair, for evaluation.

    The Sinkhorn plan at a small epsilon is rounded to the exact marginals (upper bound of the minimum), its potentials
    are made feasible by c-transforms (lower bound); the estimate is the middle.

    Args:
        a: (N,) law of total mass 1.
        b: (M,) law of total mass 1.
        cost: (N, M), **half** squared distances, as `cost.ground_cost` gives them.
        epsilon: final regularisation, in the unit of the cost.
        iterations: most iterations at the final epsilon; too few widen the bounds, they never break them.

    Returns:
        Distance and bounds, in page units.

    Raises:
        DataError: as `step.jko_step`.

    References:
        J. Altschuler, J. Weed, P. Rigollet, NeurIPS 2017, algorithm 2 (the rounding).
    """
    log_a, log_b, cost = _laws(a[None].double(), b[None].double(), cost.double(), None, None)
    rows, columns = log_a[0] > -math.inf, log_b[0] > -math.inf  # empty particles cost time and change nothing
    log_a, log_b, cost = log_a[:, rows], log_b[:, columns], cost[:, rows][:, :, columns]
    eps = torch.full((1,), epsilon, dtype=torch.float64, device=a.device)
    f, g = potentials(log_a, log_b, cost, eps, iterations, 1e-7, stage=20, relaxation=1.7)
    mass_a, mass_b, c = log_a[0].exp(), log_b[0].exp(), cost[0]
    plan = ((f[0, :, None] + g[0] - c) / epsilon + log_a[0, :, None] + log_b[0]).exp()
    high = max(float((_rounded(plan, mass_a, mass_b) * c).sum()), 0.0)
    g_feasible = (c - f[0, :, None]).amin(0)
    f_feasible = (c - g_feasible).amin(1)
    low = min(max(float(mass_a @ f_feasible + mass_b @ g_feasible), 0.0), high)
    return Wasserstein2(*(math.sqrt(2 * half_square) for half_square in ((low + high) / 2, low, high)))


def _laws(
    a: Tensor, b: Tensor, cost: Tensor, valid_a: Tensor | None, valid_b: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    log_a, log_b = log_law(a, valid_a, "a"), log_law(b, valid_b, "b")
    if len(log_a) != len(log_b):
        raise DataError(f"laws of {len(log_a)} and {len(log_b)} items; both batches must be equally long")
    log_b = log_b.to(log_a.dtype)
    return log_a, log_b, batched_cost(cost, log_a, log_b)


def _annealed(cost: Tensor, epsilon: Tensor) -> list[Tensor]:
    """(B,) epsilons that halve from each item's largest cost down to its own."""
    if not bool((epsilon > 0).all()):
        raise ConfigError(f"epsilon must be above 0, got {epsilon.tolist()[:4]}")
    largest = cost.flatten(1).amax(-1).expand_as(epsilon)
    ladder, scale = [], largest
    while bool((scale > epsilon).any()):
        ladder.append(torch.maximum(scale, epsilon))
        scale = scale / 2
    return ladder


def _soft_transform(
    potential: Tensor, log_weight: Tensor, cost: Tensor, epsilon: Tensor, over: Literal["columns", "rows"]
) -> Tensor:
    return -epsilon[:, None] * log_sum_exp(log_weight + potential / epsilon[:, None], cost, 1 / epsilon, over)


def _dual(log_weight: Tensor, potential: Tensor) -> Tensor:
    """``<a, f>`` with f held constant: its gradient with respect to a is f, the envelope theorem's."""
    return (log_weight.exp() * potential.detach()).sum(-1)


def _through_cost(log_a: Tensor, log_b: Tensor, f: Tensor, g: Tensor, cost: Tensor, epsilon: Tensor) -> Tensor:
    """0, with the plan as gradient with respect to the cost, where that is asked for."""
    if not cost.requires_grad:
        return torch.zeros_like(epsilon)
    with torch.no_grad():
        inside = (f[:, :, None] + g[:, None] - cost) / epsilon[:, None, None]
        plan = (inside + log_a[:, :, None] + log_b[:, None]).exp()
    return (plan * (cost - cost.detach())).sum((-2, -1))


def _rounded(plan: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The nearest plan with exactly the marginals a and b (Altschuler et al. 2017)."""
    plan = plan * (a / plan.sum(1).clamp_min(1e-300)).clamp(max=1)[:, None]
    plan = plan * (b / plan.sum(0).clamp_min(1e-300)).clamp(max=1)
    rest_a, rest_b = a - plan.sum(1), b - plan.sum(0)
    total = float(rest_a.sum())
    return plan if total <= 0 else plan + rest_a[:, None] * rest_b / total
