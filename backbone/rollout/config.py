"""What a rollout is: the settings that decide its results, and those that only decide how it is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backbone.errors import ConfigError
from backbone.rollout.agents import AgentConfig
from backbone.worlds.world import WorldConfig

Backend = Literal["serial", "processes", "ray"]
ALL_VIDEOS = -1


@dataclass(frozen=True)
class Episode:
    """One episode to run: its number in the run, its own seed, and what the world's ``reset`` gets beside it."""

    index: int
    seed: int
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """A rollout. `results` are the settings that decide what comes out; all others change only speed and reporting.

    ``execute`` is how many actions of a chunk are carried out before the agent is asked again. The default of 1 lets
    every action answer to the newest observation, is valid for every agent (a chunk has at least one action), and
    makes scripted and learned agents comparable; an agent whose inference is slow is run with more.
    """

    world: WorldConfig
    agent: AgentConfig
    output: Path | None = None  # without one, nothing is written and nothing can be resumed
    episodes: int = 20
    seed: int = 0
    execute: int = 1
    max_steps: int | None = None  # end episodes earlier than the world does
    backend: Backend = "serial"
    workers: int = 1
    batch: int = 1  # worlds in lockstep in each worker, for agents with ``act_many``
    ray: str | None = None  # address of a Ray cluster; None starts one here
    gpus_per_worker: float = 0.0  # what each worker asks of Ray
    threads: int = 1  # of numerical libraries in each worker: more than one may change the last bits of a float
    episode_timeout_s: float = 600.0
    start_timeout_s: float = 600.0  # for a worker to open its world and load its agent
    retries: int = 1  # how often an episode is run again whose worker process died under it
    retry_failed: bool = False  # run failed episodes of an earlier run again
    video: int = 0  # record the first N episodes, `ALL_VIDEOS` all

    def __post_init__(self) -> None:
        at_least_one = ("episodes", "execute", "workers", "batch", "threads")
        wrong = [f"{name} = {getattr(self, name)}" for name in at_least_one if getattr(self, name) < 1]
        if self.max_steps is not None and self.max_steps < 1:
            wrong.append(f"max_steps = {self.max_steps}")
        if wrong:
            raise ConfigError(f"rollout: {', '.join(wrong)}; each must be at least 1")
        for name, least in (("seed", 0), ("retries", 0), ("video", ALL_VIDEOS), ("gpus_per_worker", 0)):
            if not getattr(self, name) >= least:  # also true for NaN
                raise ConfigError(f"rollout: {name} must be at least {least}, got {getattr(self, name)}")
        if not (self.episode_timeout_s > 0 and self.start_timeout_s > 0):
            raise ConfigError("rollout: episode_timeout_s and start_timeout_s must be positive seconds")
        if self.backend == "serial" and self.workers != 1:
            raise ConfigError(
                f"rollout: the serial backend has one worker, got {self.workers}; choose processes or ray"
            )
        if self.ray is not None and self.backend != "ray":
            raise ConfigError(f"rollout: a Ray address needs the ray backend, got {self.backend}")
        if self.video and self.output is None:
            raise ConfigError("rollout: videos need an output directory")

    @property
    def results(self) -> dict[str, Any]:
        """Plain JSON values of the settings that decide every episode's result."""
        return {
            "world": {"world": self.world.world, **_plain(self.world)},
            "agent": {"agent": self.agent.agent, **_plain(self.agent)},
            "seed": self.seed,
            "execute": self.execute,
            "max_steps": self.max_steps,
        }

    @property
    def execution(self) -> dict[str, Any]:
        """Plain JSON values of the settings that decide only how the episodes are run."""
        names = (
            "backend", "workers", "batch", "ray", "gpus_per_worker", "threads", "episode_timeout_s", "start_timeout_s",
            "retries", "video",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def episode(self, index: int) -> Episode:
        """Episode ``index``: its seed depends on the run's seed and the index alone, never on workers or batches."""
        return Episode(index, episode_seed(self.seed, index), self.world.options(index))

    def films(self, index: int) -> bool:
        """Whether episode ``index`` is recorded."""
        return self.video == ALL_VIDEOS or index < self.video


def episode_seed(seed: int, index: int) -> int:
    """The seed of episode ``index`` of a run, 0 to 2^31 - 1 (some simulators take no more)."""
    return int(np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(1)[0]) >> 1


def differing_fields(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """``name: before -> now`` for every setting that is not the same, nested ones by their dotted name."""
    found: list[str] = []
    for key in sorted({*before, *now}):
        old, new = before.get(key, "(absent)"), now.get(key, "(absent)")
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differing_fields(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(f"{prefix}{key}: {old} -> {new}")
    return found


def _plain(config: object) -> dict[str, Any]:
    if not is_dataclass(config) or isinstance(config, type):
        raise ConfigError(f"a world or agent config must be a dataclass, got {type(config).__name__}")
    values: dict[str, Any] = json.loads(json.dumps(asdict(config), default=str, allow_nan=False))
    return values
