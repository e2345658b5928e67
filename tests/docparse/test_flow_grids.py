import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from backbone.errors import ConfigError, DataError
from docparse.flow.grids import (
    Grid,
    Support,
    assign_words,
    cells_of,
    locate,
    page_grid,
    refine,
    sparsify,
    split,
    subdivide,
    word_support,
)

SIZES = st.lists(st.tuples(st.floats(50, 2000), st.floats(50, 2000)), min_size=1, max_size=3)


def random_law(n: int, seed: int) -> Tensor:
    law = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 4 + 1e-9
    return (law / law.sum()).log()


@given(SIZES, st.sampled_from([1, 4, 8]), st.sampled_from([1, 2, 4]))
def test_cells_tile_every_page_exactly(sizes: list[tuple[float, float]], coarsest: int, factor: int) -> None:
    support = page_grid(sizes, coarsest * factor, coarsest)
    for page, (w, h) in enumerate(sizes):
        here = support.select(support.pages == page)
        extent = torch.tensor([w, h]) / max(w, h)
        assert float(here.areas.sum()) == pytest.approx(float(extent.prod()), rel=1e-4)
        assert torch.allclose(here.boxes[:, 2:].amax(0), extent, atol=1e-6)
        assert float(here.boxes[:, :2].min()) == 0.0
        assert here.boxes[:, 2:].max() == pytest.approx(1.0)
    assert torch.equal(locate(support.grid, support.points, support.pages), torch.arange(len(support)))


def test_an_upright_page_keeps_its_aspect() -> None:
    support = page_grid([(595, 842)], 8)
    assert support.grid.shape(0) == (6, 8)  # 595 / 842 * 8 = 5.65
    assert len(support) == 48
    assert page_grid([(595, 842)], 16, 8).grid.shape(0) == (12, 16)  # nested, though 11.3 would be nearer
    assert torch.allclose(support.boxes[7], torch.tensor([595 / 842 / 6, 1 / 8, 595 / 842 / 3, 2 / 8]))


@given(SIZES, st.integers(0, 1000), st.sampled_from([2, 4]))
def test_children_tile_their_parent_and_keep_its_mass(sizes: list[tuple[float, float]], seed: int, factor: int) -> None:
    support = page_grid(sizes, 4)
    chosen = torch.randperm(len(support), generator=torch.Generator().manual_seed(seed))[: max(1, len(support) // 2)]
    support = support.select(chosen)
    children, parent = subdivide(support, 4 * factor)
    assert len(children) == factor**2 * len(support)
    inside = (children.points >= support.boxes[parent, :2]) & (children.points <= support.boxes[parent, 2:])
    assert bool(inside.all())
    assert torch.equal(children.pages, support.pages[parent])
    assert torch.allclose(torch.zeros(len(support)).index_add(0, parent, children.areas), support.areas, atol=1e-6)
    assert len(children.cells.unique()) == len(children)
    assert torch.equal(cells_of(children.grid, children.cells).boxes, children.boxes)
    log_rho = random_law(len(support), seed)
    weights = torch.rand(len(children), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weights[weights < 0.3] = 0.0
    for w in (None, weights, torch.zeros(len(children), dtype=torch.float64)):
        mass = torch.zeros(len(support), dtype=torch.float64).index_add(0, parent, split(log_rho, parent, w).exp())
        assert torch.allclose(mass, log_rho.exp(), atol=1e-12)


def test_split_shares_equally_or_by_weight() -> None:
    log_rho, parent = torch.tensor([0.25, 0.75]).log(), torch.tensor([0, 0, 1, 1, 1])
    assert torch.allclose(split(log_rho, parent).exp(), torch.tensor([0.125, 0.125, 0.25, 0.25, 0.25]))
    by_weight = split(log_rho, parent, torch.tensor([0.0, 0.0, 3.0, 0.0, 1.0])).exp()
    assert torch.allclose(by_weight, torch.tensor([0.125, 0.125, 0.5625, 0.0, 0.1875]))
    with pytest.raises(DataError, match=">= 0"):
        split(log_rho, parent, -torch.ones(5))
    with pytest.raises(DataError, match=r"\(4,\) weights for 5"):
        split(log_rho, parent, torch.ones(4))


def test_split_is_differentiable() -> None:
    parent = torch.tensor([0, 0, 1, 1, 1])
    inputs = [random_law(2, 0).requires_grad_(), torch.rand(5, dtype=torch.float64).add(0.1).requires_grad_()]
    assert torch.autograd.gradcheck(lambda a, w: split(a, parent, w), inputs)


@given(st.integers(1, 60), st.integers(0, 1000), st.sampled_from([0.5, 0.9, 0.995, 1.0]), st.integers(1, 70))
def test_the_sparse_support_is_the_smallest_that_holds_the_mass(n: int, seed: int, keep: float, limit: int) -> None:
    support = page_grid([(n, n)], 8).select(torch.arange(n))
    log_rho = random_law(n, seed)
    kept = sparsify(support, log_rho, keep, limit)
    mass = log_rho.exp()
    chosen = mass[kept.parent]
    assert len(kept.support) <= limit
    assert float(kept.log_rho.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert float(kept.dropped) == pytest.approx(1 - float(chosen.sum()), abs=1e-9)
    others = mass.clone()
    others[kept.parent] = 0
    assert float(chosen.min()) >= float(others.max())
    if len(chosen) < limit:
        assert float(chosen.sum()) >= keep - 1e-8
    assert float(chosen.sum() - chosen.min()) < keep  # without its lightest it would not hold enough
    assert torch.equal(kept.parent, kept.parent.sort().values)
    assert torch.equal(kept.support.boxes, support.boxes[kept.parent])


def test_a_one_hot_law_keeps_one_particle_and_empty_ones_never_stay() -> None:
    support = page_grid([(1, 1)], 3)
    log_rho = torch.full((9,), -math.inf)
    log_rho[4] = 0.0
    kept = sparsify(support, log_rho)
    assert kept.parent.tolist() == [4]
    assert float(kept.dropped) == 0.0


@given(st.integers(0, 1000), st.integers(4, 64))
def test_refining_keeps_whole_families_within_the_limit(seed: int, limit: int) -> None:
    support = page_grid([(3, 4)], 8)
    log_rho = random_law(len(support), seed)
    refined = refine(support, log_rho, subdivide(support, 16), limit=limit)
    assert len(refined.support) <= limit
    assert len(refined.support) % 4 == 0
    assert float(refined.log_rho.exp().sum()) == pytest.approx(1, abs=1e-6)
    heaviest = log_rho.argsort(descending=True)[: len(refined.support) // 4]
    assert set(refined.parent.tolist()) == set(heaviest.tolist())
    assert float(refined.dropped) == pytest.approx(1 - float(log_rho[heaviest].exp().sum()), abs=1e-9)
    if limit == 64 and len(heaviest) < 16:
        assert float(refined.dropped) <= 0.005


def test_children_without_weight_are_left_out() -> None:
    support = page_grid([(1, 1)], 1)
    refined = refine(support, torch.zeros(1), subdivide(support, 2), torch.tensor([0.0, 1.0, 3.0, 0.0]))
    assert torch.allclose(refined.log_rho.exp(), torch.tensor([0.25, 0.75]))
    assert float(refined.dropped) == 0.0


def words_on_two_pages() -> tuple[Support, Support]:
    support = page_grid([(1, 1), (2, 1)], 2)
    boxes = torch.tensor([[0.1, 0.1, 0.2, 0.15], [0.3, 0.1, 0.45, 0.15], [0.4, 0.6, 0.62, 0.65], [0.8, 0.3, 0.9, 0.35]])
    return support, word_support(support.grid, boxes, torch.tensor([0, 0, 0, 1]))


def test_the_mass_of_a_cell_goes_to_the_words_in_it_and_wordless_cells_keep_theirs() -> None:
    support, words = words_on_two_pages()
    assert len(support) == 6  # 2 x 2 on the square page, 2 x 1 on the wide one
    law = torch.tensor([0.4, 0.1, 0.0, 0.2, 0.05, 0.25])
    children = assign_words(support, words)
    # word 2's centre (0.51, 0.625) lies in the lower right cell though it begins in the lower left one
    assert children[0].words.tolist() == [0, 1, 2, 3, -1, -1, -1]
    assert children[1].tolist() == [0, 0, 3, 5, 1, 2, 4]
    refined = refine(support, law.log(), children, keep=1.0)
    assert torch.allclose(refined.log_rho.exp(), torch.tensor([0.2, 0.2, 0.2, 0.25, 0.1, 0.05]))
    assert torch.allclose(refined.support.page_mass(refined.log_rho.exp()), torch.tensor([0.7, 0.3]))
    # only words of cells that are still there
    few, parent = assign_words(support.select(torch.tensor([5])), words)
    assert few.words.tolist() == [3]
    assert parent.tolist() == [0]
    # words are leaves: they and left-over cells go on as they are, cells divide
    finer, origin = subdivide(refined.support, 4)
    assert (finer.words >= 0).sum() == 4
    assert (finer.cells >= 0).sum() == 4 * 2
    assert len(origin) == 12


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="multiple"):
        Grid(((1.0, 1.0),), 12, 8)
    with pytest.raises(ConfigError, match="nest"):
        subdivide(page_grid([(1, 1)], 8), 12)
    with pytest.raises(DataError, match="sides above 0"):
        page_grid([(0, 1)], 8)
    with pytest.raises(DataError, match="needs pages"):
        page_grid([], 8)
    grid = page_grid([(1, 1)], 2).grid
    with pytest.raises(DataError, match="shapes"):
        word_support(grid, torch.zeros(3, 4), torch.zeros(2))
    with pytest.raises(DataError, match="outside"):
        word_support(grid, torch.zeros(1, 4), torch.tensor([1]))
