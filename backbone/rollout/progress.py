"""Progress of a run with the success rate so far: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from backbone.rollout.results import EpisodeResult
from backbone.statistics import wilson

LINE_EVERY_S = 20.0


class RunProgress:
    """Shows how far a run is; ``with`` opens and closes it."""

    def __init__(self, name: str, total: int, console: Console | None) -> None:
        """``console`` None shows nothing."""
        self._name = name
        self._total = total
        self._console = console
        self._done = self._failed = self._scored = self._successes = 0
        self._new = 0
        self._started = self._printed = time.monotonic()
        self._bar: Progress | None = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._console is not None and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=self._console,
            )  # fmt: skip
            self._task = self._bar.add_task(self._name, total=self._total, rate="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def skip(self, count: int) -> None:
        """Count episodes that an earlier run dealt with, and of which nothing more is known here."""
        self._done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)

    def add(self, row: EpisodeResult, *, new: bool = True) -> None:
        """Count one row; ``new`` ones were run just now."""
        self._done += 1
        self._new += new
        self._scored += row.status == "scored"
        self._failed += row.status != "scored"
        self._successes += row.status == "scored" and row.success
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=self.rate())
        elif self._console is not None and new:
            self._line()

    def rate(self) -> str:
        """The success rate so far with its interval, and the failures."""
        text = f"success {wilson(self._successes, self._scored)}" if self._scored else "nothing scored"
        return f"{text}, {self._failed} failed" if self._failed else text

    def _line(self) -> None:
        now = time.monotonic()
        if self._done < self._total and now - self._printed < LINE_EVERY_S:
            return
        assert self._console is not None  # noqa: S101 - for the type checker: `add` asked
        self._printed = now
        left = (now - self._started) / max(1, self._new) * (self._total - self._done)
        eta = f", about {left:.0f} s left" if self._done < self._total else ""
        self._console.print(f"{self._name}: {self._done} of {self._total} episodes, {self.rate()}{eta}")
