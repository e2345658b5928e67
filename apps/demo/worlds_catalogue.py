"""What the Worlds tab offers: the worlds of this machine, one choice for each, and agents that need no weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.agents import AGENTS, agent_config
from apps.demo.fields import one_of
from apps.world_states import WorldState, world_state
from apps.worlds import WORLDS, world_config_class
from backbone.errors import DataError
from backbone.rollout.agents import AgentConfig
from backbone.worlds.world import WorldConfig

ANY = "any"  # stands for a setting's default of None: the seed chooses
NAVIGATION = ("rooms", "habitat")
ONLY_IN: dict[str, tuple[str, ...]] = {"wander": NAVIGATION, "metaworld-expert": ("metaworld",)}
NOT_IN: dict[str, tuple[str, ...]] = {"expert": ("libero",)}  # LIBERO brings no expert
# What the page shows is larger than what agents usually see, and has distances where they are cheap.
SHOWN: dict[str, dict[str, Any]] = {
    "rooms": {"width": 256, "height": 256, "depth": True},
    "habitat": {"width": 256, "height": 256, "depth": True},
    "metaworld": {"width": 256, "height": 256},
    "libero": {"width": 256, "height": 256},
    "highway": {"width": 256, "height": 192},
    "metadrive": {"width": 256, "height": 256},
}


@dataclass(frozen=True)
class Choice:
    """The one setting of a world that the tab lets people choose: a field of its config, and the values it may have."""

    field: str
    label: str
    values: Callable[[], tuple[str, ...]]


def _names(module: str, name: str, first: str | None = None) -> Callable[[], tuple[str, ...]]:
    """The names in a module's tuple or table, imported when they are asked for; none of these brings a simulator."""
    begin = () if first is None else (first,)
    return lambda: (*begin, *getattr(importlib.import_module(module), name))


CHOICES: dict[str, Choice] = {
    "rooms": Choice("category", "Find", _names("navigation.homes.furniture", "GOAL_CATEGORIES", ANY)),
    "habitat": Choice("category", "Find", _names("navigation.homes.furniture", "GOAL_CATEGORIES", ANY)),
    "metaworld": Choice("task", "Task", _names("vla.worlds.metaworld_tasks", "INSTRUCTIONS")),
    "libero": Choice("suite", "Suite", _names("vla.worlds.libero", "TASKS")),
    "highway": Choice("scenario", "Scenario", _names("driving.worlds.highway", "SCENARIOS", "all")),
    "metadrive": Choice("source", "Roads", _names("driving.worlds.metadrive", "LOGS")),
}


def offered() -> list[WorldState]:
    """Every world in the order of the registry, with its state on this machine and, if it is not ready, its remedy."""
    return [world_state(name) for name in WORLDS]


def usable(states: list[WorldState] | None = None) -> list[str]:
    """The names of the worlds that are ready."""
    return [state.name for state in (offered() if states is None else states) if state.state == "ready"]


def choice_values(world: str) -> tuple[str, ...]:
    """The values of a world's `Choice`; empty where it has none."""
    return CHOICES[world].values() if world in CHOICES else ()


def default_value(world: str) -> str | None:
    """The value that the world's config has by itself."""
    if world not in CHOICES:
        return None
    value = getattr(world_config_class(world)(), CHOICES[world].field)
    return ANY if value is None else str(value)


def agents_for(world: str) -> list[str]:
    """The agents that can act in a world."""
    return [name for name in AGENTS if world in ONLY_IN.get(name, (world,)) and world not in NOT_IN.get(name, ())]


def chosen_world(world: Any, value: Any) -> WorldConfig:
    """The config of a world that the page, or a script, names. Nothing else is imported for it.

    Raises:
        DataError: an unknown world, one that is not ready here (with its remedy), or a value it does not have.
    """
    one_of("world", world, WORLDS)  # a class path, which the command line allows, must not be loaded for a stranger
    state = world_state(world)
    if state.state != "ready":
        raise DataError(f"{world} cannot be used here: {state.detail}; to get it: {state.remedy}")
    settings = dict(SHOWN.get(world, {}))
    if world in CHOICES and value not in (None, ""):
        choice = CHOICES[world]
        one_of(choice.label.lower(), value, choice.values())
        settings[choice.field] = None if value == ANY else value
    return world_config_class(world)(**settings)


def chosen_agent(agent: Any, world: str) -> AgentConfig:
    """The config of an agent that the page names; `DataError` for others, among them addresses and class paths."""
    return agent_config(one_of(f"agent in {world}", agent, agents_for(world)))
