"""A client for openpi's protocol, with openpi's interface, that never hangs and never mistakes a late answer.

``infer`` after a timeout or a lost connection connects anew. The new connection is a new episode to the server, which
is why the failure is raised rather than hidden by a retry.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import ClientConnection, connect

from backbone.errors import ConfigError, DataError
from backbone.serving.codec import pack, unpack
from backbone.serving.errors import (
    AnswerError,
    ConnectionLostError,
    NoAnswerError,
    RefusedError,
    UnreachableError,
    WireError,
)
from backbone.serving.scan import WireLimits

CLOSE_S = 0.2  # a closing handshake is polite; nothing is waited for longer than this
BACKOFF_S = 0.2
ANSWERS = WireLimits(max_bytes=256 * 2**20, max_values=200_000)


def server_address(uri: str) -> str:
    """``[ws://|wss://]HOST:PORT`` with its scheme; raises `ConfigError` for anything else."""
    whole = uri if "://" in uri else f"ws://{uri}"
    try:
        scheme, host, _ = urlsplit(whole).scheme, urlsplit(whole).hostname, urlsplit(whole).port
    except ValueError as error:
        raise ConfigError(f"{uri}: no address ({error}); write ws://HOST:PORT") from error
    if scheme not in ("ws", "wss"):
        raise ConfigError(f"{uri}: a policy server's address begins with ws:// or wss://")
    if not host:
        raise ConfigError(f"{uri!r} names no host; write ws://HOST:PORT")
    return whole


class PolicyClient:
    """One connection, which is one session of the policy. Not for use by several threads at once.

    ``uri`` is ``ws://HOST:PORT`` (or ``wss://``, or ``HOST:PORT``). ``retries`` are further attempts to connect, with
    growing pauses; a request is never sent twice. ``token`` goes into the Authorization header.

    Raises:
        UnreachableError: nobody listens there, or something else than a policy server answers.
        RefusedError: the server turned this client away; the message has its reason.
        NoAnswerError: no metadata within ``timeout_s`` of connecting.
    """

    def __init__(
        self,
        uri: str,
        *,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        retries: int = 0,
        token: str | None = None,
    ) -> None:
        """Connect, and wait for the server's metadata."""
        if timeout_s <= 0 or connect_timeout_s <= 0 or retries < 0:
            raise ConfigError(f"timeouts must be positive and retries not negative: {timeout_s}, {connect_timeout_s}")
        self.uri = server_address(uri)
        self.timeout_s, self.connect_timeout_s, self.retries = timeout_s, connect_timeout_s, retries
        self._headers = {"Authorization": f"Api-Key {token}"} if token else {}
        self._connection: ClientConnection | None = None
        self._metadata: dict[str, Any] = {}
        self._reset = False
        self._open()

    def get_server_metadata(self) -> dict[str, Any]:
        """What the server said about itself when this client connected last."""
        return self._metadata

    def infer(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        """The server's answer to one observation; ``actions`` is an array (H, A).

        Raises:
            NoAnswerError: no answer in ``timeout_s``; this connection and its episode are given up.
            ConnectionLostError: the server went away before it answered.
            AnswerError: the server answered with an error.
            UnreachableError, RefusedError: connecting anew after such a failure failed.
            DataError: ``obs`` is no map of texts to values; nothing was sent.
        """
        if not isinstance(obs, Mapping) or not all(isinstance(key, str) for key in obs):
            raise DataError(
                f"an observation must be a map of keys to values, got {_shown(obs)}; the server's metadata "
                "(get_server_metadata) may list its keys under `observation_keys`"
            )
        if self._connection is None:
            self._open()
        frame = dict(obs)
        if self._reset and self._metadata.get("resets"):
            frame["reset"] = True
        answer = self._exchange(pack(frame))
        self._reset = False
        if isinstance(answer, str):
            self.close()
            raise AnswerError(f"{self.uri} answered with an error: {answer.strip()[-1500:]}")
        result = self._unpack(answer)
        if not isinstance(result, dict):
            self.close()
            raise AnswerError(f"{self.uri} answered with a {type(result).__name__}; expected a map with `actions`")
        return result

    def reset(self) -> None:
        """Let the next observation begin a new episode, where the server knows resets (Fovea's do)."""
        self._reset = True

    def close(self) -> None:
        """End the connection at once; a later ``infer`` opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it may be broken in any way; it is given up in any case
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _exchange(self, frame: bytes) -> str | bytes:
        connection = self._connection
        assert connection is not None  # noqa: S101 - `infer` opened it
        try:
            connection.send(frame)
            return connection.recv(self.timeout_s)
        except (TimeoutError, BlockingIOError) as error:
            self.close()
            raise NoAnswerError(
                f"{self.uri} gave no answer in {self.timeout_s:g} s; the connection was closed. Is the policy slower "
                "than that? Raise timeout_s, or look at the server's /healthz and log"
            ) from error
        except (ConnectionClosed, OSError) as error:
            self.close()
            raise ConnectionLostError(
                f"{self.uri} ended the connection before it answered ({error}); the episode is lost, the next call "
                "connects anew. Look at the server's log"
            ) from error

    def _unpack(self, answer: bytes) -> Any:
        try:
            return unpack(answer, "openpi", ANSWERS)
        except WireError as error:
            self.close()
            raise AnswerError(f"{self.uri} does not speak openpi's protocol: {error}") from error

    def _open(self) -> None:
        for attempt in range(self.retries + 1):
            try:
                self._connection = self._connect()
                break
            except UnreachableError:
                if attempt == self.retries:
                    raise
                time.sleep(BACKOFF_S * 2 ** min(attempt, 5))
        connection = self._connection
        assert connection is not None  # noqa: S101 - the loop ends by break or raise
        try:
            first = connection.recv(self.timeout_s)
        except TimeoutError as error:
            self.close()
            raise NoAnswerError(
                f"{self.uri} took the connection and said nothing for {self.timeout_s:g} s; a policy server speaks "
                "first. Is it still loading its policy, or another kind of server (vla-eval: path /vla-eval)?"
            ) from error
        except (ConnectionClosed, OSError) as error:
            self.close()
            raise UnreachableError(f"{self.uri} took the connection and ended it at once ({error})") from error
        metadata = first if isinstance(first, str) else self._unpack(first)
        if not isinstance(metadata, dict):
            self.close()
            raise AnswerError(f"{self.uri} began with {metadata!r:.300}; expected a map of metadata")
        self._metadata = metadata

    def _socket(self) -> socket.socket:
        """A connected socket whose sends end too: a server that stops reading must not hold the caller."""
        parts = urlsplit(self.uri)
        port = parts.port or (443 if parts.scheme == "wss" else 80)
        sock = socket.create_connection((parts.hostname, port), self.connect_timeout_s)
        whole = int(self.timeout_s)
        sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", whole, int((self.timeout_s - whole) * 1e6))
        )
        sock.settimeout(None)
        return sock

    def _connect(self) -> ClientConnection:
        try:
            return connect(
                self.uri,
                sock=self._socket(),
                additional_headers=self._headers,
                compression=None,
                open_timeout=self.connect_timeout_s,
                close_timeout=CLOSE_S,
                ping_interval=None,  # our own timeouts decide; a ping would cut a long inference off
                max_size=ANSWERS.max_bytes,
                proxy=None,
            ).__enter__()
        except InvalidStatus as error:
            raise _turned_away(self.uri, error) from error
        except InvalidURI as error:
            raise ConfigError(f"{self.uri}: {error}; write ws://HOST:PORT") from error
        except TimeoutError as error:
            raise UnreachableError(
                f"{self.uri} did not answer in {self.connect_timeout_s:g} s; check host, port, network and firewall"
            ) from error
        except ConnectionRefusedError as error:
            raise UnreachableError(f"{self.uri}: nobody listens there; start the server, or check the port") from error
        except (InvalidHandshake, ConnectionClosed, EOFError, ValueError, AssertionError) as error:
            # AssertionError: the library's own, where the other side closes while the handshake is being sent
            raise UnreachableError(
                f"{self.uri}: something answers there that is no WebSocket server ({_root(error)}); check the port"
            ) from error
        except OSError as error:
            raise UnreachableError(f"{self.uri}: cannot connect ({error}); check host name and network") from error


def _turned_away(uri: str, error: InvalidStatus) -> UnreachableError | RefusedError:
    status = error.response.status_code
    said = bytes(error.response.body or b"").decode("utf-8", "replace").strip()[:300]
    if status in (401, 403):
        return RefusedError(f"{uri} refused this client (HTTP {status}: {said}); give the server's token")
    if status == 503:
        return RefusedError(f"{uri} takes no more clients now (HTTP 503: {said}); try again later")
    return UnreachableError(
        f"{uri} answered HTTP {status} ({said!r}) instead of a WebSocket; wrong port, path or a proxy?"
    )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a map with the key {next(key for key in value if not isinstance(key, str))!r:.80}"
    return f"a {type(value).__name__} ({value!r:.80})"


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"[:300]
