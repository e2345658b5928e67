"""The plan of a closed step: its marginals, and the transport term that weighs its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from backbone.errors import ConfigError
from docparse.flow import cost as costs
from docparse.flow.config import FlowConfig
from docparse.flow.flow import run_flow
from docparse.flow.grids import Support, page_grid
from docparse.flow.losses import amortised_loss
from docparse.flow.step import closed_plan, log_jko_step
from docparse.flow.targets import Region, step_targets


class Well:
    """Potentials that are low around a point."""

    def __init__(self, x: float, y: float, depth: torch.Tensor) -> None:
        self.centre, self.depth = torch.tensor([x, y]), depth

    def __call__(self, k: int, supports: Sequence[Support], laws: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [-self.depth * torch.exp(-((s.points - self.centre) ** 2).sum(-1) / 0.02) for s in supports]


PLAN = FlowConfig(levels=(4, 8), entropy=0.0, keep=1.0, transport="plan", transport_weight=0.3)


def problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    rho = torch.rand(20, generator=generator).double()
    points = torch.rand(20, 2, generator=generator).double()
    return (rho / rho.sum()).log(), torch.randn(20, generator=generator).double(), costs.ground_cost(points)


@pytest.mark.parametrize("relaxation", [0.0, 0.5, 1.0])
def test_the_columns_of_the_plan_are_the_new_law(relaxation: float) -> None:
    log_rho, potential, cost = problem()
    plan = closed_plan(log_rho, potential, cost, 0.5, 0.01, relaxation)
    new = log_jko_step(log_rho[None], potential[None], cost, 0.5, 0.01, relaxation=relaxation).rho[0]
    torch.testing.assert_close(plan.sum(0), new, rtol=0, atol=1e-12)
    kept = float((plan.sum(1) - log_rho.exp()).abs().max())
    assert kept < 1e-12 if relaxation == 0 else kept > 1e-3  # only the balanced step keeps the first marginal


def test_the_term_is_the_cost_of_that_plan() -> None:
    initial = page_grid([(1, 1)], 4)
    depth = torch.tensor(0.5, requires_grad=True)
    result = run_flow(initial, Well(0.3, 0.3, depth), PLAN)
    targets = step_targets(result, [Region(0, 0.25, 0.28, 0.35, 0.32)], PLAN)
    expected = torch.zeros(())
    for k, step in enumerate(result.steps):
        cost = costs.ground_cost(step.support.points)
        score = -(cost + step.tau * step.potential) / step.epsilon
        plan = step.rho_before[:, None].detach() * score.softmax(-1)
        expected = expected + (k + 1) / 2 * 0.3 / (2 * step.tau) * 2 * (plan * cost).sum()
    loss = amortised_loss([result], [targets], PLAN).transport
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-7)
    assert float(torch.autograd.grad(loss, depth)[0]) != 0


@pytest.mark.parametrize("change", [{"entropy": 0.1}, {"geometry": "kl"}])
def test_a_step_without_a_closed_plan_has_none_to_weigh(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="transport plan needs the closed step"):
        replace(PLAN, **change)  # type: ignore[arg-type]
