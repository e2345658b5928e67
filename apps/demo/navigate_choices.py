"""What the Navigate tab offers: homes and the objects in them, ways to decide when to think, and two yardsticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from apps.demo.worlds_catalogue import NAVIGATION, usable
from apps.demo.worlds_run import MAX_SEED, PACES
from apps.world_states import WorldState, world_state
from apps.worlds import world_config_class
from backbone.errors import DataError
from backbone.rollout.agents import AgentConfig, ExpertConfig
from backbone.worlds.world import WorldConfig
from navigation.agent_config import HydraConfig
from navigation.benchmarks import with_settings
from navigation.frontier import FrontierConfig
from navigation.watching import WatchedConfig
from navigation.worlds.rooms import RoomsConfig
from navigation.worlds.rooms_scene import Scene, generated_scene

SPLIT: Literal["val"] = "val"  # homes that training never uses
MOST_STEPS, USUAL_STEPS = 500, 150
NOBODY = "nobody"
FAVOURITE = "bed"  # chosen in a home that has one
STRATEGIES: dict[str, str] = {
    "learned": "learned: the model decides",
    "threshold": "threshold: its probability decides",
    "fixed": "fixed: after so many actions",
    "random": "random: by dice",
    "always": "always: before every action",
    "never": "never: acts without thinking",
    "frontier": "frontier: a classical explorer",
    "expert": "expert: the shortest path",
}
YARDSTICKS = ("frontier", "expert")


@dataclass(frozen=True)
class Setting:
    """The one number of a strategy: a field of `HydraConfig`."""

    field: str
    label: str
    usual: float
    step: float
    title: str  # of a run with it


SETTINGS: dict[str, Setting] = {
    "threshold": Setting("threshold", "Probability of obs from which it looks, 0 to 1", 0.5, 0.05, "threshold {:g}"),
    "fixed": Setting("period", "Actions from one look to the next, 2 or more", 16, 1, "every {:g} actions"),
    "random": Setting("rate", "Probability of a look before an action, 0 to 1", 0.03, 0.01, "random, {:g}"),
}


@dataclass(frozen=True)
class Contender:
    """One way to decide."""

    strategy: str
    value: float | None = None  # of the strategy's `Setting`

    @property
    def title(self) -> str:
        """In a few words."""
        setting = SETTINGS.get(self.strategy)
        return self.strategy if setting is None else setting.title.format(self.value)

    @property
    def speaks(self) -> bool:
        """Whether it writes thoughts."""
        return self.strategy not in (*YARDSTICKS, "never")

    def agent(self, hydra: HydraConfig) -> AgentConfig:
        """Its settings, on the model of ``hydra``; `ConfigError` for a value out of range."""
        if self.strategy == "frontier":
            return FrontierConfig()
        if self.strategy == "expert":
            return ExpertConfig()
        setting = SETTINGS.get(self.strategy)
        number: Any = self.value
        if setting is not None and isinstance(setting.usual, int):
            if self.value != int(number):
                raise DataError(f"{setting.label.lower()}: expected a whole number, got {self.value:g}")
            number = int(number)
        changes: dict[str, Any] = {} if setting is None else {setting.field: number}
        return replace(hydra, strategy=self.strategy, **changes)  # type: ignore[arg-type] # known: checked when read


@dataclass(frozen=True)
class NavigateRequest:
    """What the page sends, checked: the same home, object and start for one contender or two."""

    world: str
    home: int
    category: str
    start: int
    contenders: tuple[Contender, ...]
    max_steps: int
    steps_per_s: float | None

    @property
    def title(self) -> str:
        """The run in words."""
        return f"home {self.home}, start {self.start}, " + " against ".join(c.title for c in self.contenders)

    def scene(self) -> Scene:
        """The home, made ready."""
        return scene_of(self.home)

    def world_for(self, agent: AgentConfig, hydra: HydraConfig) -> WorldConfig:
        """The world as one contender needs it, seen in the model's own picture size by all of them."""
        config = hydra.navigation()
        needs = {"width": config.width, "height": config.height, "hfov_deg": config.hfov_deg, "pose_in_state": True}
        needs |= getattr(agent, "world_settings", dict)()
        made: Any = world_config_class(self.world)
        world: WorldConfig = made(split=SPLIT, home=self.home, category=self.category)
        return WatchedConfig(with_settings(world, needs, f"agent {agent.agent}"))


def worlds_here() -> tuple[list[str], list[WorldState]]:
    """The navigation worlds that are ready on this machine, and the states of all of them."""
    states = [world_state(name) for name in NAVIGATION]
    return usable(states), states


def scene_of(home: int) -> Scene:
    """A home, made ready; the last ones stay so."""
    return generated_scene(home, SPLIT, RoomsConfig().rules())


@lru_cache(maxsize=256)
def objects_in(home: int) -> tuple[str, ...]:
    """The categories of a home that can be looked for, because a way leads to one of them."""
    scene = scene_of(home)
    return tuple(category for category in scene.present() if scene.goals(category) is not None)


def usual_object(objects: Sequence[str], wanted: Any = None) -> str | None:
    """``wanted`` if it is there, else a usual one."""
    return next((o for o in (wanted, FAVOURITE, *objects) if o in objects), None)


def read_request(
    world: Any, home: Any, category: Any, start: Any, ways: Sequence[tuple[Any, Any]], max_steps: Any, pace: Any
) -> NavigateRequest:
    """Check everything a page or a script can send.

    Args:
        world: rooms or habitat.
        home: the seed of a generated home.
        category: what to find, one of `objects_in` it.
        start: the seed of the place where it begins.
        ways: strategy and value of each contender; a strategy of `NOBODY` is none.
        max_steps: after how many steps to give up, at most `MOST_STEPS`.
        pace: a key of `PACES`.

    Raises:
        DataError: whatever of it is unknown, not a number, out of range, or not on this machine.
    """
    if world not in NAVIGATION:
        raise DataError(f"world must be one of {', '.join(NAVIGATION)}, got {str(world)[:80]!r}")
    state = world_state(world)
    if state.state != "ready":
        raise DataError(f"{world} cannot be used here: {state.detail}; to get it: {state.remedy}")
    if pace not in PACES:
        raise DataError(f"pace must be one of {', '.join(PACES)}, got {str(pace)[:80]!r}")
    contenders = tuple(_contender(*way) for way in ways if way[0] != NOBODY)
    if not 1 <= len(contenders) <= 2:
        raise DataError(f"one or two ways to decide can be run at once, got {len(contenders)}")
    limit = _whole("the limit of steps", max_steps, 1, MOST_STEPS)
    home, start = _whole("home", home, 0, MAX_SEED), _whole("start", start, 0, MAX_SEED)
    objects = objects_in(home)
    category = category.replace(" ", "_") if isinstance(category, str) else category  # as the page writes it
    if category not in objects:
        raise DataError(f"home {home} has no {str(category)[:80]!r} to be found; it has {', '.join(objects)}")
    return NavigateRequest(world, home, category, start, contenders, limit, PACES[pace])


def _contender(strategy: Any, value: Any) -> Contender:
    if strategy not in STRATEGIES:
        raise DataError(f"strategy must be one of {', '.join(STRATEGIES)}, got {str(strategy)[:80]!r}")
    if strategy not in SETTINGS:
        return Contender(strategy)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{SETTINGS[strategy].label.lower()}: expected a number, got {str(value)[:80]!r}")
    contender = Contender(strategy, float(value))
    contender.agent(HydraConfig())  # raises for what is out of range, before anything is opened
    return contender


def _whole(what: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most or value % 1:
        raise DataError(f"{what} must be a whole number from {least} to {most}, got {str(value)[:80]!r}")
    return int(value)
