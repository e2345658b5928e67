"""What was found so far, as fields of words; steps on words before the last; targets on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from backbone.errors import ConfigError
from docparse.config import DocparseConfig
from docparse.data import Example
from docparse.evidence import ask_words, run_evidence, within_budget
from docparse.flow.config import FlowConfig
from docparse.losses import LossWeights, reader_loss, targets_of
from docparse.model import RECALL
from docparse.recall import Places, focused, recalled
from docparse.train import begin_with
from docparse.weights import save_reader
from tests.docparse.reading import INVOICE, example, page_of, small_config, small_network

STAFF = page_of("Name | Department", "Ada | Sales", "Bob | Legal", "Department | Phone", "Legal | 17", "Sales | 42")


def two_looks() -> Example:
    made = example("Phone of the department of Ada?", "42", [STAFF])
    at = made.words.texts.index("Sales")
    truth = replace(made.truth, via_boxes=made.words.boxes[at : at + 1], via_pages=np.zeros(1, np.int64))
    return replace(made, truth=truth)


def deep(**changes: object) -> DocparseConfig:
    plain = small_config()
    flow = replace(plain.flow, levels=(8, 16, 32, 64, 64), word_steps=2, **changes)  # type: ignore[arg-type]
    return replace(plain, flow=flow, network=replace(plain.network, recall=True))


def test_the_focus_is_the_square_of_what_words_carry() -> None:
    rho = torch.tensor([0.5, 0.3, 0.2, 1.0])
    holder = torch.tensor([0, 0, 1, -1, 3])  # two words share the first particle, one has none
    focus = focused(rho, holder, torch.tensor([0, 0, 0, 0, 1]), 2)
    squares = np.array([0.25**2, 0.25**2, 0.3**2, 0])
    np.testing.assert_allclose(focus[:4], squares / squares.sum(), rtol=1e-6)
    assert float(focus[4]) == 1


def test_words_hear_where_the_found_word_stands() -> None:
    made = two_looks()
    asked = ask_words(made.words, made.fields)
    texts = list(made.words.texts)
    at = texts.index("Sales")
    focus = torch.zeros(len(texts))
    focus[at] = 1
    places = Places(asked.same, asked.support.pages, asked.support.points)
    found = recalled(focus, asked.words, places)
    assert found.shape == (len(texts), RECALL)
    again = len(texts) - 1 - texts[::-1].index("Sales")
    phone = texts.index("42")
    assert found[texts.index("Ada"), 0] == 1
    assert found[phone, 0] == 0
    assert found[texts.index("Legal"), 1] == 1  # a line below it
    assert found[again, 5] == 1
    assert found[at, 5] == 0
    assert found[phone, 5] == 0
    assert found[phone, 7] == 1
    assert found[texts.index("17"), 7] == 0
    np.testing.assert_allclose(found[at, 8], 1, atol=1e-5)
    np.testing.assert_allclose(found[at, 11:], 0, atol=1e-6)
    assert found[phone, 12] > 0  # further down


def test_two_steps_can_run_on_words_and_see_the_law_between_them() -> None:
    made, config = two_looks(), deep()
    network = small_network(made, config)
    outcome = run_evidence(network, config, [ask_words(made.words, made.fields)])[0]
    on_words = [bool((step.support.words >= 0).all()) for step in outcome.flow.steps]
    assert on_words == [False, False, False, True, True]
    reader_loss([outcome], [made], config, LossWeights())[0].backward()
    weights = network.potential[0].weight
    assert weights.grad is not None
    assert bool(weights.grad[:, -RECALL:].abs().sum() > 0)


def test_documents_of_a_batch_recall_only_themselves() -> None:
    config = deep()
    items = [two_looks(), example("What is the tax of the pump?", "24.10")]
    network = small_network(items[0], config)
    asked = [ask_words(i.words, i.fields) for i in items]
    together = run_evidence(network, config, asked)
    for one, alone in zip(together, (run_evidence(network, config, [a])[0] for a in asked), strict=True):
        torch.testing.assert_close(one.word_mass, alone.word_mass, rtol=1e-4, atol=1e-6)


def test_earlier_steps_share_their_target_with_what_is_found_on_the_way() -> None:
    made, config = two_looks(), deep()
    outcome = run_evidence(small_network(made, config), config, [ask_words(made.words, made.fields)])[0]
    at, phone = made.words.texts.index("Sales"), made.words.texts.index("42")
    shared = targets_of(outcome.flow, made.truth, config, via=True)
    alone = targets_of(outcome.flow, made.truth, config, via=False)
    last, before = outcome.flow.steps[-1].support.words.tolist(), outcome.flow.steps[-2].support.words.tolist()
    assert float(shared[-1].rho[last.index(phone)]) == pytest.approx(1)
    assert float(shared[-2].rho[before.index(at)]) > 2 * float(alone[-2].rho[before.index(at)])
    torch.testing.assert_close(shared[-1].rho, alone[-1].rho)


@pytest.mark.parametrize("most", [6, 10, 40])
def test_no_step_exceeds_the_budget_and_one_step_ends_on_cells(most: int) -> None:
    made = example("What is the tax of the pump?", "24.10", [INVOICE, INVOICE, STAFF])
    flow, once = small_config(), small_config()
    once = replace(once, flow=replace(once.flow, levels=(64,)))
    for config in (flow, once):
        fitted = within_budget([made.words], config, most)
        outcome = run_evidence(small_network(made, config), fitted, [ask_words(made.words, made.fields)])[0]
        assert max(len(step.support) for step in outcome.flow.steps) <= most
        assert float(outcome.word_mass.detach().sum()) == pytest.approx(1, abs=1e-4)
        ends_on_words = bool((outcome.flow.support.words >= 0).all())
        assert ends_on_words == (config is flow or len(made.words) <= most)
        assert fitted.flow.steps == config.flow.steps


def test_a_budget_below_the_pages_is_refused() -> None:
    made = example("What is the tax of the pump?", "24.10", [INVOICE, INVOICE, STAFF])
    with pytest.raises(Exception, match="3 pages with words do not fit 2 particles"):
        within_budget([made.words], small_config(), 2)


def test_steps_on_words_are_counted_from_the_end() -> None:
    config = FlowConfig(words=True, word_steps=2)
    assert [config.on_words(k) for k in range(4)] == [False, False, True, True]
    assert not any(FlowConfig(word_steps=2).on_words(k) for k in range(4))


def test_a_reader_that_recalls_begins_where_one_that_does_not_ended(tmp_path: Path) -> None:
    made, plain = two_looks(), small_config()
    known = small_network(made, plain, seed=4)
    save_reader(known, plain, tmp_path)
    config = replace(plain, network=replace(plain.network, recall=True))
    network = small_network(made, config, seed=5)
    asked = [ask_words(made.words, made.fields)]
    begin_with(network, tmp_path)
    before, after = (run_evidence(n, c, asked)[0].word_mass for n, c in ((known, plain), (network, config)))
    torch.testing.assert_close(before, after, rtol=0, atol=2e-3)  # weights are kept as float16
    begin_with(network, tmp_path)
    with pytest.raises(ConfigError, match="its weights do not fit"):
        begin_with(small_network(made, replace(plain, network=replace(plain.network, width=8))), tmp_path)
