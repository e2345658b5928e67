"""openpi's protocol: metadata first, then one observation, one answer. An error is a text, and the connection's end.

A connection is a session of the policy. A new episode begins with its first observation, with ``reset: true``, with
another ``seed``, or with another ``prompt``; stock clients send none of the first two, and a new prompt or connection
serves them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from apps.server.conversation import Conversation, Decided
from apps.server.links import Link
from apps.server.observations import Request, read_request
from backbone.serving.codec import pack, unpack
from backbone.serving.errors import RequestError, WireError

if TYPE_CHECKING:
    from apps.server.service import Service

INTERNAL_ERROR = 1011


async def converse(link: Link, service: Service) -> None:
    """Serve one client until it leaves, breaks the protocol, or the policy fails it."""
    await service.settled.wait()
    await link.send(pack(service.metadata()))
    conversation = Conversation(service, link.gone)
    try:
        await _exchange(link, service, conversation)
    finally:
        conversation.end()


async def _exchange(link: Link, service: Service, conversation: Conversation) -> None:
    previous_ms: float | None = None
    while (frame := await link.receive()) is not None:
        began = time.perf_counter()
        try:
            decided = await _decide(frame, conversation, service)
        except RequestError as error:
            if error.code != "client_gone":
                await link.send(service.report(error, link.peer))
                await link.close(INTERNAL_ERROR, error.code)
            return
        await link.send(pack(_answer(decided, previous_ms)))
        previous_ms = (time.perf_counter() - began) * 1e3
        service.metrics.answered("openpi", previous_ms, decided.queue_ms, decided.infer_ms)


async def _decide(frame: str | bytes, conversation: Conversation, service: Service) -> Decided:
    if isinstance(frame, str):
        raise WireError("a text message came where a binary one is due; pack the observation with msgpack")

    def read(data: bytes) -> Request:
        return read_request(unpack(data, "openpi", service.config.limits), service.layout)

    request: Request = await service.decode(frame, read, pictures=False)
    episode, instruction = conversation.episode, request.observation.instruction
    other_seed = episode is not None and request.seed is not None and request.seed != episode.seed
    if episode is None or request.reset or other_seed or instruction != episode.instruction:
        conversation.begin(instruction, request.seed)
    return await conversation.decide(request.observation)


def _answer(decided: Decided, previous_ms: float | None) -> dict[str, Any]:
    timing = {"infer_ms": decided.infer_ms, "queue_ms": decided.queue_ms}
    if previous_ms is not None:
        timing["prev_total_ms"] = previous_ms
    return {
        "actions": decided.passed.values,
        "policy_timing": {"infer_ms": decided.infer_ms},
        "server_timing": timing,
        **decided.extras(),
    }
