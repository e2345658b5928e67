"""The client of OpenAI-compatible servers, against a real HTTP server."""

from __future__ import annotations

import json
import logging
import threading
import time

import numpy as np
import pytest
from chat_server import MODEL, serving

from backbone.boxes import BoxConvention
from backbone.contracts import Box, Ledger
from backbone.errors import CancelledError, ConfigError, DataError, RemoteError, UnsupportedError
from backbone.pixels import Pixels
from backbone.remote import RemoteVLM
from backbone.remote.reply import Sample
from backbone.vlm import Prefix


def picture(width=64, height=32):
    """Red left half, blue right half: asymmetric, so that channel order and orientation are visible."""
    image = np.zeros((height, width, 3), np.uint8)
    image[:, : width // 2, 0] = 255
    image[:, width // 2 :, 2] = 200
    return image


def ask(text="what is it", *images):
    content = [{"type": "image", "image": image} for image in images] + [{"type": "text", "text": text}]
    return [{"role": "user", "content": content}]


SMALL = Pixels(32 * 32, 64 * 64, 32)


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def vlm(server):
    with RemoteVLM(server.url, pixels=SMALL, timeout_s=3.0, retries=1) as client:
        yield client


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
    assert vlm.generate(ask("go"), n=3, temperature=0.7, seed=40).texts == got.texts


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


def test_cancel_while_streaming_closes_the_connection(server, vlm):
    server.delay_s = 0.15
    cancel = threading.Event()
    began = time.perf_counter()
    with pytest.raises(CancelledError):
        vlm.generate(ask("a b c d e f g h i j k l m n"), cancel=cancel, on_text=lambda i, p: cancel.set())
    assert time.perf_counter() - began < 0.8
    deadline = time.perf_counter() + 2
    while server.active and time.perf_counter() < deadline:
        time.sleep(0.02)
    assert server.active == 0  # the server noticed: it did not write the remaining words
    assert server.broken_pipes == 1
    server.delay_s = 0.0
    assert vlm.generate(ask("again")).texts == ("again",)


def test_cancel_before_the_first_byte(server, vlm):
    server.delay_s = 1.5
    cancel = threading.Event()
    threading.Timer(0.1, cancel.set).start()
    began = time.perf_counter()
    with pytest.raises(CancelledError):
        vlm.generate(ask(), cancel=cancel)
    assert time.perf_counter() - began < 0.5


def test_an_error_in_on_text_reaches_the_caller(vlm):
    def fail(index, piece):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vlm.generate(ask("a b c"), on_text=fail)
    assert vlm.generate(ask("a")).texts == ("a",)


def test_close_is_immediate_and_final(server):
    server.delay_s = 2.0
    vlm = RemoteVLM(server.url)
    failures = []

    def call():
        try:
            vlm.generate(ask())
        except RemoteError as error:
            failures.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.2)
    began = time.perf_counter()
    vlm.close()
    vlm.close()
    assert time.perf_counter() - began < 0.5
    thread.join(1)
    assert len(failures) == 1
    assert "closed" in failures[0]
    with pytest.raises(RemoteError, match="closed"):
        vlm.generate(ask())


def test_boxes_and_pixels_follow_the_family(server, vlm):
    assert (vlm.family, vlm.boxes) == ("qwen3_vl", BoxConvention("relative"))
    assert vlm.visual_tokens(640, 640) == 4
    assert vlm.box_to_numbers(Box(0, 0, 50, 100), 100, 100) == (0, 0, 500, 1000)
    name = server.url + f"#{MODEL}?family=qwen2_5_vl&max_pixels=200704"
    with RemoteVLM(name) as other:
        assert (other.family, other.boxes, other.name) == ("qwen2_5_vl", BoxConvention("resized"), name)
        assert other.pixels == Pixels(3136, 200704, 28)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_5_vl"),
        ("qwen2_5_vl_3b", "qwen2_5_vl"),
        ("Qwen2-VL-2B", "qwen2_vl"),
        ("Qwen3-VL-8B-Thinking-FP8", "qwen3_vl"),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3_vl_moe"),
        ("Qwen/Qwen3.5-9B", "qwen3_5"),
    ],
)
def test_family_by_name(model, family):
    with serving(models=[{"id": model}]) as server, RemoteVLM(server.url) as vlm:
        assert vlm.family == family


def test_family_by_root_of_a_renamed_model():
    models = [{"id": "eye", "root": "/models/Qwen2.5-VL-3B-Instruct"}]
    with serving(models=models) as server, RemoteVLM(server.url) as vlm:
        assert vlm.family == "qwen2_5_vl"


def test_unknown_family_says_how_to_give_it():
    with serving(models=[{"id": "eye"}]) as server:
        with pytest.raises(ConfigError, match=rf"{server.url}#eye\?family=FAMILY.*qwen3_vl"):
            RemoteVLM(server.url)
        with pytest.raises(ConfigError, match="llava"):
            RemoteVLM(server.url + "#eye?family=llava")
        with pytest.raises(ConfigError, match="min_pixels"):
            RemoteVLM(server.url + "#eye?family=qwen4_vl")


def test_several_models_must_be_named(server):
    server.models.append({"id": "Qwen2-VL-2B"})
    with pytest.raises(RemoteError, match=rf"2 models.*{MODEL}, Qwen2-VL-2B"):
        RemoteVLM(server.url)
    with RemoteVLM(server.url + "#Qwen2-VL-2B") as vlm:
        assert vlm.family == "qwen2_vl"
    with pytest.raises(RemoteError, match=rf"'none'.*{MODEL}"):
        RemoteVLM(server.url + "#none")


@pytest.mark.parametrize(
    "name",
    [
        "ftp://127.0.0.1/v1",
        "http://",
        "http://127.0.0.1:99999/v1",
        "http://user:secret@127.0.0.1/v1",
        "http://127.0.0.1/v1?family=qwen3_vl",
        "http://127.0.0.1/v1#m?famly=qwen3_vl",
        "http://127.0.0.1/v1#m?factor=big",
        "http://127.0.0.1/v1#m?factor=1&factor=2",
    ],
)
def test_malformed_names(name):
    with pytest.raises(ConfigError) as caught:
        RemoteVLM(name)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"max_new_tokens": 0},
        {"stop": "text"},
        {"stop": [""]},
        {"choices": []},
        {"choices": ["a", "a "]},
        {"choices": "ab"},
        {"choices": ["a", "b"], "stop": ["c"]},
    ],
)
def test_impossible_settings(server, vlm, options):
    with pytest.raises(ConfigError):
        vlm.generate(ask(), **options)
    assert not server.requests


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        [{"role": "user"}],
        [{"role": "robot", "content": "x"}],
        [{"role": "user", "content": [{"type": "image", "image": "/etc/passwd"}]}],
        [{"role": "user", "content": [{"type": "image", "image": "https://example.org/a.png"}]}],
        [{"role": "user", "content": [{"type": "image", "image": np.zeros((3, 8, 8), np.uint8)}]}],
        [{"role": "user", "content": [{"type": "video", "video": "a.mp4"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}],
    ],
)
def test_malformed_messages_are_refused_before_anything_is_sent(server, vlm, messages):
    with pytest.raises(DataError):
        vlm.generate(messages)
    assert not server.requests


def test_what_needs_weights_is_unsupported(vlm):
    stage = vlm.generate(ask("a")).stage
    with pytest.raises(UnsupportedError):
        vlm.prefill(ask())
    with pytest.raises(UnsupportedError):
        vlm.generate(Prefix("k", 1, 0, stage, None))


def test_key_is_sent_only_from_its_own_variable(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-this-host")
    with RemoteVLM(server.url):
        assert "Authorization" not in server.headers[-1]
    monkeypatch.setenv("FOVEA_API_KEY", "mine")
    with RemoteVLM(server.url):
        assert server.headers[-1]["Authorization"] == "Bearer mine"


def test_wrong_visual_token_count_is_an_error(server):
    # Served with larger patches than its name tells: the server counts fewer tokens than the pictures have.
    with (
        RemoteVLM(server.url + "#?factor=16", pixels=None) as vlm,
        pytest.raises(RemoteError, match=r"71 prompt.*256 vis"),
    ):
        vlm.generate(ask("a", picture(256, 64)))


def answer(*events, tail="[DONE]"):
    """A fault that streams the given events."""

    def fault(handler):
        handler.begin_stream()
        for event in events:
            handler.event(event)
        if tail:
            handler.event(tail)
        handler.end_stream()

    return fault


def chunk(index=0, content="a", finish="stop", **more):
    return {"choices": [{"index": index, "delta": {"content": content}, "finish_reason": finish, **more}]}


def cut(handler):
    handler.begin_stream()
    handler.event(chunk(finish=None))
    handler.connection.close()
    handler.close_connection = True


FAULTS = {
    "error status": (lambda h: h.send_json({"error": {"message": "prompt too long"}}, 400), "400.*prompt too long"),
    "detail": (lambda h: h.send_json({"detail": "no such route"}, 404), "404.*no such route"),
    "key": (lambda h: h.send_json({"error": "who are you"}, 401), "401.*who are you.*FOVEA_API_KEY"),
    "HTML status": (lambda h: h.send(502, "text/html", b"<html>bad gateway</html>"), "502.*HTML page.*/v1"),
    "HTML": (lambda h: h.send(200, "text/html", b"<html>hello</html>"), "HTML page.*text/html"),
    "redirect": (lambda h: h.send(302, "text/plain", b"", Location="http://127.0.0.1:1/"), "302"),
    "malformed JSON": (lambda h: h.send(200, "application/json", b'{"choices": ['), "choices.*JSON"),
    "JSON list": (lambda h: h.send_json([1]), "list"),
    "malformed event": (answer("{not json"), "not json"),
    "error event": (answer({"error": {"message": "out of memory"}}), "out of memory"),
    "no finish": (answer(chunk(finish=None)), "n = 1 samples, got 0"),
    "too many": (answer(chunk(), chunk(1)), "n = 1 samples, got one numbered 1"),
    "choices": (answer({"choices": {}}), "list of choices"),
    "choice": (answer({"choices": [{"index": 0}]}), "delta"),
    "content": (answer(chunk(content=["a"])), "text as content"),
    "logprobs": (answer(chunk(logprobs={"content": [{"token": "a"}]})), "malformed logprobs"),
    "counts": (
        answer(chunk(logprobs={"content": [{"token": "a", "logprob": -1}]}, token_ids=[1, 2])),
        "2 token ids with 1",
    ),
    "no end": (answer(chunk(), tail=None), "without .DONE"),
    "cut": (cut, "broke off"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_remote_errors_with_the_address(server, vlm, name):
    server.fault, expected = FAULTS[name]
    with pytest.raises(RemoteError, match=expected) as caught:
        vlm.generate(ask())
    assert server.url in str(caught.value)
    assert len(server.requests) == 1  # none of these is tried again
    server.fault = None
    assert vlm.generate(ask("a")).texts == ("a",)


def test_line_separators_inside_the_text_do_not_end_an_event(server, vlm):
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg é 日本"
    server.fault = answer(json.dumps(chunk(content=text), ensure_ascii=False))
    assert vlm.generate(ask()).texts == (text,)


@pytest.mark.parametrize(("size", "newline"), [(1, b"\n"), (7, b"\n"), (3, b"\r\n")])
def test_events_may_arrive_in_any_pieces(server, vlm, size, newline):
    events = [chunk(content="é", finish=None), chunk(content="ß")]
    lines = [b"event: x", b": ping", *(b"data:" + json.dumps(e, ensure_ascii=False).encode() for e in events)]
    data = (newline * 2).join([*lines, b"data: [DONE]"]) + newline

    def fault(handler):
        handler.begin_stream()
        for start in range(0, len(data), size):
            handler.raw(data[start : start + size])
        handler.end_stream()

    server.fault = fault
    assert vlm.generate(ask()).texts == ("éß",)


def test_missing_samples_are_an_error(server, vlm):
    server.fault = answer(chunk(0), chunk(2))
    with pytest.raises(RemoteError, match=r"n = 3 samples, got 2 .*missing \[1\]"):
        vlm.generate(ask(), n=3, temperature=1.0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_but_not_for_ever(server, vlm, status):
    def busy(handler):
        handler.send_json({"error": "busy"}, status, Retry_After="0.1")

    server.fault, server.fault_count = busy, 1
    assert vlm.generate(ask("a")).texts == ("a",)
    assert len(server.requests) == 2
    server.fault_count = 10
    with pytest.raises(RemoteError, match=rf"{status}.*busy.*later"):
        vlm.generate(ask("a"))
    assert len(server.requests) == 4  # one retry, as configured


def test_a_closed_connection_is_tried_again(server, vlm):
    def hang_up(handler):
        handler.close_connection = True

    server.fault, server.fault_count = hang_up, 1
    assert vlm.generate(ask("a")).texts == ("a",)
    server.fault_count = 10
    with pytest.raises(RemoteError, match=r"without an HTTP answer.*2 times"):
        vlm.generate(ask("a"))


def test_silence_ends_within_the_timeout(server):
    with RemoteVLM(server.url, timeout_s=0.3) as vlm:
        for fault in (lambda h: time.sleep(1.2), lambda h: (h.begin_stream(), h.event(chunk()), time.sleep(1.2))):
            server.fault = fault
            began = time.perf_counter()
            with pytest.raises(RemoteError, match=r"0.3 s"):
                vlm.generate(ask())
            assert time.perf_counter() - began < 0.9
        assert len(server.requests) == 2  # a timeout is not tried again


def test_an_answer_that_drips_in_ends_too(server):
    def drip(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(20):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)

    server.fault = drip
    with RemoteVLM(server.url, timeout_s=0.4) as vlm:
        began = time.perf_counter()
        with pytest.raises(RemoteError, match=r"0.4 s"):
            vlm.generate(ask())
        assert time.perf_counter() - began < 1.0


def test_a_failing_item_ends_the_batch(server, vlm):
    def fault(handler):
        handler.send_json({"error": "no"}, 400)

    server.delay_s, server.fault, server.fault_count = 0.3, fault, 1
    began = time.perf_counter()
    with pytest.raises(RemoteError, match="400"):
        vlm.generate_batch([ask("a b c d e f") for _ in range(4)])
    assert time.perf_counter() - began < 1.0


def test_restarted_server_is_used_again():
    with serving() as first:
        port = first.server_address[1]
        vlm = RemoteVLM(first.url, retries=1)
        assert vlm.generate(ask("a")).texts == ("a",)
    with pytest.raises(RemoteError, match=rf"127.0.0.1:{port}.*running"):
        vlm.generate(ask("a"))
    with serving(port=port):
        assert vlm.generate(ask("b")).texts == ("b",)
    vlm.close()


def test_closed_port_and_plain_web_server():
    with serving() as server:
        port = server.server_address[1]
        with pytest.raises(RemoteError, match=r"404.*HTML page.*/v1") as caught:
            RemoteVLM(f"http://127.0.0.1:{port}/wrong")
        assert f"127.0.0.1:{port}" in str(caught.value)
        server.models = []
        with pytest.raises(RemoteError, match=r"models.*expected"):
            RemoteVLM(server.url)
    began = time.perf_counter()
    with pytest.raises(RemoteError, match=rf"127.0.0.1:{port}.*cannot connect.*running"):
        RemoteVLM(f"http://127.0.0.1:{port}/v1")
    assert time.perf_counter() - began < 2.0
