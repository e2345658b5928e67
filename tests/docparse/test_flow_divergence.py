import numpy as np
import ot
import pytest
import torch
from flow_cases import problem, square_grid
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.errors import ConfigError, DataError
from docparse.flow.cost import ground_cost
from docparse.flow.divergence import entropic_cost, sinkhorn_divergence, wasserstein2


def test_entropic_cost_equals_pots_value_under_both_references() -> None:
    a, _, cost, _ = problem(2, 30, seed=1)
    b, _, _, _ = problem(2, 30, seed=2)
    eps = 0.02
    product = entropic_cost(a, b, cost, eps, iterations=2000, tolerance=1e-11)
    counting = entropic_cost(a, b, cost, eps, reference="counting", iterations=2000, tolerance=1e-11)
    for i in range(2):
        q, p = a[i].numpy(), b[i].numpy()
        plan = ot.sinkhorn(q, p, cost[i].numpy(), eps, method="sinkhorn_log", numItermax=50_000, stopThr=1e-13)
        linear = float((plan * cost[i].numpy()).sum())
        assert float(product[i]) == pytest.approx(linear + eps * (plan * np.log(plan / np.outer(q, p))).sum(), abs=1e-9)
        assert float(counting[i]) == pytest.approx(linear + eps * (plan * (np.log(plan) - 1)).sum(), abs=1e-9)


def test_sinkhorn_divergence_equals_pots_between_two_supports() -> None:
    a, _, _, x = problem(2, 25, seed=1)
    b, _, _, y = problem(2, 18, seed=2)
    eps = 0.05
    value = sinkhorn_divergence(
        a, b, ground_cost(x, y), eps, cost_aa=ground_cost(x), cost_bb=ground_cost(y), iterations=2000, tolerance=1e-11
    )
    for i in range(2):
        parts = []
        for q, p, c in ((a, b, ground_cost(x, y)), (a, a, ground_cost(x)), (b, b, ground_cost(y))):
            q_, p_, c_ = q[i].numpy(), p[i].numpy(), c[i].numpy()
            plan = ot.sinkhorn(q_, p_, c_, eps, method="sinkhorn_log", numItermax=50_000, stopThr=1e-13)
            parts.append((plan * c_).sum() + eps * (plan * np.log(plan / np.outer(q_, p_))).sum())
        assert float(value[i]) == pytest.approx(parts[0] - parts[1] / 2 - parts[2] / 2, abs=1e-8)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.02]), st.sampled_from([torch.float32, torch.float64]))
def test_the_divergence_is_zero_between_equals_else_positive(seed: int, eps: float, dtype: torch.dtype) -> None:
    a, _, cost, _ = problem(2, 20, seed, dtype)
    b, _, _, _ = problem(2, 20, seed + 1, dtype)
    a[0] = 0.0
    a[0, seed % 20] = 1.0
    single = dtype == torch.float32  # the potentials are as exact as their iterations: those of doubles go on further
    tolerance, iterations, stop = (1e-5, 500, 1e-6) if single else (1e-9, 5000, 1e-10)
    assert sinkhorn_divergence(a, a, cost, eps, iterations=iterations, tolerance=stop).abs().max() < tolerance
    there = sinkhorn_divergence(a, b, cost, eps, iterations=iterations, tolerance=stop)
    back = sinkhorn_divergence(b, a, cost.mT, eps, iterations=iterations, tolerance=stop)
    assert (there > -tolerance).all()
    assert torch.allclose(there, back, atol=1e-5)


@pytest.mark.parametrize("eps", [1e-1, 1e-2, 1e-3, 1e-4])
def test_no_nan_at_any_epsilon_with_empty_particles(eps: float) -> None:
    a, _, cost, _ = problem(2, 60, dtype=torch.float32)
    a[0] = 0.0
    a[0, 3] = 1.0
    b = torch.zeros(2, 60)
    b[:, 50] = 1.0
    a.requires_grad_()
    value = sinkhorn_divergence(a, b, cost, eps)
    assert torch.isfinite(value).all()
    assert float(value[0].detach()) == pytest.approx(float(cost[0, 3, 50]), rel=1e-3)
    (gradient,) = torch.autograd.grad(value.sum(), a)
    assert torch.isfinite(gradient).all()


def test_envelope_gradients_equal_finite_differences() -> None:
    a, _, _, x = problem(1, 6, seed=3)
    b, _, _, y = problem(1, 5, seed=4)
    options = {"iterations": 1000, "tolerance": 1e-13}

    def of_laws(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        law_a, law_b = torch.softmax(u, -1), torch.softmax(v, -1)
        costs = {"cost_aa": ground_cost(x), "cost_bb": ground_cost(y)}
        return sinkhorn_divergence(law_a, law_b, ground_cost(x, y), 0.05, **costs, **options)

    assert torch.autograd.gradcheck(of_laws, [a.log().requires_grad_(), b.log().requires_grad_()], atol=1e-6)

    def of_places(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        costs = {"cost_aa": ground_cost(u), "cost_bb": ground_cost(v)}
        return sinkhorn_divergence(a, b, ground_cost(u, v), 0.05, **costs, **options)

    assert torch.autograd.gradcheck(of_places, [x.clone().requires_grad_(), y.clone().requires_grad_()], atol=1e-6)

    def counting(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        laws = torch.softmax(u, -1), torch.softmax(v, -1)
        return entropic_cost(*laws, ground_cost(x, y), 0.05, reference="counting", **options)

    assert torch.autograd.gradcheck(counting, [a.log().requires_grad_(), b.log().requires_grad_()], atol=1e-6)


def test_padded_batch_equals_single() -> None:
    singles = [problem(1, n, seed=n) for n in (12, 30)]
    others = [problem(1, n, seed=n + 1) for n in (12, 30)]
    a, b, points = torch.zeros(2, 30).double(), torch.zeros(2, 30).double(), torch.zeros(2, 30, 2).double()
    for i, ((p, _, _, x), (q, _, _, _)) in enumerate(zip(singles, others, strict=True)):
        n = p.shape[1]
        a[i, :n], b[i, :n], points[i, :n] = p[0], q[0], x[0]
    options = {"iterations": 2000, "tolerance": 1e-10}
    eps = torch.tensor([0.02, 0.05], dtype=torch.float64)
    padded = sinkhorn_divergence(a, b, ground_cost(points), eps, **options)
    for i, ((p, _, c, _), (q, _, _, _)) in enumerate(zip(singles, others, strict=True)):
        assert float(padded[i]) == pytest.approx(
            float(sinkhorn_divergence(p, q, c, float(eps[i]), **options)[0]), abs=1e-8
        )


@pytest.mark.parametrize("width", [0.02, 0.1, 0.5])
def test_w2_lies_between_its_bounds_and_close_to_pots_exact_value(width: float) -> None:
    points = square_grid(14)
    cost = ground_cost(points)
    a = torch.softmax(-((points - torch.tensor([0.3, 0.4])) ** 2).sum(-1) / width, 0)
    b = torch.softmax(-((points - torch.tensor([0.45, 0.5])) ** 2).sum(-1) / 0.02, 0)
    b[b < 1e-3] = 0
    b /= b.sum()
    exact = float(ot.emd2(a.numpy(), b.numpy(), 2 * cost.numpy(), numItermax=10**7)) ** 0.5
    found = wasserstein2(a, b, cost)
    assert found.low - 1e-9 <= exact <= found.high + 1e-9
    assert found.distance == pytest.approx(exact, rel=0.01)
    assert wasserstein2(a, a, cost).distance < 2e-3


def test_w2_between_single_points_and_different_supports_is_their_distance() -> None:
    x, y = torch.tensor([[0.1, 0.1], [0.9, 0.9]]), torch.tensor([[0.4, 0.5]])
    found = wasserstein2(torch.tensor([1.0, 0.0]), torch.tensor([1.0]), ground_cost(x, y))
    assert found.distance == pytest.approx(0.5, abs=1e-6)
    both = wasserstein2(torch.tensor([0.5, 0.5]), torch.tensor([1.0]), ground_cost(x, y))
    assert both.distance == pytest.approx((0.5 * 0.25 + 0.5 * (0.25 + 0.16)) ** 0.5, abs=1e-6)
    assert both.high - both.low < 1e-6


def test_refusals() -> None:
    a, _, cost, _ = problem(1, 5)
    with pytest.raises(DataError, match="two supports"):
        sinkhorn_divergence(a, a[:, :4] / a[:, :4].sum(), cost[:, :, :4], 0.1)
    with pytest.raises(DataError, match="expected"):
        entropic_cost(a, a, cost[:, :4], 0.1)
    with pytest.raises(DataError, match="equally long"):
        entropic_cost(a, a.expand(2, -1), cost, 0.1)
    with pytest.raises(ConfigError, match="epsilon"):
        entropic_cost(a, a, cost, 0.0)
    with pytest.raises(DataError, match="total mass"):
        entropic_cost(a, 2 * a, cost, 0.1)
