"""The law the flow should reach: uniform on the evidence boxes, and its blurred copies for the earlier steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backbone.errors import DataError
from docparse.flow.config import FlowConfig
from docparse.flow.flow import FlowResult
from docparse.flow.grids import Support


@dataclass(frozen=True)
class Region:
    """An evidence box: page counted from 0, corners in page units (the page's longer side is 1), y down."""

    page: int
    x0: float
    y0: float
    x1: float
    y1: float

    def __post_init__(self) -> None:
        corners = (self.x0, self.y0, self.x1, self.y1)
        if not all(math.isfinite(v) for v in corners) or self.x0 >= self.x1 or self.y0 >= self.y1 or self.page < 0:
            raise DataError(f"evidence region {corners} on page {self.page}: needs x0 < x1, y0 < y1, page >= 0")


@dataclass(frozen=True)
class Target:
    """A law on a support."""

    rho: Tensor  # (N,) total mass 1
    covered: float  # part of the evidence that the support's boxes cover, before normalising (and before any blur)


def target_law(support: Support, regions: Sequence[Region], sigma: float = 0.0) -> Target:
    """Uniform on each region with equal mass for every region, blurred by a Gaussian, integrated over each particle.

    The mass of particle j is the exact integral over its box of the blurred density (a difference of Gaussian
    integrals; the plain overlap if ``sigma`` is 0); the blur stays on the page. What no particle covers is lost and
    the rest normalised, region by region; a region that no particle covers at all goes to the particles of its page
    that lie nearest to it, or, if its page has none, to those nearest to its place on any page. `Target.covered` tells.

    Args:
        support: N particles that do not overlap.
        regions: at least one.
        sigma: standard deviation in page units.

    Raises:
        DataError: no region, a page outside the document, or a negative sigma.
    """
    if not regions or not sigma >= 0:
        raise DataError(f"target: {len(regions)} regions and sigma {sigma}; needs at least one and sigma >= 0")
    boxes = support.boxes.double()
    rho = boxes.new_zeros(len(support))
    covered = 0.0
    for region in regions:
        if region.page >= len(support.grid.sizes):
            raise DataError(f"target: evidence on page {region.page}, the document has {len(support.grid.sizes)}")
        here = (support.pages == region.page).double()
        sharp = here * _mass(boxes, region, 0.0)
        mass = sharp if sigma == 0 else here * _mass(boxes, region, sigma)
        covered += float(sharp.sum()) / len(regions)
        if float(mass.sum()) < 1e-6:
            mass = _nearest(boxes, here, region)
        rho += mass / mass.sum() / len(regions)
    return Target((rho / rho.sum()).float(), min(covered, 1.0))


def step_targets(result: FlowResult, regions: Sequence[Region], config: FlowConfig) -> list[Target]:
    """``rho*_k`` on the support of every step, blurred by `FlowConfig.blur_at`; the last one is sharp."""
    return [target_law(step.support, regions, config.blur_at(k)) for k, step in enumerate(result.steps)]


def _mass(boxes: Tensor, region: Region, sigma: float) -> Tensor:
    """(N,) mass of the region's blurred uniform law in each box: the product of both axes."""
    along_x = _axis(boxes[:, 0], boxes[:, 2], region.x0, region.x1, sigma)
    return along_x * _axis(boxes[:, 1], boxes[:, 3], region.y0, region.y1, sigma)


def _axis(low: Tensor, high: Tensor, start: float, end: float, sigma: float) -> Tensor:
    """Mass in [low, high] of the uniform law on [start, end] blurred by sigma."""
    terms = (high - start), (low - start), (high - end), (low - end)
    a, b, c, d = (_ramp(t, sigma) for t in terms)
    return ((a - b - c + d) / (end - start)).clamp_min(0)


def _ramp(t: Tensor, sigma: float) -> Tensor:
    """Integral of the Gaussian's distribution function, ``t Phi(t / s) + s phi(t / s)``; ``max(t, 0)`` without blur."""
    if sigma == 0:
        return t.clamp_min(0)
    z: Tensor = t / sigma
    smooth: Tensor = t * torch.special.ndtr(z) + sigma * torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return smooth


def _nearest(boxes: Tensor, here: Tensor, region: Region) -> Tensor:
    """(N,) one for each particle at the least distance from the region, on its page if that has any."""
    dx = torch.maximum(boxes[:, 0] - region.x1, region.x0 - boxes[:, 2]).clamp_min(0)
    dy = torch.maximum(boxes[:, 1] - region.y1, region.y0 - boxes[:, 3]).clamp_min(0)
    distance = torch.hypot(dx, dy)
    if bool(here.any()):
        distance = distance.masked_fill(here == 0, math.inf)
    return (distance <= distance.min() + 1e-9).double()
