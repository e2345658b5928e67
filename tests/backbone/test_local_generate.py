"""Generation by the local engine: equal to that of transformers, whatever was computed before or beside it."""

import threading

import numpy as np
import pytest
import torch
from local_helpers import FAMILIES, calls_of, message, picture

from backbone.errors import CancelledError, ConfigError, DataError
from backbone.vlm import VLM


@pytest.fixture(scope="module", params=FAMILIES)
def vlm(request, tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir(request.param)))


@pytest.fixture(scope="module")
def qwen3(tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir("qwen3_vl")))


def reference(vlm, messages, count):
    """Greedy tokens by the processor and ``generate`` of transformers."""
    batch = vlm.processor.apply_chat_template(
        [messages], tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    vlm.model.model.rope_deltas = None
    with torch.no_grad():
        out = vlm.model.generate(**batch, max_new_tokens=count, do_sample=False)
    tokens = out[0, batch["input_ids"].shape[1] :].tolist()
    return [t for t in tokens if t not in vlm._ends]


def test_greedy_tokens_equal_those_of_transformers(vlm):
    messages = message(picture(0), "What is it?", picture(1, 40, 200), "And this?")
    assert list(vlm.generate(messages, max_new_tokens=10).token_ids[0]) == reference(vlm, messages, 10)


def test_other_calls_in_between_change_nothing(vlm):
    """A, B, A with pictures of other sizes, on an empty cache: no position may leak (rope_deltas)."""
    a, b = message(picture(0), "A"), message(picture(1, 200, 64), "B longer")
    first = vlm.generate(a, max_new_tokens=8)
    vlm.forget()
    vlm.generate(b, max_new_tokens=8)
    reference(vlm, b, 2)  # leaves deltas on the module
    vlm.forget()
    assert vlm.generate(a, max_new_tokens=8).token_ids == first.token_ids


def test_samples_share_one_prefill_and_do_not_depend_on_their_number(qwen3):
    qwen3.forget()
    messages = message(picture(2), "Describe.")
    with calls_of(qwen3.model.model.visual) as seen:
        eight = qwen3.generate(messages, n=8, temperature=1.0, max_new_tokens=12, seed=5)
        assert len(seen) == 1
        three = qwen3.generate(messages, n=3, temperature=1.0, max_new_tokens=12, seed=5)
        assert len(seen) == 1
    assert three.token_ids == eight.token_ids[:3]
    assert len(set(eight.token_ids)) > 4
    assert qwen3.generate(messages, n=3, temperature=1.0, max_new_tokens=12, seed=6).token_ids != three.token_ids


def test_the_ledger_counts_what_was_newly_computed(qwen3):
    qwen3.forget()
    messages = message(picture(3), "Count.")
    first = qwen3.generate(messages, n=2, max_new_tokens=4, stage="looking").stage
    width, height = qwen3.encoded_size(96, 64)
    assert first.name == "looking"
    assert first.visual_tokens == qwen3.visual_tokens(96, 64) == (width // 32) * (height // 32)
    assert (first.reused_tokens, first.generated_tokens, first.forward_passes) == (0, 8, 4)
    assert 0 < first.first_token_ms <= first.milliseconds
    again = qwen3.generate(messages, n=2, max_new_tokens=4).stage
    assert (again.visual_tokens, again.prompt_tokens, again.reused_tokens) == (0, 0, first.prompt_tokens)
    assert again.forward_passes == 3  # the first token comes from the kept state


def test_log_probs_are_those_of_the_model_at_temperature_one(qwen3):
    messages = message("Say something.")
    out = qwen3.generate(messages, temperature=0.7, max_new_tokens=6, seed=1)
    batch = qwen3.processor.apply_chat_template(
        [messages], tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    ids = torch.cat([batch["input_ids"], torch.tensor([out.token_ids[0]])], 1)
    with torch.no_grad():
        scores = qwen3.model(input_ids=ids).logits.log_softmax(-1)
    start = batch["input_ids"].shape[1]
    wanted = [scores[0, start + i - 1, token].item() for i, token in enumerate(out.token_ids[0])]
    assert np.allclose(out.log_probs[0], wanted, atol=1e-4)


def test_choices_give_exactly_one_of_the_strings(qwen3):
    messages = message(picture(4), "Which?")
    options = ("A", "B", "turn left", "turn left now", "停")
    out = qwen3.generate(messages, n=16, temperature=3.0, choices=options, seed=2)
    assert set(out.texts) <= set(options)
    assert len(set(out.texts)) > 1
    assert all(out.finished)
    single = qwen3.generate(messages, choices=("A", "B"), max_new_tokens=1)
    assert single.stage.forward_passes == 0  # cached prompt, one token: nothing left to compute
    logits = qwen3.next_logits(qwen3.prefill(messages)).log_softmax(-1)
    token = qwen3.tokenizer("A")["input_ids"][0]
    forced = qwen3.generate(messages, choices=("A",))
    assert forced.texts == ("A",)
    assert forced.log_probs[0][0] == pytest.approx(logits[token].item(), abs=1e-4)


def test_batches_equal_single_calls(vlm):
    prompts = [message("Hi"), message(picture(5), "What is this thing here?"), message(picture(6, 50, 220), "B", "C")]
    singles = [vlm.generate(p, max_new_tokens=8) for p in prompts]
    batch = vlm.generate_batch(prompts, max_new_tokens=8)
    assert [b.token_ids for b in batch] == [s.token_ids for s in singles]
    assert np.allclose(batch[1].log_probs, singles[1].log_probs, atol=1e-3)
    sampled = vlm.generate_batch(prompts, n=2, temperature=1.0, max_new_tokens=5, seed=3)
    alone = vlm.generate(prompts[1], n=2, temperature=1.0, max_new_tokens=5, seed=3)
    assert sampled[1].token_ids == alone.token_ids


def test_drawing_from_the_likeliest_is_the_same_cached_uncached_alone_and_in_a_batch(vlm):
    prompts = [message("Hi"), message(picture(5), "What is this thing here?"), message(picture(6, 50, 220), "B", "C")]
    options = {"n": 3, "temperature": 1.5, "top_p": 0.6, "max_new_tokens": 8, "seed": 4}
    vlm.forget()
    fresh = [vlm.generate(p, **options).token_ids for p in prompts]
    assert [vlm.generate(p, **options).token_ids for p in prompts] == fresh  # from the cache
    assert [g.token_ids for g in vlm.generate_batch(prompts, **options)] == fresh
    assert [vlm.generate(vlm.prefill(p), **options).token_ids for p in prompts] == fresh
    assert [vlm.generate(p, **options | {"top_p": 1.0}).token_ids for p in prompts] != fresh
    greedy = [vlm.generate(p, max_new_tokens=8).token_ids for p in prompts]
    assert [vlm.generate(p, **options | {"n": 1, "top_p": 1e-6}).token_ids for p in prompts] == greedy


def test_cancel_ends_within_a_step(qwen3):
    event, pieces = threading.Event(), []

    def on_text(_, piece):
        pieces.append(piece)
        event.set()

    with pytest.raises(CancelledError, match="cancelled"):
        qwen3.generate(message("Long story"), max_new_tokens=200, cancel=event, on_text=on_text)
    assert len(pieces) <= 1
    with pytest.raises(CancelledError):
        qwen3.generate(message("Long story"), cancel=event)


def test_streamed_pieces_join_to_the_text(qwen3):
    pieces = {0: "", 1: ""}

    def on_text(i, piece):
        pieces[i] += piece

    out = qwen3.generate(message("Go"), n=2, temperature=1.0, max_new_tokens=20, on_text=on_text)
    assert (pieces[0], pieces[1]) == out.texts


def test_threads_share_one_model(qwen3):
    prompts = [message(picture(i), f"Question {i}") for i in range(4)]
    alone = [qwen3.generate(p, n=2, temperature=1.0, max_new_tokens=6, seed=i) for i, p in enumerate(prompts)]
    qwen3.forget()
    results = {}

    def work(i):
        results[i] = qwen3.generate(prompts[i], n=2, temperature=1.0, max_new_tokens=6, seed=i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert [results[i].token_ids for i in range(4)] == [a.token_ids for a in alone]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "image", "image": "/etc/passwd"}, "paths and URLs"),
        ({"type": "image", "image": "https://example.org/a.png"}, "paths and URLs"),
        ({"type": "image_url", "image_url": {"url": "data:"}}, "image_url"),
        ({"type": "video", "video": "a.mp4"}, "video"),
        ({"type": "image", "image": np.zeros((4, 4), np.uint8)}, r"\(H, W, 3\)"),
        ({"type": "image", "image": np.zeros((3000, 4, 3), np.uint8)}, "200 times the other"),
    ],
)
def test_refused_parts_are_named(qwen3, part, said):
    with pytest.raises(DataError, match=said):
        qwen3.generate([{"role": "user", "content": [part]}])


def test_placeholders_in_text_are_counted(qwen3):
    with pytest.raises(DataError, match="hold 1 images, the rendered prompt 2"):
        qwen3.generate(message(picture(0), "look: <|image_pad|>"))
    with pytest.raises(DataError, match="hold 1 images, the rendered prompt 0"):
        qwen3.generate([{"role": "assistant", "content": [{"type": "image", "image": picture(0)}]}])


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_p": -0.1},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"max_new_tokens": 0},
        {"stop": "abc"},
        {"stop": ("",)},
        {"choices": ()},
        {"choices": ("a", "a")},
        {"choices": ("one two three four",), "max_new_tokens": 1},
    ],
)
def test_impossible_settings_are_refused(qwen3, options):
    with pytest.raises(ConfigError):
        qwen3.generate(message("Hi"), **options)
