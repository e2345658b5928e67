"""Several episodes in one process, step by step together, so that an agent can decide for all in one inference.

The results are those of each episode alone. When a common inference fails, nobody knows whose fault it was, and the
sessions may be half changed: the episodes that took part are run again from their start, each asking for itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from backbone.contracts import Agent
from backbone.errors import DataError
from backbone.rollout.agents import BatchedAgent
from backbone.rollout.config import Episode
from backbone.rollout.episode import EpisodeRun, EpisodeSettings
from backbone.rollout.failures import ASKED, suppressed
from backbone.rollout.limits import FOREVER_S, SEVERAL
from backbone.rollout.results import EpisodeResult
from backbone.rollout.video import Film
from backbone.worlds.world import World


@dataclass(frozen=True)
class Task:
    """An episode to run; ``alone`` keeps it out of common inferences."""

    episode: Episode
    alone: bool = False


NextTask = Callable[[bool], Task | None]  # argument: whether to wait for one; None: there is none (now)
MakeFilm = Callable[[Episode], Film | None]


@dataclass
class _Slot:
    world: World | None = None
    run: EpisodeRun | None = None
    film: Film | None = None
    alone: bool = False


class Lockstep:
    """Runs tasks in ``batch`` slots, each with its own world."""

    def __init__(
        self,
        make_world: Callable[[], World],
        agent: Agent,
        settings: EpisodeSettings,
        batch: int,
        film: MakeFilm,
        first: World | None = None,
    ) -> None:
        """``first`` is a world that is open already; the others are opened when they are needed."""
        self._make_world = make_world
        self._agent = agent
        self._settings = settings
        self._film = film
        self._slots = [_Slot(first)] + [_Slot() for _ in range(batch - 1)]
        self._again: deque[Task] = deque()

    def results(self, next_task: NextTask) -> Iterator[EpisodeResult]:
        """Rows as episodes end, until there are no more tasks."""
        try:
            while True:
                yield from self._fill(next_task)
                busy = [slot for slot in self._slots if slot.run is not None]
                if not busy:
                    return
                yield from self._decide(busy)
                for slot in busy:
                    yield from self._step(slot)
        finally:
            self.close()

    def close(self) -> None:
        """Close every session and world, whatever each of them says to it."""
        for slot in self._slots:
            if slot.run is not None:
                with suppressed():
                    slot.run.close()
            if slot.film is not None:
                slot.film.discard()
            _close_world(slot)
            slot.run = slot.film = None

    def _fill(self, next_task: NextTask) -> Iterator[EpisodeResult]:
        """Start tasks in the free slots; wait for one only if all are free."""
        for slot in self._slots:
            while slot.run is None:
                idle = all(other.run is None for other in self._slots)
                task = self._again.popleft() if self._again else next_task(idle)
                if task is None:
                    break
                yield from self._begin(slot, task)

    def _begin(self, slot: _Slot, task: Task) -> Iterator[EpisodeResult]:
        if slot.world is None:
            slot.world = self._make_world()
        slot.film = self._film(task.episode)
        watchers = [slot.film] if slot.film is not None else []
        slot.run = EpisodeRun(slot.world, self._agent, task.episode, self._settings, watchers)
        slot.alone = task.alone
        yield from self._guarded(slot, slot.run.start)

    def _decide(self, busy: Sequence[_Slot]) -> Iterator[EpisodeResult]:
        asking = [slot for slot in busy if slot.run is not None and slot.run.wants_decision]
        together = [slot for slot in asking if not slot.alone]
        if isinstance(self._agent, BatchedAgent) and len(self._slots) > 1 and together:
            self._decide_together(self._agent, together)
            asking = [slot for slot in asking if slot.alone]
        for slot in asking:
            if slot.run is not None:
                yield from self._guarded(slot, slot.run.decide)

    def _decide_together(self, agent: BatchedAgent, slots: Sequence[_Slot]) -> None:
        runs = [slot.run for slot in slots if slot.run is not None]
        started = time.perf_counter()
        limit = max(min(run.remaining_s for run in runs), 0.0)
        try:
            with self._settings.watch(SEVERAL, min(limit, FOREVER_S)):
                decisions = agent.act_many([run.session for run in runs], [run.observation for run in runs])
            if len(decisions) != len(runs):
                raise DataError(f"act_many gave {len(decisions)} decisions for {len(runs)} sessions")
            share = (time.perf_counter() - started) / len(runs)
            for run, decision in zip(runs, decisions, strict=True):
                run.take(decision, share)
        except ASKED:
            raise
        except BaseException:  # also a SystemExit of the agent
            for slot in slots:
                self._run_again(slot)

    def _run_again(self, slot: _Slot) -> None:
        assert slot.run is not None  # noqa: S101 - for the type checker: only busy slots come here
        self._again.append(Task(slot.run.episode, alone=True))
        with suppressed():
            slot.run.close()
        if slot.film is not None:
            slot.film.discard()
        slot.run = slot.film = None

    def _step(self, slot: _Slot) -> Iterator[EpisodeResult]:
        run = slot.run
        if run is None:
            return
        yield from self._guarded(slot, run.step)
        if slot.run is not None and run.ended:
            finished: list[EpisodeResult] = []
            yield from self._guarded(slot, lambda: finished.append(run.finish()))
            if finished:
                yield self._completed(slot, finished[0])

    def _guarded(self, slot: _Slot, action: Callable[[], None]) -> Iterator[EpisodeResult]:
        """Do ``action``; if it fails, yield the failed row and replace the world, whose state nobody knows."""
        try:
            action()
        except ASKED:
            raise
        except BaseException as error:  # also a SystemExit: no class of a user's ends this program
            assert slot.run is not None  # noqa: S101 - for the type checker: only busy slots come here
            row = slot.run.fail(error)
            _close_world(slot)
            yield self._completed(slot, row)

    def _completed(self, slot: _Slot, row: EpisodeResult) -> EpisodeResult:
        if slot.film is not None:
            row = slot.film.finish(row)
        slot.run = slot.film = None
        return row


def _close_world(slot: _Slot) -> None:
    world, slot.world = slot.world, None
    if world is not None:
        with suppressed():
            world.close()
