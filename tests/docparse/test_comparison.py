"""Readers against each other: differences are paired, by document, and what a reader takes is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backbone.errors import DataError
from docparse.comparison import difference, needs
from docparse.config import DocparseConfig
from docparse.evaluate import filtered_reader, flow_reader
from docparse.scoring import Row
from tests.docparse.reading import INVOICE, example, small_config, small_network


def row(name: str, iou: float, kind: str = "value", **values: float) -> Row:
    return Row(name, kind, "<0.5 %", "scored", {"iou": iou, "milliseconds": 1.0, **values})


def test_a_difference_is_paired_and_weighs_questions_alike() -> None:
    a = [row("one/0", 0.9), row("one/1", 0.5), row("two/0", 0.1), row("alone/0", 1.0)]
    b = [row("two/0", 0.3), row("one/1", 0.1), row("one/0", 0.2)]
    found = difference(a, b)
    assert found.n == 3
    assert found.estimate == pytest.approx((0.7 + 0.4 - 0.2) / 3)
    assert found.low <= -0.2 + 1e-9
    assert found.high >= 0.55 - 1e-9


def test_documents_are_resampled_not_questions() -> None:
    rng = np.random.default_rng(0)
    shift = rng.normal(size=30)
    a = [row(f"{d}/{q}", float(shift[d])) for d in range(30) for q in range(8)]
    b = [row(f"{d}/{q}", 0.0) for d in range(30) for q in range(8)]
    found = difference(a, b)
    width = found.high - found.low
    assert width == pytest.approx(2 * 1.96 * shift.std() / np.sqrt(30), rel=0.1)  # as of 30 values, not of 240


def test_rows_can_be_chosen_and_nothing_in_common_is_refused() -> None:
    a, b = [row("x/0", 1.0, "link"), row("x/1", 0.0)], [row("x/0", 0.0, "link"), row("x/1", 0.5)]
    assert difference(a, b, where=lambda r: r.kind == "link").estimate == 1
    with pytest.raises(DataError, match="no question of both readers has iou"):
        difference(a, [row("y/0", 1.0)])


def test_what_a_reader_takes() -> None:
    taken = needs([row("a/0", 1, particles=100.0), row("a/1", 1, particles=2000.0)])
    assert (taken.milliseconds, taken.particles, taken.matrix_megabytes) == (1.0, 2000, 16.0)
    with pytest.raises(DataError, match="no row is scored"):
        needs([Row("a/0", "", "", "failed", {})])


def once() -> DocparseConfig:
    config = small_config()
    return replace(config, settled=0.0, flow=replace(config.flow, levels=(64,), max_particles=4096))


def test_readers_keep_the_budget_and_still_answer_in_words() -> None:
    made = example("What is the tax of the pump?", "24.10", [INVOICE, INVOICE])
    network = small_network(made, once())
    for read in (flow_reader(network, once(), budget=8), filtered_reader(network, once(), 8)):
        found = read(made)
        assert 0 < found.particles <= 8
        assert found.answer
        assert all(word in made.words.texts for word in found.answer.replace(",", "").split())


def test_the_filter_lets_only_the_best_matching_words_carry_mass() -> None:
    made = example("What is the tax of the pump?", "24.10")
    network = small_network(made, once())
    assert filtered_reader(network, once(), 10_000)(made).answer == flow_reader(network, once())(made).answer
    narrow = filtered_reader(network, once(), 2)(made)  # the pump's values
    assert narrow.answer in {"24.10", "120.50", "24.10, 120.50", "120.50 24.10", "120.50, 24.10"}
