"""Walks until the view is blocked, then turns: a policy without privilege, without weights, and without surprise.

It sees what any policy sees, and its decisions are a pure function of the observations and the seed, so it shows that
a server, a bridge or a recording passes observations and actions on unchanged. It is no navigator: it never stops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backbone.contracts import ActionChunk, ActionSpec, Decision, FloatArray, Image, Observation
from backbone.errors import ConfigError, WorldError
from backbone.rollout.agents import CLOSED

FORWARD = ("move_forward", "forward")
LEFT, RIGHT = ("turn_left", "left"), ("turn_right", "right")


@dataclass(frozen=True)
class WanderConfig:
    """When the way counts as blocked, and how far to turn then."""

    clearance_m: float = 0.6  # of the nearest tenth of the middle of the depth picture
    stillness: float = 0.5  # mean change of the picture (0 to 255) below which a step forward did not happen
    turns: int = 3  # turns before the next look ahead; the seed adds up to two

    def __post_init__(self) -> None:
        if not self.clearance_m > 0 or self.stillness < 0 or self.turns < 1:
            raise ConfigError(f"wander needs clearance_m > 0, stillness >= 0 and turns >= 1, got {self}")

    @property
    def agent(self) -> str:
        """The agent's name."""
        return "wander"

    def make(self, spec: ActionSpec) -> WanderAgent:
        """A wanderer for worlds with these actions."""
        return WanderAgent(spec, self)


class WanderAgent:
    """Needs discrete actions to go forward and to turn to both sides; raises `ConfigError` where one is missing."""

    def __init__(self, spec: ActionSpec, config: WanderConfig | None = None) -> None:
        """Find the actions it needs among the choices of ``spec``."""
        self.spec, self.config = spec, config or WanderConfig()
        self.forward, self.left, self.right = (_index(spec, names) for names in (FORWARD, LEFT, RIGHT))

    def session(self, instruction: str, seed: int) -> WanderSession:
        """Start an episode; ``seed`` decides to which side and how far it turns, the instruction nothing."""
        return WanderSession(self, seed)


class WanderSession:
    """One walk: what was seen before the last step, and the turns that are still to be made."""

    def __init__(self, agent: WanderAgent, seed: int) -> None:
        """Nothing seen yet."""
        self._agent = agent
        self._generator = np.random.default_rng(seed)
        self._before: Image | None = None  # seen before the last step forward
        self._turn, self._left_to_turn = agent.left, 0
        self._closed = False

    def act(self, observation: Observation) -> Decision:
        """One action: forward while the way is free and steps change the view, else a turn."""
        if self._closed:
            raise WorldError(CLOSED)
        image = next(iter(observation.images.values()))
        if self._left_to_turn == 0 and self._blocked(observation, image):
            agent = self._agent
            self._turn = agent.left if self._generator.integers(2) else agent.right
            self._left_to_turn = agent.config.turns + int(self._generator.integers(3))
        if self._left_to_turn:
            self._left_to_turn, self._before = self._left_to_turn - 1, None
            return self._decide(self._turn, "turning away")
        self._before = image.copy()
        return self._decide(self._agent.forward, "the way is free")

    def close(self) -> None:
        """End the episode."""
        self._closed = True

    def _blocked(self, observation: Observation, image: Image) -> bool:
        config = self._agent.config
        for depth in observation.depths.values():
            return clearance(depth) < config.clearance_m
        if self._before is None or self._before.shape != image.shape:
            return False
        return float(np.abs(image.astype(np.int16) - self._before).mean()) < config.stillness

    def _decide(self, choice: int, thought: str) -> Decision:
        return Decision(ActionChunk(np.array([[choice]], np.float32), self._agent.spec), thought=thought)


def clearance(depth: FloatArray) -> float:
    """Metres to the nearest tenth of what is ahead, from a depth picture (H, W): its middle third, without the floor.

    Zeros mean that nothing was measured and count as far away.
    """
    height, width = depth.shape
    ahead = depth[height // 3 : max(height * 2 // 3, height // 3 + 1), width // 3 : max(width * 2 // 3, width // 3 + 1)]
    measured = ahead[ahead > 0]
    return float(np.quantile(measured, 0.1)) if measured.size else float("inf")


def _index(spec: ActionSpec, names: tuple[str, ...]) -> int:
    for name in names:
        if name in spec.choices:
            return spec.choices.index(name)
    raise ConfigError(f"wander needs an action called {' or '.join(names)}; there are: {spec.choices or spec.names}")
