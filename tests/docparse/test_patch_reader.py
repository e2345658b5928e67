"""A reader that sees: gradients through patches, words alone untouched, reading of cells, sessions, mismatches."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from backbone.errors import CancelledError, ConfigError, DataError, ModelError
from docparse.benchmarks.files import page_file
from docparse.benchmarks.items import Item
from docparse.config import DocparseConfig, with_fields
from docparse.data import make_truth
from docparse.documents import Limits, TextEmbedder, open_document
from docparse.evaluate import evaluate_reader, flow_reader
from docparse.evidence import ask, ask_words, holds_content, run_evidence
from docparse.fields.patches import PagePatches, PatchConfig, PatchField, PatchSeer
from docparse.flow.grids import page_grid
from docparse.item_reader import ItemReader, evaluate_items
from docparse.looking import WORDS_ONLY, pages_to_look_at
from docparse.losses import LossWeights, reader_loss
from docparse.model import NetworkConfig
from docparse.pipeline import DocumentReader
from docparse.seeing import SEEN as NOT_READ
from docparse.seeing import read_outcome
from docparse.train import ReaderTraining, begin_with, train_reader
from docparse.weights import load_reader, save_reader
from tests.docparse.patch_cases import SEEN, WIDTH, Pretended, field_of, seeing_config, seen
from tests.docparse.reading import example, page_of, small_network

NUMBER = seen(example("What is the number?", "4711"), 1)
TAX = seen(example("What is the tax of the hose?", "3.60"), 2)
FIELDS = ("words", "patches", "both")


def outcome_of(network, config, item):
    with torch.no_grad():
        return run_evidence(network, config, [ask(item.words, item.fields, config, item.patches)])[0]


# network and flow ----------------------------------------------------------------------------------------------


def test_words_alone_know_nothing_of_patches():
    config = seeing_config("words")
    network = small_network(NUMBER, config)
    plain = run_evidence(network, config, [ask_words(NUMBER.words, NUMBER.fields)])[0]
    for item in (NUMBER, replace(NUMBER, patches=None), replace(NUMBER, patches=field_of(9))):
        got = outcome_of(network, config, item)
        assert torch.equal(got.word_mass, plain.word_mass)
        assert torch.equal(got.answer, plain.answer)
        assert torch.equal(got.settled, plain.settled)


@pytest.mark.parametrize("fields", ["patches", "both"])
def test_other_patches_give_another_law_and_mass_is_kept(fields):
    config = seeing_config(fields)
    network = small_network(NUMBER, config)
    first = outcome_of(network, config, NUMBER)
    other = outcome_of(network, config, replace(NUMBER, patches=field_of(9)))
    for outcome in (first, other):
        for step in outcome.flow.steps:
            assert float(step.rho.sum()) == pytest.approx(1, abs=1e-5)
    assert len(first.flow.rho) != len(other.flow.rho) or not torch.allclose(first.flow.rho, other.flow.rho, atol=1e-4)


@pytest.mark.parametrize("fields", ["patches", "both"])
def test_a_batch_gives_what_each_question_gives_alone(fields):
    config = seeing_config(fields)
    network = small_network(NUMBER, config)
    asked = [ask(e.words, e.fields, config, e.patches) for e in (NUMBER, TAX)]
    with torch.no_grad():
        together = run_evidence(network, config, asked)
    for item, got in zip((NUMBER, TAX), together, strict=True):
        alone = outcome_of(network, config, item)
        assert torch.allclose(got.flow.rho, alone.flow.rho, atol=1e-6)
        assert torch.allclose(got.settled, alone.settled, atol=1e-5)


def test_patches_alone_do_not_depend_on_words():
    config = seeing_config("patches")
    network = small_network(NUMBER, config)
    other = example("What is the number?", "", (page_of("Nothing", "here is the same"),))
    first = outcome_of(network, config, NUMBER)
    second = outcome_of(network, config, replace(other, patches=NUMBER.patches))
    assert torch.equal(first.flow.rho, second.flow.rho)
    assert torch.equal(first.settled, second.settled)
    assert (first.flow.support.words < 0).all()
    assert len(first.word_mass) == len(first.answer) == 0


@pytest.mark.parametrize("fields", ["patches", "both"])
def test_gradients_reach_the_network_through_patches(fields):
    config = seeing_config(fields)
    network = small_network(NUMBER, config).train()
    asked = [ask(e.words, e.fields, config, e.patches) for e in (NUMBER, TAX)]
    total, parts = reader_loss(run_evidence(network, config, asked), [NUMBER, TAX], config, LossWeights())
    total.backward()
    assert np.isfinite(float(total))
    gradient = network.patch.weight.grad
    assert float(gradient.abs().sum()) > 0
    assert (gradient.abs().sum(0) > 0).all()  # every number of a patch, and that it was seen
    if fields == "patches":
        assert network.word[0].weight.grad is None
        assert float(parts["answer"]) == 0


def test_training_on_patches_alone_learns_where_a_mark_is():
    """The mark is in another corner for each question; nothing but patches tells which."""
    config = seeing_config("patches")
    items = []
    for number, (x, y) in enumerate([(0, 0), (3, 0), (0, 4), (3, 4)]):
        values = np.zeros((5, 4, WIDTH), np.float32)
        values[y, x] = 3
        field = PatchField({0: PagePatches(values, np.ones((20, 16), bool))}, WIDTH)
        box = (x * 200.0, y * 200.0, x * 200.0 + 200, y * 200.0 + 200)
        truth = make_truth(NUMBER.words, [(0, box)], ["here"], "picture", [1000.0])
        items.append(replace(NUMBER, patches=field, truth=truth, name=str(number)))
    network = small_network(NUMBER, config).train()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(40):
        asked = [ask(e.words, e.fields, config, e.patches) for e in items]
        total, _ = reader_loss(run_evidence(network, config, asked), items, config, LossWeights())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    rows = evaluate_reader(flow_reader(network.eval(), config), items)
    assert [row.error for row in rows] == [""] * 4
    assert all(row.values["pointing"] == 1 for row in rows)
    assert all(row.values["iou"] > 0.5 for row in rows)


def test_cells_without_words_carry_mass_only_where_there_is_ink():
    config = seeing_config("both")
    ink = np.zeros((20, 16), bool)
    ink[16:19, 1:3] = True
    field = PatchField({0: PagePatches(np.zeros((5, 4, WIDTH), np.float32), ink)}, WIDTH)
    asked = ask(NUMBER.words, NUMBER.fields, config, field)
    grid = page_grid(asked.sizes, 4)
    words_only = holds_content(grid, asked, False)
    held = holds_content(grid, asked, True)
    extra = (held > words_only).nonzero()[:, 0].tolist()
    assert [grid.boxes[i].tolist() for i in extra] == [pytest.approx([0.0, 0.75, 0.8 / 3, 1.0])]


def test_paper_without_ink_is_read_all_over():
    config = seeing_config("patches")
    blank = PatchField({0: PagePatches(np.zeros((5, 4, WIDTH), np.float32), np.zeros((20, 16), bool))}, WIDTH)
    outcome = outcome_of(small_network(NUMBER, config), config, replace(NUMBER, patches=blank))
    assert float(outcome.flow.rho.sum()) == pytest.approx(1, abs=1e-5)


def test_a_reader_that_sees_needs_patches():
    config = seeing_config("both")
    with pytest.raises(DataError, match="no patch fields"):
        ask(NUMBER.words, NUMBER.fields, config)
    with pytest.raises(DataError, match=r"docparse\.evidence\.ask"):
        run_evidence(small_network(NUMBER, config), config, [ask_words(NUMBER.words, NUMBER.fields)])


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match="patch_width"):
        DocparseConfig(network=NetworkConfig(patch_width=7))
    with pytest.raises(ConfigError, match="cannot end on words"):
        replace(seeing_config("patches"), flow=DocparseConfig().flow)
    with pytest.raises(ConfigError, match="do not go together"):
        with_fields(DocparseConfig(), "both")
    with pytest.raises(ConfigError, match="do not go together"):
        with_fields(DocparseConfig(), "words", SEEN)
    assert [seeing_config(f).fields for f in FIELDS] == list(FIELDS)


def test_mass_on_cells_is_pointed_at_and_not_read():
    config = seeing_config("both")
    network = small_network(NUMBER, config)
    with torch.no_grad():
        network.settled[-1].bias.fill_(20.0)
    ink = np.zeros((40, 32), bool)
    ink[30:36, 4:20] = True
    field = PatchField({0: PagePatches(np.zeros((5, 4, WIDTH), np.float32), ink)}, WIDTH)
    asked = ask(NUMBER.words, NUMBER.fields, config, field)
    with torch.no_grad():
        outcome = run_evidence(network, config, [asked])[0]
    cells = outcome.flow.support.words < 0
    assert bool(cells.any())
    step = outcome.flow.steps[-1]
    rho = torch.where(cells, 0.98 / cells.sum(), 0.02 / (~cells).sum())
    flow = replace(outcome.flow, steps=(*outcome.flow.steps[:-1], replace(step, log_rho=rho.log())))
    lighter = outcome.word_mass * 0.02 / outcome.word_mass.sum()
    reading = read_outcome(NUMBER.words, replace(outcome, flow=flow, word_mass=lighter), config, asked.patches)
    assert reading.text == ""
    for region in reading.regions:
        assert len(region.members) == 0
    x0, y0, x1, y1 = reading.regions[0].box
    assert (x0, y0, x1, y1) == pytest.approx((4 / 40, 30 / 40, 20 / 40, 36 / 40), abs=0.03)


# weights and training ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", FIELDS)
def test_weights_remember_their_fields(fields, tmp_path: Path):
    config = seeing_config(fields)
    network = small_network(NUMBER, config)
    save_reader(network, config, tmp_path)
    loaded, found = load_reader(tmp_path)
    assert found == config
    assert found.fields == fields
    a, b = outcome_of(network, config, NUMBER), outcome_of(loaded, found, NUMBER)
    assert torch.allclose(a.flow.rho, b.flow.rho, atol=2e-2)  # weights are kept as float16


def test_a_reader_of_both_that_begins_with_one_of_words_says_the_same_at_first(tmp_path: Path):
    words, both = seeing_config("words"), seeing_config("both")
    known = small_network(NUMBER, words)
    save_reader(known, words, tmp_path)
    network = small_network(NUMBER, both, seed=5)
    begin_with(network, tmp_path)
    covered = PatchField({0: replace(NUMBER.patches.pages[0], ink=np.zeros((20, 16), bool))}, WIDTH)
    first, second = (
        outcome_of(load_reader(tmp_path)[0], words, NUMBER),
        outcome_of(network, both, replace(NUMBER, patches=covered)),
    )
    assert torch.allclose(first.word_mass, second.word_mass, atol=1e-6)
    assert torch.allclose(first.settled, second.settled, atol=1e-6)
    with pytest.raises(ConfigError, match="do not fit"):
        begin_with(small_network(NUMBER, replace(words, network=replace(words.network, width=24))), tmp_path)


def test_training_reads_patch_records_and_leaves_a_reader(tmp_path: Path):
    from docparse.data import GeneratedConfig, make_records
    from docparse.patch_data import find_patches, make_patches

    records = GeneratedConfig(tmp_path / "records", "train", 5, 2, sights=True)
    list(make_records(records, TextEmbedder()))
    list(make_patches(records, PatchSeer(Pretended(), SEEN)))
    config = with_fields(replace(seeing_config("words")), "both", find_patches(records.output, "pretended"))
    training = ReaderTraining(records.output, tmp_path / "run", reader=config, steps=2, questions_per_step=4, threads=1)
    result = train_reader(training)
    assert result.steps == 2
    network, found = load_reader(tmp_path / "run" / "model")
    assert found.patches == SEEN
    assert network.patch.in_features == WIDTH + 1


# the whole way -------------------------------------------------------------------------------------------------


def picture(seed: int = 0, pages: int = 1) -> bytes:
    """A page, or pages of a TIFF, with a dark block and no word."""
    made = []
    for page in range(pages):
        image = Image.new("RGB", (600, 800), "white")
        place = np.random.default_rng([seed, page]).integers(50, 400, 2).tolist()
        ImageDraw.Draw(image).rectangle((*place, place[0] + 120, place[1] + 90), fill=(40, 60, 120))
        made.append(image)
    buffer = io.BytesIO()
    made[0].save(buffer, "TIFF", save_all=True, append_images=made[1:])
    return buffer.getvalue()


def reader_of(fields: str, backbone: Pretended | None = None, changes: dict | None = None) -> DocumentReader:
    patches = replace(SEEN, **(changes or {}))
    config = with_fields(DocparseConfig(), fields, patches)
    embedder = TextEmbedder()
    item = example("What is it?", "4711")
    from docparse.fields.matching import word_fields
    from docparse.fields.words import read_words
    from docparse.train import make_network

    words = read_words([page_of("one two")], embedder)
    item = replace(item, words=words, fields=word_fields(words, "What is it?", embedder))
    torch.manual_seed(0)
    network = make_network(config, item)
    with torch.no_grad():
        network.settled[-1].bias.fill_(20.0)
    return DocumentReader(network, config, embedder, seer=PatchSeer(backbone or Pretended(), patches))


def same(a, b):
    one, other = a.to_dict(), b.to_dict()
    one.pop("ledger")
    other.pop("ledger")
    assert one == other
    np.testing.assert_array_equal(a.steps[-1].mass, b.steps[-1].mass)


NO_OCR = Limits(ocr=False)


def test_patches_alone_point_without_reading_and_sessions_do_not_meet():
    backbone = Pretended()
    reader = reader_of("patches", backbone)
    questions = ("Where is the block?", "Where is the stamp?")
    alone = []
    for seed in (0, 1):
        with open_document(picture(seed), NO_OCR) as document:
            alone.append([reader.session(document).ask(q) for q in questions])
    calls = backbone.calls
    with open_document(picture(0), NO_OCR) as first, open_document(picture(1), NO_OCR) as second:
        sessions = [reader.session(first), reader.session(second)]
        for _ in range(2):
            for number, question in enumerate(questions):
                for which in (1, 0):
                    same(sessions[which].ask(question), alone[which][number])
    assert backbone.calls == calls + 4  # asked again, nothing is looked at anew
    answer = alone[0][0]
    assert answer.found
    assert answer.text == ""
    assert NOT_READ in answer.notes
    assert answer.evidence
    assert answer.steps[-1].name == "64 cells a side"
    assert [s.name for s in answer.ledger.stages] == ["pages", "fields", "patches", "flow", "answer"]
    assert answer.ledger.stages[2].visual_tokens > 0


def test_items_of_benchmarks_are_seen_and_not_read(tmp_path: Path):
    path = tmp_path / "page.png"
    with Image.open(io.BytesIO(picture(4))) as page:
        page.save(path)
    item = Item(
        "one", "Where is the block?", ("a block",), (page_file(path),), ((0, (0.0, 0.0, 600.0, 800.0)),), kind="picture"
    )
    read = ItemReader(reader_of("patches"))
    assert not read.limits.ocr
    [row] = evaluate_items(read, [item])
    assert row.error == ""
    assert row.values["pointing"] == 1
    assert row.answer == ""
    read.close()


def test_more_pages_than_the_limit_are_told():
    with open_document(picture(3, pages=3), NO_OCR) as document:
        answer = reader_of("patches", changes={"pages": 2}).session(document).ask("Where is the block?")
    assert any("2 of 3 pages were looked at (1, 2)" in note for note in answer.notes)
    assert all(page < 2 for page in answer.steps[-1].pages)


def test_pages_whose_words_answer_best_are_looked_at():
    pages, covered = np.array([0, 1, 2, 3, 3]), np.array([0.1, 0.0, 0.9, 0.2, 0.4])
    assert pages_to_look_at(5, 2, pages, covered) == [2, 3]
    assert pages_to_look_at(5, 9, pages, covered) == [0, 1, 2, 3, 4]
    assert pages_to_look_at(3, 2, np.zeros(0, np.int64), np.zeros(0)) == [0, 1]


def test_a_closed_document_is_refused_by_patches_alone_and_told_by_both():
    reader = reader_of("patches")
    with open_document(picture(), NO_OCR) as document:
        session = reader.session(document)
    with pytest.raises(DataError, match="no page could be looked at"):
        session.ask("Where is the block?")
    from backbone.contracts import Stage
    from docparse.documents import Page
    from docparse.fields.words import read_words
    from docparse.pipeline import DocumentSession

    page = Page.make_example()
    both = reader_of("both")
    words = read_words([page], both.embedder)
    answer = DocumentSession(both, [page], words, Stage("pages"), ()).ask("What is the total?")
    assert WORDS_ONLY in answer.notes


def test_cancelling_while_looking():
    import threading

    stop = threading.Event()

    class Stopping(Pretended):
        def image_states(self, messages, **options):
            stop.set()
            return super().image_states(messages, **options)

    document = open_document(picture(0, pages=3), NO_OCR)
    session = reader_of("patches", Stopping()).session(document)
    with pytest.raises(CancelledError, match="1 of 3 pages"):
        session.ask("Where is the block?", cancel=stop)
    document.close()


def test_fields_and_backbones_that_do_not_fit_are_refused(tmp_path: Path):
    reader = reader_of("both")
    with pytest.raises(ConfigError, match="need a seer"):
        DocumentReader(reader.network, reader.config, reader.embedder)
    other = PatchSeer(Pretended(), replace(SEEN, longest=128))
    with pytest.raises(ConfigError, match="need a seer"):
        DocumentReader(reader.network, reader.config, reader.embedder, seer=other)
    save_reader(reader.network, reader.config, tmp_path)
    with pytest.raises(ConfigError, match=r"trained on both, not on patches.*--fields patches"):
        DocumentReader.load(tmp_path, fields="patches")
    with pytest.raises(ConfigError, match="trained on words, not on both"):
        DocumentReader.load(fields="both")
    assert DocumentReader.load(fields="words").seer is None
    nano = PatchConfig("nano", 256, width=WIDTH, fingerprint="of older weights")
    save_reader(reader.network, with_fields(reader.config, "both", nano), tmp_path)
    with pytest.raises(ModelError, match="fingerprint of older weights"):
        DocumentReader.load(tmp_path)
