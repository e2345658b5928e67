"""The messages of the bridge survive the way, and hostile ones are refused."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
from bridge_helpers import same
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from backbone.worlds import framing
from backbone.worlds.framing import DTYPES, Channel, ClosedError, DeadlineError, FrameError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
arrays = st.sampled_from(sorted(DTYPES)).flatmap(lambda dtype: npst.arrays(dtype, shapes))
keys = st.text(max_size=4).filter(lambda key: key != framing.KEY)
values = st.recursive(
    scalars | arrays, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)


@given(values)
@settings(max_examples=40, deadline=None)
def test_a_message_survives_the_way(value: Any) -> None:
    ours, theirs = map(Channel, socket.socketpair())
    ours.send(value)
    assert same(value, theirs.receive())
    ours.close(), theirs.close()


def test_a_strided_array_is_sent_as_what_it_shows() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    ours.send([picture[::-1, ::2], np.float32(0.5), np.int64(3), np.bool_(True), (1, 2)])
    got = theirs.receive()
    assert np.array_equal(got[0], picture[::-1, ::2])
    assert got[1:] == [0.5, 3, True, [1, 2]]
    assert got[0].flags.writeable
    ours.close(), theirs.close()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1.0, math.nan]}, r"\['a'\]\[1\] is nan"),
        ({"a": np.array(["text"])}, "cannot be sent"),
        ({"a": np.array([object()])}, "cannot be sent"),
        ({"a": np.zeros(2, ">f4")}, "cannot be sent"),
        ({1: 2}, "keys must be text"),
        ({framing.KEY: 0}, "keys must be text and not"),
        ({"a": {1, 2}}, "is a set"),
        (b"bytes", "is a bytes"),
        (json.loads("[" * 40 + "]" * 40), "nested deeper"),
        ([np.zeros(0)] * 300, "above the limits"),
        (np.broadcast_to(np.uint8(0), (1 << 30,)), "above the limits"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        framing.encode(value)


def frame(header: Any, payload: bytes = b"", claimed: int | None = None) -> bytes:
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return framing.PREFIX.pack(framing.MAGIC, len(data), len(payload) if claimed is None else claimed) + data + payload


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        framing.PREFIX.pack(framing.MAGIC, 1 << 31, 0),
        framing.PREFIX.pack(framing.MAGIC, 10, 1 << 62),
        frame(b"\xff\xfe"),
        frame(b"[" * 100_000),
        frame([]),
        frame({"body": 1}),
        frame({"body": 1, "arrays": 7}),
        frame({"body": 1, "arrays": [["|O", [1]]]}, b"12345678"),
        frame({"body": 1, "arrays": [["<f4", [-1]]]}),
        frame({"body": 1, "arrays": [["<f4", [2]]]}, b"1234"),
        frame({"body": 1, "arrays": [["<f4", [1 << 40, 1 << 40]]]}, b"1234"),
        frame(b'{"body": 1, "arrays": [], "body": 2}'),
        frame(b'{"body": {"action": 1, "action": 2}, "arrays": []}'),
        frame({"body": {framing.KEY: 5}, "arrays": []}),
        frame({"body": {framing.KEY: -1}, "arrays": [["|u1", [1]]]}, b"1"),
    ],
)
def test_hostile_messages_are_refused_without_allocating_what_they_claim(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    ours.sendall(data)
    ours.close()
    with pytest.raises(FrameError):
        channel.receive()
    channel.close()


def test_truncated_and_trickling_messages() -> None:
    data = b"".join(map(bytes, framing.encode({"image": np.arange(100, dtype=np.uint8)})))
    for cut in (0, 3, 20, len(data) - 1):
        ours, theirs = socket.socketpair()
        ours.sendall(data[:cut])
        ours.close()
        with pytest.raises(ClosedError):
            Channel(theirs).receive()
        theirs.close()
    ours, theirs = socket.socketpair()
    channel = Channel(theirs, alive=lambda: None)
    sender = threading.Thread(target=lambda: [ours.sendall(data[i : i + 1]) for i in range(len(data))])
    sender.start()
    assert np.array_equal(channel.receive()["image"], np.arange(100, dtype=np.uint8))
    sender.join()
    with pytest.raises(DeadlineError):
        channel.receive(time.monotonic() + 0.05)
    with pytest.raises(DeadlineError):  # nobody reads: the message does not fit into the socket
        channel.send(np.zeros(64 << 20, np.uint8), time.monotonic() + 0.05)
    ours.close(), channel.close()
