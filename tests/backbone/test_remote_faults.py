"""Faults of a chat server are typed errors with its address, and no call hangs."""

from __future__ import annotations

import json

import pytest
from remote_helpers import answer, ask, chunk, cut

from backbone.errors import RemoteError

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
