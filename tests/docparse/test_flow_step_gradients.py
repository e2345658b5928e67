"""One step of the flow: its gradients, its precision, what it refuses, and the relaxed step."""

import pytest
import torch
from flow_cases import problem, square_grid
from torch import Tensor

from backbone.errors import ConfigError, DataError
from docparse.flow.cost import ground_cost
from docparse.flow.step import StepResult, energy, jko_step, log_jko_step, mirror_step

# --- gradients -------------------------------------------------------------------------------------------------------


def _tilted(result: StepResult) -> Tensor:
    return torch.cat([result.rho, result.log_rho], -1)


def test_gradcheck_of_the_closed_form() -> None:
    rho, potential, cost, _ = problem(2, 7)
    tau, eps = (torch.tensor(v, dtype=torch.float64) for v in ([0.3, 0.5], [0.05, 0.1]))
    log_rho = rho.log()
    inputs = [t.clone().requires_grad_() for t in (log_rho, potential, cost, tau, eps)]

    def step(log_rho: Tensor, v: Tensor, c: Tensor, tau: Tensor, eps: Tensor) -> Tensor:
        return _tilted(log_jko_step(torch.log_softmax(log_rho, -1), v, c, tau, eps))

    assert torch.autograd.gradcheck(step, inputs)
    assert torch.autograd.gradcheck(
        lambda c: _tilted(log_jko_step(log_rho, potential, c, 0.3, 0.05)), cost[0].clone().requires_grad_()
    )


def test_gradcheck_with_entropy() -> None:
    rho, potential, cost, _ = problem(2, 6)
    tau, eps, lam = (torch.tensor(v, dtype=torch.float64) for v in ([0.3, 0.5], [0.05, 0.1], [0.5, 0.1]))
    inputs = [t.clone().requires_grad_() for t in (rho.log(), potential, cost, tau, eps, lam)]

    def step(log_rho: Tensor, v: Tensor, c: Tensor, tau: Tensor, eps: Tensor, lam: Tensor) -> Tensor:
        law = torch.log_softmax(log_rho, -1)
        return _tilted(log_jko_step(law, v, c, tau, eps, lam, iterations=400, tolerance=1e-13))

    assert torch.autograd.gradcheck(step, inputs, atol=1e-5)


def test_gradcheck_of_the_mirror_step_and_the_energy() -> None:
    rho, potential, _, _ = problem(2, 6)
    inputs = [rho.clone().requires_grad_(), potential.clone().requires_grad_()]

    def both(rho: Tensor, v: Tensor) -> Tensor:
        result = mirror_step(rho / rho.sum(-1, keepdim=True), v, 0.4, 0.3)
        return torch.cat([result.rho, energy(result.log_rho, v, 0.3)[:, None]], -1)

    assert torch.autograd.gradcheck(both, inputs)


def test_the_gradient_survives_where_the_mass_is_below_the_smallest_float() -> None:
    points = square_grid(8, torch.float32)
    potential = torch.zeros(1, 64)
    potential[0, 10] = -10.0
    potential.requires_grad_()
    result = jko_step(torch.full((1, 64), 1 / 64), potential, ground_cost(points), 0.5, 1 / 256)
    assert float(result.rho[0, 40].detach()) == 0.0
    (gradient,) = torch.autograd.grad(result.log_rho[0, 40], potential)
    assert float(gradient[0, 40]) < -1.0
    assert float(gradient[0, 10]) > 1.0


# --- precision, refusals ---------------------------------------------------------------------------------------------


def test_autocast_changes_nothing() -> None:
    rho, potential, cost, _ = problem(2, 40, dtype=torch.float32)
    potential.requires_grad_()
    for lam in (0.0, 0.3):
        plain = jko_step(rho, potential, cost, 0.3, 0.01, lam)
        with torch.autocast("cpu", torch.bfloat16):
            cast = jko_step(rho, potential, cost, 0.3, 0.01, lam)
            (got,) = torch.autograd.grad(cast.log_rho[:, 0].sum(), potential)
        (expected,) = torch.autograd.grad(plain.log_rho[:, 0].sum(), potential)
        assert cast.log_rho.dtype == torch.float32
        assert torch.equal(cast.log_rho, plain.log_rho)
        assert torch.equal(got, expected)


def test_half_precision_inputs_are_raised_to_float32() -> None:
    _, potential, cost, _ = problem(1, 16, dtype=torch.float32)
    result = jko_step(torch.full((1, 16), 1 / 16, dtype=torch.bfloat16), potential.bfloat16(), cost, 0.3, 0.01)
    assert result.rho.dtype == torch.float32
    assert float(result.rho.sum()) == pytest.approx(1, abs=1e-6)


def test_a_strong_entropy_and_a_steep_field_still_converge() -> None:
    """s = 250 and potentials to 10: without taking lost steps back, some of these do not within 150 evaluations."""
    for seed in (0, 1, 3):
        rho, potential, cost, _ = problem(1, 30, seed)
        result = jko_step(rho, 10 * potential, cost, 0.5, 1e-3, 0.5, iterations=150, tolerance=1e-6)
        assert bool(result.converged.all()), seed


def test_a_step_that_did_not_converge_says_so() -> None:
    rho, potential, cost, _ = problem(2, 30)
    for iterations in (2, 12):
        result = jko_step(rho, potential, cost, 0.5, 1e-3, 0.5, iterations=iterations)
        assert result.iterations == iterations + 1
        assert not bool(result.converged.any())
        assert bool((result.residual > 1e-4).all())
        assert torch.allclose(result.rho.sum(-1), torch.ones(2, dtype=torch.float64), atol=1e-12)
    assert float(result.residual[1]) < 5  # no matter of degree: 3 is not converged either


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"rho": torch.tensor([[0.5, float("nan"), 0.5]])}, DataError, "NaN"),
        ({"rho": torch.tensor([[1.5, -0.5, 0.0]])}, DataError, "negative mass -0.5"),
        ({"rho": torch.zeros(1, 3)}, DataError, "total mass 0"),
        ({"rho": torch.tensor([[1.0, 1.0, 1.0]])}, DataError, "total mass 3"),
        ({"rho": torch.tensor([0.5, 0.5, 0.0])}, DataError, r"shape \(3,\)"),
        ({"potential": torch.zeros(1, 4)}, DataError, r"\(1, 4\)"),
        ({"potential": torch.tensor([[0.0, float("inf"), 0.0]])}, DataError, "1 potentials"),
        ({"cost": torch.zeros(2, 3, 3)}, DataError, r"\(2, 3, 3\)"),
        ({"cost": torch.full((3, 3), float("nan"))}, DataError, "finite"),
        ({"valid": torch.zeros(1, 3, dtype=torch.bool)}, DataError, "no valid particle"),
        ({"valid": torch.ones(1, 3)}, DataError, "bool"),
        ({"valid": torch.tensor([[True, True, False]])}, DataError, "total mass 0.66"),
        ({"tau": 0.0}, ConfigError, "tau"),
        ({"epsilon": -0.1}, ConfigError, "epsilon"),
        ({"epsilon": torch.ones(2)}, ConfigError, "epsilon"),
        ({"entropy": -1.0}, ConfigError, "entropy"),
        ({"iterations": 0}, ConfigError, "iterations"),
    ],
)
def test_refusals(change: dict[str, object], error: type[Exception], text: str) -> None:
    arguments: dict[str, object] = {
        "rho": torch.full((1, 3), 1 / 3), "potential": torch.zeros(1, 3), "cost": torch.zeros(3, 3),
        "tau": 0.5, "epsilon": 0.1,
    }  # fmt: skip
    with pytest.raises(error, match=text):
        jko_step(**{**arguments, **change})  # type: ignore[arg-type]


def test_ground_cost_by_hand_and_its_refusals() -> None:
    points = torch.tensor([[0.0, 0.0], [0.3, 0.4], [0.0, 0.0]])
    cost = ground_cost(points, pages=torch.tensor([0, 0, 1]), kappa=0.4)
    assert torch.allclose(cost, torch.tensor([[0, 0.125, 0.4], [0.125, 0, 0.525], [0.4, 0.525, 0]]))
    other = ground_cost(points[None], points[None, :1])
    assert other.shape == (1, 3, 1)
    with pytest.raises(DataError, match="shape"):
        ground_cost(torch.zeros(3, 3))
    with pytest.raises(DataError, match="finite"):
        ground_cost(torch.full((3, 2), float("nan")))
    with pytest.raises(DataError, match="one side"):
        ground_cost(points, points[:1], pages=torch.zeros(3, dtype=torch.long))
    with pytest.raises(DataError, match="int64"):
        ground_cost(points, pages=torch.zeros(3))


def test_the_relaxed_step_minimises_its_objective():
    torch.manual_seed(0)
    n, tau, eps, share = 24, 0.5, 0.05, 0.4
    alpha = eps * (1 - share) / share
    points = torch.rand(n, 2, dtype=torch.float64)
    cost, potential = ground_cost(points), torch.randn(n, dtype=torch.float64)
    rho = torch.rand(n, dtype=torch.float64)
    rho = rho / rho.sum()
    raw = torch.zeros(n, n, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([raw], max_iter=3000, tolerance_grad=1e-13, line_search_fn="strong_wolfe")

    def objective():
        plan = torch.softmax(raw.flatten(), 0).view(n, n)
        rows = plan.sum(1)
        value = (cost * plan).sum() + eps * (plan * (plan / rho[:, None]).log()).sum()
        value = value + alpha * (rows * (rows / rho).log()).sum() + tau * (plan.sum(0) * potential).sum()
        solver.zero_grad()
        value.backward()
        return value

    solver.step(objective)
    best = torch.softmax(raw.detach().flatten(), 0).view(n, n).sum(0)
    ours = log_jko_step(rho.log()[None], potential[None], cost[None], tau, eps, relaxation=share).rho[0]
    assert float((best - ours).abs().max()) < 1e-4
    assert float(ours.sum()) == pytest.approx(1, abs=1e-12)


def test_the_relaxed_step_lies_between_transport_and_reweighting():
    torch.manual_seed(1)
    n, tau = 30, 0.5
    cost, potential = ground_cost(torch.rand(n, 2, dtype=torch.float64))[None], torch.randn(1, n, dtype=torch.float64)
    rho = torch.full((1, n), 1 / n, dtype=torch.float64)
    balanced = log_jko_step(rho.log(), potential, cost, tau, 0.05).rho
    nearly = log_jko_step(rho.log(), potential, cost, tau, 0.05, relaxation=1e-9).rho
    assert torch.allclose(balanced, nearly, atol=1e-7)
    eps = 1e-7  # nothing moves: mass is re-weighted where it lies
    still = log_jko_step(rho.log(), potential, cost, eps * tau, eps, relaxation=1.0).rho
    assert torch.allclose(still, mirror_step(rho, potential, tau).rho, atol=1e-5)
    gains = log_jko_step(rho.log(), potential, cost, tau, 0.05, relaxation=1.0).rho
    assert float((gains * potential).sum()) < float((balanced * potential).sum())
    with pytest.raises(ConfigError, match="relaxation"):
        log_jko_step(rho.log(), potential, cost, tau, 0.05, relaxation=1.5)
    with pytest.raises(ConfigError, match="entropy 0"):
        log_jko_step(rho.log(), potential, cost, tau, 0.05, 0.1, relaxation=0.5)
