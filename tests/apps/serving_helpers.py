"""Agents that behave and misbehave, and a served one with a raw WebSocket beside it."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

from apps.server.background import serving
from apps.server.config import ServerConfig
from apps.server.observations import Camera, ObservationLayout
from apps.server.server import PolicyServer
from backbone.contracts import ActionChunk, ActionSpec, Decision, Observation
from backbone.serving.codec import pack, unpack

SPEC = ActionSpec.make_example()  # forward 0 to 1, turn -1 to 1
LAYOUT = ObservationLayout({"front": Camera(8, 12)}, state=2, aliases={"observation/image": "images/front"})
SHORT = 1000  # characters of an error
QUICK = ServerConfig(port=0, deadline_s=5.0, grace_s=2.0)
Act = Callable[["Memory", Observation], Any]


class Memory:
    """A session's state as the functions below use it."""

    def __init__(self, instruction: str, seed: int) -> None:
        self.instruction, self.seed, self.steps, self.closed = instruction, seed, 0, 0


class FunctionAgent:
    """Acts by a function of its session's memory and the observation; remembers its sessions and what they saw."""

    def __init__(self, act: Act, spec: ActionSpec = SPEC) -> None:
        self.spec, self.function = spec, act
        self.sessions: list[Memory] = []
        self.seen: list[Observation] = []

    def session(self, instruction: str, seed: int) -> FunctionSession:
        memory = Memory(instruction, seed)
        self.sessions.append(memory)
        return FunctionSession(self, memory)


class FunctionSession:
    def __init__(self, agent: FunctionAgent, memory: Memory) -> None:
        self.agent, self.memory = agent, memory

    def act(self, observation: Observation) -> Decision:
        self.agent.seen.append(observation)
        result: Decision = self.agent.function(self.memory, observation)
        self.memory.steps += 1
        return result

    def close(self) -> None:
        self.memory.closed += 1


class BatchingAgent(FunctionAgent):
    """Also decides for several sessions at once, and counts how many."""

    batches: list[int]

    def act_many(self, sessions: list[FunctionSession], observations: list[Observation]) -> list[Decision]:
        self.__dict__.setdefault("batches", []).append(len(sessions))
        time.sleep(0.02)
        return [session.act(observation) for session, observation in zip(sessions, observations, strict=True)]


def chunk(*rows: tuple[float, ...], spec: ActionSpec = SPEC) -> Decision:
    return Decision(ActionChunk(np.array(rows, np.float32), spec))


def unchecked(values: Any) -> Decision:
    """A decision whose actions never met a contract, as a careless policy makes them."""
    decision = chunk((0.0, 0.0))
    object.__setattr__(decision.actions, "values", values)
    return decision


def remembering(memory: Memory, observation: Observation) -> Decision:
    """Depends on everything a session may depend on: its seed, instruction, steps so far, and what is seen."""
    noise = np.random.default_rng((memory.seed, memory.steps, len(memory.instruction))).uniform(0, 0.5)
    assert observation.state is not None
    return chunk((noise, observation.images["front"].mean() / 255.0), (float(observation.state[0]), 0.25))


def observation(number: int = 0, **more: Any) -> dict[str, Any]:
    generator = np.random.default_rng(number)
    return {
        "images/front": generator.integers(0, 256, (8, 12, 3), np.uint8),
        "state": generator.uniform(0, 1, 2).astype(np.float32),
        "prompt": "go",
        **more,
    }


@contextmanager
def served(
    act: Act | Any = remembering, layout: ObservationLayout = LAYOUT, config: ServerConfig = QUICK, **changes: Any
) -> Iterator[PolicyServer]:
    """A warm server of a function or of an agent on a free port."""
    agent = act if hasattr(act, "session") else FunctionAgent(act)
    with serving(PolicyServer(agent, layout, replace(config, **changes), about={"agent": "test"})) as server:
        yield server


class RawLink:
    """openpi's protocol by hand."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.metadata = unpack(connection.recv(10))

    def send(self, frame: bytes | str) -> None:
        self.connection.send(frame)

    def ask(self, value: Any) -> Any:
        self.send(value if isinstance(value, bytes | str) else pack(value))
        answer = self.connection.recv(10)
        return answer if isinstance(answer, str) else unpack(answer)


@contextmanager
def raw(server: PolicyServer, path: str = "/", **options: Any) -> Iterator[RawLink]:
    with connect(server.url + path, compression=None, max_size=None, close_timeout=1, **options) as connection:
        yield RawLink(connection)


class EvalLink:
    """vla-eval's protocol by hand."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection, self.seq = connection, 0

    def send(self, kind: str, payload: Any) -> int:
        self.seq += 1
        message = {"type": kind, "payload": payload, "seq": self.seq, "timestamp": time.time()}
        self.connection.send(pack(message, "vla-eval"))
        return self.seq

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = unpack(self.connection.recv(10), "vla-eval")
        return message

    def ask(self, kind: str, payload: Any) -> dict[str, Any]:
        seq = self.send(kind, payload)
        answer = self.receive()
        assert answer["seq"] == seq
        return answer


@contextmanager
def evaluator(server: PolicyServer, hello: bool = True) -> Iterator[EvalLink]:
    with connect(server.url + "/vla-eval", compression=None, close_timeout=1) as connection:
        link = EvalLink(connection)
        if hello:
            link.ask("hello", {"harness_version": "0", "protocol_version": 1})
        yield link


def get(server: PolicyServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def counter(server: PolicyServer, name: str) -> float:
    """A line of /metrics, such as ``fovea_errors_total{type="deadline"}``; 0 where there is none."""
    headers = {"Authorization": f"Bearer {server.config.token}"} if server.config.token else {}
    for line in get(server, "/metrics", **headers)[1].splitlines():
        if line.startswith(f"{name} "):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def soon(condition: Callable[[], bool], within_s: float = 10.0) -> bool:
    """Whether ``condition`` comes true in time."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


class Hanging:
    """Hangs where the instruction says so, until released; answers everybody else."""

    def __init__(self) -> None:
        self.release, self.entered = threading.Event(), threading.Event()

    def __call__(self, memory: Memory, seen: Observation) -> Decision:
        if memory.instruction.startswith("hang"):
            self.entered.set()
            self.release.wait(60)
            return chunk((0.9, 0.9))
        return chunk((0.1, 0.1))


def alone(numbers, instruction="go", seed=0):
    """What the policy says in process to these observations."""
    session = FunctionAgent(remembering).session(instruction, seed)
    seen = [observation(n) for n in numbers]
    return [
        session.act(Observation({"front": s["images/front"]}, instruction, s["state"])).actions.values for s in seen
    ]


def check_others(server):
    with raw(server) as link:
        assert link.ask(observation())["actions"].shape[1] == 2
    assert get(server, "/healthz")[0] == 200


def handshake(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port))
    link.sendall(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    return link


def websocket_message(data: bytes) -> bytes:
    """A whole message of less than 64 kB, masked with zeros."""
    return b"\x82\xfe" + struct.pack(">H", len(data)) + b"\0\0\0\0" + data
