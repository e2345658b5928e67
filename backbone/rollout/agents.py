"""Agents that need no weights, and how any agent is described, made and asked.

An agent is described by a frozen dataclass of plain values (`AgentConfig`), which travels to the process that runs it
and makes it there, once. Three optional abilities are recognised by name:

- ``privileged = True`` with ``session_in(world, instruction, seed)``: the agent reads the world itself (an expert);
- ``act_many(sessions, observations)``: one inference for several episodes, with the results of each alone;
- ``close()``: give back what the agent holds when its process ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from backbone.contracts import ActionChunk, ActionSpec, Agent, Decision, FloatArray, Observation, Session
from backbone.errors import ConfigError, DataError, WorldError
from backbone.worlds.world import World

RESTING_CHOICES = ("idle", "noop", "stay", "stop")  # names of a discrete action that stands still
CLOSED = "the episode of this agent is closed; start another with agent.session(instruction, seed)"
RANDOM_STREAM = 0x5EED  # keeps an agent's dice apart from those of a world with the same seed


class AgentConfig(Protocol):
    """A frozen dataclass of plain values that makes an agent, here or in another process."""

    @property
    def agent(self) -> str:
        """The agent's name, for example ``expert``."""
        ...

    def make(self, spec: ActionSpec) -> Agent:
        """Make the agent for a world with these actions; `ConfigError` or `ModelError` where they do not fit."""
        ...


@runtime_checkable
class PrivilegedAgent(Protocol):
    """An agent that may look into the world: an expert, or an upper bound. Never a policy to be compared."""

    privileged: bool

    def session_in(self, world: World, instruction: str, seed: int) -> Session:
        """Start an episode that may read ``world``."""
        ...


@runtime_checkable
class BatchedAgent(Protocol):
    """An agent that decides for several episodes in one inference."""

    def act_many(self, sessions: Sequence[Session], observations: Sequence[Observation]) -> list[Decision]:
        """One decision for each session, equal to what ``session.act(observation)`` alone would give."""
        ...


def is_privileged(agent: Agent) -> bool:
    """Whether the agent reads the world itself instead of its observations."""
    return isinstance(agent, PrivilegedAgent) and agent.privileged


def open_session(agent: Agent, world: World, instruction: str, seed: int) -> Session:
    """Start an episode of ``agent`` in ``world``, which was reset before.

    Raises:
        ConfigError: the agent acts with other names, units or limits than the world understands.
    """
    check_specs(agent.spec, world.action_spec)
    if isinstance(agent, PrivilegedAgent) and agent.privileged:
        return agent.session_in(world, instruction, seed)
    return agent.session(instruction, seed)


def check_specs(agent: ActionSpec, world: ActionSpec) -> None:
    """Raise `ConfigError` naming the first difference that would make an action mean something else."""
    for name in ("kind", "names", "units", "choices", "low", "high"):
        mine, theirs = getattr(agent, name), getattr(world, name)
        if mine != theirs:
            raise ConfigError(
                f"the agent's actions are not the world's: {name} {mine} against {theirs}; "
                "choose an agent made for this world, or convert its actions"
            )


def single(action: FloatArray, spec: ActionSpec) -> ActionChunk:
    """A chunk of one action (A,)."""
    return ActionChunk(np.asarray(action, np.float32)[None], spec)


@dataclass(frozen=True)
class ExpertConfig:
    """The world's own expert."""

    @property
    def agent(self) -> str:
        """``expert``."""
        return "expert"

    def make(self, spec: ActionSpec) -> ExpertAgent:
        """An expert for worlds with these actions."""
        return ExpertAgent(spec)


class ExpertAgent:
    """Asks the world for its expert's action at every step."""

    privileged = True

    def __init__(self, spec: ActionSpec) -> None:
        """Act with ``spec``, the world's own."""
        self.spec = spec

    def session_in(self, world: World, instruction: str, seed: int) -> Session:
        """Start an episode in ``world``; the expert needs no seed."""
        return _ExpertSession(world, self.spec)

    def session(self, instruction: str, seed: int) -> Session:
        """Refused: an expert needs the world."""
        raise WorldError("an expert reads the world itself and has no session without one; use session_in(world, ...)")


class _ExpertSession:
    def __init__(self, world: World, spec: ActionSpec) -> None:
        self._world: World | None = world
        self._spec = spec

    def act(self, observation: Observation) -> Decision:
        if self._world is None:
            raise WorldError(CLOSED)
        return Decision(single(self._world.expert_action(), self._spec))

    def close(self) -> None:
        self._world = None


@dataclass(frozen=True)
class RandomConfig:
    """Uniformly random actions within the limits: the floor that any policy must beat."""

    @property
    def agent(self) -> str:
        """``random``."""
        return "random"

    def make(self, spec: ActionSpec) -> RandomAgent:
        """A random agent for these actions."""
        return RandomAgent(spec)


class RandomAgent:
    """Uniformly random actions; an episode's dice depend on ``seed`` and the session's own seed alone."""

    def __init__(self, spec: ActionSpec, seed: int = 0) -> None:
        """Act with ``spec``; another ``seed`` gives other dice in every episode."""
        self.spec = spec
        self._seed = seed

    def session(self, instruction: str, seed: int) -> Session:
        """Start an episode."""
        return _RandomSession(self.spec, np.random.default_rng((RANDOM_STREAM, self._seed, seed)))


class _RandomSession:
    def __init__(self, spec: ActionSpec, generator: np.random.Generator) -> None:
        self._spec = spec
        self._generator: np.random.Generator | None = generator

    def act(self, observation: Observation) -> Decision:
        if self._generator is None:
            raise WorldError(CLOSED)
        spec = self._spec
        if spec.kind == "discrete":
            drawn = self._generator.integers(np.asarray(spec.low, int), np.asarray(spec.high, int) + 1)
            return Decision(single(drawn.astype(np.float32), spec))
        return Decision(single(self._generator.uniform(spec.low, spec.high).astype(np.float32), spec))

    def close(self) -> None:
        self._generator = None


@dataclass(frozen=True)
class ConstantConfig:
    """One action for ever; without ``action`` the one that stands still."""

    action: tuple[float, ...] = ()  # in the units of the world; empty: stand still

    @property
    def agent(self) -> str:
        """``still``, or ``constant`` if an action is given."""
        return "constant" if self.action else "still"

    def make(self, spec: ActionSpec) -> ConstantAgent:
        """A constant agent for these actions."""
        return ConstantAgent(spec, self.action or resting_action(spec))


class ConstantAgent:
    """Repeats one action."""

    def __init__(self, spec: ActionSpec, action: Sequence[float]) -> None:
        """Act with ``action`` (A,) in the units of ``spec``."""
        if len(action) != len(spec.names):
            raise ConfigError(f"a constant action needs {len(spec.names)} values for {spec.names}, got {list(action)}")
        self.spec = spec
        self._chunk = single(np.asarray(action, np.float32), spec)

    def session(self, instruction: str, seed: int) -> Session:
        """Start an episode."""
        return _ConstantSession(self._chunk)


class _ConstantSession:
    def __init__(self, chunk: ActionChunk) -> None:
        self._chunk: ActionChunk | None = chunk

    def act(self, observation: Observation) -> Decision:
        if self._chunk is None:
            raise WorldError(CLOSED)
        return Decision(self._chunk)

    def close(self) -> None:
        self._chunk = None


def resting_action(spec: ActionSpec) -> tuple[float, ...]:
    """The action that stands still: the value nearest to zero, or the choice whose name says so.

    Raises:
        DataError: a discrete spec without such a name.
    """
    if spec.kind == "continuous":
        return tuple(min(max(0.0, low), high) for low, high in zip(spec.low, spec.high, strict=True))
    names = [choice.lower() for choice in spec.choices]
    for name in RESTING_CHOICES:
        if name in names:
            return (float(names.index(name)),)
    raise DataError(f"none of the choices {spec.choices} stands still ({', '.join(RESTING_CHOICES)}); give an action")
