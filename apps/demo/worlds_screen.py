"""What a running episode shows to its page: the newest moment, and never more of them than the page can take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from backbone.contracts import ActionSpec, Image
from backbone.errors import CancelledError
from backbone.rollout.episode import Moment

SHOW_EVERY_S = 0.1
SHOW_PART = 1 / 3  # of the time, at most, goes into drawing; a world whose map is slow is shown less often
FARTHEST_M = 10.0  # distances beyond are drawn black
Shown = TypeVar("Shown")
Phase = Literal["waiting", "opening", "running", "done", "cancelled", "failed"]


@dataclass(frozen=True)
class Snapshot:
    """One moment of an episode with everything the page draws, independent of the world that it was taken in."""

    pictures: Mapping[str, Image]
    drawing: Image
    instruction: str
    spec: ActionSpec
    step: int
    max_steps: int
    time_s: float
    steps_per_s: float
    total_reward: float
    metrics: Mapping[str, float]
    action: tuple[float, ...] | None = None
    tokens: int = 0
    thought: str = ""
    status: str = ""


@dataclass
class Screen(Generic[Shown]):
    """Holds the newest snapshot, whatever a tab draws. ``offer`` wakes the page only if it has taken the one before."""

    wake: Callable[[], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _newest: Shown | None = None

    def offer(self, snapshot: Shown) -> None:
        """Replace the newest snapshot."""
        with self._lock:
            waiting, self._newest = self._newest is not None, snapshot
        if not waiting:
            self.wake()

    def take(self) -> Shown | None:
        """The newest snapshot that was not taken yet."""
        with self._lock:
            snapshot, self._newest = self._newest, None
        return snapshot


class Viewer:
    """Watches an episode in the world's own thread: keeps its pace, takes snapshots, ends it once ``stop`` is set."""

    def __init__(self, screen: Screen[Snapshot], stop: threading.Event, steps_per_s: float | None) -> None:
        """``steps_per_s`` is the fastest that steps are made; None does not slow them down."""
        self._screen, self._stop = screen, stop
        self._least_s = 1 / steps_per_s if steps_per_s else 0.0
        self._reward, self._tokens = 0.0, 0
        self._busy_s, self._left_at = 0.0, time.perf_counter()
        self._next_at = 0.0

    def __call__(self, moment: Moment) -> None:
        """Show a moment, or raise `CancelledError`."""
        entered = time.perf_counter()
        if moment.step:
            self._busy_s += entered - self._left_at
        self._check()
        self._reward += moment.reward
        if moment.decision is not None:
            self._tokens += moment.decision.ledger.total().tokens
        ended = moment.terminated or moment.truncated
        if ended or not moment.step or entered >= self._next_at:
            self._screen.offer(self._snapshot(moment))
            self._next_at = entered + max(SHOW_EVERY_S, (time.perf_counter() - entered) / SHOW_PART)
        if not ended:
            self._stop.wait(max(0.0, self._least_s - (time.perf_counter() - self._left_at)))
            self._check()
        self._left_at = time.perf_counter()

    def _check(self) -> None:
        if self._stop.is_set():
            raise CancelledError("stopped")

    def _snapshot(self, moment: Moment) -> Snapshot:
        world, observation = moment.world, moment.observation
        pictures = {name: np.array(image) for name, image in observation.images.items()}
        pictures |= {f"{name} depth": _depth_picture(depth) for name, depth in observation.depths.items()}
        decision = moment.latest
        return Snapshot(
            pictures,
            np.array(world.draw()),
            observation.instruction,
            world.action_spec,
            moment.step,
            world.max_steps,
            observation.time_s,
            moment.step / self._busy_s if self._busy_s > 0 else 0.0,
            self._reward,
            dict(world.metrics()),
            None if moment.action is None else tuple(float(v) for v in moment.action),
            self._tokens,
            decision.thought if decision else "",
            decision.status if decision else "",
        )


def _depth_picture(depth: np.ndarray[Any, Any]) -> Image:
    """Distances (H, W) in metres as greys: white is near, black is `FARTHEST_M` or farther."""
    grey = 255 * (1 - np.clip(depth / FARTHEST_M, 0, 1))
    return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)
