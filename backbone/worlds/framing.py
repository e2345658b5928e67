"""Messages between a world's client and its worker: one JSON value in which NumPy arrays may stand anywhere.

On the wire: ``FVW1``, header length (uint32), payload length (uint64), the JSON header ``{"body": ..., "arrays":
[[dtype, shape], ...]}``, then the bytes of each array in order. Arrays are sent from their own memory and received into
theirs. Dtypes are of a fixed list and sizes are limited; nothing is ever unpickled.

This file also runs in the worker's interpreter: Python 3.8 or newer, NumPy and the standard library only.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

MAGIC = b"FVW1"
PREFIX = struct.Struct("!4sIQ")
DTYPES = frozenset(("|b1", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"))
MAX_HEADER_BYTES = 16 << 20
MAX_PAYLOAD_BYTES = 512 << 20
MAX_ARRAYS = 256
MAX_DEPTH = 32
MAX_DIMENSIONS = 8
KEY = "__array__"
ENCODER = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"))  # depth is limited below
BUFFER_BYTES = 1 << 20  # of the socket: a frame of several cameras leaves in one piece
SLICE_S = 0.2  # how often a waiting side looks at its deadline and at the other process


class FrameError(RuntimeError):
    """A message breaks the format or its limits; the connection is of no more use when it was received."""


class ClosedError(ConnectionError):
    """The other side is gone."""


class DeadlineError(TimeoutError):
    """The other side did not answer, or did not take the message, in time."""


def encode(value: Any) -> list[Any]:
    """The buffers of one message, in order. Raises `FrameError` naming the place of what cannot be sent."""
    arrays: list[Any] = []
    try:
        body = _without_arrays(value, arrays, 0)
    except FrameError as error:
        raise FrameError(f"message{error}") from None
    described = [[array.dtype.str, array.shape] for array in arrays]
    header = ENCODER.encode({"body": body, "arrays": described}).encode("utf-8")
    payload = sum(array.nbytes for array in arrays)
    if len(arrays) > MAX_ARRAYS or len(header) > MAX_HEADER_BYTES or payload > MAX_PAYLOAD_BYTES:
        raise FrameError(
            f"a message of {len(arrays)} arrays, {len(header)} header and {payload} payload bytes is above the limits "
            f"{MAX_ARRAYS}, {MAX_HEADER_BYTES} and {MAX_PAYLOAD_BYTES}"
        )
    buffers = [as_bytes(np.ascontiguousarray(array)) for array in arrays if array.size]
    return [PREFIX.pack(MAGIC, len(header), payload) + header, *buffers]


def as_bytes(array: Any) -> memoryview:
    """The memory of a contiguous array, without a copy."""
    view: Any = array.reshape(-1).view(np.uint8)
    return memoryview(view)


def _without_arrays(value: Any, arrays: list[Any], depth: int) -> Any:
    """``value`` as plain JSON values, its arrays moved to ``arrays`` and replaced by their index."""
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if kind is dict or kind is list or kind is tuple or isinstance(value, (dict, list, tuple)):
        return _inside(value, arrays, depth)
    if isinstance(value, np.ndarray):
        if value.dtype.str not in DTYPES or value.ndim > MAX_DIMENSIONS:
            raise FrameError(
                f" is an array of {value.dtype} with {value.ndim} dimensions, which cannot be sent; "
                f"use one of {', '.join(sorted(DTYPES))}"
            )
        arrays.append(value)
        return {KEY: len(arrays) - 1}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise FrameError(f" is {value!r}; only finite numbers can be sent")
    if isinstance(value, (str, bool, int, float)):
        return value
    raise FrameError(f" is a {type(value).__name__}; only JSON values and NumPy arrays can be sent")


def _inside(value: Any, arrays: list[Any], depth: int) -> Any:
    """The same for what stands in a dict, list or tuple; an error gets its place from the inside out."""
    if depth > MAX_DEPTH:
        raise FrameError(f" is nested deeper than {MAX_DEPTH}")
    key: Any = None
    try:
        if not isinstance(value, dict):
            found = []
            for key, entry in enumerate(value):  # noqa: B007 - the error below names it
                found.append(_without_arrays(entry, arrays, depth + 1))
            return found
        fields = {}
        for key, entry in value.items():
            if not isinstance(key, str) or key == KEY:
                raise FrameError(f" is a key; keys must be text and not {KEY!r}")
            fields[key] = _without_arrays(entry, arrays, depth + 1)
        return fields
    except FrameError as error:
        raise FrameError(f"[{key!r}]{error}") from None


def _with_arrays(value: Any, arrays: list[Any]) -> Any:
    if isinstance(value, dict):
        index = value.get(KEY)
        if index is not None:
            if not isinstance(index, int) or not 0 <= index < len(arrays):
                raise FrameError(f"a message points at array {index!r} of {len(arrays)}")
            return arrays[index]
        return {key: _with_arrays(entry, arrays) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_arrays(entry, arrays) for entry in value]
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; a key that comes twice is no message of ours."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FrameError(f"a message has a key twice among {', '.join(key for key, _ in pairs)[:80]}")
    return found


def read_header(data: bytes, payload: int) -> tuple[Any, list[Any]]:
    """The body and the empty arrays to receive into. Raises `FrameError`; allocates nothing beyond ``payload``."""
    try:
        header: dict[str, Any] = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
        body, described = header["body"], header["arrays"]
        if len(described) > MAX_ARRAYS:
            raise FrameError(f"a message of {len(described)} arrays; the limit is {MAX_ARRAYS}")
        forms = [(str(dtype), tuple(int(size) for size in shape)) for dtype, shape in described]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FrameError(f"a message's header is broken: {type(error).__name__}: {error}") from error
    total = 0
    for dtype, shape in forms:
        if dtype not in DTYPES or len(shape) > MAX_DIMENSIONS or any(size < 0 for size in shape):
            raise FrameError(f"a message has an array of dtype {dtype!r} and shape {shape!r}")
        total += np.dtype(dtype).itemsize * math.prod(shape)
    if total != payload:
        raise FrameError(f"a message's arrays take {total} bytes, its payload has {payload}")
    return body, [np.empty(shape, dtype) for dtype, shape in forms]


class Channel:
    """One end of the connection. ``alive`` is asked while waiting: it may raise to end the wait."""

    def __init__(self, connection: socket.socket, alive: Callable[[], None] | None = None) -> None:
        """Take over a connected stream socket."""
        self._socket = connection
        self._alive = alive
        connection.settimeout(SLICE_S if alive else None)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)

    def send(self, value: Any, deadline: float = math.inf) -> None:
        """Send one message before ``deadline`` (`time.monotonic`).

        Raises `FrameError` with nothing sent, `ClosedError` or `DeadlineError`.
        """
        buffers = [memoryview(part) for part in encode(value)]
        while buffers:
            try:
                sent = self._socket.sendmsg(buffers)
            except socket.timeout:  # noqa: UP041 - not yet TimeoutError in Python 3.8
                self._wait(deadline)
                continue
            except OSError as error:
                raise ClosedError(f"the connection is closed: {error}") from error
            while buffers and sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            if sent:
                buffers[0] = buffers[0][sent:]

    def receive(self, deadline: float = math.inf) -> Any:
        """The next message. Raises `FrameError`, `ClosedError` or `DeadlineError`."""
        prefix = bytearray(PREFIX.size)
        self._fill(memoryview(prefix), deadline)
        magic, header_bytes, payload = PREFIX.unpack(prefix)
        if magic != MAGIC or header_bytes > MAX_HEADER_BYTES or payload > MAX_PAYLOAD_BYTES:
            raise FrameError(
                f"a message begins with {magic!r} and claims {header_bytes} header and {payload} payload bytes"
            )
        header = bytearray(header_bytes)
        self._fill(memoryview(header), deadline)
        body, arrays = read_header(bytes(header), payload)
        for array in arrays:
            if array.size:
                self._fill(as_bytes(array), deadline)
        return _with_arrays(body, arrays)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _fill(self, view: memoryview, deadline: float) -> None:
        while view:
            try:
                got = self._socket.recv_into(view)
            except socket.timeout:  # noqa: UP041
                self._wait(deadline)
                continue
            except OSError as error:
                raise ClosedError(f"the connection is closed: {error}") from error
            if got == 0:
                raise ClosedError("the other side closed the connection")
            view = view[got:]

    def _wait(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise DeadlineError("the deadline has passed")
        if self._alive is not None:
            self._alive()
