"""The agents by name. Each is described by a config class, which is imported only when it is asked for.

A new agent is one entry in `AGENTS`: a frozen dataclass of plain values with ``agent`` (its name) and ``make(spec)``.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import tyro

from apps.names import no_such
from apps.plugins import is_plugin, load_plugin
from backbone.contracts import ActionSpec, Agent
from backbone.rollout.agents import AgentConfig

if TYPE_CHECKING:
    from backbone.serving.remote_agent import RemoteAgent

ADDRESSES = ("ws://", "wss://")


@dataclass(frozen=True)
class AgentEntry:
    """Where an agent's config class lives, and what the agent is."""

    module: str
    config: str
    summary: str


AGENTS: dict[str, AgentEntry] = {
    "expert": AgentEntry("backbone.rollout.agents", "ExpertConfig", "the world's own expert, which reads the world"),
    "random": AgentEntry("backbone.rollout.agents", "RandomConfig", "random actions within the limits"),
    "still": AgentEntry("backbone.rollout.agents", "ConstantConfig", "one action for ever, by default standing still"),
    "hydra": AgentEntry(
        "navigation.agent_config", "HydraConfig", "a model that finds objects, thinking where it looks around"
    ),
    "frontier": AgentEntry(
        "navigation.frontier", "FrontierConfig", "explores by a map from depth until a detector sees the object"
    ),
    "wander": AgentEntry("navigation.wander", "WanderConfig", "walks until the view is blocked, then turns"),
    "metaworld-expert": AgentEntry(
        "apps.agents", "MetaWorldExpertConfig", "Meta-World's scripted policies, seeing only the observation"
    ),
}
OTHERS = "ws://HOST:PORT for a policy server, package.module:Class for a config of your own"


@dataclass(frozen=True)
class MetaWorldExpertConfig:
    """Meta-World's scripted policies behind the observation, as a learned agent would be."""

    @property
    def agent(self) -> str:
        """``metaworld-expert``."""
        return "metaworld-expert"

    def make(self, spec: ActionSpec) -> Agent:
        """The agent; its actions are Meta-World's, whatever ``spec`` says."""
        from vla.worlds.metaworld_expert import MetaWorldPolicyAgent

        return MetaWorldPolicyAgent()


@dataclass(frozen=True)
class RemoteConfig:
    """A policy behind a server. Its token is read from the environment, so that it is in no file of results."""

    uri: Annotated[str, tyro.conf.Suppress]  # given as the agent's name
    timeout_s: float = 30.0  # of every answer
    token_variable: str = "FOVEA_TOKEN"  # noqa: S105 - the environment variable that holds the token
    assume_actions: bool = False  # trust a server that does not say what its actions mean to speak the world's

    @property
    def agent(self) -> str:
        """The server's address."""
        return self.uri

    def make(self, spec: ActionSpec) -> RemoteAgent:
        """Connect; raises `ServerError`s, and `AnswerError` if the server does not say what its actions mean."""
        from backbone.serving.remote_agent import RemoteAgent

        return RemoteAgent(
            self.uri,
            token=os.environ.get(self.token_variable),
            timeout_s=self.timeout_s,
            spec=spec if self.assume_actions else None,
        )


def agent_config_class(name: str) -> type[AgentConfig]:
    """The config class of an agent; an unknown name is answered with the closest one."""
    if name.startswith(ADDRESSES):
        return RemoteConfig
    if is_plugin(name):
        return cast(type[AgentConfig], load_plugin(name, "agent", "make"))
    if name not in AGENTS:
        raise no_such("agent", name, AGENTS, OTHERS)
    entry = AGENTS[name]
    return cast(type[AgentConfig], getattr(importlib.import_module(entry.module), entry.config))


def agent_config(name: str) -> AgentConfig:
    """The agent's config with default settings."""
    kind = agent_config_class(name)
    return RemoteConfig(name) if kind is RemoteConfig else kind()
