"""LoRA adapters: active for one call only, kept apart in the cache, merged with proof and restored bit by bit."""

import pytest
import torch
from local_helpers import message, picture
from peft import LoraConfig
from safetensors.torch import load_file, save_file

from backbone.errors import ConfigError, ModelError
from backbone.vlm import VLM

LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])


@pytest.fixture
def vlm(tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir("qwen3_vl")))


def noisy(vlm, name, seed=0, config=LORA):
    """Attach an adapter with random weights, so that it changes answers."""
    vlm.adapters.attach(name, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in vlm.adapters.trainable(name):
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3).requires_grad_(False)


def logits(vlm, adapter=None):
    vlm.forget()
    return vlm.next_logits(vlm.prefill(message(picture(0), "Adapt"), adapter=adapter))


def test_a_fresh_adapter_changes_nothing(vlm):
    before = logits(vlm)
    vlm.adapters.attach("fresh", LORA)
    assert torch.equal(logits(vlm), before)
    assert torch.equal(logits(vlm, "fresh"), before)


def test_an_adapter_takes_effect_for_its_call_only(vlm):
    before = logits(vlm)
    noisy(vlm, "a")
    assert torch.equal(logits(vlm), before)
    assert not torch.allclose(logits(vlm, "a"), before, atol=0.1)
    vlm.generate(message("x"), adapter="a", max_new_tokens=2)
    assert torch.equal(logits(vlm), before)
    with pytest.raises(ConfigError):
        vlm.generate(message("x"), adapter="a", n=0)
    assert torch.equal(logits(vlm), before)


def test_adapters_never_share_a_prefix(vlm):
    noisy(vlm, "a", 1)
    noisy(vlm, "b", 2)
    messages = message(picture(0), "Same prompt")
    apart = {}
    for name in (None, "a", "b"):
        vlm.forget()
        apart[name] = vlm.generate(messages, adapter=name, max_new_tokens=8).token_ids
    vlm.forget()
    for name in (None, "a", "b", None, "a"):
        assert vlm.generate(messages, adapter=name, max_new_tokens=8).token_ids == apart[name]
    assert len(set(apart.values())) == 3
    keys = {vlm.prefill(messages, adapter=name).key for name in apart}
    assert len(keys) == 3


def test_a_prefix_brings_its_adapter(vlm):
    noisy(vlm, "a")
    messages = message("Prefix")
    prefix = vlm.prefill(messages, adapter="a")
    direct = vlm.generate(messages, adapter="a", max_new_tokens=6)
    assert vlm.generate(prefix, max_new_tokens=6).token_ids == direct.token_ids
    assert vlm.generate(prefix, adapter="a", max_new_tokens=6).token_ids == direct.token_ids
    noisy(vlm, "b", 3)
    with pytest.raises(ModelError, match="encoded with adapter 'a', not 'b'"):
        vlm.generate(vlm.prefill(messages, adapter="a"), adapter="b")


def test_unknown_names_list_the_known_ones(vlm):
    vlm.adapters.attach("looking", LORA)
    with pytest.raises(ModelError, match=r"'reading'.*looking"):
        vlm.generate(message("x"), adapter="reading")
    with pytest.raises(ConfigError, match="looking"):
        vlm.adapters.attach("looking", LORA)


def test_saved_adapters_load_again(vlm, tmp_path, tiny_vlm_dir):
    noisy(vlm, "a")
    wanted = logits(vlm, "a")
    vlm.adapters.save("a", tmp_path / "a")
    other = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    other.adapters.attach("again", tmp_path / "a")
    assert torch.equal(logits(other, "again"), wanted)


def test_peft_itself_reads_what_was_saved(vlm, tmp_path, tiny_vlm_dir):
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText

    noisy(vlm, "a")
    vlm.adapters.save("a", tmp_path)
    base = AutoModelForImageTextToText.from_pretrained(tiny_vlm_dir("qwen3_vl"))
    with torch.no_grad():
        ids = torch.arange(32)[None] + 100
        theirs = PeftModel.from_pretrained(base, str(tmp_path))(input_ids=ids).logits
    with vlm.adapters.active("a"):
        assert torch.allclose(vlm._probe(), theirs, atol=1e-3)


def test_incomplete_and_foreign_directories_are_refused(vlm, tmp_path):
    base = logits(vlm)
    noisy(vlm, "a")
    active = logits(vlm, "a")
    vlm.adapters.save("a", tmp_path)
    weights = load_file(tmp_path / "adapter_model.safetensors")
    dropped = sorted(weights)[0]
    save_file({k: v for k, v in weights.items() if k != dropped}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ModelError, match="missing weights"):
        vlm.adapters.attach("partial", tmp_path)
    assert vlm.adapters.names == ("a",)
    save_file(
        {**weights, "base_model.model.nowhere.lora_A.weight": torch.zeros(2, 2)}, tmp_path / "adapter_model.safetensors"
    )
    with pytest.raises(ModelError, match="nowhere"):
        vlm.adapters.attach("more", tmp_path)
    with pytest.raises(ModelError, match="adapter_config"):
        vlm.adapters.attach("none", tmp_path / "empty")
    with pytest.raises(ModelError, match="does not fit"):
        vlm.adapters.attach("elsewhere", LoraConfig(target_modules=["no_such_layer"]))
    assert torch.equal(logits(vlm), base)
    assert torch.equal(logits(vlm, "a"), active)


def test_pickled_weights_are_not_read(vlm, tmp_path):
    noisy(vlm, "a")
    vlm.adapters.save("a", tmp_path)
    (tmp_path / "adapter_model.safetensors").rename(tmp_path / "adapter_model.bin")
    with pytest.raises(ModelError, match="pickled"):
        vlm.adapters.attach("b", tmp_path)


def test_merging_is_verified_and_undone_exactly(vlm):
    before = logits(vlm)
    noisy(vlm, "a")
    active = logits(vlm, "a")
    prefix = vlm.prefill(message("Old"))
    assert vlm.adapters.merge("a") < 1e-3
    assert torch.allclose(logits(vlm), active, atol=1e-3)
    with pytest.raises(ModelError, match="weights"):
        vlm.generate(prefix)
    noisy_config = LoraConfig(target_modules=["k_proj"])
    with pytest.raises(ModelError, match="merged"):
        vlm.adapters.attach("b", noisy_config)
    vlm.adapters.unmerge()
    assert torch.equal(logits(vlm), before)
    assert torch.equal(logits(vlm, "a"), active)
    with pytest.raises(ModelError, match="no adapter is merged"):
        vlm.adapters.unmerge()


def test_a_merge_that_changes_answers_is_taken_back(vlm, monkeypatch):
    before = logits(vlm)
    noisy(vlm, "a")
    from peft.tuners.lora import Linear

    merge = Linear.merge

    def wrong(layer, *args, **kwargs):
        merge(layer, *args, **kwargs)
        layer.get_base_layer().weight.data.mul_(1.2)

    monkeypatch.setattr(Linear, "merge", wrong)
    with pytest.raises(ModelError, match="changed the logits"):
        vlm.adapters.merge("a")
    assert torch.equal(logits(vlm), before)


def test_only_the_asked_adapter_trains(vlm):
    noisy(vlm, "other")
    vlm.adapters.attach("mine", LORA)
    weights = vlm.adapters.trainable("mine")
    assert weights
    assert sum(p.requires_grad for p in vlm.model.parameters()) == len(weights)
    before = logits(vlm, "mine")
    with vlm.adapters.active("mine"):
        ids = torch.arange(20)[None] + 100
        vlm.model(input_ids=ids, labels=ids).loss.backward()
    torch.optim.SGD(weights, 0.5).step()
    assert not torch.equal(logits(vlm, "mine"), before)
    logits(vlm, "other")
    assert all(w.requires_grad for w in weights)


def test_adapters_on_the_vision_tower_keep_their_own_features(vlm):
    noisy(vlm, "eye", config=LoraConfig(r=4, lora_alpha=8, target_modules=["linear_fc1"]))
    base = vlm.image_features([picture(0)])[0]
    vlm.prefill(message(picture(0), "x"))
    changed = vlm.image_features([picture(0)], adapter="eye")[0]
    assert not torch.allclose(base, changed, atol=1e-2)
    assert torch.equal(vlm.image_features([picture(0)])[0], base)
