"""What a step of navigation decided, and a thought as it is being written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backbone.contracts import Decision
from navigation.actions import OBS
from navigation.switching import Why

Mode = Literal["fast", "slow", "obs", "looking"]


@dataclass(frozen=True)
class NavigationDecision(Decision):
    """A decision with what led to it. ``status`` is the mode with why: ``fast``, ``slow``, ``obs: policy``.

    ``obs_probability`` is the model's share of ``obs`` among the five actions, None where it was not asked or where the
    engine gives no probabilities. ``notes`` say what was repaired.
    """

    action: str = OBS  # our word
    mode: Mode = "fast"
    why: Why | None = None  # of a look around, and of the slow turn after it
    obs_probability: float | None = None
    landmarks: int = 0
    context: int = 0  # tokens of the conversation
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ThoughtPiece:
    """A piece of a thought as it is written: of the episode with ``seed``, for its landmark number ``landmark``."""

    seed: int
    landmark: int
    text: str
