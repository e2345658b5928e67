"""Settings of the policy server."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from backbone.errors import ConfigError
from backbone.serving.scan import WireLimits

MAX_SEED = 2**63 - 2**32 - 1  # of the first episode, so that those after it have seeds below 2**63
OutOfRange = Literal["clip", "refuse"]


@dataclass(frozen=True)
class ServerConfig:
    """Where to listen and what to allow; every number is a limit that something hostile or broken would reach."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    token: str | None = field(default=None, repr=False)  # never printed, never logged
    deadline_s: float = 30.0  # for one request, waiting included; a policy still running then is given up
    warmup_s: float = 120.0  # for the first inference, before the server is ready; a policy slower than that ends it
    idle_s: float = 600.0  # a connection that sends no whole message for so long is closed
    ping_interval_s: float | None = 20.0  # how a client that vanished without a word is found out; None: never
    ping_timeout_s: float = 20.0
    grace_s: float = 5.0  # for requests under way when the server is told to stop
    max_connections: int = 64
    workers: int = 1  # threads of inference; above 1 only for agents whose sessions may act at the same time
    max_batch: int = 1  # above 1: requests waiting together go to the agent's `act_many`
    batch_wait_ms: float = 2.0
    max_abandoned: int = 4  # threads lost in hung calls before the server declares itself broken
    execute: int = 1  # actions of a chunk a vla-eval client gets before the policy is asked again
    out_of_range: OutOfRange = "clip"
    max_change: tuple[float, ...] | None = None  # largest step of every action value between two actions; None: free
    seed: int = 0  # of a connection's first episode where the client gives none; the next has the next number
    limits: WireLimits = field(default_factory=WireLimits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be 0 to 65535, got {self.port}")
        for name in ("deadline_s", "warmup_s", "idle_s", "ping_timeout_s", "grace_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("max_connections", "workers", "max_batch", "max_abandoned", "execute"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.ping_interval_s is not None and not self.ping_interval_s > 0:
            raise ConfigError(f"ping_interval_s must be positive, got {self.ping_interval_s}")
        if self.out_of_range not in ("clip", "refuse"):
            raise ConfigError(f"out_of_range must be clip or refuse, got {self.out_of_range!r}")
        if not 0 <= self.batch_wait_ms < math.inf:
            raise ConfigError(f"batch_wait_ms must be a number of milliseconds from 0, got {self.batch_wait_ms}")
        if not 0 <= self.seed <= MAX_SEED:
            raise ConfigError(f"seed must be a whole number from 0 to {MAX_SEED}, got {self.seed}")
        if self.token is not None and len(self.token) < 8:
            raise ConfigError("the token is shorter than 8 characters; make one with `openssl rand -hex 16`")
        if self.max_change is not None and not all(change > 0 for change in self.max_change):
            raise ConfigError(f"max_change must be positive numbers, one an action value, got {self.max_change}")
