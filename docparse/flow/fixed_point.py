"""The proximal step with an entropy term: its fixed point, found with Anderson's acceleration, and its exact gradient.

With the first variation ``phi_j = tau V_j + tau lambda log p_j`` of ``tau F``, the new law p solves

    p = T(p),   T_j(p) = sum_i q_i softmax_j(-(C_ij + phi_j(p)) / eps).

The scaling iteration with the KL-prox (Peyre 2015; Chizat et al. 2018) is ``log p += (log T(p) - log p) / (1 + s)``
with ``s = tau lambda / eps``. In log p, T has the Jacobian ``-s (I - R)`` with R stochastic and reversible, so that
iteration contracts by s / (1 + s) in the maximum norm wherever it starts. Anderson's acceleration takes some five times
fewer evaluations of T; a step that makes the residual grow is taken back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from docparse.flow.kernel import BLOCK_ELEMENTS_ELSEWHERE, LOWEST_EXPONENT, exponents, log_sum_exp

MEMORY = 6  # past steps Anderson's acceleration combines
GROWTH = 2.0  # a residual this many times the best one: go back and take the plain step
ADJOINT_TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
MAX_ADJOINT_ITERATIONS = 400


@dataclass(frozen=True)
class Problem:
    """One batch of proximal steps; tensors (B, N), settings (B,)."""

    log_rho: Tensor
    potential: Tensor
    cost: Tensor  # (B or 1, N, N)
    tau: Tensor
    inverse_epsilon: Tensor
    entropy: Tensor
    valid: Tensor

    @property
    def strength(self) -> Tensor:
        """``s = tau lambda / eps`` (B,): how strongly the entropy answers to the new law."""
        return self.tau * self.entropy * self.inverse_epsilon

    def scores(self, log_new: Tensor) -> Tensor:
        """``-phi / eps`` (B, N); -inf for particles that are not valid."""
        scores = -(self.tau * self.inverse_epsilon)[:, None] * self.potential - self.strength[:, None] * log_new
        return scores.masked_fill(~self.valid, -math.inf)

    def parts(self, log_new: Tensor) -> tuple[Tensor, Tensor]:
        """``a`` (B, N) and ``b`` (B, N) of the plan ``log pi_ij = a_i + b_j - C_ij / eps``, whose rows sum to rho."""
        b = self.scores(log_new)
        return self.log_rho - log_sum_exp(b, self.cost, self.inverse_epsilon, "columns"), b

    def image(self, log_new: Tensor) -> Tensor:
        """``log T(p)`` (B, N) from ``log p``; 0 for particles that are not valid."""
        a, b = self.parts(log_new)
        image = b.masked_fill(~self.valid, 0.0) + log_sum_exp(a, self.cost, self.inverse_epsilon, "rows")
        return image.masked_fill(~self.valid, 0.0)

    def detached(self) -> Problem:
        """The same numbers without gradients."""
        return Problem(**{name: value.detach() for name, value in vars(self).items()})


def closed_form(problem: Problem) -> Tensor:
    """``log rho^T P`` with ``P_ij = softmax_j(-(C_ij + tau V_j) / eps)``: the step without entropy, exact."""
    return problem.image(torch.zeros_like(problem.log_rho))


def relaxed_form(problem: Problem, relaxation: float) -> Tensor:
    """The step whose first marginal may depart from rho at a price: unbalanced transport, exact, without entropy.

    The plan ``pi_ij = r_i P_ij`` of `closed_form`, where rho is exchanged for ``r_i ~ rho_i Z_i^s`` of total mass 1 and
    ``Z_i = sum_j exp(-(C_ij + tau V_j) / eps)`` says how good a place can be reached from i. Not normalised.
    """
    b = problem.scores(torch.zeros_like(problem.log_rho))
    reach = log_sum_exp(b, problem.cost, problem.inverse_epsilon, "columns")
    reach = reach.masked_fill(~problem.valid, 0.0)
    rows = problem.log_rho - (1 - relaxation) * reach
    rows = rows - torch.logsumexp(rows + reach, -1, keepdim=True)
    image = b.masked_fill(~problem.valid, 0.0) + log_sum_exp(rows, problem.cost, problem.inverse_epsilon, "rows")
    return image.masked_fill(~problem.valid, 0.0)


def with_entropy(problem: Problem, iterations: int, tolerance: float) -> tuple[Tensor, Tensor, int]:
    """``log p`` (B, N) at the fixed point, the residual ``sum_j |T_j(p) - p_j|`` (B,), and the evaluations of T used.

    The gradient is the implicit function theorem's at the law returned: exact once the residual is small.
    """
    with torch.no_grad():
        constant = problem.detached()
        log_new, residual, used = _accelerated(constant, iterations, tolerance)
    image = problem.image(log_new)
    if not image.requires_grad:
        return image, residual, used
    a, b = constant.parts(log_new)
    result: Tensor = _Adjoint.apply(
        image, a, b, constant.cost, constant.inverse_epsilon, constant.strength, image.detach()
    )
    return result, residual, used


def _accelerated(problem: Problem, iterations: int, tolerance: float) -> tuple[Tensor, Tensor, int]:
    """Best ``log p`` seen, its residual, evaluations. Every item stops for itself: a batch equals its items alone."""
    step = 1 / (1 + problem.strength)[:, None]
    x = problem.image(torch.zeros_like(problem.log_rho)) * step
    best, best_change = x, torch.zeros_like(x)
    best_residual = best_norm = x.new_full(x.shape[:1], math.inf)
    history = _History(x)
    used = 1
    for _ in range(iterations):
        change = problem.image(x) - x
        used += 1
        mass = (x + change).exp().masked_fill(~problem.valid, 0.0)
        residual = (mass - x.exp().masked_fill(~problem.valid, 0.0)).abs().sum(-1)
        weights = mass + 1e-3 / problem.valid.sum(-1, keepdim=True)  # empty places matter too: their logarithm is used
        norm = (weights * change * change * problem.valid).sum(-1).sqrt()
        better = norm < best_norm
        lost = norm > GROWTH * best_norm
        best = torch.where(better[:, None], x, best)
        best_change = torch.where(better[:, None], change, best_change)
        best_residual, best_norm = torch.where(better, residual, best_residual), torch.where(better, norm, best_norm)
        if bool((best_residual <= tolerance).all()):
            break
        proposal = history.propose(x, change, step, weights * problem.valid)
        history.forget(lost)
        proposal = torch.where(lost[:, None], best + step * best_change, proposal)
        x = torch.where((best_residual <= tolerance)[:, None], best, proposal)
    return best, best_residual, used


class _History:
    """Differences of the last steps, for Anderson's acceleration (type II) in the norm given by weights."""

    def __init__(self, x: Tensor) -> None:
        self.dx: list[Tensor] = []
        self.dr: list[Tensor] = []
        self.last: tuple[Tensor, Tensor] | None = None
        self.fresh = torch.ones(x.shape[0], dtype=torch.bool, device=x.device)  # (B,) nothing to subtract from

    def propose(self, x: Tensor, change: Tensor, step: Tensor, weights: Tensor) -> Tensor:
        """``x + step r - (dX + step dR) gamma`` with gamma the least-squares fit of r by dR."""
        if self.last is not None:
            keep = (~self.fresh)[:, None].to(x.dtype)
            self.dx = [*self.dx, (x - self.last[0]) * keep][-MEMORY:]
            self.dr = [*self.dr, (change - self.last[1]) * keep][-MEMORY:]
        self.last = (x, change)
        self.fresh = torch.zeros_like(self.fresh)
        if not self.dx:
            return x + step * change
        dx, dr = torch.stack(self.dx, -1).double(), torch.stack(self.dr, -1).double()  # (B, N, m)
        scale = dr.mul(weights[..., None]).mul(dr).sum(1).sqrt().clamp_min(1e-150)  # columns to length 1
        dx, dr = dx / scale[:, None], dr / scale[:, None]
        weighted = dr * weights[..., None].double()
        gram = weighted.mT @ dr
        ridge = 1e-12 if x.dtype == torch.float64 else 1e-8
        gram = gram + ridge * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        gamma = torch.linalg.solve(gram, weighted.mT @ change.double()[..., None])
        correction: Tensor = ((dx + step[..., None].double() * dr) @ gamma)[..., 0]
        return x + step * change - correction.to(x.dtype)

    def forget(self, items: Tensor) -> None:
        """Start anew for the marked items (B,)."""
        if bool(items.any()):
            keep = (~items)[:, None].to(self.dx[0].dtype) if self.dx else None
            self.dx = [d * keep for d in self.dx] if keep is not None else []
            self.dr = [d * keep for d in self.dr] if keep is not None else []
            self.fresh = self.fresh | items


class _Adjoint(torch.autograd.Function):
    """Identity whose backward solves ``(I - J^T) w = g``, ``I - J^T = (1 + s) I - s R^T``, by Chebyshev's iteration.

    ``R^T w = P^T (Q w)`` with ``P_ij = pi_ij / q_i`` and ``Q_ij = pi_ij / p_j``: no entry exceeds 1, so empty places do
    no harm. The spectrum lies in [1, 1 + s].
    """

    @staticmethod
    def forward(
        ctx: Any, image: Tensor, a: Tensor, b: Tensor, cost: Tensor, inverse: Tensor, strength: Tensor, log_p: Tensor
    ) -> Tensor:
        ctx.save_for_backward(a, b, cost, inverse, strength, log_p)
        return image.view_as(image)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        a, b, cost, inverse, strength, log_p = ctx.saved_tensors
        solved = torch.zeros_like(gradient)
        with torch.autocast(gradient.device.type, enabled=False):
            for item in _chunks(cost, gradient):
                shared = slice(None) if cost.shape[0] == 1 else item
                solved[item] = _solve_adjoint(
                    a[item], b[item], cost[shared], inverse[item], strength[item], log_p[item], gradient[item]
                )
        return solved, None, None, None, None, None, None


def _chunks(cost: Tensor, gradient: Tensor) -> list[slice]:
    """Items whose two plans are in memory at once: one on a CPU, more elsewhere."""
    size = 1 if gradient.device.type == "cpu" else max(1, BLOCK_ELEMENTS_ELSEWHERE // (cost.shape[1] * cost.shape[2]))
    return [slice(i, i + size) for i in range(0, gradient.shape[0], size)]


def _solve_adjoint(
    a: Tensor, b: Tensor, cost: Tensor, inverse: Tensor, strength: Tensor, log_p: Tensor, gradient: Tensor
) -> Tensor:
    """Chebyshev's semi-iteration for one chunk; (b, N) in and out."""
    every = slice(None)
    q = torch.where(a == -math.inf, torch.zeros_like(a), a)
    column = exponents(b, cost, inverse, every, every, "columns")  # b_j - C_ij / eps
    norm = torch.logsumexp(column, -1, keepdim=True)
    row_stochastic = (column - norm).clamp_(min=LOWEST_EXPONENT).exp_()
    column += q[..., None] - log_p[:, None]
    column_stochastic = column.clamp_(min=LOWEST_EXPONENT, max=0.0).exp_()
    column_stochastic *= (a != -math.inf)[..., None]

    def apply(w: Tensor) -> Tensor:
        moved = torch.bmm(row_stochastic.mT, torch.bmm(column_stochastic, w[..., None]))[..., 0]
        return (1 + s) * w - s * moved

    s = strength[:, None]
    centre, half = 1 + s / 2, (s / 2).clamp_min(1e-12)
    ratio = centre / half
    rate = float(((1 + s).sqrt() - 1).div((1 + s).sqrt() + 1).max())
    tolerance = ADJOINT_TOLERANCE[gradient.dtype]
    count = 1 if rate <= 0 else math.ceil(math.log(tolerance / 2) / math.log(rate))
    w = torch.zeros_like(gradient)
    r = gradient.clone()
    d = r / centre
    alpha_old = 1 / ratio
    for _ in range(min(count, MAX_ADJOINT_ITERATIONS)):
        w = w + d
        r = gradient - apply(w)
        alpha = 1 / (2 * ratio - alpha_old)
        d = alpha * alpha_old * d + (2 * alpha / half) * r
        alpha_old = alpha
    return w
