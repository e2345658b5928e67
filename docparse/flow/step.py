"""One proximal step of an evidence law: towards low potential, near where it was.

    rho' = argmin_p  (1 / 2 tau) W_2^2(rho, p) + F(p),     F(p) = <V, p> + lambda sum_j p_j log p_j

(Jordan, Kinderlehrer, Otto 1998), entropic (Peyre 2015): ``argmin_p W_eps(rho, p) + tau F(p)`` with the ground cost
``C_ij = 1/2 |x_i - x_j|^2`` and ``W_eps(q, p) = min over plans pi of q and p of <C, pi> + eps sum pi (log pi - 1)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from backbone.errors import ConfigError, DataError
from docparse.flow.cost import batched_cost, log_law, per_item
from docparse.flow.fixed_point import Problem, closed_form, relaxed_form, with_entropy
from docparse.flow.kernel import full_precision


@dataclass(frozen=True)
class StepResult:
    """A new law and how well it solves its problem."""

    log_rho: Tensor  # (B, N) logarithm of the new law; -inf where a particle is not valid. Use it for likelihoods:
    # it keeps its gradient where the mass itself is below the smallest float
    residual: Tensor  # (B,) L1 distance between the law and the image of the fixed-point map; 0 for a closed form
    converged: Tensor  # (B,) bool, residual <= tolerance
    iterations: int  # evaluations of the map for the whole batch

    @property
    def rho(self) -> Tensor:
        """The new law (B, N), total mass 1."""
        return self.log_rho.exp()


@full_precision
def jko_step(
    rho: Tensor,
    potential: Tensor,
    cost: Tensor,
    tau: float | Tensor,
    epsilon: float | Tensor,
    entropy: float | Tensor = 0.0,
    *,
    iterations: int = 30,
    tolerance: float = 1e-4,
    valid: Tensor | None = None,
) -> StepResult:
    r"""Entropic Jordan-Kinderlehrer-Otto step.

    .. math::
        \rho' = \arg\min_p \; W_\epsilon(\rho, p) + \tau \, (\langle V, p \rangle + \lambda \sum_j p_j \log p_j)

    Without entropy (lambda = 0) the target marginal is free and the solution is one attention-like layer,

    .. math::
        \rho' = \rho^\top P, \qquad P_{ij} = \mathrm{softmax}_j \left( -(C_{ij} + \tau V_j) / \epsilon \right)

    With entropy the scaling iteration with the KL-prox runs in the log domain, accelerated (`fixed_point`).
    Mass is kept: rho' sums to 1 to rounding. Differentiable with respect to rho, potential, tau, epsilon, entropy and
    cost (the last costs a (B, N, N) gradient); with entropy by the implicit function theorem.

    Args:
        rho: (B, N) laws, non-negative, each of total mass 1.
        potential: (B, N) V, finite where valid; evidence is where it is low.
        cost: (B, N, N) or (N, N), ground cost C from particle i to particle j; see `cost.ground_cost`.
        tau: step size, a number or (B,); larger steps care more for the potential.
        epsilon: entropic regularisation, in the unit of C. A step blurs by about its root, so it should not exceed the
            squared size of what is to be found.
        entropy: lambda, a number or (B,); 0 for the closed form.
        iterations: most evaluations of the fixed-point map, if there is entropy.
        tolerance: L1 residual at which an item counts as converged; float32 reaches about 1e-5.
        valid: (B, N) bool; particles outside take and give no mass. None: all are valid.

    Returns:
        The new law with its residual, see `StepResult`. A step that did not converge says so; it does not raise.

    Raises:
        DataError: shapes that do not fit, NaN, negative mass, a total mass other than 1, no valid particle.
        ConfigError: tau or epsilon not above 0, entropy below 0, iterations below 1.

    Examples:
        >>> points = torch.tensor([[0.0, 0.0], [0.5, 0.0]])
        >>> step = jko_step(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.0, -1.0]]), ground_cost(points), 1.0, 0.1)

    References:
        R. Jordan, D. Kinderlehrer, F. Otto, The variational formulation of the Fokker-Planck equation, SIAM J. Math.
        Anal. 1998. G. Peyre, Entropic approximation of Wasserstein gradient flows, SIAM J. Imaging Sci. 2015.
        L. Chizat, G. Peyre, B. Schmitzer, F.-X. Vialard, Scaling algorithms for unbalanced transport, Math. Comp. 2018.
    """
    return log_jko_step(
        log_law(rho, valid), potential, cost, tau, epsilon, entropy,
        iterations=iterations, tolerance=tolerance, valid=valid,
    )  # fmt: skip


@full_precision
def log_jko_step(
    log_rho: Tensor,
    potential: Tensor,
    cost: Tensor,
    tau: float | Tensor,
    epsilon: float | Tensor,
    entropy: float | Tensor = 0.0,
    *,
    relaxation: float = 0.0,
    iterations: int = 30,
    tolerance: float = 1e-4,
    valid: Tensor | None = None,
) -> StepResult:
    r"""`jko_step` from the logarithm of the law, so that steps in a row lose neither small masses nor their gradients.

    ``log_rho`` (B, N) is normalised; -inf where a particle is empty. Everything else as in `jko_step`.

    ``relaxation`` s in [0, 1] relaxes the first marginal (unbalanced transport, Hellinger-Kantorovich): for
    ``alpha = eps (1 - s) / s`` the step is

    .. math::
        \min_\pi \langle C, \pi \rangle + \epsilon KL(\pi \| \rho \otimes 1) + \alpha KL(\pi 1 \| \rho)
        + \tau \langle V, \pi^T 1 \rangle, \qquad \pi \text{ of total mass } 1,

    0 is the balanced step, in which mass must go somewhere near; at 1 a hopeless place gives its mass up freely, and
    for eps to 0 the step becomes `mirror_step`. Only without entropy.
    """
    if not 0 <= relaxation <= 1:
        raise ConfigError(f"step: needs 0 <= relaxation <= 1, got {relaxation}")
    if iterations < 1 or not tolerance > 0:
        raise ConfigError(f"step: needs iterations >= 1 and tolerance > 0, got {iterations} and {tolerance}")
    log_rho, potential, valid = _checked(log_rho, potential, valid)
    eps = per_item(epsilon, log_rho, "epsilon")
    problem = Problem(
        log_rho, potential, batched_cost(cost, log_rho, log_rho), per_item(tau, log_rho, "tau"), 1 / eps,
        per_item(entropy, log_rho, "entropy", positive=False), valid,
    )  # fmt: skip
    if bool((problem.entropy.detach() == 0).all()) and not problem.entropy.requires_grad:
        new = relaxed_form(problem, relaxation) if relaxation > 0 else closed_form(problem)
        log_new, residual, used = new, log_rho.detach().new_zeros(log_rho.shape[0]), 1
    elif relaxation > 0:
        raise ConfigError(f"step: a relaxation of {relaxation} needs entropy 0; with entropy the step is balanced")
    else:
        log_new, residual, used = with_entropy(problem, iterations, tolerance)
    return StepResult(_normalised(log_new, valid), residual, residual <= tolerance, used)


@full_precision
def closed_plan(
    log_rho: Tensor, potential: Tensor, cost: Tensor, tau: float, epsilon: float, relaxation: float = 0.0
) -> Tensor:
    """The plan (N, N) of one `log_jko_step` without entropy, total mass 1; its columns sum to the new law.

    Args as there, for one law (N,) without invalid particles. The whole matrix is made: for losses and tests.
    """
    scores = -(cost + tau * potential) / epsilon
    reach = torch.logsumexp(scores, -1)
    rows = log_rho - (1 - relaxation) * reach
    rows = rows - torch.logsumexp(rows + reach, -1)
    return (rows[:, None] + scores).exp()


@full_precision
def mirror_step(
    rho: Tensor,
    potential: Tensor,
    tau: float | Tensor,
    entropy: float | Tensor = 0.0,
    *,
    valid: Tensor | None = None,
) -> StepResult:
    r"""The rival without geometry: a step that is proximal in the Kullback-Leibler divergence (mirror descent).

    .. math::
        \rho' = \arg\min_p \; KL(p \| \rho) + \tau \, (\langle V, p \rangle + \lambda \sum_j p_j \log p_j)
              \propto (\rho \, e^{-\tau V})^{1 / (1 + \tau \lambda)}

    Mass does not move, it is re-weighted where it lies: an empty particle stays empty. Arguments, result and errors as
    in `jko_step`.
    """
    return log_mirror_step(log_law(rho, valid), potential, tau, entropy, valid=valid)


@full_precision
def log_mirror_step(
    log_rho: Tensor,
    potential: Tensor,
    tau: float | Tensor,
    entropy: float | Tensor = 0.0,
    *,
    valid: Tensor | None = None,
) -> StepResult:
    """`mirror_step` from the logarithm of the law."""
    log_rho, potential, valid = _checked(log_rho, potential, valid)
    size, weight = (
        per_item(tau, log_rho, "tau")[:, None],
        per_item(entropy, log_rho, "entropy", positive=False)[:, None],
    )
    log_new = (log_rho - size * potential) / (1 + size * weight)
    zero = log_rho.detach().new_zeros(log_rho.shape[0])
    return StepResult(_normalised(log_new, valid), zero, zero == 0, 1)


@full_precision
def energy(log_rho: Tensor, potential: Tensor, entropy: float | Tensor = 0.0) -> Tensor:
    """``F(rho) = <V, rho> + lambda sum rho log rho`` (B,); an empty particle adds nothing, whatever its potential."""
    empty = log_rho == -math.inf
    log = log_rho.masked_fill(empty, 0.0)
    weight = per_item(entropy, log_rho, "entropy", positive=False)[:, None]
    density = potential.to(log.dtype).masked_fill(empty, 0.0) + weight * log
    return (log.exp() * density).masked_fill(empty, 0.0).sum(-1)


def _checked(log_rho: Tensor, potential: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The law and the potential in one dtype, and a mask; particles outside the mask carry neither."""
    if log_rho.dim() != 2 or potential.shape != log_rho.shape:
        shapes = f"law {tuple(log_rho.shape)}, potential {tuple(potential.shape)}"
        raise DataError(f"step: {shapes}; both must be (B, N)")
    if valid is None:
        valid = torch.ones_like(log_rho, dtype=torch.bool)
    elif valid.shape != log_rho.shape or valid.dtype != torch.bool:
        raise DataError(f"step: valid is {tuple(valid.shape)} {valid.dtype}, expected {tuple(log_rho.shape)} of bool")
    log_rho = log_rho.masked_fill(~valid, -math.inf)
    potential = potential.to(log_rho.dtype).masked_fill(~valid, 0.0)
    if not bool(torch.isfinite(potential).all()):
        raise DataError(f"step: {int((~torch.isfinite(potential)).sum())} potentials are NaN or infinite")
    total = torch.logsumexp(log_rho.detach(), -1)
    if not bool((total.abs() < 1e-3).all()):
        raise DataError(f"step: total masses {total.exp().tolist()[:4]}, expected 1 each; normalise the law")
    return log_rho, potential, valid


def _normalised(log_rho: Tensor, valid: Tensor) -> Tensor:
    """Total mass exactly 1 (rounding at large potentials costs some 1e-5 in float32)."""
    log_rho = log_rho.masked_fill(~valid, -math.inf)
    return log_rho - torch.logsumexp(log_rho, -1, keepdim=True)
