"""Training: every reply in one pass, batches as pure functions, adapters and whole models that survive the disk."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from nav_records import stage_one, stage_two

from backbone.errors import ConfigError, DataError
from backbone.vlm import VLM
from navigation.actions import END, LEFT, MOVE, RIGHT
from navigation.batches import IGNORE, Encoder, loss
from navigation.config import NavigationConfig
from navigation.even_pictures import even_pictures
from navigation.examples import example_at, places_of, segment_example
from navigation.mixing import SORTED, Batches, Questions, find_places
from navigation.records import write_episode
from navigation.train import ADAPTER, StageTraining, learning, save_whole, train_stage

NANO = NavigationConfig.preset("nano")
TINY = StageTraining(
    language="lora",
    tower="lora",
    rank=4,
    alpha=8,
    learning_rate=1e-2,
    batch=2,
    accumulate=1,
    steps=4,
    precision="fp32",
    warmup_fraction=0.0,
)


@pytest.fixture
def vlm(tiny_vlm_dir):
    own = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    return VLM.load(str(tiny_vlm_dir("qwen3_vl")), pixels=NANO.pixels(own.pixels))


@pytest.fixture
def folder(tmp_path):
    for number in range(6):
        actions = (LEFT, MOVE, RIGHT, MOVE, MOVE, END)[number % 3 :]
        write_episode(stage_one(actions, seed=number), tmp_path / "data", number)
    write_episode(stage_two(), tmp_path / "data", 6)
    return tmp_path / "data"


def first_example(made, config=NANO):
    place = next(iter(places_of(made.trajectory, "p", config)))
    return example_at(made, place.cycle, place.begin, config)


def test_exactly_the_replies_are_learned(vlm):
    row = Encoder(vlm, 4096).row(first_example(stage_one(learn=(True, False, True, True, True))))
    told = vlm.tokenizer.decode(row.labels[row.labels != IGNORE])
    assert told == f"{LEFT}<|im_end|>{MOVE}<|im_end|>{RIGHT}<|im_end|>{END}<|im_end|>"
    row = Encoder(vlm, 4096).row(segment_example(stage_two(), 1, NANO))
    told = vlm.tokenizer.decode(row.labels[row.labels != IGNORE])
    assert told.startswith(f"<think_start>two<think_end>\n{RIGHT}<|im_end|>{MOVE}<|im_end|>")
    assert told.endswith("obs<|im_end|>")


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_tokens_are_those_of_the_agents_prefix(tiny_vlm_dir, family):
    vlm = VLM.load(str(tiny_vlm_dir(family)))
    example = segment_example(stage_two(), 1, NANO)
    row = Encoder(vlm, 8192).row(example)
    prefix = vlm.prefill(example.messages[:2])
    assert prefix.state.ids.tolist() == row.ids[: len(prefix.state.ids)].tolist()
    extended = vlm.extend(prefix, example.messages[2:4])
    ids = extended.state.ids
    assert ids.tolist() == row.ids[: len(ids)].tolist()
    assert extended.state.next_position == int(row.positions[0, len(ids)])


def test_one_pass_gives_the_loss_of_many(vlm):
    """The loss over a whole conversation is the mean of those of its replies, each after all that came before."""
    encoder = Encoder(vlm, 4096)
    row = encoder.row(first_example(stage_one()))
    with torch.no_grad():
        together, numbers = loss(vlm, None, vlm.model, encoder.batch([row]))
        values = []
        for begin, end in encoder.replies(row.ids):
            part = dataclasses.replace(row, labels=np.full_like(row.labels, IGNORE))
            part.labels[begin:end] = row.ids[begin:end]
            values.append((float(loss(vlm, None, vlm.model, encoder.batch([part]))[0]), end - begin))
    wanted = sum(v * n for v, n in values) / sum(n for _, n in values)
    assert float(together) == pytest.approx(wanted, rel=1e-4)
    assert 0 <= float(numbers["token_accuracy"]) <= 1


def test_padding_changes_nothing(vlm):
    encoder = Encoder(vlm, 4096)
    rows = [encoder.row(first_example(stage_one(a))) for a in ((LEFT, END), (MOVE, MOVE, RIGHT, MOVE, END))]
    with torch.no_grad():
        single = [float(loss(vlm, None, vlm.model, encoder.batch([r]))[0]) for r in rows]
        both = float(loss(vlm, None, vlm.model, encoder.batch(rows))[0])
    counts = [int((r.labels != IGNORE).sum()) for r in rows]
    assert both == pytest.approx(np.average(single, weights=counts), rel=1e-4)


def test_pictures_of_one_size_in_one_product_give_the_same(vlm):
    encoder = Encoder(vlm, 4096)
    batch = encoder.batch([encoder.row(first_example(stage_one()))])
    vlm.model.requires_grad_(True)

    def gradients():
        vlm.model.zero_grad()
        value, _ = loss(vlm, None, vlm.model, batch)
        value.backward()
        return float(value), {n: p.grad.clone() for n, p in vlm.model.named_parameters() if p.grad is not None}

    value, usual = gradients()
    with even_pictures(vlm.model):
        other, even = gradients()
    assert other == pytest.approx(value, rel=1e-5)
    assert usual.keys() == even.keys()
    for name in usual:
        assert torch.allclose(usual[name], even[name], atol=1e-5, rtol=1e-3), name
    assert gradients()[0] == value  # the tower is its own again


def test_a_conversation_that_is_too_long_is_refused(vlm):
    with pytest.raises(DataError, match="at most 50"):
        Encoder(vlm, 50).row(first_example(stage_one()))


def test_batches_are_pure_functions_and_every_epoch_shows_all(vlm, folder):
    places = find_places([folder], NANO)
    assert len(places) == 9
    batches = Batches(Encoder(vlm, 4096), places, NANO, 3, seed=5)
    one, two = (batches.at(4) for _ in range(2))
    assert all(torch.equal(one[k], two[k]) for k in one)
    drawn = [p for i in range(3 * SORTED) for p in batches.places(i)]  # 72 examples: eight epochs of nine
    counts = {p: drawn.count(p) for p in places}
    assert set(counts.values()) == {8}
    lengths = [[p.pictures for p in batches.places(i)] for i in range(SORTED)]
    assert np.mean([max(x) - min(x) for x in lengths]) < np.ptp([p.pictures for p in places]) / 2
    other = Batches(Encoder(vlm, 4096), places, NANO, 3, seed=6)
    assert [batches.places(i) for i in range(4)] != [other.places(i) for i in range(4)]


def test_questions_take_their_share(vlm, folder):
    places = find_places([folder], NANO)
    asked = Questions(share=0.25, sources=(("shapes", 1.0),))
    batches = Batches(Encoder(vlm, 4096), places, NANO, 3, seed=5, questions=asked)
    kinds = [batches.examples(i)[0].id.startswith("shapes") for i in range(200)]
    assert 0.15 < np.mean(kinds) < 0.35
    number = kinds.index(True)
    examples = batches.examples(number)
    assert len(examples) == 3
    assert all(all(e.learn) for e in examples)
    assert [e.id for e in examples] == [e.id for e in batches.examples(number)]
    assert batches.at(number)["ids"].shape[0] == 3


@pytest.mark.parametrize(
    ("language", "tower", "trained"),
    [("lora", "frozen", {"language"}), ("frozen", "lora", {"visual"}), ("full", "lora", {"language", "visual"})],
)
def test_only_what_is_named_learns(vlm, language, tower, trained):
    settings = dataclasses.replace(TINY, language=language, tower=tower)
    with learning(vlm, settings):
        names = [n for n, p in vlm.model.named_parameters() if p.requires_grad]
    parts = {"language" if "language_model" in n else "visual" for n in names}
    assert parts == trained
    adapters = {"language" if "language_model" in n else "visual" for n in names if ".lora_" in n}
    assert adapters == {p for p, kind in (("language", language), ("visual", tower)) if kind == "lora"}
    assert not any(p.requires_grad for p in vlm.model.parameters())


def test_training_learns_leaves_an_adapter_and_goes_on(vlm, folder, tmp_path, tiny_vlm_dir):
    before = {n: p.clone() for n, p in vlm.model.named_parameters()}
    output = tmp_path / "run"
    first = train_stage(vlm, [folder], output, NANO, dataclasses.replace(TINY, steps=20, log_every=5))
    assert first.stopped is None
    log = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if entry["event"] == "step"]
    assert losses[-1] < 0.85 * losses[0]
    now = {n.replace(".base_layer.", "."): p for n, p in vlm.model.named_parameters()}
    assert all(torch.equal(now[n], value) for n, value in before.items())
    fresh = VLM.load(str(tiny_vlm_dir("qwen3_vl")), pixels=vlm.pixels)
    fresh.adapters.attach(ADAPTER, output / "adapter")
    batch = Encoder(vlm, 4096).batch([Encoder(vlm, 4096).row(first_example(stage_one()))])
    with torch.no_grad():
        values = [float(loss(m, ADAPTER, m.model, batch)[0]) for m in (vlm, fresh)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    again = train_stage(fresh, [folder], output, NANO, dataclasses.replace(TINY, steps=22))
    assert again.steps == 22


def test_a_trained_base_is_kept_as_a_whole_model(vlm, folder, tmp_path):
    settings = dataclasses.replace(TINY, tower="full")
    train_stage(vlm, [folder], tmp_path / "run", NANO, settings)
    whole = VLM.load(str(tmp_path / "run" / "model"), pixels=vlm.pixels)
    encoder = Encoder(vlm, 4096)
    batch = encoder.batch([encoder.row(first_example(stage_one()))])
    with torch.no_grad():
        values = [float(loss(vlm, ADAPTER, vlm.model, batch)[0]), float(loss(whole, None, whole.model, batch)[0])]
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    assert not any("lora" in n for n, _ in whole.model.named_parameters())


def test_a_model_without_adapter_is_kept_as_it_is(vlm, tmp_path):
    save_whole(vlm, None, tmp_path / "model")
    same = VLM.load(str(tmp_path / "model"))
    for (name, a), (other, b) in zip(vlm.model.named_parameters(), same.model.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "wrong",
    [
        {"language": "frozen", "tower": "frozen"},
        {"language": "half"},
        {"batch": 3, "accumulate": 2},
        {"rank": 0},
        {"epochs": 0.0},
    ],
)
def test_impossible_settings(wrong):
    with pytest.raises(ConfigError, match="training"):
        dataclasses.replace(TINY, **wrong)


def test_presets_hold_what_the_paper_states():
    one, three = StageTraining.preset("qwen", "stage1"), StageTraining.preset("qwen", "irft")
    assert (one.batch, one.learning_rate, one.epochs, one.weight_decay, one.clip) == (1024, 1e-5, 2.0, 0.1, 1.0)
    assert (three.batch, three.learning_rate, three.epochs) == (512, 1e-6, 3.0)
    loop = one.loop(500_000)
    assert loop.steps == 977
    assert loop.rate(loop.steps - 1) == pytest.approx(1e-6)
    assert StageTraining.preset("nano", "stage2").questions.share == 0.2
    with pytest.raises(ConfigError, match="stage1"):
        StageTraining.preset("nano", "stage")
