"""Settings of navigation. Each constant names its source.

STATED: in Hydra-Nav (arXiv 2602.09972), its section in brackets. OUR CHOICE: what the paper leaves open.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Literal, get_args

from backbone.errors import ConfigError
from backbone.pixels import Pixels

PromptStyle = Literal["short", "full"]
EdgeStyle = Literal["list", "runs"]
Segments = Literal["fixed", "legs"]


@dataclass(frozen=True)
class NavigationConfig:
    """How the agent sees, remembers, speaks and decides; see `PRESETS` for the named ones.

    Training examples are rendered with the same object that the agent runs with, so that both see the same tokens.
    """

    # The body and its eye. The words of the actions fix step and turn: STATED [2.1] 0.25 m and 30 degrees.
    width: int = 640  # STATED [2.2]: 640 x 480
    height: int = 480
    hfov_deg: float = 79.0  # OUR CHOICE: Habitat's ObjectNav
    camera_height: float = 0.88  # OUR CHOICE: likewise
    least_pixels: int | None = None  # lower limit on the area of an encoded picture; None: the model's own

    # The context cycle.
    memory_limit: int = 10  # STATED [2.3]: most landmarks; 1 keeps the newest alone, which is no memory
    edge_style: EdgeStyle = "list"  # STATED: literal action lists; "runs" writes "MoveAhead 0.25 x4" for four in a row
    prompt_style: PromptStyle = "full"  # "short" for nano, which is trained on it
    thought_tokens: int = 250  # OUR CHOICE: longest thought
    context_tokens: int = 32_768  # STATED [2.2]: 32k
    window: int = 64  # OUR CHOICE: fast turns before a context without `obs` (stage 1) starts anew

    # The switch.
    offer_after: int = 30  # STATED [2.5]: after so many fast actions `obs` is called for
    force_after: int = 35  # STATED [2.5]: never more steps than this between two `obs`
    offer_probability: float = 0.2  # OUR CHOICE: from `offer_after` on, so much probability of `obs` is enough
    blocked_change: float = 0.5  # OUR CHOICE of how a step ahead is known to be blocked, which calls for `obs` (STATED
    # [2.5]): the picture changes by less on average, of 255; 0 leaves it to the model alone
    end_confidence: float = (
        0.0  # OUR CHOICE of how sure an end must be (STATED [2.5]: only when confident): least share
    )
    # of `end` among a fast turn's choices; below it the best other action is taken; needs an engine that tells shares
    max_steps: int = 500  # OUR CHOICE: Habitat's limit of an episode

    # Decoding.
    constrained: bool = True  # OUR CHOICE: fast turns can only be one of the five actions; False parses free text
    temperature: float = 0.0  # OUR CHOICE: greedy in evaluation; 1.0 in rollouts for training
    slow_retries: int = 1  # OUR CHOICE: further thoughts after one without a readable action
    fast_retries: int = 1  # OUR CHOICE: further replies after an unreadable one, if decoding is not constrained

    def __post_init__(self) -> None:
        for key, allowed in (("edge_style", get_args(EdgeStyle)), ("prompt_style", get_args(PromptStyle))):
            if getattr(self, key) not in allowed:
                raise ConfigError(f"navigation: {key} must be one of {', '.join(allowed)}, got {getattr(self, key)!r}")
        least = ("width", "height", "memory_limit", "thought_tokens", "context_tokens", "window", "offer_after")
        for key in (*least, "force_after", "max_steps"):
            _whole(key, getattr(self, key), 1)
        for key in ("slow_retries", "fast_retries"):
            _whole(key, getattr(self, key), 0)
        if self.least_pixels is not None:
            _whole("least_pixels", self.least_pixels, 1)
        if self.offer_after > self.force_after:
            raise ConfigError(
                f"navigation: offer_after {self.offer_after} is more than force_after {self.force_after}; "
                "the look around is offered before it is forced"
            )
        _within("offer_probability", self.offer_probability, 0.0, 1.0)
        _within("blocked_change", self.blocked_change, 0.0, 255.0)
        _within("end_confidence", self.end_confidence, 0.0, 1.0)
        _within("temperature", self.temperature, 0.0, 5.0)
        _within("hfov_deg", self.hfov_deg, 10.0, 150.0)
        _within("camera_height", self.camera_height, 0.1, 2.4)

    def pixels(self, own: Pixels) -> Pixels:
        """Pixel limits to load a model with whose own are ``own``: frames are then encoded in their own size."""
        least = own.minimum if self.least_pixels is None else self.least_pixels
        return Pixels(least, max(own.maximum, least), own.factor)

    @classmethod
    def preset(cls, name: str) -> NavigationConfig:
        """A named preset; an unknown name is a `ConfigError` that lists them and names the closest."""
        if name not in PRESETS:
            close = difflib.get_close_matches(name, PRESETS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"no navigation preset {name!r}; there are {', '.join(sorted(PRESETS))}{hint}")
        return PRESETS[name]


@dataclass(frozen=True)
class DataConfig:
    """How training data are made: exploratory routes, segments, stagnation, and the repair of rollouts."""

    # Exploratory routes (stage 2) [4.1].
    openness_weight: float = 0.7  # STATED: lambda, the weight of closeness to the target
    waypoints: int = 2  # STATED: the two highest
    samples: int = 2000  # OUR CHOICE: points scored
    apart_m: float = 3.0  # OUR CHOICE: radius of non-maximum suppression
    away_m: float = 2.0  # OUR CHOICE: least distance of a waypoint from start and target
    longest_m: float = 100.0  # OUR CHOICE: longer routes are dropped

    # Segments [4.2].
    segment_steps: int = 16  # STATED: 15 motor actions and `obs`
    segments: Segments = "fixed"  # STATED; "legs": a look around also where the way turns off from its last direction
    least_leg: int = 6  # OUR CHOICE: fewest actions from one look to the next, where the way turns off

    # Stagnation [5.1].
    stagnation_steps: int = 20  # STATED: T_stag
    stagnation_m: float = 0.5  # STATED: delta_stag
    progress_low: int = 20  # STATED: Delta t is drawn from these bounds, both included
    progress_high: int = 35
    least_gap: int = 16  # OUR CHOICE: steps between two forced slow turns
    paper_literal: bool = False  # as printed: no gap, and repetitions count from the very start

    # Rollouts and their repair [5.2, 5.3].
    rollout_steps: int = 200  # STATED: T_max
    rollout_temperature: float = 1.0  # OUR CHOICE
    success_m: float = 1.0  # STATED: delta_success, from the object
    repaired_steps: int = 400  # STATED: longer repaired trajectories are dropped
    repaired_obs_every: int = 30  # OUR CHOICE: `obs` in the corrective part, so that it keeps the rule of 30
    rounds: int = 3  # STATED [5.4]

    def __post_init__(self) -> None:
        whole = ("waypoints", "samples", "stagnation_steps", "progress_low", "least_gap", "rollout_steps", "rounds")
        for key in (*whole, "repaired_steps", "repaired_obs_every", "least_leg"):
            _whole(key, getattr(self, key), 1)
        _whole("segment_steps", self.segment_steps, 2)
        if self.segments not in get_args(Segments):
            raise ConfigError(f"navigation: segments must be fixed or legs, got {self.segments!r}")
        if self.progress_high < self.progress_low:
            raise ConfigError(f"navigation: progress bounds {self.progress_low} to {self.progress_high} are reversed")
        for key in ("openness_weight", "apart_m", "away_m", "longest_m", "stagnation_m", "success_m"):
            _within(key, getattr(self, key), 0.0, 1e6)
        _within("rollout_temperature", self.rollout_temperature, 0.0, 5.0)


def _whole(key: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"navigation: {key} must be a whole number of at least {least}, got {value!r}")


def _within(key: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"navigation: {key} must lie from {low:g} to {high:g}, got {value}")


PRESETS = {
    # 160 x 128 is 5 x 4 visual tokens of 32 pixels; nano's own lower limit would enlarge the frame to 7 x 6.
    "nano": NavigationConfig(
        width=160,
        height=128,
        least_pixels=160 * 128,
        edge_style="runs",
        prompt_style="short",
        thought_tokens=96,
        context_tokens=16_384,
    ),
    "qwen": NavigationConfig(),
}
