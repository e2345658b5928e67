"""Ground costs between particles of pages, and the checks of what enters a step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from backbone.errors import ConfigError, DataError
from docparse.flow.kernel import full_precision

MASS_TOLERANCE = 1e-3  # a law given by the caller may miss 1 by this much; it is then normalised


@full_precision
def ground_cost(
    points: Tensor,
    others: Tensor | None = None,
    *,
    pages: Tensor | None = None,
    other_pages: Tensor | None = None,
    kappa: float | Tensor = 0.25,
) -> Tensor:
    """Cost of moving a unit of mass: ``C_ij = 1/2 |x_i - y_j|^2 + kappa [page_i != page_j]``.

    Args:
        points: (B, N, 2) or (N, 2), x and y in page units: the longer side of a page is 1, so its aspect is kept.
        others: (B, M, 2) or (M, 2), the targets; None: the points themselves.
        pages: (B, N) or (N,) whole numbers; None: all on one page.
        other_pages: the same of the targets; None: those of the points, if there are no others.
        kappa: price of a change of page; 1/2 is the price of the whole longer side of a page.

    Returns:
        (B, N, M), or (N, M) if nothing was batched; float32 or float64 as the points are.

    Raises:
        DataError: a shape that does not fit, a coordinate that is not finite, or pages on one side only.
    """
    others = points if others is None else others
    other_pages = pages if others is points and other_pages is None else other_pages
    for name, x in (("points", points), ("others", others)):
        if x.dim() not in (2, 3) or x.shape[-1] != 2:
            raise DataError(f"ground_cost: {name} have the shape {tuple(x.shape)}, expected (B, N, 2) or (N, 2)")
        if not bool(torch.isfinite(x).all()):
            raise DataError(f"ground_cost: {name} hold a coordinate that is not finite")
    points, others = _at_least_float32(points), _at_least_float32(others)
    # the difference itself, not |x|^2 - 2xy + |y|^2: that form loses C below 1e-7, which eps = 1e-4 would magnify
    dx = points[..., :, None, 0] - others[..., None, :, 0]
    dy = points[..., :, None, 1] - others[..., None, :, 1]
    cost = torch.addcmul(dx * dx, dy, dy).mul(0.5)
    if (pages is None) != (other_pages is None):
        raise DataError("ground_cost: pages are given for one side only; give pages and other_pages, or neither")
    if pages is None or other_pages is None:
        return cost
    for name, page, x in (("pages", pages, points), ("other_pages", other_pages, others)):
        if page.shape != x.shape[:-1] or page.is_floating_point():
            expected = tuple(x.shape[:-1])
            raise DataError(f"ground_cost: {name} {tuple(page.shape)} {page.dtype}, expected {expected} of int64")
    return cost + (pages[..., :, None] != other_pages[..., None, :]).to(cost.dtype) * kappa


def log_law(rho: Tensor, valid: Tensor | None = None, name: str = "rho") -> Tensor:
    """Logarithm of a law (B, N), normalised; -inf for particles that are empty or not valid.

    The gradient is that of ``log rho``; to a particle without mass it is 0.

    Raises:
        DataError: NaN, infinite or negative mass, a total other than 1, or a shape that does not fit.
    """
    if rho.dim() != 2 or not rho.is_floating_point():
        raise DataError(f"{name}: shape {tuple(rho.shape)} of {rho.dtype}, expected a law (B, N) of floats")
    rho = _at_least_float32(rho)
    if valid is not None:
        _check_valid(valid, rho.shape, name)
        rho = rho.masked_fill(~valid, 0.0)
    if not bool(torch.isfinite(rho).all()):
        raise DataError(f"{name}: {int((~torch.isfinite(rho)).sum())} masses are NaN or infinite")
    if bool((rho < 0).any()):
        raise DataError(f"{name}: negative mass {float(rho.detach().min()):.3g}; masses must be at least 0")
    total = rho.detach().sum(-1)
    wrong = (total - 1).abs() > MASS_TOLERANCE
    if bool(wrong.any()):
        item = int(wrong.nonzero()[0, 0])
        raise DataError(f"{name}: total mass {float(total[item]):.6g} in item {item}, expected 1; divide by the sum")
    empty = rho <= 0
    log = torch.where(empty, torch.ones_like(rho), rho).log().masked_fill(empty, -math.inf)
    return log - torch.logsumexp(log, -1, keepdim=True)


def batched_cost(cost: Tensor, rows: Tensor, columns: Tensor, name: str = "cost") -> Tensor:
    """The cost as (B, N, M) or (1, N, M) in the dtype of the law, checked against the laws (B, N) and (B, M).

    Raises:
        DataError: a shape that does not fit, or a cost that is not finite.
    """
    shape = (rows.shape[1], columns.shape[1])
    cost = cost[None] if cost.dim() == 2 else cost
    if cost.dim() != 3 or cost.shape[1:] != shape or cost.shape[0] not in (1, rows.shape[0]):
        raise DataError(f"{name}: shape {tuple(cost.shape)}, expected ({rows.shape[0]} or 1, {shape[0]}, {shape[1]})")
    cost = cost.to(rows.dtype)
    # one number tells: a NaN or infinity survives the sum, and no second (B, N, M) tensor is made
    if not bool(torch.isfinite(cost.detach().sum())):
        raise DataError(f"{name}: holds a value that is not finite")
    return cost


def per_item(value: float | Tensor, law: Tensor, name: str, *, positive: bool = True) -> Tensor:
    """A scalar setting as (B,) in the dtype of the law; a tensor keeps its gradient.

    Raises:
        ConfigError: not finite, not above 0 (or below 0 where 0 is allowed), or neither a number nor (B,).
    """
    tensor = torch.as_tensor(value, dtype=law.dtype, device=law.device)
    if tensor.shape not in ((), (1,), law.shape[:1]):
        raise ConfigError(f"{name}: shape {tuple(tensor.shape)}, expected a number or ({law.shape[0]},)")
    low = float(tensor.detach().min())
    if not bool(torch.isfinite(tensor.detach()).all()) or low < 0 or (positive and low == 0):
        raise ConfigError(f"{name}: must be finite and {'above' if positive else 'at least'} 0, got {low:g}")
    return tensor.expand(law.shape[0])


def _check_valid(valid: Tensor, shape: torch.Size, name: str) -> None:
    if valid.shape != shape or valid.dtype != torch.bool:
        raise DataError(f"{name}: valid is {tuple(valid.shape)} {valid.dtype}, expected {tuple(shape)} of bool")
    if not bool(valid.any(-1).all()):
        raise DataError(f"{name}: an item has no valid particle")


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.float()
