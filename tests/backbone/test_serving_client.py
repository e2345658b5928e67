"""The client against servers that answer, lie, stall, vanish, or are something else altogether."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from websockets.sync.server import ServerConnection

from backbone.contracts import ActionSpec, Observation
from backbone.errors import ConfigError, DataError, ServerError
from backbone.serving.client import PolicyClient
from backbone.serving.codec import pack, unpack
from backbone.serving.errors import (
    AnswerError,
    ConnectionLostError,
    NoAnswerError,
    RefusedError,
    UnreachableError,
)
from backbone.serving.remote_agent import RemoteAgent
from backbone.serving.spec import spec_to_plain
from tests.websocket_server import listening

SPEC = ActionSpec.make_example()
METADATA = {"action": spec_to_plain(SPEC), "resets": ["reset", "seed", "prompt"]}


def echoing(connection: ServerConnection) -> None:
    """Answers with the number it was sent, and what else it got."""
    connection.send(pack(METADATA))
    for message in connection:
        sent = unpack(message)
        value = np.array([[sent.get("x", 0.0), 0.0]], np.float32)
        connection.send(pack({"actions": value, "reset": sent.get("reset", "none")}))


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def timed(limit_s: float, call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    spent = time.perf_counter() - began
    assert spent < limit_s
    return spent


def test_the_interface_of_openpis_client():
    with listening(echoing) as uri, PolicyClient(uri) as client:
        assert client.get_server_metadata() == METADATA
        assert client.infer({"x": 0.5})["actions"].tolist() == [[0.5, 0.0]]
        assert client.infer({"x": 0.0})["reset"] == "none"
        client.reset()
        assert client.infer({"x": 0.0})["reset"] is True
        assert client.infer({"x": 0.0})["reset"] == "none"


def test_reset_stays_at_home_where_the_server_knows_none():
    def stock(connection: ServerConnection) -> None:
        connection.send(pack({}))
        for message in connection:
            connection.send(pack({"actions": np.zeros((1, 2)), "keys": list(unpack(message))}))

    with listening(stock) as uri, PolicyClient(uri) as client:
        client.reset()
        assert client.infer({"x": 1})["keys"] == ["x"]


def test_a_closed_port_is_named_at_once():
    port = closed_port()
    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port}: nobody listens there"):
        timed(5, lambda: PolicyClient(f"127.0.0.1:{port}"))


def test_retries_wait_for_a_server_that_is_coming():
    port = closed_port()
    opened = threading.Event()

    def later() -> None:
        time.sleep(0.5)
        with listening(echoing, port):
            opened.set()
            done.wait(10)

    done = threading.Event()
    thread = threading.Thread(target=later)
    thread.start()
    try:
        with PolicyClient(f"ws://127.0.0.1:{port}", retries=8) as client:
            assert opened.is_set()
            assert client.infer({"x": 1.0})["actions"][0, 0] == 1.0
    finally:
        done.set()
        thread.join()


class _Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *arguments: object) -> None:
        pass


def test_another_kind_of_server_is_named():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.server_address[1]
        try:
            with pytest.raises(UnreachableError, match=f"ws://127.0.0.1:{port} answered HTTP 200 .'hello'.*wrong port"):
                timed(5, lambda: PolicyClient(f"ws://127.0.0.1:{port}"))
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9.6\r\n", b"", b"\x00\xff" * 40])
def test_what_speaks_no_http_is_named(greeting):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def greet() -> None:
            link, _ = listener.accept()
            with link:
                link.sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(UnreachableError, match=f"ws://127.0.0.1:{port}: something answers there|cannot connect"):
            timed(5, lambda: PolicyClient(f"ws://127.0.0.1:{port}", connect_timeout_s=1))
        thread.join()


def test_a_peer_that_closes_while_the_handshake_is_sent_is_named(monkeypatch):
    class Torn:
        def __enter__(self):
            raise AssertionError

    monkeypatch.setattr("backbone.serving.client.connect", lambda *_, **__: Torn())
    said = pytest.raises(UnreachableError, match="something answers there that is no WebSocket server")
    with socket.create_server(("127.0.0.1", 0)) as listener, said:
        PolicyClient(f"ws://127.0.0.1:{listener.getsockname()[1]}", connect_timeout_s=1)


def test_a_mute_listener_ends_the_wait():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"ws://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=r"did not answer in 0.3 s"):
            timed(3, lambda: PolicyClient(uri, connect_timeout_s=0.3))


def test_a_server_that_does_not_speak_first_is_named():
    mute = listening(lambda connection: connection.recv())
    with mute as uri, pytest.raises(NoAnswerError, match="a policy server speaks first"):
        timed(3, lambda: PolicyClient(uri, timeout_s=0.3))


@pytest.mark.parametrize(("status", "error"), [(401, RefusedError), (503, RefusedError), (404, UnreachableError)])
def test_refusals_say_their_reason(status, error):
    def refuse(connection, request):
        return connection.respond(status, "because of this")

    with listening(echoing, process_request=refuse) as uri, pytest.raises(error, match="because of this"):
        PolicyClient(uri)


def test_the_token_travels_as_openpis_does():
    seen = []

    def look(connection, request):
        seen.append(request.headers.get("Authorization"))

    with listening(echoing, process_request=look) as uri:
        PolicyClient(uri, token="ab" + "c").close()
        PolicyClient(uri).close()
    assert seen == ["Api-Key abc", None]


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "ftp://x", "ws://[bad", "ws://127.0.0.1:99999"])
def test_impossible_addresses_are_settings_errors(uri):
    with pytest.raises((ConfigError, UnreachableError)):
        PolicyClient(uri)
    with pytest.raises(ConfigError):
        PolicyClient("ws://127.0.0.1:1", timeout_s=0)


def test_a_late_answer_is_never_read_as_the_next_one():
    calls = []

    def slow_once(connection: ServerConnection) -> None:
        connection.send(pack(METADATA))
        for message in connection:
            value = unpack(message)["x"]
            calls.append(value)
            if value == 1.0:
                time.sleep(0.6)
            connection.send(pack({"actions": np.array([[value, 0.0]], np.float32)}))

    with listening(slow_once) as uri, PolicyClient(uri, timeout_s=0.25) as client:
        with pytest.raises(NoAnswerError, match=r"no answer in 0.25 s"):
            timed(2, lambda: client.infer({"x": 1.0}))
        for value in (2.0, 3.0):  # the same object connects anew
            time.sleep(0.3)
            assert client.infer({"x": value})["actions"][0, 0] == value
    assert calls == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(5, r"got a int \(5\)"), (None, "got a NoneType"), ([1], "got a list"), ({1: 2}, "with the key 1")],
)
def test_what_is_no_observation_is_a_typed_error_and_the_connection_goes_on(wrong, said):
    with listening(echoing) as uri, PolicyClient(uri) as client:
        with pytest.raises(DataError, match=said):
            client.infer(wrong)
        assert client.infer({"x": 0.5})["actions"].tolist() == [[0.5, 0.0]]


def test_a_server_killed_between_two_calls_and_started_again():
    with listening(echoing) as uri:
        client = PolicyClient(uri, timeout_s=2, connect_timeout_s=2)
        assert client.infer({"x": 1.0})["actions"][0, 0] == 1.0
    with pytest.raises(ConnectionLostError, match="the episode is lost"):
        timed(4, lambda: client.infer({"x": 2.0}))
    with pytest.raises(UnreachableError):
        timed(4, lambda: client.infer({"x": 2.0}))
    with listening(echoing, int(uri.rsplit(":", 1)[1])):
        assert client.infer({"x": 3.0})["actions"][0, 0] == 3.0
        timed(1, client.close)
        timed(0.1, client.close)


def test_closing_does_not_wait_for_a_server_that_hangs():
    release = threading.Event()

    def hanging(connection: ServerConnection) -> None:
        connection.send(pack(METADATA))
        release.wait(10)

    with listening(hanging) as uri:
        client = PolicyClient(uri)
        timed(1.5, client.close)
        release.set()


def test_a_server_that_stops_reading_does_not_hold_the_caller():
    release = threading.Event()

    def deaf(connection: ServerConnection) -> None:
        connection.send(pack(METADATA))
        connection.recv_flow_control.acquire()
        release.wait(20)
        connection.recv_flow_control.release()

    with listening(deaf) as uri:
        client = PolicyClient(uri, timeout_s=0.5)
        with pytest.raises((NoAnswerError, ConnectionLostError)):
            timed(5, lambda: client.infer({"x": np.zeros(30_000_000, np.uint8)}))
        release.set()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Traceback: something broke", "something broke"),
        (b"\xc1", "does not speak openpi's protocol"),
        (pack([1]), "answered with a list"),
        (b"\x91" * 3000, "does not speak openpi's protocol"),
    ],
)
def test_answers_that_are_none(answer, said):
    def broken(connection: ServerConnection) -> None:
        connection.send(pack(METADATA))
        connection.recv()
        connection.send(answer)
        connection.recv()

    with listening(broken) as uri, PolicyClient(uri) as client, pytest.raises(AnswerError, match=said):
        client.infer({"x": 1})


def _observation() -> Observation:
    return Observation(
        {"front": np.full((4, 6, 3), 7, np.uint8)},
        "from the world",
        np.array([1.5], np.float32),
        2.0,
        {"front": np.ones((4, 6), np.float32)},
    )


def test_a_remote_agent_sends_everything_and_checks_what_comes_back():
    got = []

    def record(connection: ServerConnection) -> None:
        connection.send(pack(METADATA))
        for message in connection:
            got.append(unpack(message))
            connection.send(
                pack(
                    {
                        "actions": np.array([[0.5, -0.5]], np.float32),
                        "thought": "hm",
                        "server_timing": {"infer_ms": 3.0},
                    }
                )
            )

    with listening(record) as uri:
        agent = RemoteAgent(uri)
        assert agent.spec == SPEC
        session = agent.session("fetch", 11)
        decisions = [session.act(_observation()) for _ in range(2)]
        session.close()
    assert decisions[0].actions.values.tolist() == [[0.5, -0.5]]
    assert (decisions[0].thought, decisions[0].ledger.total().milliseconds) == ("hm", 3.0)
    assert [(g["seed"], g["reset"], g["prompt"], g["time_s"]) for g in got] == [
        (11, True, "fetch", 2.0),
        (11, False, "fetch", 2.0),
    ]
    assert np.array_equal(got[0]["images/front"], _observation().images["front"])
    assert np.array_equal(got[0]["depths/front"], _observation().depths["front"])
    assert got[0]["state"].tolist() == [1.5]


@pytest.mark.parametrize("actions", [np.zeros((1, 3)), np.full((1, 2), np.nan), None, "left", np.zeros(2)])
def test_a_remote_agent_refuses_what_is_no_chunk(actions):
    def wrong(connection: ServerConnection) -> None:
        connection.send(pack(METADATA))
        for _ in connection:
            connection.send(pack({"actions": actions}))

    with listening(wrong) as uri:
        session = RemoteAgent(uri).session("", 0)
        with pytest.raises(AnswerError):
            session.act(_observation())


def test_a_server_that_does_not_say_what_actions_mean_needs_a_spec():
    def stock(connection: ServerConnection) -> None:
        connection.send(pack({}))
        connection.recv()

    with listening(stock) as uri:
        with pytest.raises(ServerError, match="give the spec by hand"):
            RemoteAgent(uri)
        assert RemoteAgent(uri, spec=SPEC).spec == SPEC
