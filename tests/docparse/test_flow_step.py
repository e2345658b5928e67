import math

import numpy as np
import ot
import pytest
import torch
from flow_cases import problem, square_grid
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from docparse.flow.cost import ground_cost
from docparse.flow.divergence import entropic_cost
from docparse.flow.step import energy, jko_step, log_jko_step, mirror_step

EPSILONS = (1e-1, 1e-2, 1e-3, 1e-4)


def scaling_iterations(rho: Tensor, potential: Tensor, cost: Tensor, tau: float, eps: float, lam: float) -> Tensor:
    """The plain scaling algorithm with the KL-prox, as it is written in the papers; float64, moderate eps."""
    sigma = tau / eps
    kernel = torch.exp(-cost / eps)
    a = torch.ones_like(rho)
    for _ in range(1500):
        b = rho / (kernel.mT @ a[..., None])[..., 0]
        z = (kernel @ b[..., None])[..., 0]
        p = (z * torch.exp(-sigma * potential)) ** (1 / (1 + sigma * lam))
        a = p / z
    return p


# --- equality with other solvers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.1, 0.02, 0.005])
def test_closed_form_equals_the_scaling_iterations_and_the_dense_softmax(eps: float) -> None:
    rho, potential, cost, _ = problem(3, 40)
    new = jko_step(rho, potential, cost, 0.3, eps).rho
    plan = torch.softmax(-(cost + 0.3 * potential[:, None]) / eps, -1)
    assert torch.allclose(new, (rho[:, None] @ plan)[:, 0], atol=1e-14)
    assert torch.allclose(new, scaling_iterations(rho, potential, cost, 0.3, eps, 0.0), atol=1e-12)


@pytest.mark.filterwarnings("ignore:If reg_type = entropy")
@pytest.mark.parametrize("eps", [0.1, 0.02, 0.005])
def test_closed_form_equals_pots_semi_relaxed_solver(eps: float) -> None:
    """POT with an exact first marginal and a free second one, the potential inside the cost."""
    rho, potential, cost, _ = problem(2, 60, seed=1)
    new = jko_step(rho, potential, cost, 0.4, eps).rho
    for i in range(2):
        loaded = (cost[i] + 0.4 * potential[i]).numpy()
        plan = ot.unbalanced.sinkhorn_stabilized_unbalanced(
            rho[i].numpy(), np.ones(60), loaded, reg=eps, reg_m=(math.inf, 1e-16), reg_type="entropy", stopThr=1e-12
        )
        assert np.abs(plan.sum(1) - rho[i].numpy()).max() < 1e-10  # POT solved the problem we mean
        assert np.abs(plan.sum(0) - new[i].numpy()).max() < 1e-6


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_the_plan_between_the_two_laws_is_pots_sinkhorn_plan(lam: float) -> None:
    """Given the new law, W_eps's own plan must be the step's plan: rows rho, columns rho', shape exp((f - C) / eps)."""
    eps, tau = 0.02, 0.4
    rho, potential, cost, _ = problem(1, 50, seed=2)
    new = jko_step(rho, potential, cost, tau, eps, lam, iterations=500, tolerance=1e-12).rho
    first_variation = tau * (potential + lam * new.log())
    own = rho[..., None] * torch.softmax(-(cost + first_variation[:, None]) / eps, -1)
    theirs = ot.sinkhorn(rho[0].numpy(), new[0].numpy(), cost[0].numpy(), eps, method="sinkhorn_log",
                         numItermax=100_000, stopThr=1e-13)  # fmt: skip
    assert np.abs(own[0].numpy() - theirs).max() < 1e-9


@pytest.mark.parametrize(("tau", "eps", "lam"), [(0.5, 0.05, 0.5), (0.3, 0.05, 0.1), (0.2, 0.02, 0.3)])
def test_with_entropy_equals_a_quasi_newton_solver_over_pots_sinkhorn(tau: float, eps: float, lam: float) -> None:
    """The problem as it is written: p minimises W_eps(rho, p) + tau F(p), with W_eps and its gradient from POT."""
    rho, potential, cost, _ = problem(1, 8, seed=3)
    result = jko_step(rho, potential, cost, tau, eps, lam, iterations=500, tolerance=1e-12)
    q, v, c = rho[0].numpy(), potential[0].numpy(), cost[0].numpy()

    def objective(scores: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = scores - np.logaddexp.reduce(scores)
        p = np.exp(log_p)
        _, log = ot.sinkhorn(q, p, c, eps, method="sinkhorn_log", numItermax=5000, stopThr=1e-12, log=True)
        f, g = eps * log["log_u"], eps * log["log_v"]
        value = q @ f + p @ g - eps + tau * (p @ v + lam * p @ log_p)
        slope = g + tau * (v + lam * (log_p + 1))
        return float(value), p * (slope - p @ slope)

    found = minimize(objective, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 500})
    expected = np.exp(found.x - np.logaddexp.reduce(found.x))
    assert np.abs(expected - result.rho[0].numpy()).max() < 1e-5


@pytest.mark.parametrize(("tau", "eps", "lam"), [(0.5, 0.05, 0.5), (0.25, 0.02, 0.125), (0.5, 1 / 64, 0.5)])
def test_with_entropy_equals_the_plain_scaling_iterations(tau: float, eps: float, lam: float) -> None:
    rho, potential, cost, _ = problem(3, 64, seed=4)
    result = jko_step(rho, potential, cost, tau, eps, lam, iterations=300, tolerance=1e-11)
    assert bool(result.converged.all())
    assert torch.allclose(result.rho, scaling_iterations(rho, potential, cost, tau, eps, lam), atol=1e-10)


# --- known answers ---------------------------------------------------------------------------------------------------


def test_without_distance_the_step_is_the_gibbs_law() -> None:
    rho, potential, cost, _ = problem(2, 30)
    free = torch.zeros_like(cost)
    assert torch.allclose(jko_step(rho, potential, free, 0.5, 0.1).rho, torch.softmax(-5 * potential, -1), atol=1e-14)
    damped = jko_step(rho, potential, free, 0.5, 0.1, 0.3, iterations=300, tolerance=1e-12).rho
    assert torch.allclose(damped, torch.softmax(-5 * potential / (1 + 1.5), -1), atol=1e-10)


def test_as_epsilon_falls_every_particle_jumps_to_its_proximal_point() -> None:
    rho, potential, cost, _ = problem(1, 40, seed=5)
    goal = (cost[0] + 0.2 * potential[0]).argmin(1)
    expected = torch.zeros(40, dtype=torch.float64).index_add(0, goal, rho[0])
    assert torch.allclose(jko_step(rho, potential, cost, 0.2, 1e-5).rho[0], expected, atol=1e-6)


def test_a_gaussian_in_a_quadratic_well_moves_and_narrows_as_computed_by_hand() -> None:
    """V = a/2 |x - c|^2: mean (m + tau a c) / (1 + tau a), variance s^2 / (1 + tau a)^2 + eps / (1 + tau a)."""
    points = square_grid(48)
    a, tau, eps, s = 2.0, 0.5, 4e-3, 0.08
    centre, mean = torch.tensor([0.6, 0.5], dtype=torch.float64), torch.tensor([0.4, 0.45], dtype=torch.float64)
    rho = torch.softmax(-((points - mean) ** 2).sum(-1) / (2 * s * s), 0)
    potential = a / 2 * ((points - centre) ** 2).sum(-1)
    new = jko_step(rho[None], potential[None], ground_cost(points), tau, eps).rho[0]
    got = new @ points
    expected = (rho @ points + tau * a * centre) / (1 + tau * a)
    assert torch.allclose(got, expected, atol=1e-3)
    before, after = (rho @ (points - rho @ points) ** 2), new @ (points - got) ** 2
    assert torch.allclose(after, before / (1 + tau * a) ** 2 + eps / (1 + tau * a), rtol=0.05)


def test_steps_in_one_field_end_at_the_stationary_law_of_fokker_planck() -> None:
    """With C = 1/2 |x - y|^2 and no slope of V at the ends, rho tends to exp(-V / lambda), up to the blur of eps."""
    x = (torch.arange(48, dtype=torch.float64) + 0.5) / 48
    points = torch.stack([x, torch.full_like(x, 0.5)], -1)
    potential = 0.5 * torch.cos(2 * math.pi * x)[None]
    log_rho = torch.full((1, 48), -math.log(48), dtype=torch.float64)
    for _ in range(40):
        log_rho = log_jko_step(log_rho, potential, ground_cost(points), 0.1, 48**-2, 0.5, iterations=60).log_rho
    gibbs = torch.softmax(-potential / 0.5, -1)
    assert float((log_rho.exp() - gibbs).abs().sum()) < 0.02


def test_two_wells_of_equal_depth_keep_half_the_mass_each() -> None:
    points = square_grid(24)
    wells = [torch.tensor(c, dtype=torch.float64) for c in ([0.25, 0.5], [0.75, 0.5])]
    potential = -sum(torch.exp(-((points - c) ** 2).sum(-1) / 0.005) for c in wells)[None] * 3
    rho = torch.full((1, 576), 1 / 576, dtype=torch.float64)
    for k in range(5):
        rho = jko_step(rho, potential, ground_cost(points), 0.1 * 0.8**k, 2e-3).rho
    mass = [float(rho[0][((points - c) ** 2).sum(-1) < 0.15**2].sum()) for c in wells]
    assert mass[0] == pytest.approx(mass[1], abs=1e-9)
    assert sum(mass) > 0.9


def test_the_mirror_step_reweights_and_never_moves_mass() -> None:
    rho, potential, _, _ = problem(2, 20)
    rho[:, :5] = 0
    rho /= rho.sum(-1, keepdim=True)
    weighted = rho * torch.exp(-0.7 * potential)
    assert torch.allclose(mirror_step(rho, potential, 0.7).rho, weighted / weighted.sum(-1, keepdim=True), atol=1e-14)
    damped = mirror_step(rho, potential, 0.7, 0.5).rho
    power = weighted ** (1 / 1.35)
    assert torch.allclose(damped, power / power.sum(-1, keepdim=True), atol=1e-14)
    assert float(damped[:, :5].sum()) == 0.0


# --- properties ------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 10**6), st.integers(2, 40), st.sampled_from(EPSILONS), st.floats(0.01, 2.0),
    st.sampled_from([0.0, 0.05, 0.5]), st.floats(0.1, 10.0), st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_mass_is_kept_and_everything_is_finite(
    seed: int, n: int, eps: float, tau: float, lam: float, depth: float, dtype: torch.dtype
) -> None:
    rho, potential, cost, _ = problem(2, n, seed, dtype)
    rho[0] = 0.0
    rho[0, seed % n] = 1.0  # all but one particle empty
    result = jko_step(rho, depth * potential, cost, tau, eps, lam)
    assert torch.isfinite(result.log_rho).all()
    assert torch.isfinite(result.residual).all()
    assert (result.rho >= 0).all()
    assert torch.allclose(result.rho.sum(-1), torch.ones(2, dtype=dtype), atol=1e-6)


@pytest.mark.parametrize("eps", EPSILONS)
@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_gradients_are_finite_with_empty_particles(eps: float, lam: float) -> None:
    rho, potential, cost, _ = problem(2, 50, dtype=torch.float32)
    rho[0] = 0.0
    rho[0, 7] = 1.0
    rho[1, :25] = 0.0
    rho = (rho / rho.sum(-1, keepdim=True)).requires_grad_()
    potential = (10 * potential).requires_grad_()
    tau = torch.tensor(0.5, requires_grad=True)
    result = jko_step(rho, potential, cost, tau, eps, lam)
    (-result.log_rho[:, 3].sum() + result.rho[:, 1].sum()).backward()
    for tensor in (rho, potential, tau):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.03]), st.floats(0.05, 1.0), st.sampled_from([0.0, 0.2]))
def test_the_jko_inequality(seed: int, eps: float, tau: float, lam: float) -> None:
    """The new law is no worse than the old one, or than any other, in its own objective."""
    rho, potential, cost, _ = problem(1, 25, seed)
    other = problem(1, 25, seed + 1)[0]
    new = jko_step(rho, potential, cost, tau, eps, lam, iterations=200, tolerance=1e-9).rho

    def objective(law: Tensor) -> float:
        moved = entropic_cost(rho, law, cost, eps, reference="counting", iterations=1000, tolerance=1e-9)
        return float(moved + tau * energy(law.log(), potential, lam))

    best = objective(new)
    assert best <= objective(rho) + 1e-8
    assert best <= objective(other) + 1e-8
    assert best <= objective(0.98 * new + 0.02 * other) + 1e-8


def test_energy_falls_step_by_step_from_a_uniform_start() -> None:
    points = square_grid(20)
    potential = 4 * ((points - torch.tensor([0.3, 0.6], dtype=torch.float64)) ** 2).sum(-1)[None]
    rho = torch.full((1, 400), 1 / 400, dtype=torch.float64)
    means = [float((rho * potential).sum())]
    for _ in range(5):
        rho = jko_step(rho, potential, ground_cost(points), 0.1, 2e-3).rho
        means.append(float((rho * potential).sum()))
    assert means == sorted(means, reverse=True)
    assert means[-1] < 0.1 * means[0]


@pytest.mark.parametrize("lam", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padded_batch_equals_single(lam: float, dtype: torch.dtype) -> None:
    lengths = (17, 40, 29)
    singles = [problem(1, n, seed=n, dtype=dtype) for n in lengths]
    eps = torch.tensor([0.05, 0.02, 0.01], dtype=dtype)
    tau = torch.tensor([0.5, 0.25, 0.1], dtype=dtype)
    rho, potential = torch.zeros(3, 40, dtype=dtype), torch.full((3, 40), 7.0, dtype=dtype)
    points = torch.zeros(3, 40, 2, dtype=dtype)
    for i, (r, v, _, x) in enumerate(singles):
        n = lengths[i]
        rho[i, :n], potential[i, :n], points[i, :n] = r[0], v[0], x[0]
    valid = torch.arange(40) < torch.tensor(lengths)[:, None]
    padded = jko_step(rho, potential, ground_cost(points), tau, eps, lam, valid=valid)
    for i, (r, v, c, _) in enumerate(singles):
        single = jko_step(r, v, c, float(tau[i]), float(eps[i]), lam)
        tolerance = 1e-12 if dtype == torch.float64 else 2e-5 if lam else 1e-6
        assert torch.allclose(padded.rho[i, : lengths[i]], single.rho[0], atol=tolerance)
        assert padded.residual[i] == pytest.approx(float(single.residual[0]), abs=2e-5)
        assert float(padded.rho[i, lengths[i] :].sum()) == 0.0


def test_one_cost_for_all_equals_a_copy_for_each_also_where_it_is_not_symmetric() -> None:
    rho, potential, cost, _ = problem(3, 20)
    skewed = cost[0] + torch.rand(20, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for lam in (0.0, 0.3):
        shared = jko_step(rho, potential, skewed, 0.3, 0.05, lam).rho
        assert torch.allclose(shared, jko_step(rho, potential, skewed.expand(3, -1, -1), 0.3, 0.05, lam).rho)
    plan = torch.softmax(-(skewed + 0.3 * potential[:, None]) / 0.05, -1)
    assert torch.allclose(jko_step(rho, potential, skewed, 0.3, 0.05).rho, (rho[:, None] @ plan)[:, 0])


def test_more_blocks_than_one_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rho, potential, cost, _ = problem(3, 50)
    rho[0] = 0.0
    rho[0, 40] = 1.0  # blocks of nothing but empty particles, far below exp(-60)
    potential = (50 * potential).requires_grad_()
    outcomes = []
    for budget in (2**20, 300):
        monkeypatch.setattr("docparse.flow.kernel.BLOCK_ELEMENTS", {"cpu": budget})
        log_rho = jko_step(rho, potential, cost, 0.3, 0.02, 0.2).log_rho
        (gradient,) = torch.autograd.grad(log_rho[:, 3].sum(), potential)
        outcomes.append((log_rho, gradient))
    assert torch.allclose(outcomes[0][0], outcomes[1][0], atol=1e-12)
    assert torch.allclose(outcomes[0][1], outcomes[1][1], atol=1e-12)
