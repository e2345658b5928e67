"""One episode, step by step: the same machine runs it alone, in lockstep with others, and under the demo's eyes."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from backbone.contracts import Agent, Decision, FloatArray, Observation, Session
from backbone.errors import DataError, WorldError
from backbone.rollout.agents import open_session
from backbone.rollout.config import Episode
from backbone.rollout.failures import describe_error, suppressed
from backbone.rollout.limits import FOREVER_S, Overtime, Watch, unwatched
from backbone.rollout.results import Costs, EpisodeError, EpisodeResult
from backbone.worlds.world import Info, World, check_action


@dataclass(frozen=True)
class Moment:
    """What a watcher is shown after the reset (``step`` 0, no action) and after every step.

    ``decision`` is there at the steps before which the agent was asked, ``latest`` is the one the action came from:
    the same, or with a chunk of several actions an earlier one. ``before`` is the observation before the action.
    """

    world: World
    episode: Episode
    step: int
    observation: Observation
    info: Info
    before: Observation | None = None
    action: FloatArray | None = None  # (A,)
    decision: Decision | None = None
    latest: Decision | None = None  # the decision the action came from, made now or earlier
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


Watcher = Callable[[Moment], None]


@dataclass(frozen=True, kw_only=True)
class EpisodeSettings:
    """How an episode is run, whichever one it is."""

    execute: int = 1
    max_steps: int | None = None
    timeout_s: float = math.inf  # of the episode's own time: waiting for others in lockstep does not count
    watch: Watch = unwatched


@dataclass
class _State:
    session: Session | None = None
    observation: Observation | None = None
    instruction: str = ""
    planned: deque[FloatArray] = field(default_factory=deque)
    fresh: Decision | None = None  # a decision of which no action was carried out yet
    latest: Decision | None = None
    steps: int = 0
    decisions: int = 0
    reward: float = 0.0
    end: Literal["terminated", "truncated", "limit", "failed"] | None = None
    spent_s: float = 0.0
    agent_s: float = 0.0


class EpisodeRun:
    """An episode under way: `start`, then while not `ended`: `decide` or `take` where `wants_decision`, and `step`."""

    def __init__(
        self,
        world: World,
        agent: Agent,
        episode: Episode,
        settings: EpisodeSettings | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        """Nothing happens before `start`; ``watchers`` are called in order, and an error of one ends the episode."""
        self.episode = episode
        self._world = world
        self._agent = agent
        self._settings = settings or EpisodeSettings()
        self._watchers = watchers
        self._state = _State()
        self._costs = Costs()
        self._statuses: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        """Whether the world, or the limit of steps, ended the episode."""
        return self._state.end is not None

    @property
    def wants_decision(self) -> bool:
        """Whether the agent must be asked before the next step."""
        return not self._state.planned

    @property
    def session(self) -> Session:
        """The agent's session; only after `start`."""
        if self._state.session is None:
            raise WorldError("this episode has not been started, or is closed")
        return self._state.session

    @property
    def observation(self) -> Observation:
        """The latest observation; only after `start`."""
        if self._state.observation is None:
            raise WorldError("this episode has not been started")
        return self._state.observation

    @property
    def remaining_s(self) -> float:
        """What is left of the episode's own time."""
        return self._settings.timeout_s - self._state.spent_s

    def start(self) -> None:
        """Reset the world and open the agent's session."""
        state, episode = self._state, self.episode
        with self._limited():
            observation, info = self._world.reset(seed=episode.seed, options=dict(episode.options))
            state.observation, state.instruction = observation, observation.instruction
            state.session = open_session(self._agent, self._world, observation.instruction, episode.seed)
            self._show(Moment(self._world, episode, 0, observation, info))

    def decide(self) -> None:
        """Ask the agent about the latest observation."""
        started = time.perf_counter()
        with self._limited():
            decision = self.session.act(self.observation)
        self.take(decision, time.perf_counter() - started, charged=True)

    def take(self, decision: Decision, seconds: float, *, charged: bool = False) -> None:
        """Plan the actions of ``decision``, which took ``seconds`` (this episode's share of a common inference).

        Raises:
            DataError: no `Decision`, or a chunk with fewer actions than are to be carried out.
        """
        state = self._state
        if not isinstance(decision, Decision):
            raise DataError(f"the agent answered with a {type(decision).__name__}; act must return a Decision")
        values, wanted = decision.actions.values, self._settings.execute
        if len(values) < wanted:
            raise DataError(
                f"the agent gave a chunk of {len(values)} actions, of which {wanted} are to be carried out; "
                f"set execute to at most {len(values)}"
            )
        state.planned.extend(values[:wanted])
        state.fresh = state.latest = decision
        state.decisions += 1
        state.agent_s += seconds
        if not charged:
            state.spent_s += seconds
        self._costs.add(decision.ledger)
        self._statuses[decision.status] = self._statuses.get(decision.status, 0) + 1

    def step(self) -> None:
        """Carry out the next planned action."""
        state, world = self._state, self._world
        action = check_action(state.planned.popleft(), world.action_spec, "the agent's action")
        before = self.observation
        with self._limited():
            observation, reward, terminated, truncated, info = world.step(action.copy())
            state.observation = observation
            state.steps += 1
            state.reward += _finite(float(reward), "the step's reward")
            if terminated or truncated:
                state.end = "terminated" if terminated else "truncated"
            elif self._settings.max_steps is not None and state.steps >= self._settings.max_steps:
                state.end = "limit"
            elif state.steps >= world.max_steps:
                raise WorldError(
                    f"{world.name} did not end the episode after its own max_steps = {world.max_steps}; "
                    "its step must return truncated"
                )
            decision, state.fresh = state.fresh, None
            self._show(
                Moment(
                    world, self.episode, state.steps, observation, info, before, action, decision, state.latest,
                    float(reward), bool(terminated), bool(truncated),
                )
            )  # fmt: skip

    def play(self) -> EpisodeResult:
        """From `start` to `finish` in one call; raises whatever the world, the agent or a watcher raises."""
        self.start()
        while not self.ended:
            if self.wants_decision:
                self.decide()
            self.step()
        return self.finish()

    def finish(self) -> EpisodeResult:
        """The row of an ended episode. Raises `DataError` for metrics that are missing or not finite."""
        with self._limited():
            metrics = {name: float(value) for name, value in self._world.metrics().items()}
        missing = {"success", "path_length"} - set(metrics)
        if missing:
            raise DataError(f"{self._world.name}: metrics lack {sorted(missing)}; they have {sorted(metrics)}")
        for name, value in metrics.items():
            _finite(value, f"{self._world.name}: metric {name!r}")
        self.close()
        return self._row("scored", metrics=metrics)

    def fail(self, error: BaseException) -> EpisodeResult:
        """The row of an episode that ``error`` ended."""
        with suppressed():
            self.close()
        described = describe_error(error)
        if isinstance(error, Overtime):
            described = overtime_error(self._settings.timeout_s, described.traceback)
        return self._row("failed", error=described)

    def close(self) -> None:
        """Close the agent's session; a second call does nothing."""
        session, self._state.session = self._state.session, None
        if session is not None:
            session.close()

    def _row(
        self,
        status: Literal["scored", "failed"],
        metrics: dict[str, float] | None = None,
        error: EpisodeError | None = None,
    ) -> EpisodeResult:
        state = self._state
        seconds = max(state.spent_s, 1e-9)
        return EpisodeResult(
            index=self.episode.index,
            seed=self.episode.seed,
            options=self.episode.options,
            status=status,
            instruction=state.instruction,
            end=state.end if status == "scored" and state.end else "failed",
            success=bool(metrics and metrics["success"]),
            steps=state.steps,
            decisions=state.decisions,
            path_length=metrics["path_length"] if metrics else None,
            total_reward=state.reward,
            metrics=metrics or {},
            ledger=self._costs.counts(),
            statuses=dict(sorted(self._statuses.items())),
            error=error,
            timing={
                "seconds": state.spent_s,
                "steps_per_s": state.steps / seconds,
                "agent_s": state.agent_s,
                "ledger_ms": self._costs.milliseconds,
            },
        )

    def _show(self, moment: Moment) -> None:
        for watcher in self._watchers:
            watcher(moment)

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """Charge the episode for a call, and end it when its time is up."""
        remaining = self.remaining_s
        if remaining <= 0:
            raise Overtime
        if math.isinf(remaining):
            remaining = FOREVER_S
        started = time.perf_counter()
        try:
            with self._settings.watch(self.episode.index, remaining):
                yield
        finally:
            self._state.spent_s += time.perf_counter() - started


def overtime_error(timeout_s: float, where: str) -> EpisodeError:
    """The error of an episode that ran past its time, and where it was then."""
    return EpisodeError("EpisodeTimeout", f"the episode did not end within {timeout_s:g} s of its own time", where)


def run_episode(
    world: World,
    agent: Agent,
    episode: Episode,
    settings: EpisodeSettings | None = None,
    watchers: Sequence[Watcher] = (),
) -> EpisodeResult:
    """Run one episode to its end and return its row; raises whatever the world, the agent or a watcher raises.

    A watcher that raises `CancelledError` is how a caller stops an episode. Past the settings' ``timeout_s`` it raises
    `Overtime`, which is no `Exception`; `EpisodeRun.fail` makes a row of any of these.
    """
    run = EpisodeRun(world, agent, episode, settings, watchers)
    try:
        return run.play()
    finally:
        run.close()


def _finite(value: float, where: str) -> float:
    if not np.isfinite(value):
        raise DataError(f"{where} is {value}")
    return value
