"""The agent under test, and the worlds it plays in."""

from __future__ import annotations

from backbone.checks.playing import check_amounts
from backbone.contracts import Agent, Decision, FloatArray
from backbone.rollout.agents import AgentConfig, open_session
from backbone.rollout.config import episode_seed
from backbone.worlds.world import World, WorldConfig


class PolicyProbe:
    """The agent under test and the worlds it plays in."""

    def __init__(self, agent: AgentConfig, world: WorldConfig, seed: int, steps: int) -> None:
        """Both are opened when they are needed; ``steps`` are played in most checks."""
        check_amounts(seed, steps)
        self.agent_config = agent
        self.world_config = world
        self.seed = seed
        self.steps = steps
        self._agent: Agent | None = None
        self._worlds: list[World] = []
        self._alone: dict[int, list[FloatArray]] = {}

    def world(self, number: int = 0) -> World:
        """World ``number``, opened once."""
        while len(self._worlds) <= number:
            self._worlds.append(self.world_config.make())
        return self._worlds[number]

    @property
    def agent(self) -> Agent:
        """The agent, made once."""
        if self._agent is None:
            self._agent = self.agent_config.make(self.world().action_spec)
        return self._agent

    def play(self, number: int, place: int = 0) -> Play:
        """Begin episode ``number`` in the world at ``place``."""
        return Play(self, number, self.world(place))

    def alone(self, number: int) -> list[FloatArray]:
        """All chunks of episode ``number`` played by itself, remembered."""
        if number not in self._alone:
            self._alone[number] = self.play(number).to_the_end(self.steps)
        return self._alone[number]

    def mend(self) -> None:
        """Forget the worlds: their state is unknown."""
        worlds, self._worlds = self._worlds, []
        for world in worlds:
            try:
                world.close()
            except Exception:  # noqa: S112 - a broken world may break in close as well
                continue

    def close(self) -> None:
        """Close the worlds and the agent."""
        self.mend()
        agent, self._agent = self._agent, None
        close = getattr(agent, "close", None)
        if close is not None:
            close()


class Play:
    """An episode of the agent under test, decided and stepped one by one."""

    def __init__(self, probe: PolicyProbe, number: int, world: World) -> None:
        """Reset the world and open a session."""
        seed = episode_seed(probe.seed, number)
        self.world = world
        self.observation, _ = world.reset(seed=seed, options=probe.world_config.options(number))
        self.session = open_session(probe.agent, world, self.observation.instruction, seed)
        self.chunks: list[FloatArray] = []
        self.ended = False

    def decide(self) -> Decision:
        """Ask the agent."""
        return self.session.act(self.observation)

    def take(self, decision: Decision) -> None:
        """Carry out the decision's first action."""
        self.chunks.append(decision.actions.values.copy())
        self.observation, _, terminated, truncated, _ = self.world.step(decision.actions.values[0].copy())
        self.ended = bool(terminated or truncated)

    def to_the_end(self, steps: int) -> list[FloatArray]:
        """Play up to ``steps`` steps, close the session, and return the chunks (each (H, A))."""
        while not self.ended and len(self.chunks) < steps:
            self.take(self.decide())
        self.session.close()
        return self.chunks
