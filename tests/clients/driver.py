"""Runs inside a client's own environment: the client's own loop drives a world that lives at the other end of a pipe.

Needs the client, NumPy and msgpack, nothing of Fovea. ``python driver.py openpi|vla-eval URL EPISODES`` asks on stdout
for ``reset`` and ``step`` and reads the answers on stdin, each a length of four bytes and a msgpack map.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from typing import Any

import msgpack
import numpy as np


def pack(value: Any) -> bytes:
    body: bytes = msgpack.packb(value, default=_array)
    return struct.pack(">I", len(body)) + body


def read(stream: Any) -> Any:
    head = stream.read(4)
    if len(head) < 4:
        raise EOFError("the other end of the pipe is gone")
    return msgpack.unpackb(stream.read(struct.unpack(">I", head)[0]), object_hook=_from_array, strict_map_key=False)


def _array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"__array__": value.dtype.str, "shape": value.shape, "data": value.tobytes()}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


def _from_array(found: dict[Any, Any]) -> Any:
    if "__array__" in found:
        return np.frombuffer(found["data"], found["__array__"]).reshape(found["shape"]).copy()
    return found


class Pipe:
    """The world at the other end."""

    def __init__(self) -> None:
        self._in = os.fdopen(os.dup(0), "rb")
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # whatever the client prints must not end up between the messages

    def ask(self, **request: Any) -> dict[str, Any]:
        self._out.write(pack(request))
        self._out.flush()
        answer: dict[str, Any] = read(self._in)
        return answer


def drive_openpi(url: str, episodes: int) -> None:
    """openpi's own Runtime, PolicyAgent, ActionChunkBroker and WebsocketClientPolicy."""
    from openpi_client.action_chunk_broker import ActionChunkBroker
    from openpi_client.runtime.agents.policy_agent import PolicyAgent
    from openpi_client.runtime.environment import Environment
    from openpi_client.runtime.runtime import Runtime
    from openpi_client.websocket_client_policy import WebsocketClientPolicy

    pipe = Pipe()

    class World(Environment):  # type: ignore[misc]
        def __init__(self) -> None:
            self.index = 0

        def reset(self) -> None:
            if self.index == episodes:  # the runtime's last reset, after the last episode
                return
            self.answer, self.first = pipe.ask(op="reset", index=self.index), True
            self.index += 1

        def is_episode_complete(self) -> bool:
            return bool(self.answer["done"])

        def get_observation(self) -> dict[str, Any]:
            names = list(self.answer["images"])
            keys = {names[0]: "observation/image"} if len(names) == 1 else {}
            frame = {keys.get(name, f"images/{name}"): image for name, image in self.answer["images"].items()}
            frame.update({f"depths/{name}": depth for name, depth in self.answer["depths"].items()})
            if self.answer["state"] is not None:
                frame["observation/state"] = self.answer["state"]
            frame.update(prompt=self.answer["prompt"], seed=self.answer["seed"], reset=self.first)
            self.first = False
            return frame

        def apply_action(self, action: dict[str, Any]) -> None:
            self.answer = pipe.ask(op="step", action=action["actions"])

    policy = WebsocketClientPolicy(url)
    horizon = policy.get_server_metadata()["action_horizon"]
    Runtime(World(), PolicyAgent(ActionChunkBroker(policy, horizon)), [], num_episodes=episodes).run()
    pipe.ask(op="end")


def drive_vla_eval(url: str, episodes: int) -> None:
    """vla-eval's own runner, connection and form of a benchmark; pictures travel as PNG."""
    from vla_eval.benchmarks.base import StepBenchmark, StepResult
    from vla_eval.connection import Connection
    from vla_eval.runners.sync_runner import SyncEpisodeRunner

    pipe = Pipe()

    class World(StepBenchmark):  # type: ignore[misc]
        def get_tasks(self) -> list[dict[str, Any]]:
            return []

        def reset(self, task: dict[str, Any]) -> Any:
            answer = pipe.ask(op="reset", index=task["index"])
            task.update(seed=answer["seed"], task_description=answer["prompt"])  # the runner sends them to the server
            return answer

        def step(self, action: dict[str, Any]) -> Any:
            answer = pipe.ask(op="step", action=action["actions"])
            return StepResult(answer, answer["reward"], bool(answer["done"]), {})

        def make_obs(self, raw_obs: Any, task: dict[str, Any]) -> dict[str, Any]:
            frame = {"images": raw_obs["images"], "task_description": raw_obs["prompt"]}
            if raw_obs["depths"]:
                frame["depths"] = raw_obs["depths"]
            if raw_obs["state"] is not None:
                frame["state"] = raw_obs["state"]
            return frame

        def get_step_result(self, step_result: Any) -> dict[str, Any]:
            return {"success": False}  # the other end of the pipe keeps the results

    async def run() -> None:
        async with Connection(url + "/vla-eval") as connection:
            for index in range(episodes):
                await SyncEpisodeRunner().run_episode(World(), {"name": "episode", "index": index}, connection)

    asyncio.run(run())
    pipe.ask(op="end")


if __name__ == "__main__":
    {"openpi": drive_openpi, "vla-eval": drive_vla_eval}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
