"""Prefixes: reuse never changes a result, never serves another picture, and never disturbs another fork."""

import copy

import numpy as np
import pytest
import torch
from local_helpers import FAMILIES, assistant, calls_of, message, picture

from backbone.errors import DataError, ModelError
from backbone.vlm import VLM


@pytest.fixture(scope="module", params=FAMILIES)
def vlm(request, tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir(request.param)))


@pytest.fixture(scope="module")
def pair(tiny_vlm_dir):
    """The same weights with and without a cache."""
    directory = str(tiny_vlm_dir("qwen3_vl"))
    return VLM.load(directory), VLM.load(directory, cache_mebibytes=0)


def tokens(out):
    return out.token_ids


def test_cache_on_equals_cache_off(pair):
    cached, plain = pair
    conversations = [
        message(picture(0), "What?"),
        message(picture(0), "What else?"),
        message(picture(0), picture(1), "Compare."),
        message(picture(0), picture(2), "Compare."),
        message(picture(1), picture(0), "Compare."),
        [*message(picture(0), "What?"), *assistant("A cat."), *message("Why?")],
        message("What?"),
        [{"role": "system", "content": "Be brief."}, *message(picture(0), "What?")],
    ]
    for messages in conversations * 2:
        with_cache, without = cached.generate(messages, max_new_tokens=6), plain.generate(messages, max_new_tokens=6)
        assert tokens(with_cache) == tokens(without)
        assert without.stage.reused_tokens == 0
    assert with_cache.stage.reused_tokens > 0


def test_another_picture_of_the_same_size_never_matches(pair):
    cached, plain = pair
    cached.forget()
    one, two = message(picture(0), "Same words"), message(picture(1), "Same words")
    cached.generate(one, max_new_tokens=6)
    second = cached.generate(two, max_new_tokens=6)
    assert tokens(second) == tokens(plain.generate(two, max_new_tokens=6))
    assert not torch.allclose(cached.next_logits(cached.prefill(one)), cached.next_logits(cached.prefill(two)))
    assert second.stage.visual_tokens == cached.visual_tokens(96, 64)  # the whole image, not a part of it
    changed = picture(0)
    changed[0, 0, 0] ^= 1
    assert cached.prefill(message(changed, "Same words")).stage.visual_tokens > 0


def test_a_kept_picture_is_not_encoded_again(vlm):
    vlm.forget()
    with calls_of(vlm.model.model.visual) as seen:
        prefix = vlm.prefill(message(picture(3), "What is it?"))
        assert len(seen) == 1
        more = vlm.extend(prefix, [*assistant("A mug."), *message("Where?")])
        vlm.generate(more, n=3, max_new_tokens=3)
        vlm.generate(message(picture(3), "Something else"), max_new_tokens=3)
        # Another text before it: its tokens must pass the language model again, its features are known.
        moved = vlm.generate(message("Look:", picture(3)), max_new_tokens=3)
        assert len(seen) == 1
        assert moved.stage.visual_tokens == prefix.visual_tokens
        vlm.extend(more, message(picture(4)))
        assert len(seen) == 2
    assert (more.stage.visual_tokens, more.visual_tokens) == (0, prefix.visual_tokens)
    assert more.length == more.stage.prompt_tokens + more.stage.reused_tokens
    assert more.stage.reused_tokens >= prefix.length


def test_extending_equals_encoding_the_whole_conversation(vlm):
    first, rest = message(picture(5), "What?"), [*assistant("Red."), *message(picture(6, 40, 130), "And now?")]
    vlm.forget()
    whole = vlm.prefill([*first, *rest])
    logits = vlm.next_logits(whole)
    vlm.forget()
    extended = vlm.extend(vlm.prefill(first), rest)
    assert extended.key == whole.key
    assert torch.allclose(vlm.next_logits(extended), logits, atol=1e-3)
    vlm.forget()
    without = vlm.extend(vlm.prefill(first, generation_prompt=False), rest)
    assert without.key == whole.key


def test_forks_do_not_disturb_each_other(vlm):
    prefix = vlm.prefill(message(picture(7), "Fork"))
    before = copy.deepcopy(prefix.state.key_values)
    left, right = vlm.extend(prefix, assistant("left")), vlm.extend(prefix, assistant("right"))
    answers = [vlm.generate(p, max_new_tokens=8).token_ids for p in (prefix, left, right)]
    vlm.generate(prefix, n=5, temperature=1.0, max_new_tokens=8)
    width = vlm.network.width
    vlm.run(prefix, torch.randn(3, width), torch.ones(3, prefix.length + 3, dtype=torch.bool))
    assert [vlm.generate(p, max_new_tokens=8).token_ids for p in (prefix, left, right)] == answers
    for (k, v), (old_k, old_v) in zip(prefix.state.key_values, before, strict=True):
        assert torch.equal(k, old_k)
        assert torch.equal(v, old_v)


def test_the_cache_is_bounded_and_drops_the_oldest(tiny_vlm_dir):
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")), cache_mebibytes=1)
    for i in range(40):
        vlm.prefill(message(picture(i, 128, 128), "x" * 200))
        assert vlm._cache.bytes <= 2**20
        assert vlm._cache.bytes == sum(s.bytes for s in vlm._cache._states.values())
    assert 1 < len(vlm._cache) < 40
    assert vlm.prefill(message(picture(39, 128, 128), "x" * 200)).stage.prompt_tokens == 0
    assert vlm.prefill(message(picture(0, 128, 128), "x" * 200)).stage.visual_tokens > 0


def test_what_is_kept_holds_no_pixels(pair):
    prefix = pair[0].prefill(message(picture(0), "What?"))
    assert all(p.image is None for p in prefix.state.pictures)
    assert all(p.get("image") is None or p["image"].image is None for p in prefix.state.messages[0]["content"])


def test_changed_weights_void_prefixes(tiny_vlm_dir):
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    prefix = vlm.prefill(message("Hi"))
    before = vlm.next_logits(prefix)
    with torch.no_grad():
        vlm.network.text.layers[0].mlp.down_proj.weight.mul_(1.5)
    with pytest.raises(ModelError, match="weights"):
        vlm.next_logits(prefix)
    assert not torch.allclose(vlm.next_logits(vlm.prefill(message("Hi"))), before)


def test_a_prefix_of_another_model_is_refused(pair, tiny_vlm_dir):
    other = VLM.load(str(tiny_vlm_dir("qwen2_5_vl")))
    with pytest.raises(ModelError, match="another model"):
        other.generate(pair[0].prefill(message("Hi")))


def test_hidden_states_match_transformers(vlm):
    messages = message(picture(8), "Layers")
    prefix = vlm.prefill(messages)
    batch = vlm.processor.apply_chat_template(
        [messages], tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    vlm.model.model.rope_deltas = None
    with torch.no_grad():
        out = vlm.model.model(**batch)
    assert batch["input_ids"][0].tolist() == prefix.state.ids.tolist()
    hidden = vlm.hidden(prefix, [0, 1, -1])
    assert hidden.shape == (3, prefix.length, vlm.network.width)
    assert torch.allclose(hidden[2], out.last_hidden_state[0], atol=1e-3)
    text = prefix.state.ids != vlm.network.image_id
    assert torch.allclose(hidden[0][text], vlm.network.text.embed_tokens.weight[prefix.state.ids[text]], atol=1e-6)
    keys, values = vlm.key_values(prefix, -1)
    assert keys.shape == values.shape == (2, prefix.length, 16)
    keys.zero_()
    assert vlm.key_values(prefix, -1)[0].abs().max() > 0
    with pytest.raises(DataError, match="layers"):
        vlm.hidden(prefix, [99])


def test_extra_embeddings_under_a_causal_mask_equal_more_tokens(vlm):
    """Oracle for `run`: text embeddings appended with the causal mask are just further text."""
    prefix = vlm.prefill(message(picture(9), "Run"), generation_prompt=False)
    longer = vlm.prefill(message(picture(9), "Run"))
    tail = torch.from_numpy(longer.state.ids[prefix.length :])
    embeddings = vlm.network.text.embed_tokens.weight[tail].detach()
    count = len(tail)
    causal = torch.ones(count, prefix.length + count, dtype=torch.bool).tril(prefix.length)
    out = vlm.run(prefix, embeddings, causal)
    wanted = vlm.hidden(longer, [-1])[0, prefix.length :]
    assert torch.allclose(out, wanted, atol=1e-3)
    both = vlm.run(prefix, torch.stack([embeddings, embeddings.flip(0)]), causal)
    assert torch.allclose(both[0], out, atol=1e-4)
    assert not torch.allclose(both[1], out, atol=1e-2)


def test_the_mask_of_run_decides_what_is_seen(pair):
    vlm = pair[0]
    prefix = vlm.prefill(message(picture(1), "Mask"))
    size = prefix.length
    queries = torch.randn(2, vlm.network.width)
    blind = torch.cat([torch.zeros(2, size), torch.eye(2)], 1).bool()
    other = vlm.prefill(message(picture(2), "Mask"))
    assert torch.allclose(vlm.run(prefix, queries, blind), vlm.run(other, queries, blind), atol=1e-5)
    full = torch.ones(2, size + 2, dtype=torch.bool)
    assert not torch.allclose(vlm.run(prefix, queries, full), vlm.run(other, queries, full), atol=1e-3)
    changed = torch.stack([queries[0], queries[1] + 1])
    assert torch.allclose(vlm.run(prefix, queries, blind)[0], vlm.run(prefix, changed, blind)[0], atol=1e-5)


def test_gradients_reach_the_queries_of_run_only(pair):
    vlm = pair[0]
    prefix = vlm.prefill(message("Gradient"))
    queries = torch.randn(2, vlm.network.width, requires_grad=True)
    vlm.run(prefix, queries, torch.ones(2, prefix.length + 2, dtype=torch.bool)).sum().backward()
    assert queries.grad.abs().sum() > 0
    assert all(p.grad is None for p in vlm.model.parameters())
    with torch.no_grad():
        assert not vlm.run(prefix, queries, torch.ones(2, prefix.length + 2, dtype=torch.bool)).requires_grad


@pytest.mark.parametrize(
    ("embeddings", "mask", "said"),
    [
        (torch.zeros(2, 7), torch.ones(2, 9, dtype=torch.bool), "expected embeddings"),
        (torch.zeros(2, 64), torch.ones(2, 9, dtype=torch.bool), "expected a mask of shape"),
        (torch.zeros(2, 64), torch.ones(2, 9), "bool mask"),
        (torch.zeros(2, 64), None, "attend to nothing"),
    ],
)
def test_run_refuses_what_does_not_fit(pair, embeddings, mask, said):
    prefix = pair[0].prefill(message("Hi"))
    mask = torch.zeros(2, prefix.length + 2, dtype=torch.bool) if mask is None else mask
    with pytest.raises(DataError, match=said):
        pair[0].run(prefix, embeddings, mask)


def test_image_features_are_grids(vlm):
    first, second = vlm.image_features([picture(0, 100, 160), picture(1)])
    width, height = vlm.encoded_size(160, 100)
    factor = vlm.pixels.factor
    assert first.shape == (height // factor, width // factor, vlm.network.width)
    assert first.dtype == torch.float32
    assert torch.allclose(vlm.image_features([picture(1)])[0], second, atol=1e-4)
    prefix = vlm.prefill(message(picture(1), "x"))
    inside = vlm.hidden(prefix, [0])[0][prefix.state.ids == vlm.network.image_id]
    assert np.allclose(inside, second.reshape(-1, second.shape[-1]), atol=1e-3)


def test_image_states_are_the_hidden_states_at_each_picture(vlm):
    messages = message("Where is it?", picture(2, 100, 160), picture(3), "And why?")
    prefix = vlm.prefill(messages)
    for layer in (1, -1):
        grids = vlm.image_states(messages, layer=layer)
        hidden = vlm.hidden(prefix, [layer])[0][prefix.state.ids == vlm.network.image_id]
        assert [g.shape[:2] for g in grids] == [
            f.shape[:2] for f in vlm.image_features([picture(2, 100, 160), picture(3)])
        ]
        assert torch.allclose(torch.cat([g.reshape(-1, g.shape[-1]) for g in grids]), hidden, atol=1e-5)
    with pytest.raises(DataError, match="no picture"):
        vlm.image_states(message("Where?"))
    with pytest.raises(DataError, match="layers"):
        vlm.image_states(messages, layer=99)


def test_image_states_know_what_stands_before_the_picture_only(vlm):
    def states(*parts):
        vlm.forget()
        return vlm.image_states(message(*parts))[0]

    one, other = states("Where is the cat?", picture(4)), states("What does it cost?", picture(4))
    assert not torch.allclose(one, other, atol=1e-2)
    assert torch.allclose(states(picture(4), "Where is the cat?"), states(picture(4), "What does it cost?"), atol=1e-5)


def test_features_kept_for_image_states_stay_within_the_limit(pair):
    cached, plain = pair
    for i in range(3):
        messages = message("Find it.", picture(i))
        first, again = cached.image_states(messages)[0], cached.image_states(messages)[0]
        assert torch.equal(first, again)
        assert torch.allclose(first, plain.image_states(messages)[0], atol=1e-5)
    assert len(cached._cache._loose) == 3
    assert not plain._cache._loose


def test_a_fingerprint_tells_weights_apart_and_not_their_format(tiny_vlm_dir):
    directory = str(tiny_vlm_dir("qwen3_vl"))
    full, half = VLM.load(directory, dtype="float32"), VLM.load(directory, dtype="bfloat16")
    assert full.fingerprint() == half.fingerprint()
    with torch.no_grad():
        full.network.text.embed_tokens.weight[0, 0] += 1
    assert full.fingerprint() != half.fingerprint()
