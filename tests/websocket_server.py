"""A WebSocket server in a thread, for tests of clients and of checkers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

Handler = Callable[[ServerConnection], object]


@contextmanager
def listening(handler: Handler, port: int = 0, **options: Any) -> Iterator[str]:
    """A server whose connections are handled by ``handler``; gives its address."""

    def quiet(connection: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            handler(connection)

    with serve(quiet, "127.0.0.1", port, compression=None, max_size=None, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()
