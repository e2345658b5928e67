"""The policy server: listening, warming up, and going away in good order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from apps.server import http, openpi, vla_eval
from apps.server.config import ServerConfig
from apps.server.links import Link
from apps.server.observations import ObservationLayout
from apps.server.service import Service
from backbone.contracts import Agent, Observation
from backbone.errors import ServerError
from backbone.serving.errors import RequestError

logger = logging.getLogger("fovea.server")
HANDLERS = {"openpi": openpi.converse, "vla-eval": vla_eval.converse}
QUEUE_FRAMES = 2  # of a client that sends faster than it is answered; more stay in its own socket
HANDSHAKE_S, CLOSE_S = 10.0, 2.0


def check_address(config: ServerConfig) -> None:
    """Raise `ServerError` where nobody could listen, before minutes go into a world or a policy; port 0 always can."""
    try:
        found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, number, _, address in found:
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as asyncio does
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except OSError as error:
        raise ServerError(_cannot_listen(config, error)) from error


class PolicyServer:
    """Serves one agent. ``await start()``, then ``await stop()``; or `run`, which stops on SIGINT and SIGTERM."""

    def __init__(
        self,
        agent: Agent,
        layout: ObservationLayout,
        config: ServerConfig | None = None,
        *,
        about: dict[str, str] | None = None,
        example: Observation | None = None,
    ) -> None:
        """``example`` is what the policy is warmed up with; black pictures and zeros without one."""
        self._agent, self._layout, self._example = agent, layout, example
        self.config, self._about = config or ServerConfig(), about or {}
        self.service: Service
        self._server: Server
        self._warming: asyncio.Task[None]
        self._links: set[Link] = set()

    @property
    def port(self) -> int:
        """The port listened on."""
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The address for clients on this machine."""
        host = self.config.host
        return f"ws://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Listen, and warm the policy up; until it is warm, clients wait and ``/healthz`` says 503.

        Raises:
            ServerError: the port is taken, or the host is none of this machine's.
            ConfigError: the agent cannot be served.
        """
        config = self.config
        self.service = Service(self._agent, self._layout, config, self._about, self._example)
        try:
            self._server = await serve(
                self._handle,
                config.host,
                config.port,
                process_request=self._process_request,
                compression=None,
                max_size=config.limits.max_bytes,
                max_queue=QUEUE_FRAMES,
                open_timeout=HANDSHAKE_S,
                close_timeout=CLOSE_S,
                ping_interval=config.ping_interval_s,
                ping_timeout=config.ping_timeout_s,
                server_header=None,
                logger=logging.getLogger("fovea.server.websockets"),
            )
        except OSError as error:
            self.service.close()
            raise ServerError(_cannot_listen(config, error)) from error
        self._warming = asyncio.ensure_future(self.service.warm_up())

    async def ready(self) -> None:
        """Wait for the warm-up; raises `ServerError` if the policy failed it."""
        await self._warming

    async def stop(self) -> None:
        """Refuse new clients, let requests under way be answered for ``grace_s``, close all, end the threads."""
        service = self.service
        service.stopping = True
        service.settled.set()
        self._warming.cancel()
        closing = [task for link in list(self._links) if (task := link.leave()) is not None]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.grace_s):
                if closing:
                    await asyncio.wait(closing)
                while self._links or service.workers.depth:
                    await asyncio.sleep(0.01)
        self._server.close()
        for link in list(self._links):
            link.abort()
        await self._server.wait_closed()
        service.close()

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGINT or SIGTERM; ``on_ready`` is called once warm. Raises what `start` and `ready` raise."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        await self.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        try:
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait((self._warming, stopped), return_when=asyncio.FIRST_COMPLETED)
            if self._warming.done():
                await self._warming
                on_ready()
            await stopped
            logger.info("stopping")
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
            await self.stop()

    def _process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        if getattr(request, "method", "GET") != "GET":
            return connection.respond(HTTPStatus.METHOD_NOT_ALLOWED, "GET, or a WebSocket; nothing else.\n")
        return http.answer(connection, request, self.service, len(self._links))

    async def _handle(self, connection: ServerConnection) -> None:
        service, request = self.service, connection.request
        assert request is not None  # noqa: S101 - the handshake read it
        protocol = http.SOCKETS[request.path.split("?", 1)[0]]
        link = Link(connection, idle_s=self.config.idle_s, send_s=self.config.deadline_s)
        self._links.add(link)
        gauge: Any = service.metrics.connections.labels(protocol)
        gauge.inc()
        try:
            await HANDLERS[protocol](link, service)
            if link.oversize:
                limit = self.config.limits.max_bytes
                service.report(RequestError("too_large", f"a message exceeds {limit} bytes"), link.peer)
        except Exception as error:  # a defect of ours must neither end the server nor reach a client as a traceback
            report = RequestError("internal", f"internal error: {type(error).__name__}")
            report.__cause__ = error
            await link.send(service.report(report, link.peer))
            await link.close(openpi.INTERNAL_ERROR, "internal")
        finally:
            self._links.discard(link)
            gauge.dec()


def _cannot_listen(config: ServerConfig, error: OSError) -> str:
    """What is wrong with the address: asyncio wraps the system's error in words of its own."""
    remedies = {
        errno.EADDRINUSE: ("the port is taken", "choose another --port, or end the server that runs there"),
        errno.EADDRNOTAVAIL: ("no address of this machine", "choose another --host: 127.0.0.1, or 0.0.0.0 for all"),
        errno.EACCES: ("not permitted", "ports below 1024 belong to the administrator; choose a higher --port"),
    }
    if isinstance(error, socket.gaierror):
        why, remedy = f"no such host: {error.strerror}", "check --host"
    else:
        why, remedy = remedies.get(error.errno or 0, (error.strerror or str(error), "check --host and --port"))
    return f"cannot listen on {config.host}:{config.port}: {why}; {remedy}"
