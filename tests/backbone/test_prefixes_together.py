"""Several prefixes at once: what each would get alone, whatever their lengths, and none disturbs another."""

import threading

import numpy as np
import pytest
import torch
from local_helpers import FAMILIES, assistant, calls_of, message, picture

from backbone.errors import CancelledError, ConfigError
from backbone.vlm import VLM

SIZES = ((64, 96), (40, 130), (128, 64))


@pytest.fixture(scope="module", params=FAMILIES)
def vlm(request, tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir(request.param)))


@pytest.fixture(scope="module")
def eager(tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir("qwen3_vl")), attention="eager")


def conversations():
    """Of different lengths, with different numbers of pictures, one of them without any."""
    return [
        message(picture(0), "What?"),
        message(picture(1, 40, 130), picture(2), "Compare these two with one another, please."),
        message("Only words here."),
        [*message(picture(0), "What?"), *assistant("A cat."), *message("Why?")],
    ]


def turns():
    return [[*assistant(f"reply {'x ' * i}"), *message(picture(10 + i, *SIZES[i % 3]), "Next?")] for i in range(4)]


def alone(vlm, depth):
    """Prefixes that were extended ``depth`` times, each by itself and without the cache's help."""
    found = []
    for messages, added in zip(conversations(), turns(), strict=True):
        vlm.forget()
        prefix = vlm.prefill(messages)
        for _ in range(depth):
            prefix = vlm.extend(prefix, added)
        found.append(prefix)
    vlm.forget()
    return found


def together(vlm, depth):
    vlm.forget()
    prefixes = vlm.prefill_many(conversations())
    for _ in range(depth):
        prefixes = vlm.extend_many(prefixes, turns())
    return prefixes


def logits(vlm, prefixes):
    return torch.stack([vlm.next_logits(p) for p in prefixes])


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_encoding_together_equals_encoding_alone(vlm, depth):
    one, many = alone(vlm, depth), together(vlm, depth)
    assert [p.key for p in many] == [p.key for p in one]
    assert torch.allclose(logits(vlm, many), logits(vlm, one), atol=1e-4)
    for a, b in zip(many, one, strict=True):
        assert a.state.next_position == b.state.next_position
        for layer in range(vlm.network.layers):
            for x, y in zip(vlm.key_values(a, layer), vlm.key_values(b, layer), strict=True):
                assert torch.allclose(x, y, atol=1e-4)


def test_new_pictures_of_all_pass_the_tower_once_and_new_tokens_the_model_once(vlm):
    prefixes = together(vlm, 0)
    with calls_of(vlm.model.model.visual) as seen, calls_of(vlm.network.text) as passes:
        longer = vlm.extend_many(prefixes, turns())
    assert (len(seen), len(passes)) == (1, 1)
    assert [p.stage.reused_tokens for p in longer] == [p.length for p in prefixes]
    assert all(p.length == p.stage.prompt_tokens + p.stage.reused_tokens for p in longer)
    assert len({p.stage.milliseconds for p in longer}) == 1  # an equal share


@pytest.mark.parametrize(("temperature", "top_p"), [(0.0, 1.0), (1.0, 1.0), (1.0, 0.7)])
def test_writing_together_equals_writing_alone(vlm, temperature, top_p):
    prefixes, seeds = together(vlm, 1), [3, 1, 4, 1]
    before = logits(vlm, prefixes)
    many = vlm.generate_many(prefixes, seeds=seeds, temperature=temperature, top_p=top_p, max_new_tokens=24)
    one = [
        vlm.generate(p, seed=s, temperature=temperature, top_p=top_p, max_new_tokens=24)
        for p, s in zip(prefixes, seeds, strict=True)
    ]
    assert [g.token_ids for g in many] == [g.token_ids for g in one]
    for a, b in zip(many, one, strict=True):
        assert a.texts == b.texts
        assert np.allclose(a.log_probs[0], b.log_probs[0], atol=1e-3)
        assert (a.stage.generated_tokens, a.stage.reused_tokens) == (b.stage.generated_tokens, b.stage.reused_tokens)
    # The prefixes are as they were, and so are those that continue them.
    assert torch.equal(logits(vlm, prefixes), before)
    longer = vlm.extend_many(prefixes, turns())
    assert torch.allclose(logits(vlm, longer), logits(vlm, alone(vlm, 2)), atol=1e-4)


def test_rows_that_end_early_leave_the_others_alone(vlm):
    prefixes = together(vlm, 0)
    texts = [vlm.generate(p, max_new_tokens=12).texts[0] for p in prefixes]
    stop = next(t[2:5] for t in texts if len(t) > 6)
    many = vlm.generate_many(prefixes, seeds=[0] * 4, max_new_tokens=12, stop=[stop])
    one = [vlm.generate(p, max_new_tokens=12, stop=[stop]) for p in prefixes]
    assert [g.texts for g in many] == [g.texts for g in one]
    assert len({len(g.token_ids[0]) for g in many}) > 1


def test_streams_and_cancelling(vlm):
    prefixes, heard = together(vlm, 0), {}
    many = vlm.generate_many(
        prefixes, seeds=[0] * 4, max_new_tokens=8, on_text=lambda i, piece: heard.setdefault(i, []).append(piece)
    )
    assert ["".join(heard.get(i, [])) for i in range(4)] == [g.texts[0] for g in many]
    stop = threading.Event()
    with pytest.raises(CancelledError):
        vlm.generate_many(prefixes, seeds=[0] * 4, max_new_tokens=64, cancel=stop, on_text=lambda *_: stop.set())
    again = vlm.generate_many(prefixes, seeds=[0] * 4, max_new_tokens=8)
    assert [g.token_ids for g in again] == [g.token_ids for g in many]


def test_logits_after_paths_leave_the_prefixes_alone(vlm):
    prefixes, paths = together(vlm, 1), [[7, 8, 9], [], [11], [12, 13]]
    before = logits(vlm, prefixes)
    found = vlm.next_logits_many(prefixes, paths)
    wanted = torch.stack([vlm._logits_after(p, path) for p, path in zip(prefixes, paths, strict=True)])
    assert torch.allclose(found, wanted, atol=1e-4)
    assert torch.allclose(found[1], before[1], atol=1e-4)
    assert torch.equal(vlm.next_logits_many(prefixes), vlm.next_logits_many(prefixes, [[]] * 4))
    assert torch.equal(logits(vlm, prefixes), before)


def test_one_prefix_several_times_in_one_call(vlm):
    prefix = together(vlm, 1)[0]
    left, right, more = vlm.extend_many([prefix] * 3, [assistant("left"), assistant("right"), turns()[2]])
    for made, added in ((left, assistant("left")), (right, assistant("right")), (more, turns()[2])):
        vlm.forget()
        assert torch.allclose(vlm.next_logits(made), vlm.next_logits(vlm.extend(prefix, added)), atol=1e-4)
    twice = vlm.generate_many([prefix, prefix], seeds=[1, 2], temperature=1.0, max_new_tokens=12)
    once = [vlm.generate(prefix, seed=s, temperature=1.0, max_new_tokens=12) for s in (1, 2)]
    assert [g.token_ids for g in twice] == [g.token_ids for g in once]


def test_a_growing_conversation_copies_no_history(vlm):
    def begun():
        vlm.forget()
        return vlm.extend(vlm.prefill(message(picture(0), "What?")), turns()[0])

    on = [*assistant("yes"), *message("On?")]
    prefix = begun()
    first = prefix.state.history
    longer = vlm.extend(prefix, on)
    assert longer.state.history is first
    other = vlm.extend(prefix, [*assistant("no"), *message("On?")])  # does not overwrite what the first one wrote
    assert other.state.history is not first
    fresh = vlm.extend(begun(), on)
    assert torch.allclose(vlm.next_logits(longer), vlm.next_logits(fresh), atol=1e-4)


def test_other_attention_goes_one_by_one_with_the_same_result(vlm, eager):
    if vlm.family != eager.family:
        pytest.skip("one family is enough")
    assert torch.allclose(logits(eager, together(eager, 1)), logits(vlm, together(vlm, 1)), atol=1e-3)
    prefixes = together(eager, 1)
    many = eager.generate_many(prefixes, seeds=[0] * 4, max_new_tokens=6)
    assert [g.token_ids for g in many] == [eager.generate(p, max_new_tokens=6).token_ids for p in prefixes]
    paths = [[7, 8], [], [9], []]
    assert torch.allclose(
        eager.next_logits_many(prefixes, paths), vlm.next_logits_many(together(vlm, 1), paths), atol=1e-3
    )


def test_one_value_for_each_prefix(vlm):
    prefixes = together(vlm, 0)
    with pytest.raises(ConfigError, match="4 prefixes and 1"):
        vlm.generate_many(prefixes, seeds=[0])
    with pytest.raises(ConfigError, match="extend_many"):
        vlm.extend_many(prefixes, [])
    assert vlm.prefill_many([]) == vlm.extend_many([], []) == vlm.generate_many([], seeds=[]) == []
