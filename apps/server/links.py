"""A WebSocket connection as the protocols use it: bounded in every wait, and aware that its client may vanish."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

GOING_AWAY, TOO_BIG = 1001, 1009


class Link:
    """One client. ``gone`` is done when its connection is."""

    def __init__(self, connection: ServerConnection, *, idle_s: float, send_s: float) -> None:
        """``idle_s`` bounds the wait for a whole message, ``send_s`` the wait for a client that does not read."""
        self._connection, self._idle_s, self._send_s = connection, idle_s, send_s
        self.gone: asyncio.Future[Any] = asyncio.ensure_future(connection.wait_closed())
        self.busy = self.leaving = False
        self.oversize = False
        address = connection.remote_address
        self.peer = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)

    async def receive(self) -> str | bytes | None:
        """The next whole message; None once the client has left, was silent for too long, or the server stops."""
        self.busy = False
        if self.leaving:
            await self.close(GOING_AWAY, "the server is shutting down")
            return None
        try:
            async with asyncio.timeout(self._idle_s):
                frame = await self._connection.recv()
        except TimeoutError:
            await self.close(GOING_AWAY, f"no whole message for {self._idle_s:g} s")
            return None
        except ConnectionClosed as closed:
            self.oversize = closed.sent is not None and closed.sent.code == TOO_BIG
            return None
        self.busy = True
        return frame

    async def send(self, message: str | bytes) -> None:
        """Send; a client that does not read what it is sent is cut off."""
        try:
            async with asyncio.timeout(self._send_s):
                await self._connection.send(message)
        except TimeoutError:
            self._connection.transport.abort()
        except ConnectionClosed:
            pass  # it left; `frames` ends by itself

    async def close(self, code: int, reason: str) -> None:
        """Close with a reason of at most 123 bytes, as the protocol has it."""
        with contextlib.suppress(ConnectionClosed):
            await self._connection.close(code, reason.encode()[:120].decode("utf-8", "ignore"))

    def leave(self) -> asyncio.Task[None] | None:
        """The server stops: end now if idle, after the present answer if not."""
        self.leaving = True
        return None if self.busy else asyncio.ensure_future(self.close(GOING_AWAY, "the server is shutting down"))

    def abort(self) -> None:
        """Cut the connection."""
        self._connection.transport.abort()
