"""Frames made to do harm, and half a protocol: one short error each, and the others are answered."""

from __future__ import annotations

import msgpack
import pytest
from serving_helpers import SHORT, check_others, counter, evaluator, handshake, observation, raw, served, soon
from websockets.exceptions import ConnectionClosed

from backbone.serving.codec import pack
from backbone.serving.scan import WireLimits


def _fragments(data: bytes) -> bytes:
    """A message of one-byte frames, masked with zeros."""
    last = len(data) - 1
    return b"".join(
        bytes([(0x80 if i == last else 0) | (2 if i == 0 else 0), 0x81, 0, 0, 0, 0, byte])
        for i, byte in enumerate(data)
    )


def test_frames_of_one_byte():
    frame = pack(observation())
    with served() as server:
        link = handshake(server.port)
        link.settimeout(10)
        try:
            link.sendall(_fragments(frame))
            received = b""
            while b"actions" not in received:
                received += link.recv(65536)
        finally:
            link.close()
        with raw(server) as flood:  # more fragments than any message has
            flood.connection.socket.sendall(_fragments(b"\0" * 200_000))
            with pytest.raises(ConnectionClosed):
                flood.connection.recv(10)
        check_others(server)


def _openpi_array(dtype, shape, data=b"\0" * 16):
    return msgpack.packb({b"__ndarray__": True, b"data": data, b"dtype": dtype, b"shape": shape})


HOSTILE = {
    "one byte": b"\x00",
    "no msgpack": b"\xc1\xc1",
    "empty": b"",
    "truncated": pack(observation())[:-7],
    "nested": b"\x91" * 5000 + b"\x00",
    "nested maps": b"\x81\xa1a" * 5000 + b"\x00",
    "a list": msgpack.packb([1, 2]),
    "number keys": msgpack.packb({1: 2}),
    "extension": msgpack.packb(msgpack.ExtType(1, b"x")),
    "bomb": b"\xdd\x00\x1e\x84\x80" + b"\x90" * 2_000_000,
    "object": _openpi_array("|O", [2]),
    "void": _openpi_array("|V8", [2]),
    "text": _openpi_array("<U4", [1]),
    "record": _openpi_array("f4,f4", [2]),
    "huge": _openpi_array("<f8", [2**60]),
    "negative": _openpi_array("|u1", [-16]),
    "overflow": _openpi_array("|u1", [2**32, 2**32, 0, 2**40]),
    "many axes": _openpi_array("|u1", [1] * 60),
    "pickle": b"\x80\x04\x95\x1b\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "a text frame": "hello",
    "a key twice": b"\x82\xa6prompt\xa1a\xa6prompt\xa1b",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_frames_get_one_short_error_and_harm_nobody(hostile_server, name):
    frame = HOSTILE[name]
    with raw(hostile_server) as other:
        with raw(hostile_server) as link:
            answer = link.ask(frame)
            assert isinstance(answer, str)
            assert answer.split(":")[0] in ("bad_frame", "bad_observation")
            assert len(answer) < SHORT
            with pytest.raises(ConnectionClosed) as closed:
                link.connection.recv(5)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011
        with evaluator(hostile_server) as link:
            link.connection.send(frame)
            answer = link.receive()
            assert answer["type"] == "error"
            assert len(answer["payload"]["error"]) < SHORT
            assert link.ask("hello", {})["type"] == "hello"
        assert "actions" in other.ask(observation())


@pytest.fixture(scope="module")
def hostile_server():
    with served() as server:
        yield server


@pytest.mark.parametrize(
    "message", [{"type": "observation"}, [], {"type": "hello", "payload": 3, "seq": 1, "timestamp": 0}]
)
def test_broken_envelopes_of_vla_eval(hostile_server, message):
    with evaluator(hostile_server) as link:
        link.connection.send(msgpack.packb(message))
        assert link.receive()["payload"]["error"].startswith("bad_frame")
        for seq in ("1", True, 1.5, None):
            link.connection.send(msgpack.packb({"type": "hello", "payload": {}, "seq": seq, "timestamp": 0}))
            assert link.receive()["type"] == "error"
        assert link.ask("hello", {})["type"] == "hello"


def test_an_oversize_message_ends_its_connection_alone():
    with served(limits=WireLimits(max_bytes=10_000)) as server, raw(server) as other:
        with raw(server) as link:
            link.send(b"\0" * 20_000)
            with pytest.raises(ConnectionClosed) as closed:
                link.connection.recv(5)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        assert "actions" in other.ask(observation())
        assert soon(lambda: counter(server, 'fovea_errors_total{type="too_large"}') == 1)
