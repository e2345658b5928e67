"""Learning to see homes, and the features of a tower that rests."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from nav_records import stage_one, stage_two
from safetensors.torch import load_file

from assets import NAVIGATION
from backbone.chat import Chat
from backbone.errors import ConfigError, ModelError
from backbone.vlm import VLM
from navigation.agent_config import load
from navigation.batches import Encoder, loss
from navigation.config import NavigationConfig
from navigation.examples import example_at, places_of, segment_example
from navigation.feature_store import FeatureStore
from navigation.glimpse_maps import IGNORE, KINDS
from navigation.records import write_episode
from navigation.sight import SightTraining, train_sight
from navigation.sight_heads import CLASSES, HEADS_FILE, SightHeads, check_fit, frames_at, sight_loss
from navigation.train import ADAPTER, StageTraining, halved, learning, train_stage

NANO = NavigationConfig.preset("nano")
SHORT = SightTraining(steps=12, frames=4, learning_rate=1e-2, rank=4)


@pytest.fixture
def vlm(tiny_vlm_dir):
    own = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    return VLM.load(str(tiny_vlm_dir("qwen3_vl")), pixels=NANO.pixels(own.pixels))


def rows(vlm):
    made = stage_one()
    place = next(iter(places_of(made.trajectory, "p", NANO)))
    encoder = Encoder(vlm, 4096)
    return encoder, [
        encoder.row(example_at(made, place.cycle, place.begin, NANO)),
        encoder.row(segment_example(stage_two(), 1, NANO)),
    ]


def test_frames_are_a_pure_function_with_a_label_for_every_token(vlm):
    chat = Chat(vlm.processor, vlm.pixels)
    one, two, other = (frames_at(chat, NANO, 3, seed, 5) for seed in (0, 0, 1))
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert not torch.equal(one["patches"], other["patches"])
    assert len(one["kind"]) == len(one["depth"]) == 3 * 5 * 4
    for name, classes in CLASSES.items():
        known = one[name][one[name] != IGNORE]
        assert len(known) > 20
        assert 0 <= int(known.min()) <= int(known.max()) < classes


def test_the_loss_counts_what_is_decided_and_refuses_other_grids(vlm):
    heads = SightHeads(vlm.network.width)
    batch = frames_at(Chat(vlm.processor, vlm.pixels), NANO, 2, 0, 0)
    with torch.no_grad():
        for head in heads.heads.values():
            head.weight.zero_()
            head.bias.zero_()
        value, _ = sight_loss(vlm, heads, None, batch)
        assert float(value) == pytest.approx(np.log(len(KINDS)) + np.log(CLASSES["depth"]), rel=1e-5)
        with pytest.raises(ModelError, match="visual tokens for"):
            sight_loss(vlm, heads, None, {**batch, "depth": batch["depth"][:-1]})


def test_classifiers_of_another_tower_are_refused(vlm, tmp_path):
    with pytest.raises(ModelError, match="another tower"):
        check_fit(vlm, None, SightHeads(vlm.network.width), NANO)
    shipped, name = load("nano", NANO, "sight", "cpu")
    heads = SightHeads.load(NAVIGATION / "sight", shipped.network.width)
    assert check_fit(shipped, name, heads, NANO) > 0.85
    with pytest.raises(ModelError, match="--sight"):
        check_fit(shipped, None, heads, NANO)  # nano's tower before it learned to see homes
    write_episode(stage_one(), tmp_path / "data", 0)
    settings = StageTraining(language="lora", tower="frozen", guidance=0.5, steps=1, batch=1, accumulate=1)
    bare, _ = load("nano", NANO, "", "cpu")
    with pytest.raises(ModelError, match="another tower"):
        train_stage(bare, [tmp_path / "data"], tmp_path / "run", NANO, settings)


def test_only_the_towers_adapter_learns_and_it_goes_on(vlm, tmp_path):
    before = {n: p.clone() for n, p in vlm.model.named_parameters()}
    result = train_sight(vlm, tmp_path, NANO, SHORT)
    assert result.stopped is None
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [e["loss"] for e in log if e["event"] == "step"][-1] < np.log(len(KINDS)) + np.log(CLASSES["depth"])
    now = {n.replace(".base_layer.", "."): p for n, p in vlm.model.named_parameters()}
    assert all(torch.equal(now[n], value) for n, value in before.items())
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    moved = {k for k, v in saved.items() if "lora_B" in k and v.abs().sum() > 0}
    assert moved
    assert all(".visual." in k for k in moved)
    assert any("language_model" in k for k in saved)  # there, and still nothing: stage 1 goes on with it
    assert load_file(tmp_path / "adapter" / HEADS_FILE)["heads.kind.weight"].shape == (len(KINDS), vlm.network.width)
    whole, name = load("nano", NANO, str(tmp_path / "model"), "cpu")  # in place of the model that is named
    assert name is None
    frame = np.random.default_rng(0).integers(0, 255, (128, 160, 3), np.uint8)
    one, two = vlm.image_features([frame], adapter=ADAPTER)[0], whole.image_features([frame])[0]
    assert torch.allclose(one, two, atol=1e-4)
    assert not torch.allclose(one, vlm.image_features([frame])[0], atol=1e-4)
    folder = tmp_path / "data"
    write_episode(stage_one(), folder, 0)
    settings = StageTraining(language="lora", tower="frozen", batch=1, accumulate=1, steps=3, precision="fp32")
    train_stage(vlm, [folder], tmp_path / "stage1", NANO, settings)
    after = load_file(tmp_path / "stage1" / "adapter" / "adapter_model.safetensors")
    assert after.keys() == saved.keys()
    changed = {k for k in after if not torch.equal(after[k], saved[k])}
    assert changed
    assert all("language_model" in k for k in changed)


def test_kept_features_give_the_loss_and_gradients_of_computed_ones(vlm):
    encoder, made = rows(vlm)
    store = FeatureStore(vlm, ADAPTER, 64)
    settings = StageTraining(language="lora", tower="frozen", rank=4, alpha=8, precision="fp32")
    with learning(vlm, settings):
        weights = [p for p in vlm.model.parameters() if p.requires_grad]
        usual, _ = loss(vlm, ADAPTER, vlm.model, encoder.batch(made))
        wanted = torch.autograd.grad(usual, weights)
        for _ in range(2):  # the first time they are computed, the second time found
            value, _ = loss(vlm, ADAPTER, vlm.model, encoder.batch(made, patches=False), store)
            assert float(value.detach()) == pytest.approx(float(usual.detach()), rel=1e-5)
            for have, want in zip(torch.autograd.grad(value, weights), wanted, strict=True):
                assert torch.allclose(have, want, atol=1e-6, rtol=1e-4)
        assert len(store) == len({p.digest for r in made for p in r.pictures})


def test_a_full_store_computes_the_rest_anew(vlm):
    encoder, made = rows(vlm)
    store = FeatureStore(vlm, None, 1)
    store._room = 0
    batch = encoder.batch(made, patches=False)
    found = store.features(batch["pictures"])
    assert len(store) == 0
    assert [len(f.merged) for f in found] == [p.tokens for p in batch["pictures"]]
    with pytest.raises(ConfigError, match="at least 1 MiB"):
        FeatureStore(vlm, None, 0)


def test_halved_weights_come_back_bit_by_bit(vlm):
    before = {n: p.clone() for n, p in vlm.model.named_parameters()}
    with learning(vlm, StageTraining(tower="frozen", rank=4, alpha=8, precision="fp32")):
        learned = [p for p in vlm.model.parameters() if p.requires_grad]
        with halved(vlm.model):
            assert {p.dtype for p in learned} == {torch.float32}
            assert {p.dtype for p in vlm.model.parameters() if not p.requires_grad} == {torch.bfloat16}
    now = {n.replace(".base_layer.", "."): p for n, p in vlm.model.named_parameters()}
    assert all(torch.equal(now[n], value) for n, value in before.items())


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"frames": 0}, {"rank": 0}])
def test_impossible_sight_is_refused(wrong):
    with pytest.raises(ConfigError, match="at least 1"):
        dataclasses.replace(SHORT, **wrong)
