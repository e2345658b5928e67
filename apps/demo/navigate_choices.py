"""What the Navigate tab offers: homes and the objects in them, ways to decide when to think, and two yardsticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from apps.demo.fields import given, number, one_of, whole
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
    usual: float  # an int where only whole numbers will do
    least: float
    most: float
    step: float
    title: str  # of a run with it

    @property
    def words(self) -> str:
        """The label with the range."""
        return f"{self.label}, {self.least:g} to {self.most:g}"

    def check(self, what: str, value: Any) -> float:
        """``value`` if the strategy can have it; else a `DataError` that names ``what`` was given it."""
        name = f"{what} ({self.label[0].lower()}{self.label[1:]})"
        if isinstance(self.usual, int):
            return whole(name, value, int(self.least), int(self.most))
        return number(name, value, self.least, self.most)


SETTINGS: dict[str, Setting] = {
    "threshold": Setting("threshold", "Probability of obs from which it looks", 0.5, 0, 1, 0.05, "threshold {:g}"),
    "fixed": Setting("period", "Actions from one look to the next", 16, 2, MOST_STEPS, 1, "every {:g} actions"),
    "random": Setting("rate", "Probability of a look before an action", 0.03, 0, 1, 0.01, "random, {:g}"),
}


@dataclass(frozen=True)
class Contender:
    """One way to decide."""

    strategy: str
    value: float | None = None  # of the strategy's `Setting`, checked by it

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
        """Its settings, on the model of ``hydra``."""
        if self.strategy == "frontier":
            return FrontierConfig()
        if self.strategy == "expert":
            return ExpertConfig()
        setting = SETTINGS.get(self.strategy)
        changes: dict[str, Any] = {} if setting is None else {setting.field: self.value}
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
    state = world_state(one_of("world", world, NAVIGATION))
    if state.state != "ready":
        raise DataError(f"{world} cannot be used here: {state.detail}; to get it: {state.remedy}")
    one_of("pace", pace, PACES)
    called = (("strategy", "value"), ("rival", "rival_value"))  # as a script calls them
    if not 1 <= sum(way[0] != NOBODY for way in ways) <= len(ways) <= len(called):
        raise DataError(f"one or two ways to decide can be run at once, got {[way[0] for way in ways]}")
    contenders = tuple(_contender(*way, *names) for way, names in zip(ways, called, strict=False) if way[0] != NOBODY)
    limit = whole("the limit of steps", max_steps, 1, MOST_STEPS)
    home, start = whole("home", home, 0, MAX_SEED), whole("start", start, 0, MAX_SEED)
    objects = objects_in(home)
    category = category.replace(" ", "_") if isinstance(category, str) else category  # as the page writes it
    if category not in objects:
        raise DataError(f"home {home} has no {given(category)} to be found; it has {', '.join(objects)}")
    return NavigateRequest(world, home, category, start, contenders, limit, PACES[pace])


def _contender(strategy: Any, value: Any, strategy_field: str, value_field: str) -> Contender:
    setting = SETTINGS.get(one_of(strategy_field, strategy, STRATEGIES))
    return Contender(strategy) if setting is None else Contender(strategy, setting.check(value_field, value))
