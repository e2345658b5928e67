"""One run of the Navigate tab: from what the page sends to the updates it shows, for one contender or two."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from apps.demo.context import DemoContext
from apps.demo.jobs import Done, Tick
from apps.demo.navigate_choices import NavigateRequest
from apps.demo.navigate_lane import Lane, LaneShown
from apps.demo.navigate_view import lanes_html, outcome_of, results_html, status_of, thoughts_html
from apps.demo.sentences import Ending, told
from apps.demo.updates import row
from apps.demo.worlds_run import FRAME
from apps.demo.worlds_screen import SHOW_EVERY_S, SHOW_PART, Screen
from backbone.errors import CancelledError
from backbone.rollout.results import EpisodeResult

OUTPUTS = ("status", "view", "thoughts", "results")
TELL_EVERY_S = 0.05  # a thought grows faster than a page can show


@dataclass(frozen=True)
class Shown:
    """One moment of all lanes, and what steers them."""

    lanes: tuple[LaneShown, ...]
    steering: str


@dataclass
class _Page:
    """What the page has, so that pictures are sent only where they, or what the robot is at, have changed."""

    request: NavigateRequest | None = None
    sent: tuple[Any, ...] = ()
    last: Shown | None = None

    @property
    def steering(self) -> str:
        """Which model steers, once that is known."""
        return "" if self.last is None else self.last.steering

    def update(self, request: NavigateRequest, shown: Shown) -> tuple[Any, ...]:
        """The row of outputs that shows this moment."""
        self.last = shown
        values = {"thoughts": thoughts_html(shown.lanes), "status": status_of("running", request, shown.steering)}
        seen = tuple((lane.pictures, lane.phase) for lane in shown.lanes)
        if seen != self.sent:
            values["view"] = lanes_html(shown.lanes)
            self.sent = seen
        return update(**values)


def update(**values: Any) -> tuple[Any, ...]:
    """A full row of outputs in which only the named ones change."""
    return row(OUTPUTS, values)


def owner_of(session: str) -> str:
    """The name under which a session's runs of this tab wait for their turn, apart from its runs of other tabs."""
    return f"{session}/navigate"


def run_navigation(context: DemoContext, owner: str, read: Callable[[], NavigateRequest]) -> Iterator[Any]:
    """Updates of the page while one episode runs, or two side by side; ends with an error toast when it cannot.

    Args:
        context: model, settings and turn-taking.
        owner: see `owner_of`, for stopping.
        read: gives the checked request; called here so that its errors are shown like all others.
    """
    page = _Page()

    def show(phase: Ending, message: str) -> tuple[Any, ...]:
        return update(status=status_of(phase, page.request, page.steering, message))

    yield from told(_updates(context, owner, page, read), show, "Stopped. This is how far it came.")


def _updates(context: DemoContext, owner: str, page: _Page, read: Callable[[], NavigateRequest]) -> Iterator[Any]:
    yield update(status=status_of("waiting"), view="", thoughts="", results="")
    request = page.request = read()
    screen = Screen[Shown](lambda: None)
    stream = context.worlds.stream(_work(context, request, screen), owner)
    try:
        for item in stream:
            shown = None if isinstance(item, Tick) else screen.take()
            if shown is not None:
                yield page.update(request, shown)
            if isinstance(item, Tick) and page.last is None:
                yield update(status=status_of("waiting" if item.waiting else "opening", request))
            elif isinstance(item, Done):
                yield _final(request, page.steering, item.result)
    finally:
        stream.close()


def _final(request: NavigateRequest, steering: str, rows: list[EpisodeResult]) -> tuple[Any, ...]:
    outcome = " ".join(outcome_of(c.title, row, len(rows) > 1) for c, row in zip(request.contenders, rows, strict=True))
    return update(status=status_of("done", request, steering, outcome), results=results_html(request.contenders, rows))


def _work(
    context: DemoContext, request: NavigateRequest, screen: Screen[Shown]
) -> Callable[[threading.Event, Callable[[Any], None]], list[EpisodeResult]]:
    """The episodes from opening their worlds to closing them, all in the thread that runs this: so OpenGL wants it."""

    def work(stop: threading.Event, emit: Callable[[Any], None]) -> list[EpisodeResult]:
        screen.wake = lambda: emit(FRAME)
        hydra = context.pilot.hydra
        steering = context.pilot.steering(context.vlm)
        match = _Match(screen, steering.words)
        with ExitStack() as worlds:
            for contender in request.contenders:
                if stop.is_set():
                    raise CancelledError("stopped while the world was opening")
                lane = Lane(request, contender, hydra, steering, stop, match.tell)
                match.lanes.append(worlds.enter_context(closing(lane)))
                lane.start()
            match.show()
            return match.play(stop, request.steps_per_s)

    return work


@dataclass
class _Match:
    """Lanes that take turns, a step each, so that both can be watched."""

    screen: Screen[Shown]
    steering: str
    lanes: list[Lane] = field(default_factory=list)
    _next_at: float = 0.0
    _next_word_at: float = 0.0

    def play(self, stop: threading.Event, steps_per_s: float | None) -> list[EpisodeResult]:
        """All of them to their ends; the rows in the order of the lanes."""
        least_s = 1 / steps_per_s if steps_per_s else 0.0
        self._next_at = self._next_word_at = 0.0  # the first moment took longer to draw than the others will
        while running := [lane for lane in self.lanes if not lane.ended]:
            began = time.perf_counter()
            for lane in running:
                lane.step()
            if time.perf_counter() >= self._next_at:
                self.show()
            stop.wait(max(0.0, least_s - (time.perf_counter() - began)))
        self.show()
        return [lane.finish() for lane in self.lanes]

    def show(self) -> None:
        """Offer this moment to the page."""
        began = time.perf_counter()
        self.screen.offer(Shown(tuple(lane.shown() for lane in self.lanes), self.steering))
        spent = time.perf_counter() - began
        self._next_at = began + max(SHOW_EVERY_S, spent / SHOW_PART)
        self._next_word_at = began + max(TELL_EVERY_S, spent / SHOW_PART)

    def tell(self) -> None:
        """A thought has grown."""
        if time.perf_counter() >= self._next_word_at:
            self.show()
