"""The policy as both protocols see it: one agent, one layout of observations, one gate, one set of workers."""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

import numpy as np

from apps.server.config import ServerConfig
from apps.server.episodes import Episode
from apps.server.gate import ActionGate
from apps.server.metrics import ServerMetrics
from apps.server.observations import ObservationLayout
from apps.server.wording import one_line, short_trace
from apps.server.workers import Workers
from backbone.contracts import Agent, Image, Observation
from backbone.errors import ConfigError, ServerError
from backbone.rollout.agents import is_privileged
from backbone.serving.errors import RequestError
from backbone.serving.spec import spec_to_plain

logger = logging.getLogger("fovea.server")
LARGE_BYTES = 1 << 20  # frames above this are decoded off the event loop
PROTOCOL, VERSION = "openpi", 1


class Service:
    """Made on the event loop. ``about`` goes into the metadata as it is: names of the agent and of its world."""

    def __init__(
        self,
        agent: Agent,
        layout: ObservationLayout,
        config: ServerConfig,
        about: dict[str, str],
        example: Observation | None = None,
    ) -> None:
        """Start the threads; raises `ConfigError` for an agent that cannot be served or a gate that does not fit it."""
        if is_privileged(agent):
            raise ConfigError(
                f"the agent {about.get('agent', type(agent).__name__)!r} reads the simulator itself and cannot be "
                "served: over the network there are observations only"
            )
        self.agent, self.layout, self.config, self.about = agent, layout, config, about
        self.gate = ActionGate(agent.spec, config.out_of_range, config.max_change)
        self.workers = Workers(
            agent,
            count=config.workers,
            max_batch=config.max_batch,
            batch_wait_s=config.batch_wait_ms / 1e3,
            max_abandoned=config.max_abandoned,
        )
        self.metrics = ServerMetrics(lambda: self.workers.depth, lambda: self.workers.abandoned)
        self.settled = asyncio.Event()  # warm, or stopping: nobody need wait any longer
        self.warm = self.stopping = False
        self.horizon = 0
        self._example = example or example_observation(layout)
        self._decoding = ThreadPoolExecutor(1, "fovea-decoding")

    @property
    def trouble(self) -> str | None:
        """Why the server is not ready; None if it is."""
        if self.stopping:
            return "shutting down"
        if not self.warm:
            return "warming up"
        return "the policy hangs; restart the server" if self.workers.broken else None

    async def warm_up(self) -> None:
        """Ask the policy once, so that compiling and loading are over before a robot waits for it.

        Raises:
            ServerError: the policy cannot answer even its own example, or took longer than ``warmup_s``.
        """
        episode = Episode(self.agent, self._example.instruction, self.config.seed)
        began = time.perf_counter()
        asked = self.workers.submit(functools.partial(episode.act, self._example), self.config.warmup_s).future
        await asyncio.wait((asked,))  # not `await asked`: a SystemExit of the policy would end the event loop
        try:
            decision = asked.result()
            self.horizon = int(self.gate.check(decision.actions.values, None).values.shape[0])
        except BaseException as error:
            if isinstance(error, RequestError) and error.code == "deadline":
                raise ServerError(
                    f"the policy did not answer its first observation in {self.config.warmup_s:g} s (warm-up); does it "
                    "hang? If it only compiles or loads for so long, give it more with --warmup"
                ) from error
            raise ServerError(
                f"the policy failed on the example observation ({type(error).__name__}: {error}); mend the policy, or "
                "the layout of its observations"
            ) from error
        if episode.end():
            self.close_later(episode)
        logger.info("warm after %.1f s; chunks of %d actions", time.perf_counter() - began, self.horizon)
        self.warm = True
        self.settled.set()

    def close_later(self, episode: Episode) -> None:
        """Close the episode's session on a thread of inference."""
        if not self.workers.stopped and not self.workers.broken:
            self.workers.submit(episode.close, self.config.deadline_s)

    async def decode(self, frame: bytes, work: Callable[[bytes], Any], *, pictures: bool) -> Any:
        """``work(frame)``, off the event loop where it may take long."""
        if not pictures and len(frame) < LARGE_BYTES:
            return work(frame)
        return await asyncio.get_running_loop().run_in_executor(self._decoding, work, frame)

    def report(self, error: RequestError, peer: str) -> str:
        """Count and log a failed request; returns its one line for the client, with an id that the log has too."""
        self.metrics.errors.labels(error.code).inc()
        name = secrets.token_hex(4)
        cause = error.__cause__ if error.code in ("policy_error", "internal") else None
        said = one_line(str(error))
        trace = "" if cause is None else f"\n{short_trace(cause)}"
        logger.warning("error %s for %s: %s: %s%s", name, peer, error.code, said, trace)
        return f"{error.code}: {said} (error {name})"

    def metadata(self) -> dict[str, Any]:
        """What a client is told first; plain values only."""
        limits, keys = self.config.limits, self.layout.describe()
        keys["prompt"]["example"] = self._example.instruction
        return {
            "protocol": PROTOCOL,
            "version": VERSION,
            "server": f"fovea {version('fovea')}",
            **self.about,
            "action": spec_to_plain(self.agent.spec),
            "action_dim": len(self.agent.spec.names),
            "action_horizon": self.horizon,
            "control_hz": self.agent.spec.control_hz,
            "actions_unnormalized": True,
            "unnorm_keys": [],
            "out_of_range": self.config.out_of_range,
            "max_change": list(self.config.max_change or ()),
            "observation_keys": keys,
            "resets": ["reset", "seed", "prompt"],
            "limits": {
                "max_message_bytes": limits.max_bytes,
                "max_values": limits.max_values,
                "max_depth": limits.max_depth,
                "max_images": limits.max_images,
                "deadline_s": self.config.deadline_s,
                "idle_s": self.config.idle_s,
            },
        }

    def close(self) -> None:
        """Let the threads go."""
        self.workers.stop()
        self._decoding.shutdown(wait=False, cancel_futures=True)


def example_observation(layout: ObservationLayout, side: int = 224) -> Observation:
    """Black pictures of the declared sizes (``side`` where none is declared) and zeros, for the first inference."""

    def black(height: int | None, width: int | None) -> Image:
        return np.zeros((height or side, width or side, 3), np.uint8)

    return Observation(
        {name: black(camera.height, camera.width) for name, camera in layout.images.items()},
        layout.default_prompt or "",
        None if layout.state is None else np.zeros(layout.state, np.float32),
        depths={
            name: np.ones((camera.height or side, camera.width or side), np.float32)
            for name, camera in layout.depths.items()
        },
    )
