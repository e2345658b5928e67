"""What the Worlds tab offers: the worlds of this machine, one choice for each, and agents that need no weights."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from apps.agents import AGENTS, agent_config
from apps.world_states import WorldState, world_state
from apps.worlds import WORLDS, world_config_class
from backbone.errors import ConfigError, DataError
from backbone.rollout.agents import AgentConfig
from backbone.worlds.world import WorldConfig

OWN_AGENTS = {"metaworld-expert": "metaworld"}  # agents that can act in one world only


@dataclass(frozen=True)
class Choice:
    """The one setting of a world that the tab lets people choose: a field of its config, and the values it may have."""

    field: str
    label: str
    values: Callable[[], tuple[str, ...]]


def _names(module: str, name: str) -> Callable[[], tuple[str, ...]]:
    """The names in a module's tuple or table, imported when they are asked for; none of these brings a simulator."""
    return lambda: tuple(getattr(importlib.import_module(module), name))


CHOICES: dict[str, Choice] = {
    "metaworld": Choice("task", "Task", _names("vla.worlds.metaworld_tasks", "INSTRUCTIONS")),
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
    return str(getattr(world_config_class(world)(), CHOICES[world].field))


def agents_for(world: str) -> list[str]:
    """The agents that can act in a world."""
    return [name for name in AGENTS if OWN_AGENTS.get(name, world) == world]


def chosen_world(world: Any, value: Any) -> WorldConfig:
    """The config of a world that the page, or a script, names. Nothing else is imported for it.

    Raises:
        DataError: an unknown world, one that is not ready here (with its remedy), or a value it does not have.
    """
    if world not in WORLDS:  # a class path, which the command line allows, must not be loaded for a stranger
        raise DataError(f"world must be one of {', '.join(WORLDS)}, got {str(world)[:80]!r}")
    state = world_state(world)
    if state.state != "ready":
        raise DataError(f"{world} cannot be used here: {state.detail}; to get it: {state.remedy}")
    config = world_config_class(world)()
    if world not in CHOICES or value in (None, ""):
        return config
    choice = CHOICES[world]
    if value not in choice.values():
        raise DataError(f"{choice.label.lower()} must be one of {', '.join(choice.values())}, got {str(value)[:80]!r}")
    try:
        return cast(WorldConfig, dataclasses.replace(cast(Any, config), **{choice.field: value}))
    except ConfigError as error:
        raise DataError(str(error)) from error


def chosen_agent(agent: Any, world: str) -> AgentConfig:
    """The config of an agent that the page names; `DataError` for others, among them addresses and class paths."""
    names = agents_for(world)
    if agent not in names:
        raise DataError(f"agent must be one of {', '.join(names)} in {world}, got {str(agent)[:80]!r}")
    return agent_config(agent)
