"""The client of OpenAI-compatible servers, against a real HTTP server: what is asked and what comes back."""

from __future__ import annotations

import logging
import threading
import time

import numpy as np
import pytest
from chat_server import MODEL, serving
from remote_helpers import SMALL, ask, picture

from backbone.contracts import Ledger
from backbone.errors import ConfigError, RemoteError, UnsupportedError
from backbone.remote import RemoteVLM
from backbone.remote.reply import Sample
from backbone.vlm import Prefix


def test_text_tokens_and_ledger(server, vlm):
    got = vlm.generate(ask("one two", picture()), stage="looking")
    assert got.texts == ("64x32 one two",)
    assert got.finished == (True,)
    assert got.log_probs == ((-0.5, -1.0, -1.5),)  # without the end token
    assert got.token_ids == ((5, 4, 4),)
    stage = got.stage
    assert (stage.name, stage.visual_tokens, stage.prompt_tokens, stage.reused_tokens) == ("looking", 2, 6, 3)
    assert (stage.generated_tokens, stage.forward_passes) == (4, 4)
    assert 0 < stage.first_token_ms <= stage.milliseconds
    assert Ledger((stage,)).total().tokens == 10
    body = server.requests[-1]
    assert (body["model"], body["n"], body["temperature"], body["max_tokens"]) == (MODEL, 1, 0.0, 128)
    assert "seed" not in body
    assert (body["top_p"], body["top_k"], body["repetition_penalty"]) == (1.0, -1, 1.0)


def test_picture_arrives_pixel_for_pixel_and_resized_as_the_processor_does(server, vlm):
    from transformers import Qwen2VLImageProcessor

    image = picture()
    vlm.generate(ask("a", image))
    assert np.array_equal(server.images[-1], image)
    large = np.random.default_rng(0).integers(0, 256, (150, 90, 3), np.uint8)
    large.flags.writeable = False
    vlm.generate(ask("a", large))
    sent = server.images[-1]
    assert (sent.shape[1], sent.shape[0]) == SMALL.resize(90, 150)
    settings = {"patch_size": 16, "size": {"shortest_edge": SMALL.minimum, "longest_edge": SMALL.maximum}}
    processor = Qwen2VLImageProcessor(**settings)
    assert processor(images=[large.copy()])["pixel_values"] == pytest.approx(
        processor(images=[sent.copy()])["pixel_values"], abs=0
    )


def test_samples_share_one_request_and_seeds_count_up(server, vlm):
    got = vlm.generate(ask("go"), n=3, temperature=0.7, seed=40)
    assert got.texts == ("go seed40", "go seed41", "go seed42")
    assert len(server.requests) == 1
    assert got.stage.generated_tokens == 9
    assert server.requests[-1]["top_p"] == 1.0
    assert vlm.generate(ask("go"), n=3, temperature=0.7, top_p=0.8, seed=40).texts == got.texts
    assert server.requests[-1]["top_p"] == 0.8
    vlm.generate_batch([ask("go")], temperature=0.7, top_p=0.6)
    assert server.requests[-1]["top_p"] == 0.6


def test_greedy_samples_are_asked_once_and_repeated(server, vlm):
    pieces = []
    got = vlm.generate(ask("a b"), n=3, on_text=lambda i, piece: pieces.append((i, piece)))
    assert got.texts == ("a b",) * 3
    assert len(got.log_probs) == len(got.token_ids) == len(got.finished) == 3
    assert server.requests[-1]["n"] == 1
    assert ["".join(p for j, p in pieces if j == i) for i in range(3)] == ["a b"] * 3


def test_streaming_happens_in_the_callers_thread_while_the_server_works(server, vlm):
    server.delay_s = 0.1
    seen = []
    vlm.generate(ask("a b c d"), on_text=lambda i, p: seen.append((p, time.perf_counter(), threading.get_ident())))
    assert "".join(p for p, _, _ in seen) == "a b c d"
    assert seen[-1][1] - seen[0][1] > 0.25
    assert {ident for _, _, ident in seen} == {threading.get_ident()}


def test_limits_and_stop(server, vlm):
    got = vlm.generate(ask("a b c d"), max_new_tokens=2)
    assert (got.texts, got.finished, got.token_ids) == (("a b",), (False,), ((1, 2),))
    got = vlm.generate(ask("a b STOP d"), stop=["STOP"])
    assert (got.texts, got.finished) == (("a b",), (True,))
    assert server.requests[-1]["stop"] == ["STOP"]


@pytest.mark.parametrize(
    ("text", "tokens", "finish", "expected"),
    [
        ("a b", ["a", " b", "<|im_end|>"], "stop", 2),
        ("a b", ["a", " b", "ST", "OP"], "stop", 2),  # vLLM lists the tokens of a stop string
        ("a b", ["a", " bS", "TOP"], "stop", 2),  # one of them may also hold text
        ("", ["<|im_end|>"], "stop", 0),
        ("ab", ["a", "<|box_start|>", "b", "<|im_end|>"], "stop", 3),  # special tokens are not part of the text
        ("a b", ["a", " b"], "length", 2),
        ("é", ["\u00e9"], "stop", 1),
    ],
)
def test_tokens_of_the_text(text, tokens, finish, expected):
    sample = Sample(text, [t.encode() for t in tokens], [-1.0] * len(tokens), list(range(len(tokens))), finish)
    assert sample.content_tokens() == expected


def test_choices_are_constrained_where_the_server_can(server, vlm):
    got = vlm.generate(ask(), choices=["yes", "not at all"], max_new_tokens=1)
    assert got.texts == ("not at all",)
    assert got.log_probs == ((-0.5, -1.0, -1.5),)
    assert server.requests[-1]["structured_outputs"] == {"choice": ["yes", "not at all"]}
    assert server.requests[-1]["max_tokens"] >= 4
    server.reply = "something else"
    with pytest.raises(RemoteError, match=r"something else.*yes.*not at all"):
        vlm.generate(ask(), choices=["yes", "not at all"])


def test_choices_are_matched_where_it_cannot():
    with serving(models=[{"id": "qwen3-vl", "owned_by": "someone"}]) as server, RemoteVLM(server.url) as vlm:
        for reply, choice in ((" B. a dog", "B"), ("B", "B"), ("AB", "AB"), ("B\nso", "B")):
            server.reply = reply
            got = vlm.generate(ask(), choices=["A", "B", "AB"])
            assert got.texts == (choice,)
            assert bool(got.log_probs[0]) == (reply == choice)
        assert not {"structured_outputs", "regex", "top_k"} & set(server.requests[-1])
        server.reply = "A: red"
        assert vlm.generate(ask(), choices=["A", "A: red"]).texts == ("A: red",)
        for reply in ("A dog", "Bob", "", "b"):
            server.reply = reply
            with pytest.raises(RemoteError, match="none of the choices"):
                vlm.generate(ask(), choices=["A", "B", "AB"])


def test_sglang_gets_a_regular_expression():
    with (
        serving(models=[{"id": "qwen3-vl", "owned_by": "sglang"}], reply="a.b") as server,
        RemoteVLM(server.url) as vlm,
    ):
        assert vlm.generate(ask(), choices=["a.b", "(c)"]).texts == ("a.b",)
        assert server.requests[-1]["regex"] == r"(a\.b|\(c\))"


def test_adapter_is_a_served_model(server):
    server.models.append({"id": "looking", "owned_by": "vllm", "parent": MODEL})
    with RemoteVLM(server.url) as vlm:  # an adapter is no second model to choose from
        assert vlm.model == MODEL
        vlm.generate(ask(), adapter="looking")
        assert server.requests[-1]["model"] == "looking"
        with pytest.raises(RemoteError, match=rf"'other'.*{MODEL}, looking"):
            vlm.generate(ask(), adapter="other")


def test_batch_is_concurrent_bounded_and_in_order(server):
    server.delay_s = 0.1
    with RemoteVLM(server.url, concurrency=3) as vlm:
        began = time.perf_counter()
        got = vlm.generate_batch([ask(f"item {i}") for i in range(6)], stage="batch", max_new_tokens=5)
        took = time.perf_counter() - began
    assert [g.texts for g in got] == [(f"item {i}",) for i in range(6)]
    assert server.most_active == 3
    assert took < 6 * 0.4
    assert {g.stage.name for g in got} == {"batch"}


def test_batch_refuses_what_it_cannot_do(vlm):
    with pytest.raises(ConfigError, match="on_text"):
        vlm.generate_batch([ask()], on_text=print)
    with pytest.raises(TypeError):
        vlm.generate_batch([ask()], temprature=1.0)


def test_server_without_streaming_logprobs_and_usage_says_so(server, vlm, caplog):
    server.streams = server.with_logprobs = server.with_usage = False
    with caplog.at_level(logging.WARNING):
        vlm.generate(ask("first", picture()))
        got = vlm.generate(ask("a b", picture()))
    assert (got.texts, got.log_probs, got.token_ids) == (("64x32 a b",), ((),), ((),))
    assert (got.stage.prompt_tokens, got.stage.visual_tokens, got.stage.reason) == (
        2,
        2,
        "the server reported no usage",
    )
    assert len(caplog.records) == 3  # once each, not once a call


def test_an_error_in_on_text_reaches_the_caller(vlm):
    def fail(index, piece):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vlm.generate(ask("a b c"), on_text=fail)
    assert vlm.generate(ask("a")).texts == ("a",)


def test_what_needs_weights_is_unsupported(vlm):
    stage = vlm.generate(ask("a")).stage
    with pytest.raises(UnsupportedError):
        vlm.prefill(ask())
    with pytest.raises(UnsupportedError):
        vlm.generate(Prefix("k", 1, 0, stage, None))


def test_wrong_visual_token_count_is_an_error(server):
    # Served with larger patches than its name tells: the server counts fewer tokens than the pictures have.
    with (
        RemoteVLM(server.url + "#?factor=16", pixels=None) as vlm,
        pytest.raises(RemoteError, match=r"71 prompt.*256 vis"),
    ):
        vlm.generate(ask("a", picture(256, 64)))
