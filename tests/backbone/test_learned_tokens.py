"""The quick way through a language model while it learns: the same states and gradients as the usual one."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, rms_norm, scaled_dot_product_attention
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb

from backbone import causal_blocks, learned_tokens
from backbone.causal_blocks import Plan, attend
from backbone.fused import CrossEntropy, Norm, Turn
from backbone.learned_tokens import quick, states_at
from backbone.vlm import VLM


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(causal_blocks, "SIZE", 16)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def usual_attention(query, key, value, places):
    """(B, n, H, d) of queries at ``places`` of their rows, by torch."""
    mask = torch.stack([torch.arange(key.shape[1]) <= at[:, None] for at in places])[:, None]
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0, enable_gqa=True).transpose(1, 2)


def relative(one, other):
    return float((one.double() - other.double()).detach().norm() / other.detach().double().norm())


PLACES = {
    "all": [torch.arange(50), torch.arange(50)],
    "some": [torch.tensor([3, 4, 30, 31, 49]), torch.tensor([0, 17, 18, 19, 20])],
    "many": [torch.arange(5, 45), torch.arange(10, 50)],
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES.keys())
def test_attention_in_blocks_is_attention(places):
    n = len(places[0])
    query, key, value = drawn(2, n, 4, 8), drawn(2, 50, 2, 8, seed=1), drawn(2, 50, 2, 8, seed=2)
    pull = drawn(2, n, 4, 8, seed=3).detach()
    out = attend(query, key + 3.0, value, Plan.of(places))  # keys with something in common, as trained ones have
    wanted = usual_attention(query, key + 3.0, value, places)
    assert torch.allclose(out, wanted, atol=1e-5)
    for own, other in zip(*(torch.autograd.grad(o, (query, key, value), pull) for o in (out, wanted)), strict=True):
        assert torch.allclose(own, other, atol=1e-5)


def test_rows_of_other_lengths_do_not_mix():
    query, key, value = drawn(3, 40, 2, 8), drawn(3, 40, 2, 8, seed=1), drawn(3, 40, 2, 8, seed=2)
    out = attend(query, key, value, Plan.of([torch.arange(20), torch.arange(0), torch.arange(33)]))
    wanted = usual_attention(query, key, value, [torch.arange(40)] * 3)
    pull = torch.zeros_like(wanted)
    pull[0, :20], pull[2, :33] = 1.0, -2.0
    assert torch.allclose(out[0, :20], wanted[0, :20], atol=1e-5)
    assert torch.allclose(out[2, :33], wanted[2, :33], atol=1e-5)
    for own, other in zip(*(torch.autograd.grad(o, (query, key, value), pull) for o in (out, wanted)), strict=True):
        assert torch.allclose(own, other, atol=1e-5)


def test_in_bfloat16_it_is_about_as_exact_as_torch():
    query, key, value = 1.5 * drawn(2, 90, 4, 16), drawn(2, 90, 2, 16, seed=1), drawn(2, 90, 2, 16, seed=2)
    places = [torch.arange(90)] * 2
    true = usual_attention(query.double(), key.double(), value.double(), places)
    half = [t.bfloat16() for t in (query, key, value)]
    torchs, own = usual_attention(*half, places), attend(half[0], key, half[2], Plan.of(places, torch.bfloat16))
    assert own.dtype == torch.bfloat16
    assert relative(own, true) < 2 * relative(torchs, true) < 0.02
    for leaf in (query, key, value):
        found = [
            torch.autograd.grad(o.double().square().sum(), leaf, retain_graph=True)[0] for o in (own, torchs, true)
        ]
        assert relative(found[0], found[2]) < 2 * relative(found[1], found[2]) < 0.04


def test_the_norm_is_the_norm():
    states, weight, pull = drawn(3, 7, 32), drawn(32, seed=1), drawn(3, 7, 32, seed=2).detach()
    out, wanted = Norm.apply(states, weight, 1e-6, torch.float32), rms_norm(states, (32,), weight, 1e-6)
    assert torch.allclose(out, wanted, atol=1e-6)
    for own, other in zip(*(torch.autograd.grad(o, (states, weight), pull) for o in (out, wanted)), strict=True):
        assert torch.allclose(own, other, atol=1e-5)
    assert Norm.apply(states, weight, 1e-6, torch.bfloat16).equal(out.bfloat16())


def test_the_turn_is_norm_and_rotation():
    states, weight, pull = drawn(2, 9, 3, 16), drawn(16, seed=1), drawn(2, 9, 3, 16, seed=2).detach()
    angles = drawn(2, 9, 8, seed=3).detach().repeat(1, 1, 2)
    cos, sin = angles.cos(), angles.sin()
    out = Turn.apply(states, weight, cos, sin, 0.25, 1e-6, torch.float32)
    normed = rms_norm(states, (16,), weight, 1e-6).transpose(1, 2)
    wanted = apply_rotary_pos_emb(normed, normed, cos, sin)[0].transpose(1, 2) * 0.25
    assert torch.allclose(out, wanted, atol=1e-6)
    for own, other in zip(*(torch.autograd.grad(o, (states, weight), pull) for o in (out, wanted)), strict=True):
        assert torch.allclose(own, other, atol=1e-5)


def test_the_loss_is_the_cross_entropy():
    targets = torch.tensor([3, 0, 5, 39, 7])
    logits = drawn(5, 40) * 3 + 200 * (torch.arange(40) == torch.tensor([3, 1, 1, 1, 1])[:, None])  # some hopeless
    value, right = CrossEntropy.apply(logits, targets)
    wanted = cross_entropy(logits, targets)
    assert float(value.detach()) == pytest.approx(float(wanted.detach()), rel=1e-6)
    assert float(right) == pytest.approx(0.2)
    own, other = (torch.autograd.grad(0.5 * v, logits, retain_graph=True)[0] for v in (value, wanted))
    assert torch.allclose(own, other, atol=1e-6)


def passes(vlm, wanted, count=40):
    """States where ``wanted``, and gradients of all weights and of the input, of made-up conversations."""
    text = vlm.network.text
    embeddings = 0.1 * drawn(len(wanted), count, vlm.network.width)
    positions = torch.arange(count).expand(3, len(wanted), -1)
    visual = torch.zeros(wanted.shape, dtype=torch.bool)
    visual[:, 4:20] = True
    deep = [drawn(int(visual.sum()), vlm.network.width, seed=9).detach()]
    extra = {"visual_pos_masks": visual, "deepstack_visual_embeds": deep}
    extra = extra if hasattr(text.layers[0].self_attn, "q_norm") else {}
    states = states_at(text, wanted, inputs_embeds=embeddings, position_ids=positions, **extra)
    leaves = [embeddings, *(p for name, p in text.named_parameters() if "embed_tokens" not in name)]
    pull = torch.linspace(-1, 1, states.numel()).view(states.shape)
    return states, torch.autograd.grad((states.float() * pull).sum(), leaves)


def some(rows=3, count=40):
    wanted = torch.zeros(rows, count, dtype=torch.bool)
    wanted[0, 25:37], wanted[1, 22], wanted[2, 20:39:2] = True, True, True
    return wanted


def test_the_quick_way_gives_the_states_and_gradients_of_the_usual_one(tiny_vlm_dir, monkeypatch):
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    vlm.model.requires_grad_(True)
    wanted = some()
    assert not quick(vlm.network.text)
    usual, gradients = passes(vlm, wanted)
    monkeypatch.setattr(learned_tokens, "quick", lambda text: True)
    states, own = passes(vlm, wanted)
    assert torch.allclose(states, usual, atol=1e-5)
    for one, other in zip(own, gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5 + 1e-4 * float(other.abs().max()))
    assert all("forward" not in vars(m) for m in vlm.network.text.modules())  # the model is its own again


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_in_bfloat16_gradients_are_as_far_from_the_true_ones_as_by_the_usual_way(tiny_vlm_dir, monkeypatch, family):
    vlm = VLM.load(str(tiny_vlm_dir(family)))
    vlm.model.requires_grad_(True)
    wanted = some()
    true = passes(vlm, wanted)
    with torch.autocast("cpu", torch.bfloat16):
        assert quick(vlm.network.text) == (family == "qwen3_vl")
        own = passes(vlm, wanted)
        monkeypatch.setattr(learned_tokens, "quick", lambda text: False)
        usual = passes(vlm, wanted)

    def far(made):
        return math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(made[1], true[1], strict=True)))

    assert relative(own[0], true[0]) < 1.5 * relative(usual[0], true[0]) < 0.05
    assert far(own) < 1.5 * far(usual)


def test_nothing_wanted_gives_nothing(tiny_vlm_dir):
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    wanted = torch.zeros(2, 10, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        made = states_at(
            vlm.network.text,
            wanted,
            inputs_embeds=drawn(2, 10, vlm.network.width),
            position_ids=torch.zeros(3, 2, 10).long(),
        )
    assert made.shape == (0, vlm.network.width)
