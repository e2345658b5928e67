import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from backbone.errors import ConfigError, DataError
from docparse.flow.config import PRESETS, FlowConfig
from docparse.flow.cost import ground_cost
from docparse.flow.divergence import sinkhorn_divergence, wasserstein2
from docparse.flow.flow import FlowResult, run_flow, run_flows
from docparse.flow.grids import Support, page_grid, word_support
from docparse.flow.losses import amortised_loss, flow_loss, kl_to, unrolled_loss
from docparse.flow.targets import Region, Target, step_targets, target_law

SMALL = FlowConfig(levels=(4, 8, 16), entropy=0.1, max_particles=160)


class Well:
    """A potential that is low around a place of a page; differentiable in its depth."""

    def __init__(self, page: int, x: float, y: float, depth: float | Tensor = 3.0, width: float = 0.1) -> None:
        self.page, self.centre, self.depth, self.width = page, torch.tensor([x, y]), depth, width
        self.calls: list[tuple[int, list[int]]] = []

    def __call__(self, k: int, supports: Sequence[Support], laws: Sequence[Tensor]) -> list[Tensor]:
        self.calls.append((k, [len(s) for s in supports]))
        assert all(float(law.detach().sum()) == pytest.approx(1, abs=1e-5) for law in laws)
        return [
            -self.depth
            * (s.pages == self.page)
            * torch.exp(-((s.points - self.centre) ** 2).sum(-1) / (2 * self.width**2))
            for s in supports
        ]


@pytest.mark.parametrize("entropy", [0.0, 0.1])
def test_the_flow_sharpens_to_the_well_on_the_right_page(entropy: float) -> None:
    config = FlowConfig(levels=(8, 16, 32, 64), entropy=entropy)
    initial = page_grid([(595, 842), (842, 595), (595, 842)], 8)
    well = Well(1, 0.7, 0.3, depth=2.0, width=0.3)
    result = run_flow(initial, well, config)
    assert [step.support.grid.cells for step in result.steps] == [8, 16, 32, 64]
    assert [k for k, _ in well.calls] == [0, 1, 2, 3]
    goal = target_law(page_grid([(595, 842), (842, 595), (595, 842)], 64), [Region(1, 0.69, 0.29, 0.71, 0.31)])
    distances = []
    for step in result.steps:
        assert len(step.support) <= 1024
        assert step.converged
        assert step.residual <= config.tolerance
        assert step.dropped <= 0.3  # the limit of 1024 bites at this broad well, and says so
        assert float(step.rho.sum()) == pytest.approx(1, abs=1e-6)
        full = page_grid([(595, 842), (842, 595), (595, 842)], 64)
        some = goal.rho > 0
        pages = {"pages": step.support.pages, "other_pages": full.pages[some]}
        cost = ground_cost(step.support.points, full.points[some], **pages)
        distances.append(wasserstein2(step.rho, goal.rho[some], cost).distance)
    assert distances == sorted(distances, reverse=True)
    assert float(result.support.page_mass(result.rho)[1]) > 0.9
    centre = result.rho @ result.support.points
    assert torch.allclose(centre, torch.tensor([0.7, 0.3]), atol=0.03)


def test_energies_are_those_of_the_step() -> None:
    result = run_flow(page_grid([(1, 1)], 4), Well(0, 0.3, 0.3), SMALL)
    for step in result.steps:
        for law, value in ((step.rho_before, step.energy_before), (step.rho, step.energy)):
            by_hand = (law * step.potential).sum() + step.entropy * torch.xlogy(law, law).sum()
            assert float(value) == pytest.approx(float(by_hand), abs=1e-6)


def test_a_batch_of_documents_equals_each_alone() -> None:
    documents = [page_grid([(1, 1)], 4), page_grid([(3, 4), (4, 3)], 4), page_grid([(1, 2)], 4)]
    together = run_flows(documents, Well(0, 0.3, 0.3), SMALL)
    for document, result in zip(documents, together, strict=True):
        alone = run_flow(document, Well(0, 0.3, 0.3), SMALL)
        for a, b in zip(result.steps, alone.steps, strict=True):
            assert torch.equal(a.support.boxes, b.support.boxes)
            assert torch.allclose(a.rho, b.rho, atol=5e-5)
            assert a.dropped == pytest.approx(b.dropped, abs=1e-5)


def test_the_last_step_can_run_on_words() -> None:
    config = FlowConfig(levels=(4, 8, 16), words=True, entropy=0.1)
    initial = page_grid([(1, 1)], 4)
    boxes = torch.tensor([[0.28, 0.29, 0.32, 0.31], [0.33, 0.29, 0.4, 0.31], [0.8, 0.8, 0.9, 0.82]])
    words = word_support(initial.grid, boxes, torch.zeros(3))
    seen: list[tuple[int, int]] = []

    def weigh(k: int, document: int, children: Support) -> Tensor:
        seen.append((k, document))
        return children.areas

    result = run_flow(initial, Well(0, 0.3, 0.3, 6.0, 0.05), config, words=words, weight_fn=weigh)
    assert seen == [(1, 0), (2, 0)]
    assert int(result.support.words[result.rho.argmax()]) == 0
    assert float(result.rho.max()) > 0.5
    # one step, on words at once: the rival without a flow
    single = run_flow(initial, Well(0, 0.3, 0.3, 6.0, 0.05), FlowConfig(levels=(4,), words=True), words=words)
    assert len(single.steps) == 1
    assert set(single.support.words.tolist()) == {-1, 0, 1, 2}
    with pytest.raises(DataError, match="give the words"):
        run_flow(initial, Well(0, 0.3, 0.3), config)


def test_geometry_kl_only_reweights() -> None:
    config = FlowConfig(levels=(4, 4, 4), geometry="kl", entropy=0.0, tau_decay=1.0, keep=1.0)
    rho = torch.zeros(16)
    rho[:8] = 1 / 8
    well = Well(0, 0.6, 0.9, width=0.3)
    result = run_flow(page_grid([(1, 1)], 4), well, config, rho=rho)
    potential = well(0, [result.support], [result.rho])[0]
    expected = torch.softmax(-1.5 * potential, 0)
    assert len(result.support) == 8
    assert torch.allclose(result.rho, expected, atol=1e-6)


@pytest.mark.parametrize(
    "change", [{}, {"entropy": 0.0}, {"geometry": "kl"}], ids=["entropy", "closed form", "kl"]
)  # fmt: skip
def test_gradients_run_through_every_step(change: dict[str, object]) -> None:
    """Of the last law with respect to the first potential, against finite differences."""
    tight = FlowConfig(**{**vars(SMALL), **change, "keep": 1.0, "tolerance": 1e-11, "iterations": 200})
    initial = page_grid([(1, 1)], 4)

    def nearness(depth: float | Tensor) -> Tensor:
        def field(k: int, supports: Sequence[Support], laws: Sequence[Tensor]) -> list[Tensor]:
            return [v.double() for v in Well(0, 0.3, 0.3, depth if k == 0 else 1.0)(k, supports, laws)]

        result = run_flow(initial, field, tight, rho=initial.uniform().double())
        return -(result.rho * ((result.support.points - 0.3) ** 2).sum(-1)).sum()

    depth = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(nearness(depth), depth)
    measured = (nearness(2.001) - nearness(1.999)) / 0.002
    assert float(slope) == pytest.approx(float(measured), rel=1e-4)
    assert float(slope) > 0


def test_flow_refusals() -> None:
    with pytest.raises(DataError, match="levels"):
        run_flow(page_grid([(1, 1)], 8), Well(0, 0.3, 0.3), SMALL)
    with pytest.raises(DataError, match="lengths"):
        run_flow(page_grid([(1, 1)], 4), lambda k, s, p: [torch.zeros(3)], SMALL)
    with pytest.raises(DataError, match="a law"):
        run_flow(page_grid([(1, 1)], 4), Well(0, 0.3, 0.3), SMALL, rho=torch.ones(3) / 3)
    with pytest.raises(DataError, match="potentials are NaN"):
        run_flow(page_grid([(1, 1)], 4), lambda k, s, p: [torch.full((16,), math.nan)], SMALL)
    with pytest.raises(DataError, match="at least one"):
        run_flows([], Well(0, 0.3, 0.3), SMALL)


# --- settings --------------------------------------------------------------------------------------------------------


def test_the_default_schedule() -> None:
    config = PRESETS["flow"]
    assert [config.tau_at(k) for k in range(4)] == [0.5, 0.25, 0.125, 0.0625]
    assert [config.epsilon_at(k) for k in range(4)] == [1 / 64, 1 / 256, 1 / 1024, 1 / 4096]
    assert [config.entropy_at(k) for k in range(4)] == [0.5, 0.125, 0.03125, 0.0078125]
    assert [config.blur_at(k) for k in range(4)] == [0.125, 0.0625, 0.03125, 0.0]
    assert [config.weight_at(k) for k in range(4)] == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"levels": ()}, "levels"), ({"levels": (8, 12)}, "multiple"), ({"levels": (16, 8)}, "multiple"),
        ({"geometry": "euclid"}, "geometry"), ({"reading": "c"}, "reading"), ({"tau": 0}, "tau"),
        ({"kappa": -1}, "kappa"), ({"keep": 0}, "keep"), ({"max_particles": 0}, "max_particles"),
        ({"entropy": math.nan}, "entropy"), ({"tau": math.inf}, "tau"),
    ],
)  # fmt: skip
def test_settings_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        FlowConfig(**change)  # type: ignore[arg-type]


# --- targets ---------------------------------------------------------------------------------------------------------


def test_target_by_hand() -> None:
    support = page_grid([(1, 1), (1, 1)], 2)
    half = Region(0, 0.25, 0.0, 0.75, 0.25)  # both upper cells of page 0 equally
    small = Region(1, 0.0, 0.9, 0.1, 1.0)  # the lower left cell of page 1; it counts as much as the large one
    target = target_law(support, [half, small])
    assert torch.allclose(target.rho, torch.tensor([0.25, 0.25, 0, 0, 0, 0, 0.5, 0]))
    assert target.covered == pytest.approx(1.0)
    rest = target_law(support.select(torch.tensor([0, 2, 3, 4])), [half, small])
    assert rest.covered == pytest.approx(0.25)
    assert torch.allclose(rest.rho, torch.tensor([0.5, 0.0, 0.0, 0.5]))  # page 1 has one particle left: the nearest
    assert torch.allclose(target_law(support.select(torch.tensor([0])), [small]).rho, torch.ones(1))


def test_a_blurred_target_equals_sampling() -> None:
    support = page_grid([(3, 4)], 8)
    region = Region(0, 0.3, 0.2, 0.42, 0.25)
    sigma = 0.07
    generator = torch.Generator().manual_seed(0)
    n = 400_000
    low, size = torch.tensor([region.x0, region.y0]), torch.tensor([region.x1 - region.x0, region.y1 - region.y0])
    points = low + size * torch.rand(n, 2, generator=generator) + sigma * torch.randn(n, 2, generator=generator)
    inside = (points >= 0).all(-1) & (points <= torch.tensor([0.75, 1.0])).all(-1)
    step = support.boxes[0, 2:]
    index = (points[inside] / step).floor().long()
    counts = torch.bincount(index[:, 1] * 6 + index[:, 0], minlength=48).float()
    assert torch.allclose(target_law(support, [region], sigma).rho, counts / counts.sum(), atol=2e-3)
    almost = target_law(support, [region], 1e-5).rho
    assert torch.allclose(almost, target_law(support, [region]).rho, atol=1e-3)


def test_target_refusals() -> None:
    support = page_grid([(1, 1)], 2)
    with pytest.raises(DataError, match="0 regions"):
        target_law(support, [])
    with pytest.raises(DataError, match="page 1"):
        target_law(support, [Region(1, 0, 0, 1, 1)])
    with pytest.raises(DataError, match="x0 < x1"):
        Region(0, 0.5, 0, 0.5, 1)


# --- losses ----------------------------------------------------------------------------------------------------------


def flow_of(depth: Tensor, config: FlowConfig, documents: int = 2) -> tuple[list[FlowResult], list[list[Target]]]:
    results = run_flows([page_grid([(1, 1)], 4)] * documents, Well(0, 0.3, 0.3, depth), config)
    regions = [[Region(0, 0.25, 0.28, 0.35, 0.32)], [Region(0, 0.6, 0.6, 0.8, 0.7)]][:documents]
    return results, [step_targets(r, g, config) for r, g in zip(results, regions, strict=True)]


def test_amortised_loss_by_hand() -> None:
    results, targets = flow_of(torch.tensor(3.0), SMALL, 1)
    loss = amortised_loss(results, targets, SMALL)
    fit = sum(
        (k + 1) / 3 * float(torch.special.xlogy(t.rho, t.rho).sum() - (t.rho * s.log_rho).sum())
        for k, (s, t) in enumerate(zip(results[0].steps, targets[0], strict=True))
    )
    assert float(loss.fit) == pytest.approx(fit, rel=1e-5)
    assert float(loss.total) == pytest.approx(float(loss.fit + loss.transport))
    without = amortised_loss(results, targets, FlowConfig(**{**vars(SMALL), "transport_weight": 0.0}))
    assert float(without.transport) == 0.0
    assert float(without.fit) == pytest.approx(fit, rel=1e-5)


def test_the_transport_term_stands_for_the_squared_w2_distance() -> None:
    sharp = FlowConfig(levels=(8, 8), entropy=0.1, epsilon_scale=0.05, loss_iterations=1000)
    initial = page_grid([(1, 1)], 8)
    results = [run_flow(initial, Well(0, x, x), sharp) for x in (0.3, 0.6)]
    targets = [step_targets(r, [Region(0, 0.25, 0.28, 0.35, 0.32)], sharp) for r in results]
    expected = 0.0
    for k in range(2):
        for result in results:
            step = result.steps[k]
            distance = wasserstein2(step.rho_before, step.rho, ground_cost(step.support.points)).distance
            expected += (k + 1) / 2 * 0.1 / (2 * step.tau) * distance**2 / 2
    assert float(amortised_loss(results, targets, sharp).transport) == pytest.approx(expected, rel=0.05)


def test_the_transport_term_holds_the_law_before_the_step_constant() -> None:
    """A potential of step 0 reaches the law before step 1 too; the term of step 1 must not see it there."""
    config = FlowConfig(levels=(4, 4), entropy=0.0, keep=1.0, epsilon_scale=0.3, loss_iterations=1000)
    depth = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    initial = page_grid([(1, 1)], 4)

    def field(k: int, supports: Sequence[Support], laws: Sequence[Tensor]) -> list[Tensor]:
        return [v.double() for v in Well(0, 0.3, 0.3, depth if k == 0 else -0.2)(k, supports, laws)]

    result = run_flow(initial, field, config, rho=initial.uniform().double())
    cost = ground_cost(result.support.points.double())
    terms = {}
    for name, constant in (("held", True), ("free", False)):
        terms[name] = torch.tensor(0.0, dtype=torch.float64)
        for k, step in enumerate(result.steps):
            before = step.rho_before.detach() if constant else step.rho_before
            value = sinkhorn_divergence(before[None], step.rho[None], cost, step.epsilon, iterations=1000)
            terms[name] = terms[name] + (k + 1) / 2 * 0.1 / step.tau * value[0]
    loss = amortised_loss([result], [[Target(s.rho.detach(), 1.0) for s in result.steps]], config).transport
    slopes = [float(torch.autograd.grad(t, depth, retain_graph=True)[0]) for t in (loss, terms["held"], terms["free"])]
    assert slopes[0] == pytest.approx(slopes[1], rel=0.02)
    assert abs(slopes[2] - slopes[1]) > 0.1 * abs(slopes[1])


def test_unrolled_loss_falls_to_zero_at_the_target_and_punishes_rising_energy() -> None:
    results, targets = flow_of(torch.tensor(3.0), SMALL)
    at_target = [[Target(s.rho, 1.0) for s in r.steps] for r in results]
    loss = unrolled_loss(results, at_target, SMALL)
    assert abs(float(loss.transport)) < 1e-4
    assert float(unrolled_loss(results, targets, SMALL).transport) > 0.01
    rising = [
        FlowResult(tuple(type(s)(**{**vars(s), "energy": s.energy_before + 2.0}) for s in r.steps)) for r in results
    ]
    assert float(unrolled_loss(rising, at_target, SMALL).fit) == pytest.approx(0.1 * 3 * 2.0)
    falling = [
        FlowResult(tuple(type(s)(**{**vars(s), "energy": s.energy_before - 1.0}) for s in r.steps)) for r in results
    ]
    assert float(unrolled_loss(falling, at_target, SMALL).fit) == 0.0


@pytest.mark.parametrize("reading", ["amortised", "unrolled"])
def test_descending_the_loss_moves_the_evidence_to_the_truth(reading: str) -> None:
    config = FlowConfig(levels=(4, 8), entropy=0.05, reading=reading)  # type: ignore[arg-type]
    place = torch.tensor([0.6, 0.6], requires_grad=True)
    optimizer = torch.optim.Adam([place], 0.05)
    regions = [Region(0, 0.2, 0.25, 0.3, 0.3)]

    def field(k: int, supports: Sequence[Support], laws: Sequence[Tensor]) -> list[Tensor]:
        return [3 * ((s.points - place) ** 2).sum(-1) for s in supports]

    losses = []
    for _ in range(25):
        results = run_flows([page_grid([(1, 1)], 4)], field, config)
        loss = flow_loss(results, [step_targets(results[0], regions, config)], config).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    assert float((place.detach() - torch.tensor([0.25, 0.275])).norm()) < 0.2


def test_kl_floors_empty_particles() -> None:
    target = torch.tensor([0.5, 0.5, 0.0])
    log_rho = torch.tensor([0.0, -math.inf, -math.inf])
    assert float(kl_to(target, log_rho, -60.0)) == pytest.approx(math.log(0.5) + 0.5 * 60)
    assert float(kl_to(target, target.clamp_min(1e-30).log())) == pytest.approx(0.0, abs=1e-6)


def test_loss_refusals() -> None:
    results, targets = flow_of(torch.tensor(3.0), SMALL)
    with pytest.raises(DataError, match="must agree"):
        amortised_loss(results, targets[:1], SMALL)
    with pytest.raises(DataError, match="must agree"):
        amortised_loss(results, [t[:2] for t in targets], SMALL)
