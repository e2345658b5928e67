"""The one expensive operation of the flow: a log-sum-exp against a ground cost, in blocks that stay in the cache.

Everything else (a proximal step, Sinkhorn's iterations, a divergence) is vectors of N numbers around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor

Over = Literal["columns", "rows"]

# exp(-60) is 1e-26: nothing beside 1 even in float64. Below -87 float32 becomes subnormal, where a CPU is 20 times
# slower, so exponents end here.
LOWEST_EXPONENT = -60.0
BLOCK_ELEMENTS = {"cpu": 2**17}  # half a megabyte of float32: a block stays in the second-level cache
BLOCK_ELEMENTS_ELSEWHERE = 2**26  # an accelerator wants few large blocks

P = ParamSpec("P")
R = TypeVar("R")


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` without autocast: a log-domain law does not survive bfloat16's three digits."""
    import functools

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        tensors = [*args, *kwargs.values()]
        device = next((a.device.type for a in tensors if isinstance(a, Tensor)), "cpu")
        with torch.autocast(device, enabled=False):
            return function(*args, **kwargs)

    return wrapped


def log_sum_exp(heights: Tensor, cost: Tensor, inverse_epsilon: Tensor, over: Over) -> Tensor:
    """``out_i = log sum_j exp(h_j - C_ij / eps)`` over columns; over rows sum over i and h_i.

    No (B, N, M) tensor is made, neither forward nor backward: blocks of it are computed, reduced and forgotten.
    Differentiable once, with respect to heights, cost and 1 / eps.

    Args:
        heights: (B, M) over columns, (B, N) over rows; -inf takes a particle out.
        cost: (B, N, M), or (1, N, M) when all share it.
        inverse_epsilon: (B,), 1 / eps.
        over: what is summed over.

    Returns:
        (B, N) over columns, (B, M) over rows; -inf where every height is.
    """
    result: Tensor = _LogSumExp.apply(heights, cost, inverse_epsilon, over)
    return result


def stable_log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """Log-sum-exp that overwrites ``x`` and never computes subnormal numbers; -inf where all of ``x`` is."""
    top = x.amax(dim, keepdim=True)
    nothing = top == -math.inf
    top = top.masked_fill(nothing, 0.0)
    total = x.sub_(top).clamp_(min=LOWEST_EXPONENT).exp_().sum(dim, keepdim=True).log_().add_(top)
    return total.masked_fill_(nothing, -math.inf).squeeze(dim)


def blocks(batch: int, rows: int, columns: int, device: torch.device) -> Iterator[tuple[slice, slice]]:
    """Slices of batch and rows whose blocks hold about `BLOCK_ELEMENTS` numbers; all rows of an item come in turn."""
    budget = BLOCK_ELEMENTS.get(device.type, BLOCK_ELEMENTS_ELSEWHERE)
    items = max(1, min(batch, budget // max(1, rows * columns)))
    height = max(1, min(rows, budget // max(1, items * columns)))
    for item in range(0, batch, items):
        for row in range(0, rows, height):
            yield slice(item, item + items), slice(row, row + height)


def exponents(heights: Tensor, cost: Tensor, inverse: Tensor, items: slice, rows: slice, over: Over) -> Tensor:
    """One block of ``h - C / eps``, a new tensor (items, rows, M)."""
    block = cost[items if cost.shape[0] > 1 else slice(None), rows]
    h = heights[items, None, :] if over == "columns" else heights[items, rows, None]
    return torch.addcmul(h, block, inverse[items, None, None], value=-1)


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heights: Tensor, cost: Tensor, inverse: Tensor, over: Over) -> Tensor:
        batch, (n, m) = heights.shape[0], cost.shape[1:]
        out = heights.new_empty(batch, n if over == "columns" else m)
        partial: list[Tensor] = []
        for items, rows in blocks(batch, n, m, heights.device):
            x = exponents(heights, cost, inverse, items, rows, over)
            if over == "columns":
                out[items, rows] = stable_log_sum_exp(x, -1)
                continue
            partial.append(stable_log_sum_exp(x, -2))
            if rows.stop >= n:
                out[items] = stable_log_sum_exp(torch.stack(partial), 0) if len(partial) > 1 else partial[0]
                partial = []
        ctx.save_for_backward(heights, cost, inverse, out)
        ctx.over = over
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        heights, cost, inverse, out = ctx.saved_tensors
        with torch.autocast(heights.device.type, enabled=False):
            return *_backward(heights, cost, inverse, out, gradient, ctx.over, ctx.needs_input_grad), None


def _backward(
    heights: Tensor, cost: Tensor, inverse: Tensor, out: Tensor, gradient: Tensor, over: Over, wanted: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """With ``W_ij = exp(h_j - C_ij / eps - out_i)``: ``dh_j = sum_i g_i W_ij``, ``dC_ij = -g_i W_ij / eps``."""
    nothing = out == -math.inf
    out, gradient = out.masked_fill(nothing, 0.0), gradient.masked_fill(nothing, 0.0)
    to_heights, to_inverse = torch.zeros_like(heights), torch.zeros_like(inverse)
    to_cost = torch.zeros_like(cost) if wanted[1] else None
    for items, rows in blocks(heights.shape[0], cost.shape[1], cost.shape[2], heights.device):
        weights = exponents(heights, cost, inverse, items, rows, over)
        shared = slice(None) if cost.shape[0] == 1 else items
        if over == "columns":
            weights.sub_(out[items, rows, None]).clamp_(min=LOWEST_EXPONENT).exp_()
            to_heights[items] += torch.bmm(gradient[items, None, rows], weights)[:, 0]
            g = gradient[items, rows, None]
        else:
            weights.sub_(out[items, None, :]).clamp_(min=LOWEST_EXPONENT).exp_()
            to_heights[items, rows] = torch.bmm(weights, gradient[items, :, None])[..., 0]
            g = gradient[items, None, :]
        if wanted[1] or wanted[2]:
            weights.mul_(g)
        if wanted[2]:
            to_inverse[items] -= (weights * cost[shared, rows]).sum((-2, -1))
        if to_cost is not None:
            share = weights.mul_(inverse[items, None, None])
            to_cost[shared, rows] -= share.sum(0, keepdim=True) if cost.shape[0] == 1 else share
    return to_heights, to_cost, to_inverse
