"""The connection to a chat server: cancelled, closed, silent, busy, gone and back again."""

from __future__ import annotations

import threading
import time

import pytest
from chat_server import serving
from remote_helpers import ask, chunk

from backbone.errors import CancelledError, RemoteError
from backbone.remote import RemoteVLM


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
