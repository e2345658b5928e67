"""A tiny world for tests of recording: a dot on a line, two cameras, a state, labels that differ between homes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from backbone.contracts import ActionSpec, FloatArray, Image, Observation
from backbone.errors import WorldError
from backbone.records.recorder import record_episode
from backbone.records.writer import DatasetWriter
from backbone.rollout.agents import ExpertConfig
from backbone.rollout.config import Episode, episode_seed
from backbone.rollout.episode import EpisodeSettings
from backbone.worlds.world import Info, Step, World, check_action

SPEC = ActionSpec(("push", "lift"), ("m/s", "1"), (-1.0, -1.0), (1.0, 1.0), 12.5)
LENGTH = 9  # steps to the goal at least


class LineWorld(World):
    """The dot starts at 0 and shall reach 1. ``faults`` maps episode seeds to the step at which the world breaks."""

    name = "line"
    action_spec = SPEC
    max_steps = 40

    def __init__(
        self, faults: Mapping[int, int] | None = None, size: tuple[int, int] = (48, 64), hz: float = SPEC.control_hz
    ) -> None:
        self.action_spec = replace(SPEC, control_hz=hz)
        self.faults = dict(faults or {})
        self.size = size
        self.stop_short: set[int] = set()  # seeds whose expert gives up

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        self._seed, self._at, self._steps = seed, 0.0, 0
        self._generator = np.random.default_rng(seed)
        self._goal = LENGTH + seed % 3
        return self._look(), {"success": False}

    def _look(self) -> Observation:
        height, width = self.size
        y, x = np.mgrid[:height, :width]
        front = np.stack([x * 255 // width, y * 255 // height, np.full_like(x, self._seed % 200)], -1).astype(np.uint8)
        left = int(self._at / self._goal * (width - 9))
        front[height // 2 - 4 : height // 2 + 4, left : left + 8] = (255, 40, 20)
        state = np.array([self._at, self._steps * 0.1, self._generator.normal()], np.float32)
        seen = {"front": front, "wrist": np.ascontiguousarray(front[:, ::-1])}
        return Observation(seen, f"push the dot {self._goal} steps", state, self._steps / self.action_spec.control_hz)

    def step(self, action: FloatArray) -> Step:
        if self.faults.get(self._seed) == self._steps:
            raise WorldError("the line broke")
        self._at += float(check_action(action, SPEC, "line")[0])
        self._steps += 1
        success = self._at >= self._goal - 1e-6
        return self._look(), float(success) - 0.01, success, self._steps >= self.max_steps, {"success": success}

    def describe(self) -> dict[str, Any]:
        things = [{"name": f"thing {i}", "at": [i * 0.5, self._at], "held": i == 0} for i in range(1 + self._seed % 3)]
        return {"goal": {"distance": self._goal - self._at}, "things": things, "note": None}

    def expert_action(self) -> FloatArray:
        if self._seed in self.stop_short:
            return np.zeros(2, np.float32)
        return np.array([1.0, self._generator.uniform(-1, 1)], np.float32)

    def metrics(self) -> dict[str, float]:
        return {"success": float(self._at >= self._goal - 1e-6), "path_length": self._at}

    def draw(self) -> Image:
        return np.zeros((16, 16, 3), np.uint8)


@dataclass
class Shown:
    """What a world showed and was told, frame by frame, for comparing with what was recorded."""

    observations: list[Observation] = field(default_factory=list)
    actions: list[FloatArray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    descriptions: list[dict[str, Any]] = field(default_factory=list)


def shown(seed: int, world: LineWorld | None = None) -> Shown:
    """Run an episode of the expert without any of the recording's code."""
    world = world or LineWorld()
    log = Shown()
    observation, _ = world.reset(seed=seed)
    ended = False
    while not ended:
        log.observations.append(observation)
        log.descriptions.append(world.describe())
        action = world.expert_action()
        observation, reward, terminated, truncated, _ = world.step(action)
        log.actions.append(action)
        log.rewards.append(reward)
        ended = terminated or truncated
    return log


def seed_of(index: int) -> int:
    return episode_seed(0, index)


def open_writer(root: Path, spec: ActionSpec = SPEC, **options: Any) -> DatasetWriter:
    return DatasetWriter(root, spec, robot_type="line", run={"world": "line", "seed": 0}, **options)


def record(root: Path, count: int, world: LineWorld | None = None, **options: Any) -> DatasetWriter:
    """Record the episodes that are missing of ``count``, and finish the data set."""
    world = world or LineWorld()
    agent = ExpertConfig().make(world.action_spec)
    with open_writer(root, world.action_spec) as writer:
        done = {row.rollout["index"] for row in writer.rows}
        for index in range(count):
            if index not in done:
                episode = Episode(index, seed_of(index), {})
                record_episode(writer, world, agent, episode, EpisodeSettings(), **options)
        writer.finalize()
    return writer
