"""What plain HTTP requests get: health, metrics, and a readable refusal on the sockets' paths."""

from __future__ import annotations

import hmac
from http import HTTPStatus
from typing import TYPE_CHECKING

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

if TYPE_CHECKING:
    from apps.server.service import Service

SOCKETS = {"/": "openpi", "/vla-eval": "vla-eval"}


def answer(connection: ServerConnection, request: Request, service: Service, connections: int) -> Response | None:
    """The response to a request that opens no socket; None lets the socket's handshake go on."""
    path = request.path.split("?", 1)[0]
    if path == "/healthz":
        return _health(connection, service, "OK\n")
    if path == "/health":
        return _typed(_health(connection, service, '{"status": "ok"}\n'), "application/json")
    if path not in SOCKETS and path != "/metrics":
        there = ", ".join(["/healthz", "/health", "/metrics", *(f"{path} (WebSocket)" for path in SOCKETS)])
        return connection.respond(HTTPStatus.NOT_FOUND, f"There is nothing at {path[:80]}. There are: {there}.\n")
    if not authorised(request.headers.get_all("Authorization"), service.config.token):
        service.metrics.errors.labels("unauthorized").inc()
        response = connection.respond(
            HTTPStatus.UNAUTHORIZED, "Send the server's token as `Authorization: Api-Key TOKEN` or `Bearer TOKEN`.\n"
        )
        response.headers["WWW-Authenticate"] = "Bearer"
        return response
    if path == "/metrics":
        return _typed(connection.respond(HTTPStatus.OK, service.metrics.text()), service.metrics.content_type)
    if "upgrade" not in (request.headers.get("Connection") or "").lower():
        return _not_a_socket(connection, path)
    if service.stopping or connections >= service.config.max_connections:
        why = "shutting down" if service.stopping else f"full: {connections} clients are connected"
        service.metrics.errors.labels("shutting_down" if service.stopping else "full").inc()
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"The server is {why}.\n")
    return None


def authorised(headers: list[str], token: str | None) -> bool:
    """Whether one of the Authorization headers holds the token, compared in constant time."""
    if token is None:
        return True
    wanted = token.encode()
    for header in headers:
        scheme, _, given = header.partition(" ")
        if scheme.lower() in ("api-key", "bearer") and hmac.compare_digest(given.strip().encode(), wanted):
            return True
    return False


def _health(connection: ServerConnection, service: Service, well: str) -> Response:
    trouble = service.trouble
    if trouble is None:
        return connection.respond(HTTPStatus.OK, well)
    return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{trouble}\n")


def _not_a_socket(connection: ServerConnection, path: str) -> Response:
    response = connection.respond(
        HTTPStatus.UPGRADE_REQUIRED,
        f"This is a robot policy server; {path} speaks {SOCKETS[path]}'s protocol over WebSocket, not HTTP.\n"
        "Connect with openpi-client, vla-eval or fovea's PolicyClient. GET /healthz says whether it is ready.\n",
    )
    response.headers["Upgrade"] = "websocket"
    return response


def _typed(response: Response, content_type: str) -> Response:
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = content_type
    return response
