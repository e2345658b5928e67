"""HTTP to an OpenAI-compatible server: explicit timeouts, bounded retries, server-sent events, typed errors.

Requests run as tasks of one background event loop, so that cancelling closes the connection at any point of a call
(the server then stops generating) and closing the client never waits for the server.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import httpx

from backbone.errors import CancelledError, RemoteError
from backbone.remote.failures import Failures, kind, said

BACKOFF_S = 0.25  # doubled with every retry
LONGEST_WAIT_S = 5.0  # a server's Retry-After is honoured up to this
ERROR_BYTES = 4096  # of an error's body that are read and quoted
BODY_BYTES = 64 * 1024 * 1024  # of a reply that is not streamed
POLL_S = 0.02  # how often a waiting caller looks at its cancel event
RETRIED = (429, 503)
LOOPBACK = ("127.0.0.1", "localhost", "::1")

Event = dict[str, Any]


class Transport:
    """A client of one server, usable from several threads. ``url`` is the API's root, ending in ``/v1``."""

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float,
        timeout_s: float,
        retries: int,
        concurrency: int,
        api_key: str | None,
    ) -> None:
        """Start the client's event loop; nothing is sent yet. ``timeout_s`` bounds every wait for the server."""
        self.url = url
        self._failures = Failures(url)
        self.error = self._failures.error
        self.timeout_s, self.connect_timeout_s, self.retries = timeout_s, connect_timeout_s, retries
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=connect_timeout_s),
            limits=httpx.Limits(max_connections=concurrency + 1),
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            trust_env=httpx.URL(url).host not in LOOPBACK,  # a proxy cannot reach this machine's own ports
        )
        self._slots = asyncio.Semaphore(concurrency)
        self._loop = asyncio.new_event_loop()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"remote {url}", daemon=True)
        self._thread.start()

    def get_json(self, path: str) -> Any:
        """The parsed body of ``GET path``; raises `RemoteError`."""
        return self._run([self._get(path)], threading.Event())[0]

    def stream(
        self,
        bodies: Sequence[Event],
        on_event: Callable[[int, float, Event], None],
        cancel: threading.Event | None = None,
    ) -> list[float]:
        """POST every body to ``/chat/completions`` at once and hand over what comes back, in the caller's thread.

        ``on_event(i, milliseconds, event)`` gets each event of body ``i`` with the time since its request began.
        Returns the milliseconds that each request took. The first failure, an exception of ``on_event``, and
        ``cancel`` end all of them.

        Raises:
            RemoteError: the server cannot be reached, is too slow, or breaks the protocol; or `close` was called.
            CancelledError: ``cancel`` was set.
        """
        events: queue.SimpleQueue[tuple[int, float, Event]] = queue.SimpleQueue()
        woken = threading.Event()

        def put(index: int, milliseconds: float, event: Event) -> None:
            events.put((index, milliseconds, event))
            woken.set()

        def pump() -> None:
            with contextlib.suppress(queue.Empty):
                while True:
                    on_event(*events.get_nowait())

        tasks = [self._post(index, body, put) for index, body in enumerate(bodies)]
        return self._run(tasks, woken, cancel, pump)

    def close(self) -> None:
        """End what is running and free the connections; returns at once. Closing twice is allowed."""
        if self._closed.is_set():
            return
        self._closed.set()
        asyncio.run_coroutine_threadsafe(self._shutdown(), self._loop)
        self._thread.join(timeout=1.0)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(
        self,
        coroutines: Sequence[Coroutine[Any, Any, Any]],
        woken: threading.Event,
        cancel: threading.Event | None = None,
        pump: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """Run coroutines on the loop and wait for all; ``pump`` is called in this thread whenever ``woken`` is set."""
        if self._closed.is_set():
            for coroutine in coroutines:
                coroutine.close()
            raise self.error("this client was closed; load the model again")
        futures = [asyncio.run_coroutine_threadsafe(coroutine, self._loop) for coroutine in coroutines]
        for future in futures:
            future.add_done_callback(lambda _: woken.set())
        try:
            while True:
                finished = all(future.done() for future in futures)
                pump()
                for future in futures:
                    if future.done():
                        self._result(future)  # raises the first failure without waiting for the others
                if finished:
                    return [self._result(future) for future in futures]
                if self._closed.is_set() and not self._thread.is_alive():  # closed between the check above and now
                    raise self.error("this client was closed while a request was running")
                if cancel is not None and cancel.is_set():
                    raise CancelledError(f"model server {self.url}: cancelled; the text generated so far was discarded")
                woken.wait(POLL_S)
                woken.clear()
        finally:
            for future in futures:
                future.cancel()

    def _result(self, future: concurrent.futures.Future[Any]) -> Any:
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise self.error("this client was closed while a request was running") from None

    async def _shutdown(self) -> None:
        tasks = asyncio.all_tasks(self._loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()
        self._loop.stop()

    async def _get(self, path: str) -> Any:
        async with self._slots, self._opened("GET", path, None) as response:
            return await self._whole(response)

    async def _post(self, index: int, body: Event, put: Callable[[int, float, Event], None]) -> float:
        async with self._slots:
            began = time.perf_counter()
            async with self._opened("POST", "/chat/completions", body) as response:
                if "text/event-stream" in response.headers.get("content-type", ""):
                    async for event in self._events(response):
                        put(index, (time.perf_counter() - began) * 1e3, event)
                else:  # a server that does not stream answers in one piece
                    event = await self._whole(response)
                    put(index, (time.perf_counter() - began) * 1e3, event)
            return (time.perf_counter() - began) * 1e3

    @contextlib.asynccontextmanager
    async def _opened(self, method: str, path: str, body: Event | None) -> AsyncIterator[httpx.Response]:
        """A response with status 200, its body still unread; every HTTP failure inside becomes a RemoteError."""
        try:
            response = await self._send(method, path, body)
            try:
                yield response
            finally:
                await response.aclose()
        except httpx.ConnectTimeout:
            raise self.error(
                f"no connection within {self.connect_timeout_s:g} s; is the host right and reachable?"
            ) from None
        except (httpx.TimeoutException, TimeoutError):
            raise self.error(
                f"nothing came for {self.timeout_s:g} s after {method} {path}; the server is overloaded or "
                "still loading: raise timeout_s, or ask for fewer tokens"
            ) from None
        except httpx.HTTPError as error:
            raise self.error(
                f"the connection broke off during {method} {path} ({kind(error)}); is it still up?"
            ) from None

    async def _send(self, method: str, path: str, body: Event | None) -> httpx.Response:
        """Send, and again after a failed connection or a 429 or 503: nothing of an answer has been read by then."""
        for attempt in range(self.retries + 1):
            wait_s = BACKOFF_S * 2**attempt
            try:
                response = await self._client.send(
                    self._client.build_request(method, self.url + path, json=body), stream=True
                )
            except httpx.ConnectTimeout:
                raise
            except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                failure = self._failures.unreachable(error, self.retries + 1)
            else:
                if response.status_code == httpx.codes.OK:
                    return response
                failure = await self._refusal(response, path)
                if response.status_code not in RETRIED:
                    raise failure
                wait_s = _retry_after(response, wait_s)
            if attempt < self.retries:
                await asyncio.sleep(wait_s)
        raise failure

    async def _refusal(self, response: httpx.Response, path: str) -> RemoteError:
        """What to say about a status other than 200; reads a little of the body and closes the response."""
        try:
            text = (await self._body(response, ERROR_BYTES, cut=True)).decode("utf-8", "replace")
        finally:
            await response.aclose()
        return self._failures.refused(path, response.status_code, response.reason_phrase, text)

    async def _events(self, response: httpx.Response) -> AsyncIterator[Event]:
        """The JSON objects of a stream of server-sent events; raises unless it ends with ``[DONE]``."""
        async for line in self._lines(response):
            field, _, data = line.partition(b":")
            if field != b"data":  # comments (keep-alive), event names, blank lines
                continue
            if data.strip() == b"[DONE]":
                return
            yield self._parsed(data, response)
        raise self.error("the stream ended without [DONE]; the server stopped while generating: see its log")

    async def _lines(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Lines that end in a line feed. httpx's own also end at U+2028 and its like, which JSON text may contain."""
        rest = b""
        async for piece in response.aiter_bytes():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line
            if len(rest) > BODY_BYTES:
                raise self.error(
                    f"the stream has a line longer than {BODY_BYTES} bytes; this is no OpenAI-compatible API"
                )
        if rest:
            yield rest

    async def _whole(self, response: httpx.Response) -> Any:
        async with asyncio.timeout(self.timeout_s):  # a body that drips in would pass the timeout between two reads
            return self._parsed(await self._body(response, BODY_BYTES), response)

    async def _body(self, response: httpx.Response, limit: int, cut: bool = False) -> bytes:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > limit:
                if cut:
                    break
                raise self.error(f"the answer is longer than {limit} bytes; this is no OpenAI-compatible API")
        return bytes(body[:limit])

    def _parsed(self, data: bytes, response: httpx.Response) -> Any:
        try:
            value = json.loads(data)
        except ValueError:
            raise self._failures.not_json(response.url.path, data, response.headers.get("content-type")) from None
        if not isinstance(value, dict):
            raise self.error(f"{response.url.path} answered JSON of type {type(value).__name__}; expected an object")
        if value.get("error"):
            raise self.error(f"{response.url.path} reported: {said(json.dumps(value))}")
        return value


def _retry_after(response: httpx.Response, otherwise: float) -> float:
    """Seconds the server asks to wait, at most `LONGEST_WAIT_S`; dates and nonsense count as not said."""
    try:
        return min(max(float(response.headers.get("retry-after", otherwise)), 0.0), LONGEST_WAIT_S)
    except ValueError:
        return otherwise
