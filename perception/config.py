"""Settings of perception: how far to look, how often, how close. Each constant names its source.

STATED: given by SPARC's authors (arXiv 2602.06566, figures and tables). OUR CHOICE: what they do not state.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Literal, get_args

from backbone.errors import ConfigError

Method = Literal["sparc", "native", "zoom"]
Regime = Literal[256, 512, "full"]
ZoomPrompt = Literal["short", "tool"]


@dataclass(frozen=True)
class PerceptionConfig:
    """One way of answering a question about an image; see `PRESETS` for the named ones."""

    method: Method = "sparc"
    regime: Regime = 256  # STATED: longest side of the global image in pixels; "full" has only the model's own limits
    rollouts: int = 1  # STATED: 1, 4 or 8 perception samples from one prefill; 1 is greedy
    temperature: float = 0.7  # second-hand account of the paper: sampling temperature of the rollouts
    fusion_iou: float = 0.5  # second-hand account of the paper: boxes above it are fused
    perception_adapter: str | None = None  # LoRA of stage 1 alone (STATED: swapped in for stage 1 only)
    reasoning_adapter: str | None = None  # LoRA of every answer: stage 2, native and zoom

    box_expand: float = 1.2  # OUR CHOICE: factor about the centre of a box
    min_side: int = 64  # OUR CHOICE: least side of a close-up's region, original pixels
    min_side_fraction: float = 0.02  # OUR CHOICE: the same as a fraction of the original's longer side
    point_side_fraction: float = 0.15  # OUR CHOICE: side of the square around a point, of the original's shorter side
    min_area_fraction: float = 1e-5  # OUR CHOICE: smaller boxes (of the image's area) are noise and dropped
    duplicate_iou: float = 0.9  # OUR CHOICE: close-ups that overlap more show the same thing twice
    max_crops: int = 6  # OUR CHOICE
    crop_longest: int | None = None  # OUR CHOICE: cap of a close-up's longer side; None: 512, at regime "full" 1024
    crop_shortest: int = 224  # OUR CHOICE: close-ups are enlarged to this shorter side, within the cap

    zoom_turns: int = 6  # OUR CHOICE: the paper gives no limit; turns of the zoom loop, the last one must answer
    zoom_prompt: ZoomPrompt = "tool"  # "tool": the tool's description as Qwen's template writes it; "short": nano's
    zoom_expand: float = 1.0  # the cookbook's tool cuts out what was asked for
    zoom_temperature: float = 0.0  # OUR CHOICE: greedy like the other methods; Qwen3-VL's cookbook samples at 0.7,
    zoom_top_p: float = 1.0  # from the likeliest tokens that have 0.8 together (and with top_k and a penalty, not here)
    zoom_invalid: int = 2  # OUR CHOICE: calls in a row that cannot be carried out before an answer is demanded

    max_search_tokens: int = 256  # OUR CHOICE: about six boxes with labels
    max_answer_tokens: int = 256  # OUR CHOICE
    max_zoom_tokens: int = 512  # OUR CHOICE: one turn of the zoom loop

    def __post_init__(self) -> None:
        for key, allowed in (("method", get_args(Method)), ("regime", get_args(Regime))):
            _one_of(key, getattr(self, key), allowed)
        _one_of("zoom_prompt", self.zoom_prompt, get_args(ZoomPrompt))
        for key in _COUNTS:
            _at_least_one(key, getattr(self, key))
        for key in ("fusion_iou", "duplicate_iou", "point_side_fraction"):
            _inside(key, getattr(self, key), 0.0, 1.0, open_low=True)
        _inside("min_side_fraction", self.min_side_fraction, 0.0, 1.0)
        _inside("min_area_fraction", self.min_area_fraction, 0.0, 0.1)
        _inside("box_expand", self.box_expand, 1.0, 10.0)
        _inside("zoom_expand", self.zoom_expand, 1.0, 10.0)
        _inside("temperature", self.temperature, 0.0, 5.0)
        _inside("zoom_temperature", self.zoom_temperature, 0.0, 5.0)
        _inside("zoom_top_p", self.zoom_top_p, 0.0, 1.0, open_low=True)
        if self.zoom_top_p < 1.0 and self.zoom_temperature == 0.0:
            raise ConfigError(f"zoom_top_p {self.zoom_top_p} does nothing at zoom_temperature 0; raise it (0.7)")
        if self.rollouts > 1 and self.temperature == 0.0:
            raise ConfigError(f"{self.rollouts} rollouts at temperature 0 are all the same; raise temperature (0.7)")
        if self.crop_cap < self.crop_shortest:
            raise ConfigError(
                f"crop_longest {self.crop_cap} is less than crop_shortest {self.crop_shortest}; change one of them"
            )

    @property
    def longest(self) -> int | None:
        """Longest side of the global image in pixels; None at regime ``full``."""
        return None if self.regime == "full" else self.regime

    @property
    def crop_cap(self) -> int:
        """Longest side of a close-up in pixels."""
        if self.crop_longest is not None:
            return self.crop_longest
        return 1024 if self.regime == "full" else 512

    @classmethod
    def preset(cls, name: str) -> PerceptionConfig:
        """A named preset; an unknown name is a `ConfigError` that lists them and names the closest."""
        if name not in PRESETS:
            close = difflib.get_close_matches(name, PRESETS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"no perception preset {name!r}; there are {', '.join(sorted(PRESETS))}{hint}")
        return PRESETS[name]


_COUNTS = (
    "rollouts",
    "min_side",
    "max_crops",
    "crop_cap",
    "crop_shortest",
    "zoom_turns",
    "zoom_invalid",
    "max_search_tokens",
    "max_answer_tokens",
    "max_zoom_tokens",
)


def _one_of(key: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed or isinstance(value, bool):
        raise ConfigError(f"{key} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _at_least_one(key: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{key} must be a whole number of at least 1, got {value!r}")


def _inside(key: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    if not (math.isfinite(value) and low <= value <= high) or (open_low and value == low):
        raise ConfigError(f"{key} must lie {'above' if open_low else 'from'} {low} to {high}, got {value}")


PRESETS = {
    # Nano reads its own short prompts, writes few tokens, and has learnt on close-ups with a longer side of 224 px.
    "nano": PerceptionConfig(
        crop_longest=224,
        zoom_prompt="short",
        zoom_expand=1.2,
        max_search_tokens=128,
        max_answer_tokens=32,
        max_zoom_tokens=96,
    ),
    "qwen3-vl-4b": PerceptionConfig(),
    # Qwen2.5-VL has no zoom tool of its own; the tool's description serves as plain instructions.
    "qwen2.5-vl-3b": PerceptionConfig(),
}
