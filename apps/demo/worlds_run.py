"""One run of the Worlds tab: from what the page sends to the updates it shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from apps.demo.context import DemoContext
from apps.demo.fields import one_of, whole
from apps.demo.jobs import Done, Tick
from apps.demo.sentences import Ending, told
from apps.demo.updates import row
from apps.demo.worlds_catalogue import chosen_agent, chosen_world
from apps.demo.worlds_screen import Screen, Snapshot, Viewer
from apps.demo.worlds_view import metrics_html, result_html, status_html, view_html
from backbone.errors import CancelledError
from backbone.rollout.agents import AgentConfig
from backbone.rollout.config import Episode
from backbone.rollout.episode import run_episode
from backbone.rollout.results import EpisodeResult
from backbone.worlds.world import WorldConfig

PACES: dict[str, float | None] = {"10 steps a second": 10.0, "full speed": None}
MAX_SEED = 2**31 - 1
OUTPUTS = ("status", "view", "metrics")
FRAME = "frame"  # wakes the page; the frame itself waits on the screen


@dataclass(frozen=True)
class RunRequest:
    """What the page sends, checked."""

    world: WorldConfig
    agent: AgentConfig
    seed: int
    steps_per_s: float | None

    @property
    def title(self) -> str:
        """The run in words."""
        return f"{self.agent.agent} in {self.world.world}, seed {self.seed}"


def read_request(world: Any, value: Any, seed: Any, agent: Any, pace: Any) -> RunRequest:
    """Check everything a page or a script can send.

    Raises:
        DataError: an unknown or unusable world, value, agent or pace, or a seed that is no whole number from 0 on.
    """
    number = whole("seed", seed, 0, MAX_SEED)
    one_of("pace", pace, PACES)
    config = chosen_world(world, value)
    return RunRequest(config, chosen_agent(agent, config.world), number, PACES[pace])


def update(**values: Any) -> tuple[Any, ...]:
    """A full row of outputs in which only the named ones change."""
    return row(OUTPUTS, values)


def run_world(context: DemoContext, owner: str, read: Callable[[], RunRequest]) -> Iterator[Any]:
    """Updates of the page while one episode runs; ends with an error toast when it cannot.

    Args:
        context: settings and turn-taking.
        owner: the session, for stopping.
        read: gives the checked request; called here so that its errors are shown like all others.
    """
    page = _Page()

    def show(phase: Ending, message: str) -> tuple[Any, ...]:
        return update(status=status_html(phase, page.last, message=message))

    yield from told(_updates(context, owner, page, read), show, "Stopped. This is how far it came.")


@dataclass
class _Page:
    """The moment that the page shows."""

    last: Snapshot | None = None


def _updates(context: DemoContext, owner: str, page: _Page, read: Callable[[], RunRequest]) -> Iterator[Any]:
    yield update(status=status_html("waiting"), view="", metrics="")
    request = read()
    screen = Screen[Snapshot](lambda: None)
    stream = context.worlds.stream(_work(request, screen), owner)
    try:
        for item in stream:
            shown = None if isinstance(item, Tick) else screen.take()
            page.last = shown or page.last
            if isinstance(item, Done):
                yield _final(request, item.result, page.last)
            elif shown is not None:
                yield _running(request, shown)
            elif isinstance(item, Tick) and page.last is None:
                yield update(status=status_html("waiting" if item.waiting else "opening", title=request.title))
    finally:
        stream.close()


def _work(
    request: RunRequest, screen: Screen[Snapshot]
) -> Callable[[threading.Event, Callable[[Any], None]], EpisodeResult]:
    """The episode from opening its world to closing it, all in the one thread that runs this: so OpenGL wants it."""

    def work(stop: threading.Event, emit: Callable[[Any], None]) -> EpisodeResult:
        screen.wake = lambda: emit(FRAME)
        world = request.world.make()
        agent = None
        try:
            if stop.is_set():
                raise CancelledError("stopped while the world was opening")
            agent = request.agent.make(world.action_spec)
            # The seed counts as the episode's number too, so that other seeds show other tasks, logs and scenarios.
            episode = Episode(request.seed, request.seed, request.world.options(request.seed))
            return run_episode(world, agent, episode, watchers=(Viewer(screen, stop, request.steps_per_s),))
        finally:
            close = getattr(agent, "close", None)
            if close is not None:
                close()
            world.close()

    return work


def _running(request: RunRequest, shown: Snapshot) -> tuple[Any, ...]:
    return update(
        status=status_html("running", shown, title=request.title),
        view=view_html(shown),
        metrics=metrics_html(shown.metrics, "so far"),
    )


def _final(request: RunRequest, result: EpisodeResult, last: Snapshot | None) -> tuple[Any, ...]:
    outcome = result_html(result)
    metrics = metrics_html(result.metrics, "at the end")
    view = {"view": view_html(last)} if last is not None else {}
    return update(status=status_html("done", last, title=request.title, message=outcome), metrics=metrics, **view)
