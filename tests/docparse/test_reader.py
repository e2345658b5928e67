"""Network and flow together: batched as single, shifts that must not matter, labels, losses, answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from backbone.errors import ConfigError, DataError, ModelError
from docparse.answer import read_answer
from docparse.config import DocparseConfig, presets
from docparse.data import answer_words, load_document, save_document
from docparse.evaluate import evaluate_reader, flow_reader, short
from docparse.evidence import ask_words, holds_words, run_evidence, start_level
from docparse.fields.words import read_words
from docparse.flow.config import FlowConfig
from docparse.flow.grids import page_grid
from docparse.losses import LossWeights, giou, reader_loss, soft_quantile
from docparse.model import NetworkConfig
from docparse.regions import RegionConfig, find_regions
from docparse.rivals import DetectorNetwork, detect, detector_loss, match_reader
from docparse.weights import load_reader, save_reader
from tests.docparse.reading import INVOICE, LettersEmbedder, example, page_of, small_config, small_network

NUMBER = example("What is the number?", "4711")
TAX = example("What is the tax of the hose?", "3.60")
NONE = example("Who signed the contract?", "")
OTHER = page_of("Report", "Author | Jane Miller", "Pages | 12", "Remarks and further notes on nothing at all")
LONG = example("How many pages?", "12", (INVOICE, OTHER))
CONFIG = small_config()


def outcomes(network, examples, config=CONFIG):
    with torch.no_grad():
        return run_evidence(network, config, [ask_words(e.words, e.fields) for e in examples])


def test_a_batch_gives_what_each_question_gives_alone():
    network = small_network(NUMBER, CONFIG)
    together = outcomes(network, [NUMBER, LONG, TAX])
    for item, alone in zip([NUMBER, LONG, TAX], together, strict=True):
        single = outcomes(network, [item])[0]
        assert torch.allclose(single.word_mass, alone.word_mass, atol=1e-6)
        assert torch.allclose(single.answer, alone.answer, atol=1e-4)
        assert torch.allclose(single.settled, alone.settled, atol=1e-5)


@pytest.mark.parametrize("name", sorted(presets()))
def test_mass_is_kept_at_every_step(name):
    config = small_config(flow=presets()[name].flow)
    for outcome in outcomes(small_network(NUMBER, config), [NUMBER, LONG], config):
        assert len(outcome.flow.steps) == config.flow.steps
        for step in outcome.flow.steps:
            assert float(step.rho.sum()) == pytest.approx(1, abs=1e-5)
        assert float(outcome.word_mass.sum()) == pytest.approx(1, abs=1e-5)
        assert (outcome.flow.support.words >= 0).all()


def test_a_preset_and_its_rivals_have_the_same_network():
    networks = {name: config.network for name, config in presets().items()}
    looks = {name for name in networks if name.startswith("looks")}
    assert looks == {name for name, network in networks.items() if network.recall}
    for names in (looks, networks.keys() - looks):
        assert len({networks[name] for name in names}) == 1


def test_only_cells_with_words_carry_mass():
    asked = ask_words(NUMBER.words, NUMBER.fields)
    grid = page_grid(asked.sizes, 8)
    held = holds_words(grid, asked.support)
    centres = asked.support.points
    for i in range(len(grid)):
        x0, y0, x1, y1 = grid.boxes[i].tolist()
        inside = ((centres >= torch.tensor([x0, y0])) & (centres < torch.tensor([x1, y1]))).all(1).any()
        assert bool(held[i]) == bool(inside)


def test_training_on_two_questions_learns_them():
    torch.manual_seed(0)
    network = small_network(NUMBER, CONFIG).train()
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    batch, losses = [NUMBER, TAX, NONE], []
    for _ in range(60):
        found = run_evidence(network, CONFIG, [ask_words(e.words, e.fields) for e in batch])
        loss, parts = reader_loss(found, batch, CONFIG, LossWeights())
        assert set(parts) == {"flow", "box", "answer", "settled"}
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.4 * losses[0]
    rows = evaluate_reader(flow_reader(network.eval(), CONFIG, distances=True), batch)
    assert short(rows)["failed"] == 0
    assert rows[2].answer is None
    assert [row.values["pointing"] for row in rows[:2]] == [1, 1]
    assert "4711" in (rows[0].answer or "")
    assert "3.60" in (rows[1].answer or "")
    assert rows[0].values["w2_3"] < rows[0].values["w2_0"]


def test_gradients_reach_every_weight_of_the_flow():
    network = small_network(NUMBER, CONFIG).train()
    batch = [NUMBER, TAX, NONE]
    found = run_evidence(network, CONFIG, [ask_words(e.words, e.fields) for e in batch])
    reader_loss(found, batch, CONFIG, LossWeights())[0].backward()
    silent = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_answer_words_are_the_run_that_spells_the_answer():
    texts = ["Total:", "12.50", "EUR", "(net)"]
    within = np.array([True, True, True, True])
    assert answer_words(texts, within, ["12.50 EUR"]).tolist() == [False, True, True, False]
    assert answer_words(texts, within, ["something else"]).tolist() == within.tolist()
    assert answer_words(texts, np.array([False] * 4), ["12.50 EUR"]).sum() == 0


def test_records_come_back_as_they_were(tmp_path):
    path = tmp_path / "train-0.npz"
    save_document(path, NUMBER.words, [(e.question, e.fields, e.truth) for e in (NUMBER, TAX, NONE)])
    back = load_document(path)
    assert [e.question for e in back] == [NUMBER.question, TAX.question, NONE.question]
    for made, kept in zip((NUMBER, TAX, NONE), back, strict=True):
        assert kept.words.texts == made.words.texts
        assert kept.truth.answers == made.truth.answers
        assert (kept.truth.answer_words == made.truth.answer_words).all()
        assert np.allclose(kept.words.boxes, made.words.boxes, atol=1e-3)
        assert np.allclose(kept.fields.matched, made.fields.matched, atol=1e-3)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match="no training record"):
        load_document(path)


def test_weights_come_back_and_others_are_refused(tmp_path):
    network = small_network(NUMBER, CONFIG)
    save_reader(network, CONFIG, tmp_path)
    again, config = load_reader(tmp_path)
    assert config == CONFIG
    mine, theirs = outcomes(network, [TAX])[0], outcomes(again, [TAX])[0]
    assert torch.allclose(mine.word_mass, theirs.word_mass, atol=2e-2)  # float16 on disk
    wider = replace(CONFIG, network=replace(CONFIG.network, width=24))
    save_reader(small_network(NUMBER, wider), CONFIG, tmp_path)
    with pytest.raises(ModelError, match="do not fit"):
        load_reader(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="holds no reader"):
        load_reader(tmp_path)


def test_regions_by_hand():
    boxes = np.array([[0.1, 0.1, 0.2, 0.12], [0.205, 0.1, 0.3, 0.12], [0.7, 0.8, 0.8, 0.82], [0.5, 0.5, 0.6, 0.52]])
    pages, law, config = np.zeros(4, np.int64), np.array([0.4, 0.3, 0.29, 0.01]), RegionConfig(least=0.1)
    found = find_regions(law, boxes, pages, config)
    assert [r.members.tolist() for r in found] == [[0, 1], [2]]
    assert found[0].box == pytest.approx((0.1, 0.1, 0.3, 0.12))
    assert found[0].mass == pytest.approx(0.7)
    apart = find_regions(law, boxes, np.array([0, 1, 0, 0]), config)
    assert [r.members.tolist() for r in apart] == [[0], [1], [2]]
    assert [r.members.tolist() for r in find_regions(law, boxes, pages, RegionConfig(least=0.5))] == [[0, 1]]
    sharp = find_regions(np.array([0.8, 0.1, 0.05, 0.05]), boxes, pages, RegionConfig(peak=0.2, mass=1.0))
    assert [r.members.tolist() for r in sharp] == [[0]]
    row = find_regions(law, boxes, pages, config, follows=np.array([1, 2, -1, -1]))
    assert [r.members.tolist() for r in row] == [[0, 1, 2]]
    assert find_regions(np.zeros(0), np.zeros((0, 4)), np.zeros(0, np.int64), config) == []


def test_an_unsettled_law_has_no_answer():
    words = NUMBER.words
    mass = np.full(len(words), 1 / len(words))
    assert read_answer(words, mass, np.zeros(len(words)), 0.2, CONFIG).text is None
    at = words.texts.index("4711")
    sharp = np.eye(len(words))[at]
    reading = read_answer(words, sharp, sharp * 4 - 2, 0.9, CONFIG)
    assert reading.text == "4711"
    assert reading.words == (at,)
    assert reading.confidence == pytest.approx(0.9)


def test_a_long_document_starts_coarser():
    pages = [INVOICE] * 60
    words = read_words(pages, LettersEmbedder())
    fitted = start_level(words, CONFIG)
    assert fitted.flow.levels == (4, 16, 32, 64)
    cells = len(page_grid([(0.8, 1.0)] * 60, 4))
    assert cells <= CONFIG.flow.max_particles < len(page_grid([(0.8, 1.0)] * 60, 8))
    assert start_level(NUMBER.words, CONFIG) == CONFIG


def test_soft_quantile_and_giou_by_hand():
    values = torch.tensor([0.0, 1.0, 2.0, 3.0])
    mass = torch.full((4,), 0.25, requires_grad=True)
    assert float(soft_quantile(values, mass.detach(), 0.5)) == pytest.approx(1.5)
    assert float(soft_quantile(values, mass.detach(), 0.0)) == 0
    assert float(soft_quantile(values, mass.detach(), 1.0)) == 3
    soft_quantile(values, mass, 0.4).backward()
    assert mass.grad.abs().sum() > 0
    a, b = torch.tensor([0.0, 0, 1, 1]), torch.tensor([0.0, 0, 1, 1])
    assert float(giou(a, b)) == pytest.approx(1)
    assert float(giou(a, b + 2)) == pytest.approx(-7 / 9)


def test_rivals_answer_too():
    assert match_reader(NUMBER).answer == "4711"
    assert match_reader(TAX).answer == "3.60"
    assert match_reader(NONE).answer is None


def test_the_detector_learns_where_a_box_is():
    asked = [ask_words(NUMBER.words, NUMBER.fields)]
    torch.manual_seed(0)
    network = DetectorNetwork(CONFIG.network, *small_network(NUMBER, CONFIG).widths)
    optimiser = torch.optim.Adam(network.parameters(), 5e-3)
    losses = []
    for _ in range(150):
        loss, parts = detector_loss(network.detect(asked), asked, [NUMBER])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert set(parts) == {"settled", "box", "page", "answer"}
    assert losses[-1] < 0.5 * losses[0]
    found = detect(network.eval(), NUMBER)
    (page, box), middle = found.regions[0], NUMBER.truth.boxes[0].reshape(2, 2).mean(0)
    assert page == 0
    assert np.abs(np.array(box).reshape(2, 2).mean(0) - middle).max() < 0.1


@pytest.mark.parametrize(
    "change",
    [
        {"settled": 1.5}, {"longest_answer": 0}, {"flow": FlowConfig(levels=(2,) * 9)},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(ConfigError):
        DocparseConfig(**change)


def test_a_network_without_any_field_is_refused():
    with pytest.raises(ConfigError, match="neither words nor patches"):
        NetworkConfig(words=False)
    with pytest.raises(ConfigError, match="positive"):
        NetworkConfig(width=0)
