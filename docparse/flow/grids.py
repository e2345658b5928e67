"""Supports: the cells and words evidence can lie on, from coarse to fine, with the mass kept on the way down.

Page units: the longer side of a page is 1, so x runs to w / max(w, h) and y to h / max(w, h), y down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backbone.errors import ConfigError, DataError


@dataclass(frozen=True)
class Grid:
    """A regular grid on every page: ``cells`` along the longer side, nearly square cells that tile the page exactly.

    Grids with the same ``coarsest`` nest: the cells of one with twice the ``cells`` are quarters of this one's.
    """

    sizes: tuple[tuple[float, float], ...]  # (width, height) of each page as shown, in any unit
    cells: int
    coarsest: int  # cells along the longer side of the coarsest grid of the pyramid

    def __post_init__(self) -> None:
        if not self.sizes or any(not 0 < side < math.inf for size in self.sizes for side in size):
            raise DataError(f"grid: needs pages with sides above 0, got {self.sizes[:4]}")
        if self.coarsest < 1 or self.cells < 1 or self.cells % self.coarsest:
            raise ConfigError(f"grid: {self.cells} cells are no multiple of the coarsest grid's {self.coarsest}")

    def extent(self, page: int) -> tuple[float, float]:
        """Width and height of a page in page units."""
        width, height = self.sizes[page]
        return width / max(width, height), height / max(width, height)

    def shape(self, page: int) -> tuple[int, int]:
        """Columns and rows on a page."""
        factor = self.cells // self.coarsest
        columns, rows = (max(1, round(side * self.coarsest)) * factor for side in self.extent(page))
        return columns, rows

    def offsets(self) -> Tensor:
        """(pages + 1,) index of each page's first cell, then the number of all cells; cells go row by row."""
        counts = [math.prod(self.shape(page)) for page in range(len(self.sizes))]
        return torch.tensor([0, *counts]).cumsum(0)

    def finer(self, cells: int) -> Grid:
        """The nested grid with ``cells`` along the longer side."""
        if cells % self.cells:
            raise ConfigError(f"grid: {cells} cells do not nest in {self.cells}")
        return Grid(self.sizes, cells, self.coarsest)


@dataclass(frozen=True)
class Support:
    """N places that carry mass: cells of a grid, words, or both."""

    grid: Grid
    boxes: Tensor  # (N, 4) float: x0, y0, x1, y1 in page units
    pages: Tensor  # (N,) int64, counted from 0
    cells: Tensor  # (N,) int64, index of the cell in the grid; -1: not a cell
    words: Tensor  # (N,) int64, index of the word in the caller's list; -1: not a word

    def __post_init__(self) -> None:
        n = len(self.pages)
        if self.boxes.shape != (n, 4) or self.cells.shape != (n,) or self.words.shape != (n,):
            shapes = [tuple(t.shape) for t in (self.boxes, self.pages, self.cells, self.words)]
            raise DataError(f"support: shapes {shapes}, expected (N, 4) and three times (N,)")
        if n and not 0 <= int(self.pages.min()) <= int(self.pages.max()) < len(self.grid.sizes):
            raise DataError(f"support: a page outside 0..{len(self.grid.sizes) - 1}")

    def __len__(self) -> int:
        return len(self.pages)

    @property
    def points(self) -> Tensor:
        """(N, 2) centres in page units."""
        return (self.boxes[:, :2] + self.boxes[:, 2:]) / 2

    @property
    def areas(self) -> Tensor:
        """(N,) in page units squared."""
        return (self.boxes[:, 2:] - self.boxes[:, :2]).clamp_min(0).prod(-1)

    def select(self, index: Tensor) -> Support:
        """The particles of an index or mask."""
        return Support(self.grid, self.boxes[index], self.pages[index], self.cells[index], self.words[index])

    def page_mass(self, rho: Tensor) -> Tensor:
        """(pages,) mass on each page; differentiable."""
        return rho.new_zeros(len(self.grid.sizes)).index_add(0, self.pages, rho)

    def uniform(self) -> Tensor:
        """(N,) the law proportional to area: the coarsest belief."""
        return self.areas / self.areas.sum()


@dataclass(frozen=True)
class Refined:
    """A law carried to a finer or smaller support."""

    support: Support  # M particles
    log_rho: Tensor  # (M,) normalised
    parent: Tensor  # (M,) int64, index into the particles it came from
    dropped: Tensor  # () mass that was left out before normalising, no gradient


def page_grid(sizes: Sequence[tuple[float, float]], cells: int, coarsest: int | None = None) -> Support:
    """Every cell of every page.

    Args:
        sizes: (width, height) of each page as shown, in any unit.
        cells: cells along the longer side.
        coarsest: the same of the coarsest grid it must nest in; None: this one.

    Raises:
        ConfigError: cells that do not nest.
        DataError: no page, or a side that is not above 0.
    """
    grid = Grid(tuple((float(w), float(h)) for w, h in sizes), cells, coarsest or cells)
    return cells_of(grid, torch.arange(int(grid.offsets()[-1])))


def cells_of(grid: Grid, index: Tensor) -> Support:
    """The cells of a grid with the given indices (N,)."""
    offsets = grid.offsets()
    pages = torch.searchsorted(offsets, index, right=True) - 1
    shape = torch.tensor([grid.shape(p) for p in range(len(grid.sizes))])[pages]  # (N, 2) columns, rows
    extent = torch.tensor([grid.extent(p) for p in range(len(grid.sizes))], dtype=torch.float64)[pages]
    local = index - offsets[pages]
    corner = torch.stack([local % shape[:, 0], local // shape[:, 0]], -1)
    boxes = torch.cat([corner * extent / shape, (corner + 1) * extent / shape], -1).float()
    return Support(grid, boxes, pages, index, torch.full_like(index, -1))


def word_support(grid: Grid, boxes: Tensor, pages: Tensor) -> Support:
    """All words of the document as particles, in the caller's order.

    Args:
        grid: gives the pages; its cells do not matter.
        boxes: (W, 4) in page units.
        pages: (W,) counted from 0.
    """
    index = torch.arange(len(pages))
    return Support(grid, boxes.float(), pages.long(), torch.full_like(index, -1), index)


def locate(grid: Grid, points: Tensor, pages: Tensor) -> Tensor:
    """(N,) index of the cell each point (N, 2) of a page (N,) lies in; points outside count to the nearest cell."""
    shape = torch.tensor([grid.shape(p) for p in range(len(grid.sizes))])[pages]
    extent = torch.tensor([grid.extent(p) for p in range(len(grid.sizes))], dtype=torch.float64)[pages]
    place = (points.double() * shape / extent).floor().long().clamp_min(0).minimum(shape - 1)
    return grid.offsets()[pages] + place[:, 1] * shape[:, 0] + place[:, 0]


def subdivide(support: Support, cells: int) -> tuple[Support, Tensor]:
    """The children (M) of all cells in the nested grid of ``cells``, and their parents (M,); words stay themselves."""
    fine = support.grid.finer(cells)
    factor = cells // support.grid.cells
    whole = (support.cells >= 0).nonzero()[:, 0]
    step = torch.arange(factor, dtype=torch.float64)
    offset = torch.stack(torch.meshgrid(step, step, indexing="xy"), -1).reshape(-1, 2)  # (f^2, 2) x, y
    low, high = support.boxes[whole, None, :2].double(), support.boxes[whole, None, 2:].double()
    centres = low + (high - low) * (offset + 0.5) / factor
    parent = whole.repeat_interleave(factor * factor)
    children = cells_of(fine, locate(fine, centres.reshape(-1, 2), support.pages[parent]))
    return _with_leaves(children, parent, support, (support.cells < 0).nonzero()[:, 0])


def assign_words(support: Support, words: Support) -> tuple[Support, Tensor]:
    """Words whose centre lies in a cell of the support become that cell's children; a cell without one stays itself.

    Returns the support of words and leftover cells (M), and the parents (M,).
    """
    of_cell = torch.full((int(support.grid.offsets()[-1]),), -1, dtype=torch.long)
    of_cell[support.cells[support.cells >= 0]] = (support.cells >= 0).nonzero()[:, 0]
    parent = of_cell[locate(support.grid, words.points, words.pages)]
    inside = parent >= 0
    children = words.select(inside)
    children = Support(support.grid, children.boxes, children.pages, children.cells, children.words)
    alone = torch.ones(len(support), dtype=torch.bool)
    alone[parent[inside]] = False
    return _with_leaves(children, parent[inside], support, alone.nonzero()[:, 0])


def split(log_rho: Tensor, parent: Tensor, weights: Tensor | None = None) -> Tensor:
    """Log masses (M,) of children: each parent's mass equally, or in proportion to weights; the total is kept.

    Differentiable with respect to log_rho and weights.

    Args:
        log_rho: (N,) of the parents.
        parent: (M,) index of each child's parent.
        weights: (M,) at least 0; children of a parent whose weights are all 0 share equally.

    Raises:
        DataError: a weight below 0 or not finite, or another number of weights than children.
    """
    n, parent = len(log_rho), parent.to(log_rho.device)
    ones = log_rho.new_ones(len(parent))
    weights = ones if weights is None else weights.to(ones)
    if weights.shape != parent.shape or not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()):
        raise DataError(f"split: {tuple(weights.shape)} weights for {len(parent)} children, each must be >= 0")
    total = log_rho.new_zeros(n).index_add(0, parent, weights)
    barren = total[parent] <= 0
    total = torch.where(barren, log_rho.new_zeros(n).index_add(0, parent, ones)[parent], total[parent])
    share = torch.where(barren, ones, weights) / total
    empty = share <= 0
    return log_rho[parent] + share.masked_fill(empty, 1.0).log().masked_fill(empty, -math.inf)


def sparsify(
    support: Support, log_rho: Tensor, keep: float = 0.995, limit: int = 1024, counts: Tensor | None = None
) -> Refined:
    """The smallest set of particles that holds ``keep`` of the mass, at most ``limit`` of them, normalised anew.

    Args:
        support: N particles.
        log_rho: (N,) normalised.
        keep: mass to hold; what falls outside is dropped, and stated.
        limit: most particles; it may drop more than ``1 - keep``.
        counts: (N,) what each counts against the limit (its number of children); None: 1. The first always stays.

    Returns:
        The kept particles in their old order; differentiable in log_rho (the choice itself is not).
    """
    mass = log_rho.detach().double().exp().cpu()  # supports live on the CPU, laws where the model is
    order = mass.argsort(descending=True, stable=True)
    before = mass[order].cumsum(0) - mass[order]
    used = (torch.ones_like(order) if counts is None else counts.to(order)[order]).cumsum(0)
    # a hair of tolerance: the rounding of a sum must not call in one more particle
    wanted = (before < keep - 1e-9) & (mass[order] > 0) & (used <= limit)
    wanted[0] = True
    # no gap: a big family that does not fit ends the list, rather than letting lighter ones in before it
    wanted &= (~wanted).cumsum(0) == 0
    index = order[wanted].sort().values
    kept = log_rho[index.to(log_rho.device)]
    dropped = (1 - mass[index].sum() / mass.sum()).clamp_min(0).to(log_rho)
    return Refined(support.select(index), kept - torch.logsumexp(kept, 0), index, dropped)


def refine(
    support: Support,
    log_rho: Tensor,
    children: tuple[Support, Tensor],
    weights: Tensor | None = None,
    *,
    keep: float = 0.995,
    limit: int = 1024,
) -> Refined:
    """Carry a law to the children of its particles, keeping whole families, heaviest parents first.

    Args:
        support: N particles.
        log_rho: (N,) normalised.
        children: what `subdivide` or `assign_words` gave for this support.
        weights: (M,) of the children, see `split`; a child without weight is left out (unless all siblings are).
        keep: mass of the parents to hold.
        limit: most children.
    """
    fine, parent = children
    share = split(torch.zeros_like(log_rho), parent, weights)
    counts = torch.zeros(len(support), dtype=torch.long).index_add(0, parent, (share > -math.inf).long().cpu())
    kept = sparsify(support, log_rho, keep, limit, counts)
    position = torch.full((len(support),), -1, dtype=torch.long)
    position[kept.parent] = torch.arange(len(kept.parent))
    index = ((position[parent] >= 0) & (share > -math.inf).cpu()).nonzero()[:, 0]
    log_fine = kept.log_rho[position[parent[index]].to(share.device)] + share[index.to(share.device)]
    result = sparsify(fine.select(index), log_fine, 1.0, limit)  # one family may exceed the limit alone
    dropped = kept.dropped + (1 - kept.dropped) * result.dropped
    return Refined(result.support, result.log_rho, parent[index][result.parent], dropped)


def _with_leaves(children: Support, parent: Tensor, support: Support, leaves: Tensor) -> tuple[Support, Tensor]:
    """The children, then the particles that stay themselves; a coarse cell is no cell of a finer grid."""
    stay = support.select(leaves)
    same = children.grid == support.grid
    cells = stay.cells if same else torch.full_like(stay.cells, -1)
    columns = (("boxes", stay.boxes), ("pages", stay.pages), ("cells", cells), ("words", stay.words))
    joined = {name: torch.cat([getattr(children, name), tensor]) for name, tensor in columns}
    return Support(children.grid, **joined), torch.cat([parent, leaves])
