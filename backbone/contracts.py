"""Data contracts shared by all systems: frozen, validated when made, each with a ``make_example``.

Images are ``uint8 (H, W, 3)`` RGB. Boxes are pixels of the *original* image, x to the right, y down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError

Image = NDArray[np.uint8]  # (H, W, 3) RGB
FloatArray = NDArray[np.float32]


def check_image(image: Any, where: str) -> Image:
    """Return ``image`` if it is ``uint8 (H, W, 3)``; raise `DataError` naming ``where`` otherwise."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        found = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise DataError(
            f"{where}: expected uint8 (H, W, 3) RGB, got {found}; decode it with backbone.images.read_image"
        )
    if image.shape[0] < 1 or image.shape[1] < 1:
        raise DataError(f"{where}: image of shape {image.shape} has no pixels")
    return image


def _check_finite(values: NDArray[Any], where: str) -> None:
    if not np.isfinite(values).all():
        raise DataError(f"{where}: {int((~np.isfinite(values)).sum())} of {values.size} values are NaN or infinite")


@dataclass(frozen=True)
class Box:
    """An axis-aligned box in pixels of the original image: ``x0 < x1`` and ``y0 < y1``, coordinates not negative."""

    x0: float
    y0: float
    x1: float
    y1: float
    label: str = ""
    score: float = 1.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(v) for v in (*self.corners, self.score)):
            raise DataError(f"box has a NaN or infinite value: {self.corners}, score {self.score}")
        if not (self.x0 < self.x1 and self.y0 < self.y1):
            raise DataError(f"box must have x0 < x1 and y0 < y1, got {self.corners} (label {self.label!r})")
        if self.x0 < 0 or self.y0 < 0:
            raise DataError(f"box starts outside the image: {self.corners}; clamp it with Box.clamped")

    @classmethod
    def clamped(cls, corners: Iterable[float], width: float, height: float, label: str = "", score: float = 1.0) -> Box:
        """A box from corners in any order, clipped to the image.

        Raises `DataError` if nothing of it lies inside, or if a number is NaN or infinite.
        """
        xa, ya, xb, yb = (float(v) for v in corners)
        if not all(math.isfinite(v) for v in (xa, ya, xb, yb)):  # min and max would drop a NaN without a word
            raise DataError(f"box has a NaN or infinite value: {(xa, ya, xb, yb)}")
        x0, x1 = max(0.0, min(xa, xb)), min(float(width), max(xa, xb))
        y0, y1 = max(0.0, min(ya, yb)), min(float(height), max(ya, yb))
        if not (x0 < x1 and y0 < y1):
            raise DataError(f"box {(xa, ya, xb, yb)} has no area inside the {width} x {height} image")
        return cls(x0, y0, x1, y1, label, score)

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """``(x0, y0, x1, y1)``."""
        return self.x0, self.y0, self.x1, self.y1

    @property
    def width(self) -> float:
        """Width in pixels."""
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        """Height in pixels."""
        return self.y1 - self.y0

    @property
    def area(self) -> float:
        """Area in square pixels."""
        return self.width * self.height

    def iou(self, other: Box) -> float:
        """Intersection over union with another box, 0 to 1."""
        w = min(self.x1, other.x1) - max(self.x0, other.x0)
        h = min(self.y1, other.y1) - max(self.y0, other.y0)
        if w <= 0 or h <= 0:
            return 0.0
        return w * h / (self.area + other.area - w * h)

    def coverage(self, target: Box) -> float:
        """The part of ``target`` that lies inside this box, 0 to 1."""
        w = min(self.x1, target.x1) - max(self.x0, target.x0)
        h = min(self.y1, target.y1) - max(self.y0, target.y0)
        return max(0.0, w) * max(0.0, h) / target.area

    @classmethod
    def make_example(cls) -> Box:
        """A valid box."""
        return cls(10.0, 20.0, 110.0, 220.0, "mug", 0.9)


@dataclass(frozen=True)
class Stage:
    """What one stage of one call cost. ``visual_tokens`` are part of ``prompt_tokens``; shared prefixes count once.

    ``prompt_tokens`` are those newly encoded by this stage, ``reused_tokens`` those taken from a cached prefix.
    """

    name: str
    visual_tokens: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    forward_passes: int = 0
    milliseconds: float = 0.0
    first_token_ms: float = 0.0
    reasoned: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        for key, value in asdict(self).items():
            if isinstance(value, (int, float)) and (not math.isfinite(value) or value < 0):
                raise DataError(f"ledger stage {self.name!r}: {key} must be finite and not negative, got {value}")
        if self.visual_tokens > self.prompt_tokens:
            raise DataError(
                f"ledger stage {self.name!r}: {self.visual_tokens} visual tokens exceed {self.prompt_tokens} "
                "prompt tokens, of which they are a part"
            )

    @property
    def tokens(self) -> int:
        """Tokens the model processed in this stage: newly encoded prompt plus generated."""
        return self.prompt_tokens + self.generated_tokens

    @classmethod
    def make_example(cls) -> Stage:
        """A valid stage."""
        return cls("looking", 64, 120, 0, 32, 33, 410.0, 95.0)


@dataclass(frozen=True)
class Ledger:
    """The stages of one call in order; ledgers add up with ``+``."""

    stages: tuple[Stage, ...] = ()

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(self.stages + other.stages)

    def total(self) -> Stage:
        """All stages summed into one named ``total``; its first token is the first of the last stage."""
        s = self.stages
        before_last = sum(x.milliseconds for x in s[:-1])
        return Stage(
            "total",
            sum(x.visual_tokens for x in s),
            sum(x.prompt_tokens for x in s),
            sum(x.reused_tokens for x in s),
            sum(x.generated_tokens for x in s),
            sum(x.forward_passes for x in s),
            sum(x.milliseconds for x in s),
            before_last + s[-1].first_token_ms if s else 0.0,
            any(x.reasoned for x in s),
            "; ".join(x.reason for x in s if x.reason),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: every stage and the total."""
        return {"stages": [asdict(s) for s in self.stages], "total": asdict(self.total())}

    @classmethod
    def make_example(cls) -> Ledger:
        """A valid ledger of two stages."""
        return cls((Stage.make_example(), replace(Stage.make_example(), name="answering")))


@dataclass(frozen=True)
class Answer:
    """An answer with the regions that were looked at and what it cost. ``notes`` state anything partial or repaired."""

    text: str
    regions: tuple[Box, ...]
    ledger: Ledger
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "answer": self.text,
            "regions": [asdict(b) for b in self.regions],
            "ledger": self.ledger.to_dict(),
            "notes": list(self.notes),
        }

    @classmethod
    def make_example(cls) -> Answer:
        """A valid answer."""
        return cls("K", (Box.make_example(),), Ledger.make_example())


@dataclass(frozen=True)
class Evidence:
    """A region of a page (from 0) that carries ``mass`` (0 to 1) of the evidence, and the text that stands there."""

    page: int
    box: Box
    mass: float
    text: str = ""

    def __post_init__(self) -> None:
        if self.page < 0 or not 0.0 <= self.mass <= 1.0:
            raise DataError(f"evidence needs page >= 0 and mass in [0, 1], got page {self.page}, mass {self.mass}")

    @classmethod
    def make_example(cls) -> Evidence:
        """A valid piece of evidence."""
        return cls(0, Box.make_example(), 0.8, "Total 12.50")


@dataclass(frozen=True)
class Observation:
    """What an embodied agent sees at ``time_s``: named RGB images, an optional state vector, and its instruction."""

    images: Mapping[str, Image]
    instruction: str
    state: FloatArray | None = None
    time_s: float = 0.0
    depths: Mapping[str, FloatArray] = field(default_factory=dict)  # float32 (H, W) metres, by the camera's name

    def __post_init__(self) -> None:
        if not self.images:
            raise DataError("observation has no images; at least one named camera is needed")
        for name, image in self.images.items():
            check_image(image, f"observation image {name!r}")
        for name, depth in self.depths.items():
            if depth.dtype != np.float32 or depth.ndim != 2:
                raise DataError(f"observation depth {name!r}: expected float32 (H, W), got {depth.dtype} {depth.shape}")
            _check_finite(depth, f"observation depth {name!r}")
        if self.state is not None:
            if self.state.dtype != np.float32 or self.state.ndim != 1:
                raise DataError(f"observation state: expected float32 (S,), got {self.state.dtype} {self.state.shape}")
            _check_finite(self.state, "observation state")
        if not math.isfinite(self.time_s):
            raise DataError(f"observation time_s must be finite, got {self.time_s}")

    @classmethod
    def make_example(cls) -> Observation:
        """A valid observation with one 64 x 64 camera and four state values."""
        return cls({"front": np.zeros((64, 64, 3), np.uint8)}, "find the mug", np.zeros(4, np.float32), 0.0)


@dataclass(frozen=True)
class ActionSpec:
    """Names, units and limits of an action vector, in order, and the control rate it is meant for.

    A discrete spec has one entry; its value is an index into ``choices``, the names of the actions. ``meanings`` says
    in words what a value does where its number alone could mislead (a gripper's -1 and 1), one for each name or none.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    control_hz: float
    kind: Literal["continuous", "discrete"] = "continuous"
    choices: tuple[str, ...] = ()
    meanings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = {"names": len(self.names), "units": len(self.units), "low": len(self.low), "high": len(self.high)}
        if len(set(lengths.values())) != 1 or not self.names:
            raise DataError(
                f"action spec: names, units, low and high must have one equal, non-zero length, got {lengths}"
            )
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise DataError(f"action spec {name!r}: needs finite low < high, got {low} and {high}")
        if not (math.isfinite(self.control_hz) and self.control_hz > 0):
            raise DataError(f"action spec: control_hz must be positive, got {self.control_hz}")
        if self.meanings and len(self.meanings) != len(self.names):
            raise DataError(f"action spec: {len(self.meanings)} meanings for {len(self.names)} names; give one each")
        if self.choices and self.kind != "discrete":
            raise DataError(f"action spec: choices {self.choices} belong to a discrete spec, this one is {self.kind}")
        if self.choices and (self.low, self.high) != ((0.0,), (len(self.choices) - 1.0,)):
            raise DataError(
                f"action spec: {len(self.choices)} choices need one name with limits 0 to {len(self.choices) - 1}, "
                f"got {self.low} to {self.high}"
            )

    @classmethod
    def discrete(cls, choices: tuple[str, ...], control_hz: float, name: str = "action") -> ActionSpec:
        """One index into ``choices``."""
        return cls((name,), ("index",), (0.0,), (len(choices) - 1.0,), control_hz, "discrete", choices)

    @classmethod
    def make_example(cls) -> ActionSpec:
        """Forward speed and turn rate."""
        return cls(("forward", "turn"), ("m/s", "rad/s"), (0.0, -1.0), (1.0, 1.0), 10.0)


@dataclass(frozen=True)
class ActionChunk:
    """``values`` float32 (H, A): H consecutive actions in the units of ``spec``."""

    values: FloatArray
    spec: ActionSpec

    def __post_init__(self) -> None:
        want = len(self.spec.names)
        if self.values.dtype != np.float32 or self.values.ndim != 2 or self.values.shape[1] != want:
            raise DataError(
                f"action chunk: expected float32 (H, {want}) for {self.spec.names}, "
                f"got {self.values.dtype} {self.values.shape}"
            )
        _check_finite(self.values, "action chunk")

    @classmethod
    def make_example(cls) -> ActionChunk:
        """Five actions of the example spec."""
        return cls(np.zeros((5, 2), np.float32), ActionSpec.make_example())


@dataclass(frozen=True)
class Trajectory:
    """``points`` float32 (T, 2 or 3) in metres, ``dt_s`` apart; frame ``ego`` is x forward, y left."""

    points: FloatArray
    dt_s: float
    frame: Literal["ego", "world"] = "ego"

    def __post_init__(self) -> None:
        if self.points.dtype != np.float32 or self.points.ndim != 2 or self.points.shape[1] not in (2, 3):
            raise DataError(f"trajectory: expected float32 (T, 2 or 3), got {self.points.dtype} {self.points.shape}")
        _check_finite(self.points, "trajectory")
        if not (math.isfinite(self.dt_s) and self.dt_s > 0):
            raise DataError(f"trajectory dt_s must be positive, got {self.dt_s}")

    @classmethod
    def make_example(cls) -> Trajectory:
        """Straight ahead at 5 m/s for two seconds."""
        return cls(np.stack([np.arange(4) * 2.5, np.zeros(4)], 1).astype(np.float32), 0.5)


@dataclass(frozen=True)
class Decision:
    """What an agent decided for one observation."""

    actions: ActionChunk
    ledger: Ledger = field(default_factory=Ledger)
    thought: str = ""
    status: str = "ok"

    @classmethod
    def make_example(cls) -> Decision:
        """A valid decision."""
        return cls(ActionChunk.make_example(), Ledger.make_example())


class Session(Protocol):
    """One episode of one agent: all state lives here and nowhere else."""

    def act(self, observation: Observation) -> Decision:
        """Decide for one observation."""
        ...

    def close(self) -> None:
        """Release the session; acting afterwards is an error."""
        ...


class Agent(Protocol):
    """Weights and config, shareable between sessions, without episode state."""

    spec: ActionSpec

    def session(self, instruction: str, seed: int) -> Session:
        """Start an episode."""
        ...
