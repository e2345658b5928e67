"""Drills: policies and clients that fail in every way. After each the others are answered, and every error is short."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time

import msgpack
import numpy as np
import pytest
from serving_helpers import (
    SHORT,
    FunctionAgent,
    Hanging,
    check_others,
    chunk,
    counter,
    evaluator,
    get,
    handshake,
    observation,
    raw,
    remembering,
    served,
    soon,
    unchecked,
    websocket_message,
)
from websockets.exceptions import ConnectionClosed

from backbone.errors import DataError, InstructionError
from backbone.serving.codec import pack


def _bad(value):
    """A policy that behaves for the warm-up and whoever says `go`, and gives ``value()`` to everybody else."""
    return lambda memory, seen: value() if memory.instruction == "bad" else chunk((0.1, 0.1))


def _raise():
    raise ValueError("secret path /home/robot/model.pt")


def _exit():
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (_raise, "policy_error: the policy failed with ValueError"),
        (_exit, "policy_error: the policy failed with SystemExit"),
        (lambda: chunk((np.nan, 0.0)), "policy_error: the policy failed with DataError: action chunk"),
        (
            lambda: unchecked(np.array([[np.nan, 0.0]])),
            "unsafe_action: the policy returned 1 of 2 action values as NaN",
        ),
        (lambda: unchecked(np.array([[np.inf, 0.0]])), "unsafe_action"),
        (lambda: unchecked(np.zeros((4, 3))), "unsafe_action: the policy returned actions of shape (4, 3)"),
        (lambda: unchecked("left"), "unsafe_action"),
        (lambda: None, "unsafe_action: the policy returned a NoneType"),
    ],
)
def test_a_policy_that_misbehaves(value, said):
    with served(_bad(value)) as server, raw(server) as other:
        with raw(server) as link:
            answer = link.ask(observation(prompt="bad"))
            assert isinstance(answer, str)
            assert answer.startswith(said)
            assert len(answer) < SHORT
            assert "secret" not in answer
            assert "Traceback" not in answer
            with pytest.raises(ConnectionClosed):
                link.connection.recv(5)
        with evaluator(server) as link:
            payload = observation(prompt="bad")
            link.send("episode_start", {"task": {"prompt": "bad"}})
            assert link.ask("observation", payload)["payload"]["error"].startswith(said.split(":")[0])
            link.send("episode_start", {"task": {}})
            assert link.ask("observation", observation())["type"] == "action"
        assert "actions" in other.ask(observation())
        assert counter(server, f'fovea_errors_total{{type="{said.split(":")[0]}"}}') == 2
        check_others(server)


@pytest.mark.parametrize(
    ("error", "code"), [(DataError, "policy_error"), (KeyError, "policy_error"), (InstructionError, "bad_observation")]
)
def test_a_huge_prompt_that_the_policy_quotes_is_cut_in_log_and_answer(caplog, error, code):
    def refuse(memory, seen):
        if memory.instruction != "go" and memory.instruction:
            raise error(f"cannot do {memory.instruction!r}; say go")
        return chunk((0.1, 0.1))

    with served(refuse) as server, raw(server) as link, evaluator(server) as other:
        answer = link.ask(observation(prompt="x" * 1_000_000))
        other.send("episode_start", {"task": {"prompt": "x" * 1_000_000}})
        other_answer = other.ask("observation", observation(prompt="x" * 1_000_000))["payload"]["error"]
    for text in (answer, other_answer):
        assert text.startswith(f"{code}: ")
    for text in (answer, other_answer, *(record.getMessage() for record in caplog.records)):
        assert "x" * 210 not in text
        assert max(map(len, text.splitlines())) < SHORT
    assert ("Traceback" in caplog.text) == (code == "policy_error")
    assert not any(record.exc_info for record in caplog.records)
    if error is InstructionError:
        assert "; say go" in answer


def test_a_policy_that_hangs_is_given_up_and_the_others_are_answered():
    policy = Hanging()
    agent = FunctionAgent(policy)
    try:
        with served(agent, deadline_s=0.5, grace_s=0.5) as server, raw(server) as other:
            with raw(server) as stuck:
                stuck.send(pack(observation(prompt="hang")))
                assert policy.entered.wait(10)
                assert get(server, "/healthz") == (200, "OK\n")  # while the only thread hangs
                answer = stuck.connection.recv(10)
                assert isinstance(answer, str)
                assert answer.startswith("deadline: the policy did not answer in 0.5 s")
            assert other.ask(observation())["actions"].tolist() == [[np.float32(0.1), np.float32(0.1)]]
            assert counter(server, "fovea_threads_hanging") == 1
            assert counter(server, "fovea_calls_abandoned_total") == 1
            policy.release.set()  # its late result must reach nobody
            assert soon(lambda: counter(server, "fovea_threads_hanging") == 0)
            assert other.ask(observation())["actions"][0, 0] == np.float32(0.1)
            hung = [session for session in agent.sessions if session.instruction == "hang"]
            assert soon(lambda: [session.closed for session in hung] == [1])
    finally:
        policy.release.set()


def test_a_hung_vla_eval_episode_is_lost_and_the_next_one_works():
    policy = Hanging()
    try:
        with served(policy, deadline_s=0.3, grace_s=0.5) as server, evaluator(server) as link:
            link.send("episode_start", {"task": {"prompt": "hang"}})
            late = link.send("observation", observation(prompt="hang"))
            failed = link.receive()
            assert (failed["seq"], failed["type"]) == (late, "error")
            assert failed["payload"]["error"].startswith("deadline")
            assert link.ask("observation", observation())["payload"]["error"].startswith("no_episode")
            policy.release.set()
            link.send("episode_start", {"task": {"prompt": "go"}})
            answer = link.ask("observation", observation())  # never the late one
            assert answer["payload"]["actions"][0] == np.float32(0.1)
    finally:
        policy.release.set()


def test_too_many_hung_calls_make_the_server_unwell_until_they_end():
    policy = Hanging()
    try:
        with served(policy, deadline_s=0.2, grace_s=0.3, max_abandoned=2) as server:
            for _ in range(2):
                with raw(server) as link:
                    assert str(link.ask(observation(prompt="hang"))).startswith("deadline")
            assert get(server, "/healthz")[0] == 503
            with raw(server) as link:
                assert str(link.ask(observation())).startswith("unavailable")
            policy.release.set()
            assert soon(lambda: get(server, "/healthz")[0] == 200)
            check_others(server)
    finally:
        policy.release.set()


def test_waiting_too_long_is_another_error_than_hanging():
    policy = Hanging()
    try:
        with served(policy, deadline_s=0.6, grace_s=0.5) as server, raw(server) as first, raw(server) as second:
            first.send(pack(observation(prompt="hang")))
            assert policy.entered.wait(10)
            time.sleep(0.2)
            threading.Timer(0.1, policy.release.set).start()
            assert second.ask(observation())["actions"].shape == (1, 2)  # waited its turn, within its deadline
            assert "actions" in msgpack.unpackb(first.connection.recv(5), strict_map_key=False)
    finally:
        policy.release.set()


def test_a_client_that_vanishes_while_the_policy_thinks(caplog):
    policy = Hanging()
    agent = FunctionAgent(policy)
    try:
        with served(agent) as server, raw(server) as other:
            with raw(server) as link:
                link.send(pack(observation(prompt="hang")))
                assert policy.entered.wait(10)
                link.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                link.connection.socket.shutdown(socket.SHUT_RDWR)
            assert soon(lambda: counter(server, 'fovea_sessions{protocol="openpi"}') == 1)
            policy.release.set()
            assert "actions" in other.ask(observation())
            gone = [session for session in agent.sessions if session.instruction == "hang"]
            assert soon(lambda: [session.closed for session in gone] == [1])
        assert not [record for record in caplog.records if record.name == "asyncio"]  # the late result met nobody
    finally:
        policy.release.set()


def test_a_client_that_vanishes_from_the_queue_is_never_computed():
    policy = Hanging()
    agent = FunctionAgent(policy)
    try:
        with served(agent, deadline_s=60.0) as server, raw(server) as first:
            first.send(pack(observation(prompt="hang")))
            assert policy.entered.wait(10)
            with raw(server) as second:
                second.send(pack(observation(prompt="hang too")))
                assert soon(lambda: counter(server, "fovea_queue_depth") == 1)
            assert soon(lambda: counter(server, "fovea_queue_depth") == 0)
            policy.release.set()
            first.connection.recv(10)
            assert not any(session.instruction == "hang too" for session in agent.sessions)
    finally:
        policy.release.set()


def test_a_half_open_socket_is_found_out_by_pings():
    with served(ping_interval_s=0.1, ping_timeout_s=0.2) as server:
        dead = handshake(server.port)  # reads nothing and answers no ping, as a machine without power
        try:
            assert soon(lambda: counter(server, 'fovea_sessions{protocol="openpi"}') == 1)
            assert soon(lambda: counter(server, 'fovea_sessions{protocol="openpi"}') == 0)
        finally:
            dead.close()
        check_others(server)


def test_frequent_pings_do_not_end_a_long_inference():
    def slow(memory, seen):
        time.sleep(0.8)
        return chunk((0.1, 0.1))

    pings = {"ping_interval": 0.1, "ping_timeout": 0.3}
    with served(slow, ping_interval_s=0.1, ping_timeout_s=0.3) as server, raw(server, **pings) as link:
        assert link.ask(observation())["actions"].shape == (1, 2)


def test_a_handshake_that_never_ends_and_noise_harm_nobody():
    with served() as server:
        silent = socket.create_connection(("127.0.0.1", server.port))
        noisy = socket.create_connection(("127.0.0.1", server.port))
        noisy.sendall(os.urandom(2000))
        with socket.create_connection(("127.0.0.1", server.port)) as endless:
            endless.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 20_000)
        check_others(server)
        silent.close()
        noisy.close()


def test_a_client_that_reads_nothing_is_cut_off():
    rows = [(0.1, 0.1)] * 50_000  # 400 kB an answer
    with served(lambda *_: chunk(*rows), deadline_s=0.5, ping_interval_s=None) as server:
        lazy = handshake(server.port)
        lazy.settimeout(5)
        try:
            frame = websocket_message(pack(observation()))
            with contextlib.suppress(OSError):
                for _ in range(100):
                    lazy.sendall(frame)
            assert soon(lambda: counter(server, 'fovea_sessions{protocol="openpi"}') == 0)
        finally:
            lazy.close()
        check_others(server)


def test_a_fault_of_the_server_itself_is_no_traceback(monkeypatch):
    with served(remembering) as server:
        monkeypatch.setattr(server.service.gate, "check", lambda *_: 1 / 0)
        with raw(server) as link:
            answer = link.ask(observation())
            assert answer.startswith("internal: internal error: ZeroDivisionError (error ")
        monkeypatch.undo()
        check_others(server)
