"""Recording a data set: the episodes that are still missing of it, one after another."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backbone.contracts import Agent
from backbone.errors import CancelledError, ConfigError
from backbone.records.recorder import record_episode
from backbone.records.rows import EpisodeRow
from backbone.records.video import VideoQuality
from backbone.records.writer import DatasetWriter
from backbone.rollout.agents import AgentConfig
from backbone.rollout.config import RolloutConfig
from backbone.rollout.episode import EpisodeSettings
from backbone.rollout.limits import local_watch
from backbone.rollout.results import EpisodeResult, versions
from backbone.worlds.world import World, WorldConfig

OnEpisode = Callable[[EpisodeResult, bool], None]  # the result, and whether it was kept
OnBegin = Callable[[int], None]  # how many episodes earlier calls have dealt with


@dataclass(frozen=True, kw_only=True)
class RecordConfig:
    """What is recorded. Everything but ``output``, ``episodes`` and ``episode_timeout_s`` must stay when it goes on."""

    world: WorldConfig
    agent: AgentConfig
    output: Path
    episodes: int = 20  # run; the data set lacks those that fail
    seed: int = 0
    execute: int = 1  # actions of a chunk that are carried out before the agent is asked again
    max_steps: int | None = None  # end episodes earlier than the world does
    labels: bool = True  # the world's privileged description beside each frame
    only_successes: bool = False
    quality: VideoQuality = field(default_factory=VideoQuality)
    episode_timeout_s: float = 600.0

    @property
    def rollout(self) -> RolloutConfig:
        """The rollout that is recorded: the same episodes as a run with these settings has."""
        return RolloutConfig(
            world=self.world,
            agent=self.agent,
            episodes=self.episodes,
            seed=self.seed,
            execute=self.execute,
            max_steps=self.max_steps,
            episode_timeout_s=self.episode_timeout_s,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Plain JSON values of everything that decides what is recorded."""
        video = {"crf": self.quality.crf, "preset": self.quality.preset}
        return {**self.rollout.results, "labels": self.labels, "only_successes": self.only_successes, "video": video}


def record_dataset(
    config: RecordConfig,
    *,
    on_begin: OnBegin | None = None,
    on_episode: OnEpisode | None = None,
    stop: threading.Event | None = None,
) -> dict[str, Any]:
    """Record the episodes that ``config.output`` lacks, and finish the data set; the same call goes on after a kill.

    An episode that failed in an earlier call is tried again. Returns plain JSON values: counts, settings, and the
    episodes that were left out with their reasons.

    Raises:
        ConfigError, WorldError: impossible settings, or the world cannot be opened at all.
        DataError: the folder holds something else, or not one episode could be recorded.
        CancelledError: stopped or interrupted; finished episodes are kept.
    """
    rollout = config.rollout
    with contextlib.ExitStack() as held:
        worlds = _Worlds(config.world)
        held.callback(worlds.close)
        spec = worlds.open().action_spec
        agent = config.agent.make(spec)
        held.callback(getattr(agent, "close", lambda: None))
        writer = held.enter_context(
            DatasetWriter(
                config.output,
                spec,
                robot_type=config.world.world,
                run=config.settings,
                labels=config.labels,
                quality=config.quality,
            )
        )
        missing = _missing(writer, config)
        if on_begin is not None:
            on_begin(config.episodes - len(missing))
        for index in missing:
            try:
                result, row = _one(writer, worlds, agent, rollout, index, config, stop)
            except KeyboardInterrupt as interrupt:
                kept = f"{len(writer.rows)} episodes are kept in {config.output}, the same command goes on"
                raise CancelledError(f"stopped; {kept}") from interrupt
            if on_episode is not None:
                on_episode(result, row is not None)
        info = writer.finalize()
    return {
        "output": str(config.output),
        "n": {"expected": config.episodes, "recorded": len(writer.rows), "skipped": len(writer.skipped)},
        "frames": info.total_frames,
        "tasks": info.total_tasks,
        "skipped": [writer.skipped[index] for index in sorted(writer.skipped)],
        "settings": config.settings,
        "versions": versions(),
    }


def _one(
    writer: DatasetWriter,
    worlds: _Worlds,
    agent: Agent,
    rollout: RolloutConfig,
    index: int,
    config: RecordConfig,
    stop: threading.Event | None,
) -> tuple[EpisodeResult, EpisodeRow | None]:
    settings = EpisodeSettings(
        execute=config.execute,
        max_steps=config.max_steps,
        timeout_s=config.episode_timeout_s,
        watch=local_watch(),
    )
    recorded = record_episode(
        writer,
        worlds.open(),
        agent,
        rollout.episode(index),
        settings,
        labels=config.labels,
        only_successes=config.only_successes,
        stop=stop,
    )
    if recorded[0].error is not None:
        worlds.close()  # whatever broke it shall not meet the next episode
    return recorded


def _missing(writer: DatasetWriter, config: RecordConfig) -> list[int]:
    """Indices of episodes that are neither recorded nor known not to succeed."""
    done = {int(row.rollout["index"]) for row in writer.rows}
    done |= {index for index, entry in writer.skipped.items() if entry["reason"] == "unsuccessful"}
    surplus = sorted(index for index in done if index >= config.episodes)
    if surplus:
        raise ConfigError(
            f"{config.output} holds episode {surplus[-1]} already, so --episodes must be at least {surplus[-1] + 1}, "
            f"got {config.episodes}; or choose another folder"
        )
    return [index for index in range(config.episodes) if index not in done]


class _Worlds:
    """One world at a time, opened when it is needed."""

    def __init__(self, config: WorldConfig) -> None:
        self._config = config
        self._world: World | None = None

    def open(self) -> World:
        if self._world is None:
            self._world = self._config.make()
        return self._world

    def close(self) -> None:
        world, self._world = self._world, None
        if world is not None:
            world.close()
