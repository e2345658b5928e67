"""What the server knows of one connection: its present episode, the action it sent last, how many episodes it had."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apps.server.episodes import Episode
from apps.server.gate import Passed, UnsafeActionError
from apps.server.wording import one_line
from backbone.contracts import Decision, FloatArray, Observation
from backbone.errors import FoveaError, InstructionError
from backbone.serving.errors import RequestError

if TYPE_CHECKING:
    from apps.server.service import Service


class PolicyError(RequestError):
    """The policy itself failed, or cannot follow this instruction (``bad_observation``).

    The cause of a failure is for the server's log, its kind for the client.
    """

    def __init__(self, cause: BaseException) -> None:
        """The text of ``cause`` is passed on only where it is one of our own errors, made to be read."""
        if isinstance(cause, InstructionError):  # the client's fault
            super().__init__("bad_observation", one_line(str(cause)))
        else:
            said = f": {one_line(str(cause), 300)}" if isinstance(cause, FoveaError) else ""
            super().__init__("policy_error", f"the policy failed with {type(cause).__name__}{said}")
        self.__cause__ = cause


@dataclass(frozen=True)
class Decided:
    """An answer: what may be sent, the decision it came from, and where the time went."""

    passed: Passed
    decision: Decision
    infer_ms: float
    queue_ms: float

    def extras(self) -> dict[str, Any]:
        """What else a client may want to know: texts and floats only, for some clients index every array they get."""
        return {
            "status": str(self.decision.status),
            "thought": str(self.decision.thought),
            "reasoned": float(any(stage.reasoned for stage in self.decision.ledger.stages)),
            "clipped": float(self.passed.clipped),
            "slowed": float(self.passed.slowed),
        }


class Conversation:
    """One connection's state; nothing of it is shared, so that clients cannot influence each other."""

    def __init__(self, service: Service, gone: asyncio.Future[Any]) -> None:
        """``gone`` is done once the client has vanished."""
        self._service, self._gone = service, gone
        self.episode: Episode | None = None
        self._previous: FloatArray | None = None
        self._episodes = 0

    def begin(self, instruction: str, seed: int | None) -> None:
        """A new episode; without a ``seed`` it gets the server's plus the number of episodes before it."""
        self.end()
        seed = self._service.config.seed + self._episodes if seed is None else seed
        self.episode = Episode(self._service.agent, instruction, seed)
        self._episodes += 1
        self._service.metrics.episodes.inc()

    def end(self) -> None:
        """The episode is over, or lost; its session is closed on a thread of inference."""
        episode, self.episode, self._previous = self.episode, None, None
        if episode is not None and episode.end():
            self._service.close_later(episode)

    async def decide(self, observation: Observation) -> Decided:
        """The policy's gated actions for an observation of the present episode.

        Raises:
            RequestError: the policy failed or hung (the episode is lost then), its actions may not be sent, too many
                others wait, or the client has gone.
        """
        episode, workers = self.episode, self._service.workers
        assert episode is not None  # noqa: S101 - both protocols begin one first
        job = workers.submit(
            functools.partial(episode.act, observation), self._service.config.deadline_s, (episode, observation)
        )
        await asyncio.wait((job.future, self._gone), return_when=asyncio.FIRST_COMPLETED)
        if not job.future.done():
            workers.forget(job)
            raise RequestError("client_gone", "the client went away while the policy was thinking")
        queue_ms, infer_ms = (job.began - job.queued) * 1e3, (job.ended - job.began) * 1e3
        try:
            decision = job.future.result()
        except RequestError as error:
            if error.code == "deadline":
                self._service.metrics.late.inc()
                self.end()
            raise
        except BaseException as error:
            self.end()
            raise PolicyError(error) from error
        return Decided(self._gate(decision), decision, infer_ms, queue_ms)

    def _gate(self, decision: Any) -> Passed:
        metrics = self._service.metrics
        try:
            if not isinstance(decision, Decision):
                raise UnsafeActionError(f"the policy returned a {type(decision).__name__} instead of a Decision")
            passed = self._service.gate.check(getattr(decision.actions, "values", None), self._previous)
        except UnsafeActionError:
            metrics.refused.inc()
            raise
        metrics.clipped.inc(passed.clipped)
        metrics.slowed.inc(passed.slowed)
        self._previous = passed.values[-1]
        return passed
