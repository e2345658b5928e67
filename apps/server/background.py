"""A policy server in a thread of its own, for tests, benchmarks and programs that do other things besides."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from apps.server.server import PolicyServer


@contextmanager
def serving(server: PolicyServer) -> Iterator[PolicyServer]:
    """Start ``server``, wait until it is warm, and stop it afterwards; raises what `PolicyServer.start` raises."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fovea-server", daemon=True)
    thread.start()

    def run(coroutine: object) -> None:
        future: concurrent.futures.Future[None] = asyncio.run_coroutine_threadsafe(coroutine, loop)  # type: ignore[arg-type]
        future.result()

    try:
        run(server.start())
        try:
            run(server.ready())
            yield server
        finally:
            run(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
