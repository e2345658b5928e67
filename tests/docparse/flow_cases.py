"""Problems the tests of the flow share."""

import torch
from torch import Tensor

from docparse.flow.cost import ground_cost


def square_grid(n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """(n * n, 2) centres of the cells of the unit square."""
    ticks = (torch.arange(n, dtype=dtype) + 0.5) / n
    return torch.stack(torch.meshgrid(ticks, ticks, indexing="xy"), -1).reshape(-1, 2)


def problem(
    batch: int, n: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random law (B, N), potential (B, N), cost (B, N, N) and points (B, N, 2)."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(batch, n, 2, generator=generator, dtype=dtype)
    rho = torch.rand(batch, n, generator=generator, dtype=dtype) ** 2 + 1e-3
    potential = 2 * torch.rand(batch, n, generator=generator, dtype=dtype) - 1
    return rho / rho.sum(-1, keepdim=True), potential, ground_cost(points), points
