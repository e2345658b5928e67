"""Making trajectories: stage 1 follows the shortest way, stage 2 explores. Every episode is a function of its number.

Homes of the training split only, with things where such homes usually have them; what is tested on stays apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from backbone.errors import ConfigError
from navigation.config import DataConfig, NavigationConfig
from navigation.thoughts import Style
from navigation.worlds.habitat import HabitatConfig
from navigation.worlds.rooms import RoomsConfig

Stage = Literal["stage1", "stage2"]
NavigationWorldConfig = RoomsConfig | HabitatConfig
TRAINING_SEEDS = 1 << 20  # seeds of training episodes begin here; those of evaluations lie below


class Dropped(Exception):  # noqa: N818 - no failure: an episode that the paper's rules leave out
    """An episode that the rules leave out, with the reason."""


@dataclass(frozen=True)
class MakingConfig:
    """How trajectories of a stage are made. ``world`` is `RoomsConfig` or `HabitatConfig`."""

    stage: Stage = "stage1"
    world: NavigationWorldConfig = field(default_factory=RoomsConfig)
    agent: NavigationConfig = field(default_factory=lambda: NavigationConfig.preset("nano"))
    data: DataConfig = field(default_factory=DataConfig)
    noise: float = 0.1  # OUR CHOICE: chance of a wrong action, which is not learned; the paper says of none
    stray: float = 0.0  # OUR CHOICE: chance of walking into something, which is not learned, to look around there
    seen_m: float = 4.0  # OUR CHOICE: a target seen so near ends the exploring; 0 passes all waypoints, as printed
    thoughts: Style = "short"  # of the template teacher; "full" for large models
    per_home: int = 8  # episodes a home: building one costs more than playing in it
    seed: int = 0

    def __post_init__(self) -> None:
        if self.stage not in get_args(Stage):
            raise ConfigError(f"navigation data: stage must be one of {', '.join(get_args(Stage))}, got {self.stage!r}")
        if not 0.0 <= self.stray < 1.0:
            raise ConfigError(f"navigation data: stray must lie in [0, 1), got {self.stray}")
        if not 0.0 <= self.seen_m < math.inf:
            raise ConfigError(f"navigation data: seen_m must be finite and not negative, got {self.seen_m}")
        if not 0.0 <= self.noise < 1.0 or self.per_home < 1 or not 0 <= self.seed < 2**31:
            raise ConfigError(
                "navigation data: noise must lie in [0, 1), per_home be at least 1 and seed in [0, 2^31), got "
                f"{self.noise}, {self.per_home}, {self.seed}"
            )
        if self.world.split != "train":
            raise ConfigError(f"navigation data: training homes are those of split train, not {self.world.split}")
        if self.world.unusual:
            raise ConfigError("navigation data: unusual placements are kept for evaluation; train without them")

    def ready_world(self) -> NavigationWorldConfig:
        """The world with the agent's eye, with poses, and long enough."""
        camera = {k: getattr(self.agent, k) for k in ("width", "height", "hfov_deg", "camera_height")}
        steps = max(self.world.max_steps, self.data.repaired_steps + 1)
        return replace(
            self.world, **camera, pose_in_state=True, depth=False, panorama=True, max_steps=steps, distance_to="object"
        )

    def options(self, number: int) -> dict[str, Any]:
        """What a reset gets: a home that neighbouring episodes share, or the number of a file's episode."""
        if isinstance(self.world, HabitatConfig) and self.world.episodes:
            return self.world.options(number)
        if self.world.home is not None:
            return {}
        home = np.random.default_rng([self.seed, number // self.per_home, 0xB0]).integers(self.world.homes)
        return {"home": int(home)}

    def episode_seed(self, number: int) -> int:
        """The world's seed of an episode."""
        return TRAINING_SEEDS + self.seed * 1_000_003 + number
