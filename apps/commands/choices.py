"""Options that belong to a world and an agent: ``--world.width`` exists if the world that was named has a width.

A command with fields ``world`` and ``agent`` (names) offers ``command_for``, which returns its class with two more
fields, the config of that world and of that agent, parsed from ``--world.*`` and ``--agent.*``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import tyro

from apps.agents import RemoteConfig, agent_config, agent_config_class
from apps.plugins import is_plugin
from apps.worlds import WORLDS, world_config_class
from backbone.rollout.agents import AgentConfig
from backbone.worlds.world import WorldConfig

WORLD_FIELD, AGENT_FIELD = "world_config", "agent_config"
WORLD_HELP = f"{', '.join(WORLDS)}, or package.module:Class for a config of your own"


def named_world(arguments: Sequence[str]) -> str | None:
    """The world among the arguments: a known name or a class; failing that the first word that is no option."""
    for word in arguments:
        if word in WORLDS or is_plugin(word):
            return word
    return arguments[0] if arguments and not arguments[0].startswith("-") else None


def option(arguments: Sequence[str], name: str, default: str) -> str:
    """The value of ``--name VALUE`` or ``--name=VALUE``, the last one given."""
    value = default
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if word == name:
            value = following
        elif word.startswith(f"{name}="):
            value = word.partition("=")[2]
    return value


def with_configs(command: type, world: str | None, agent: str | None) -> type:
    """``command`` with the options of that world and that agent; raises `ConfigError` for unknown names."""
    fields: dict[str, tuple[Any, Any]] = {}
    if world is not None:
        fields[WORLD_FIELD] = (world_config_class(world), world_config_class(world))
    if agent is not None:
        kind = agent_config_class(agent)
        if dataclasses.fields(cast(Any, kind)):
            fields[AGENT_FIELD] = (kind, (lambda: RemoteConfig(agent)) if kind is RemoteConfig else kind)
    if not fields:
        return command
    names = {WORLD_FIELD: "world", AGENT_FIELD: "agent"}
    namespace: dict[str, Any] = {
        # Under the name of the original, so that the comments in its source are found and become the options' help.
        **{key: value for key, value in vars(command).items() if key in ("__doc__", "__firstlineno__")},
        "__module__": command.__module__,
        "__qualname__": command.__qualname__,
        "__annotations__": {key: Annotated[kind, tyro.conf.arg(name=names[key])] for key, (kind, _) in fields.items()},
        **{key: dataclasses.field(default_factory=make) for key, (_, make) in fields.items()},
    }
    return dataclasses.dataclass(frozen=True, kw_only=True)(type(command.__name__, (command,), namespace))


def with_named_configs(command: type, arguments: Sequence[str], agent: str) -> type:
    """``command`` with the options of the world and of the agent (by default ``agent``) that ``arguments`` name."""
    return with_configs(command, named_world(arguments), option(arguments, "--agent", agent))


class Run(Protocol):
    """A command that lets an agent act in a world."""

    @property
    def world(self) -> str:
        """The world's name."""
        ...

    @property
    def agent(self) -> str:
        """The agent's name."""
        ...

    @property
    def seed(self) -> int:
        """The run's."""
        ...


def run_folder(kind: str, run: Run) -> Path:
    """Where a run goes that was given no ``--output``: ``runs/KIND-WORLD-AGENT-SEED``."""
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in f"{run.world}-{run.agent}")
    return Path("runs") / f"{kind}-{plain}-{run.seed}"


def chosen_world(command: object, name: str) -> WorldConfig:
    """The world's config as parsed, or with its defaults where the command was made without one."""
    config = getattr(command, WORLD_FIELD, None)
    return cast(WorldConfig, config if config is not None else world_config_class(name)())


def chosen_agent(command: object, name: str) -> AgentConfig:
    """The agent's config as parsed, or with its defaults."""
    config = getattr(command, AGENT_FIELD, None)
    return cast(AgentConfig, config if config is not None else agent_config(name))
