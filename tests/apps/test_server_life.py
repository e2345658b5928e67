"""The policy server as those who run it know it: warming up, health, metrics, tokens, limits, going away."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace

import pytest
from serving_helpers import (
    LAYOUT,
    QUICK,
    SPEC,
    FunctionAgent,
    chunk,
    counter,
    get,
    observation,
    raw,
    served,
    soon,
)
from websockets.exceptions import ConnectionClosed, InvalidStatus

from apps.server.background import serving
from apps.server.server import PolicyServer
from backbone.errors import ConfigError, ServerError
from backbone.rollout.agents import ExpertAgent

TOKEN = "secret" + "-token"


def test_health_metrics_and_readable_refusals():
    with served() as server, raw(server) as link:
        link.ask(observation())
        assert get(server, "/healthz") == (200, "OK\n")
        assert json.loads(get(server, "/health")[1]) == {"status": "ok"}
        assert counter(server, 'fovea_requests_total{protocol="openpi"}') == 1
        assert counter(server, 'fovea_sessions{protocol="openpi"}') == 1
        assert counter(server, "fovea_queue_depth") == 0
        status, text = get(server, "/")
        assert status == 426
        assert "WebSocket" in text
        assert get(server, "/nowhere")[0] == 404
        assert get(server, "/", method="POST")[0] == 405


def test_a_cold_server_is_not_healthy_and_its_clients_wait():
    go = threading.Event()

    def slow(memory, seen):
        go.wait(10)
        return chunk((0.0, 0.0))

    server = PolicyServer(FunctionAgent(slow), LAYOUT, QUICK)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    try:
        assert get(server, "/healthz") == (503, "warming up\n")
        threading.Timer(0.2, go.set).start()
        with raw(server) as link:
            assert link.metadata["action_horizon"] == 1
        assert get(server, "/healthz")[0] == 200
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_policy_that_fails_its_example_is_not_served():
    failing = served(lambda *_: 1 / 0)
    with pytest.raises(ServerError, match=r"failed on the example observation \(ZeroDivisionError"), failing:
        pass


def test_a_policy_that_ends_the_program_at_warm_up_is_a_stated_failure():
    def leave(memory, seen):
        raise SystemExit(0)

    with pytest.raises(ServerError, match=r"failed on the example observation \(SystemExit: 0\)"), served(leave):
        pass


@pytest.mark.parametrize("header", ["Api-Key secret-token", "Bearer secret-token", "bearer  secret-token"])
def test_the_token_opens(header, caplog):
    with served(token=TOKEN) as server:
        with raw(server, additional_headers={"Authorization": header}) as link:
            assert "actions" in link.ask(observation())
        assert get(server, "/metrics", Authorization=header)[0] == 200
        assert get(server, "/healthz")[0] == 200
    assert "secret-token" not in caplog.text
    assert "secret-token" not in repr(server.config)


@pytest.mark.parametrize(
    "header", [None, "", "Api-Key", "Api-Key wrong", "Basic secret-token", "Api-Key secret-token2"]
)
def test_a_wrong_token_gets_nothing(header):
    with served(token=TOKEN) as server:
        headers = {} if header is None else {"Authorization": header}
        for path in ("/", "/vla-eval"):
            with pytest.raises(InvalidStatus) as refused, raw(server, path, additional_headers=headers):
                pass
            assert refused.value.response.status_code == 401
        assert get(server, "/metrics", **headers)[0] == 401
        assert counter(server, 'fovea_errors_total{type="unauthorized"}') == 3


def test_a_full_server_says_so_and_has_room_again():
    with served(max_connections=2) as server:
        with raw(server), raw(server):
            with pytest.raises(InvalidStatus) as refused, raw(server):
                pass
            assert refused.value.response.status_code == 503
            assert b"full: 2" in bytes(refused.value.response.body or b"")
        assert soon(lambda: counter(server, 'fovea_sessions{protocol="openpi"}') == 0)
        with raw(server) as link:
            assert "actions" in link.ask(observation())


def test_a_silent_client_is_closed():
    with served(idle_s=0.2) as server, raw(server) as link, pytest.raises(ConnectionClosed) as closed:
        link.connection.recv(5)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


def test_a_request_under_way_is_answered_before_the_server_goes():
    entered = threading.Event()

    def slow(memory, seen):
        if memory.instruction:
            entered.set()
            time.sleep(0.3)
        return chunk((0.5, 0.5))

    agent, answer = FunctionAgent(slow), {}
    with served(agent) as server:

        def client() -> None:
            with raw(server) as link:
                answer.update(link.ask(observation()))

        thread = threading.Thread(target=client)
        thread.start()
        assert entered.wait(10)
    thread.join()
    assert answer["actions"].tolist() == [[0.5, 0.5]]
    assert [s.closed for s in agent.sessions] == [1, 1]


def test_experts_are_not_served_and_taken_ports_are_named():
    with (
        pytest.raises(ConfigError, match="reads the simulator itself"),
        serving(PolicyServer(ExpertAgent(SPEC), LAYOUT)),
    ):
        pass
    with served() as server:
        taken = replace(QUICK, port=server.port)
        with pytest.raises(ServerError, match=f"cannot listen on 127.0.0.1:{server.port}"), served(config=taken):
            pass
