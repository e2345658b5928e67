"""vla-eval's protocol, version 1: the client speaks first, every message has a number, errors are messages.

An episode begins with ``episode_start``. Observations outside of one are refused rather than answered from an empty
memory: a client that lost its connection in the middle of an episode would otherwise go on with another policy state
and never know. A client gets one action (A,) for an observation; ``execute`` actions of a chunk are given out before
the policy is asked again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apps.server.conversation import Conversation, Decided
from apps.server.links import Link
from apps.server.observations import Request, read_request, read_seed
from backbone.contracts import FloatArray
from backbone.serving.codec import pack, unpack
from backbone.serving.errors import RequestError, WireError

if TYPE_CHECKING:
    from apps.server.service import Service

PROTOCOL_VERSION = 1
TYPES = ("hello", "observation", "action", "episode_start", "episode_end", "error")
INSTRUCTION_KEYS = ("task_description", "instruction", "prompt", "language")


@dataclass
class _Dialogue:
    conversation: Conversation
    instruction: str | None = None
    planned: deque[FloatArray] = field(default_factory=deque)  # actions of the last chunk still to be given out
    last: Decided | None = None
    reason: str = "send episode_start first (after a lost connection too: the policy remembers nothing of before)"


async def converse(link: Link, service: Service) -> None:
    """Serve one client until it leaves; it is never cut off for an error."""
    await service.settled.wait()
    dialogue = _Dialogue(Conversation(service, link.gone))
    try:
        while (frame := await link.receive()) is not None:
            began, message = time.perf_counter(), {}
            try:
                message = await service.decode(frame, _reader(service), pictures=True)  # type: ignore[arg-type]
                reply = await _reply(message, dialogue, service, began)
            except RequestError as error:
                if error.code == "client_gone":
                    return
                reply = ("error", {"error": service.report(error, link.peer)})
            if reply is not None:
                number = message.get("seq", 0)
                await link.send(_message(*reply, number if isinstance(number, int) else 0))
    finally:
        dialogue.conversation.end()


def _reader(service: Service) -> Any:
    def read(frame: str | bytes) -> dict[str, Any]:
        if isinstance(frame, str):
            raise WireError("a text message came where a binary one is due; pack the message with msgpack")
        message = unpack(frame, "vla-eval", service.config.limits)
        fields = ("type", "payload", "seq", "timestamp")
        if not isinstance(message, dict) or any(name not in message for name in fields):
            raise WireError(f"a message needs {', '.join(fields)}; is this an openpi client? It belongs on the path /")
        return message

    return read


async def _reply(
    message: dict[str, Any], dialogue: _Dialogue, service: Service, began: float
) -> tuple[str, dict[str, Any]] | None:
    kind, payload = message["type"], message["payload"]
    if kind not in TYPES or not isinstance(payload, Mapping) or isinstance(message["seq"], bool):
        raise WireError(f"unknown message type {kind!r:.40}; there are {', '.join(TYPES)}, each with a map as payload")
    if not isinstance(message["seq"], int):
        raise WireError(f"seq must be a whole number, got {message['seq']!r:.40}")
    if kind == "hello":
        return "hello", _hello(payload, service)
    if kind == "episode_start":
        _start(payload, dialogue)
    elif kind == "episode_end":
        dialogue.conversation.end()
        dialogue.planned.clear()
    elif kind == "observation":
        return "action", await _act(payload, dialogue, service, began)
    elif kind == "action":
        raise WireError("actions come from the server; send observations")
    return None


def _hello(payload: Mapping[str, Any], service: Service) -> dict[str, Any]:
    spoken = payload.get("protocol_version", PROTOCOL_VERSION)
    if spoken != PROTOCOL_VERSION:
        raise RequestError(
            "bad_version", f"protocol version {spoken!r:.20} is not {PROTOCOL_VERSION}, the one spoken here"
        )
    spec = service.agent.spec
    metadata = service.metadata()
    return {
        "harness_version": metadata["server"],
        "protocol_version": PROTOCOL_VERSION,
        "model_server": str(service.about.get("agent", type(service.agent).__name__)),
        "capabilities": {},
        "action_spec": {
            name: {"name": name, "dims": 1, "format": unit, "range": [low, high]}
            for name, unit, low, high in zip(spec.names, spec.units, spec.low, spec.high, strict=True)
        },
        "fovea": metadata,
    }


def _start(payload: Mapping[str, Any], dialogue: _Dialogue) -> None:
    """``task`` may give the instruction and a seed; both may also come beside it."""
    task = payload.get("task")
    known = {**(task if isinstance(task, Mapping) else {}), **payload}
    texts = [known[key] for key in INSTRUCTION_KEYS if isinstance(known.get(key), str)]
    seed = read_seed(known.get("seed"))
    dialogue.instruction = texts[0] if texts else None
    dialogue.planned.clear()
    dialogue.conversation.begin(dialogue.instruction or "", seed)


async def _act(payload: Mapping[str, Any], dialogue: _Dialogue, service: Service, began: float) -> dict[str, Any]:
    conversation = dialogue.conversation
    if conversation.episode is None:
        raise RequestError("no_episode", dialogue.reason)
    request: Request = read_request(payload, service.layout, dialogue.instruction)
    if not conversation.episode.opened:  # the instruction came with the first observation, not with the start
        conversation.episode.instruction = request.observation.instruction
    if not dialogue.planned:
        try:
            dialogue.last = await conversation.decide(request.observation)
        except RequestError:
            dialogue.planned.clear()
            raise
        dialogue.planned.extend(dialogue.last.passed.values[: service.config.execute])
    assert dialogue.last is not None  # noqa: S101 - planned actions come from a decision
    total_ms = (time.perf_counter() - began) * 1e3
    service.metrics.answered("vla-eval", total_ms, dialogue.last.queue_ms, dialogue.last.infer_ms)
    return {"actions": dialogue.planned.popleft(), "infer_ms": dialogue.last.infer_ms, **dialogue.last.extras()}


def _message(kind: str, payload: dict[str, Any], seq: int) -> bytes:
    return pack({"type": kind, "payload": payload, "seq": seq, "timestamp": time.time()}, "vla-eval")
