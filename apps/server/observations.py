"""From the keys of a wire message to an `Observation`: every key is declared, nothing is guessed, nothing is dropped.

A camera ``front`` is ``images/front``, or ``images: {front: ...}``; an ``observation/`` before a key is taken too, and
each world or robot may declare further names (``aliases``), such as LIBERO's ``observation/wrist_image``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from backbone.contracts import FloatArray, Image, Observation
from backbone.errors import ConfigError, DataError
from backbone.serving.errors import RequestError

TEXT_KEYS = ("prompt", "instruction", "task_description")
CONTROL_KEYS = ("reset", "seed", "time_s")
NESTS = ("observation", "images", "depths")
MAX_SEED = 2**63 - 1


def _refuse(message: str) -> RequestError:
    return RequestError("bad_observation", message)


@dataclass(frozen=True)
class Camera:
    """A camera's picture size in pixels (None: any) and the axis order of its array on the wire."""

    height: int | None = None
    width: int | None = None
    layout: Literal["HWC", "CHW"] = "HWC"

    @property
    def shape(self) -> list[int | None]:
        """The array's shape on the wire."""
        return [3, self.height, self.width] if self.layout == "CHW" else [self.height, self.width, 3]


@dataclass(frozen=True)
class ObservationLayout:
    """What an observation of one world or robot holds, and under which names it may come."""

    images: Mapping[str, Camera]
    depths: Mapping[str, Camera] = field(default_factory=dict)
    state: int | None = None  # how many values; None: no state
    state_parts: tuple[str, ...] = ()  # keys whose vectors in this order make up the state, such as DROID's
    aliases: Mapping[str, str] = field(default_factory=dict)  # another name -> images/NAME, depths/NAME or state
    default_prompt: str | None = None  # for clients that send none

    def __post_init__(self) -> None:
        if not self.images:
            raise ConfigError("an observation layout needs at least one camera under `images`")
        unknown = {alias: key for alias, key in self.aliases.items() if key not in self.arrays()}
        if unknown:
            raise ConfigError(f"aliases {unknown} lead to nothing; there are: {', '.join(self.arrays())}")
        if self.state_parts and self.state is None:
            raise ConfigError(f"state_parts {self.state_parts} need the size of the state they make up")

    def arrays(self) -> list[str]:
        """The generic keys of all arrays."""
        state = ["state"] if self.state is not None else []
        return [*(f"images/{name}" for name in self.images), *(f"depths/{name}" for name in self.depths), *state]

    def describe(self) -> dict[str, dict[str, Any]]:
        """Every key with shape, dtype and further names, as plain values for the metadata."""
        keys: dict[str, dict[str, Any]] = {}
        for name, camera in self.images.items():
            keys[f"images/{name}"] = {"shape": camera.shape, "dtype": "uint8", "layout": camera.layout, "colour": "RGB"}
        for name, camera in self.depths.items():
            keys[f"depths/{name}"] = {"shape": [camera.height, camera.width], "dtype": "float32", "unit": "m"}
        if self.state is not None:
            keys["state"] = {"shape": [self.state], "dtype": "float32", "parts": list(self.state_parts)}
        for key, entry in keys.items():
            entry["also"] = [alias for alias, target in self.aliases.items() if target == key]
        keys["prompt"] = {"dtype": "str", "also": list(TEXT_KEYS[1:]), "required": self.default_prompt is None}
        return keys


@dataclass(frozen=True)
class Request:
    """One decoded observation message: what the agent sees, and what it says about the episode."""

    observation: Observation
    reset: bool = False
    seed: int | None = None


def read_request(message: Any, layout: ObservationLayout, instruction: str | None = None) -> Request:
    """The request in ``message``; ``instruction`` is the episode's, for protocols that give it once.

    Raises:
        RequestError: a key is missing, unknown or double, or its value has another shape or type than declared.
    """
    if not isinstance(message, Mapping):
        raise _refuse(f"an observation must be a map, got a {type(message).__name__}; {_expected(layout)}")
    found, control, texts = _sort(message, layout)
    missing = [key for key in layout.arrays() if key not in found]
    if missing:
        raise _refuse(f"missing {', '.join(missing)}; {_expected(layout)}; got {_names(message)}")
    text = _instruction(texts, instruction, layout)
    try:
        observation = Observation(
            {name: _image(found[f"images/{name}"], camera, name) for name, camera in layout.images.items()},
            text,
            None if layout.state is None else _vector(found["state"], layout.state, "state"),
            _number(control.get("time_s", 0.0), "time_s"),
            {name: _depth(found[f"depths/{name}"], camera, name) for name, camera in layout.depths.items()},
        )
    except DataError as error:
        raise _refuse(str(error)) from error
    return Request(observation, _flag(control.get("reset", False)), read_seed(control.get("seed")))


def _sort(
    message: Mapping[Any, Any], layout: ObservationLayout
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Arrays by generic key, control values, and texts; an unknown or double key is refused."""
    found: dict[str, Any] = {}
    control: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    known = set(layout.arrays())
    for key, value in _flatten(message).items():
        plain = key.removeprefix("observation/")
        target = layout.aliases.get(key, plain)
        if key in layout.state_parts:
            parts[key] = value
        elif target in known:
            if target in found:
                raise _refuse(f"{target} comes twice, under different names; got {_names(message)}")
            found[target] = value
        elif plain in TEXT_KEYS:
            texts[plain] = value
        elif plain in CONTROL_KEYS:
            control[plain] = value
        else:
            raise _refuse(f"unknown key {key[:80]!r}; {_expected(layout)}; got {_names(message)}")
    if parts and "state" not in found:
        found["state"] = _joined(parts, layout)
    return found, control, texts


def _flatten(message: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in message.items():
        if not isinstance(key, str):
            raise _refuse(f"keys must be texts, got {key!r:.80}")
        nested = isinstance(value, Mapping) and key.rsplit("/", 1)[-1] in NESTS
        for name, item in _flatten(value, f"{before}{key}/").items() if nested else [(before + key, value)]:
            if name in flat:
                raise _refuse(f"{name[:80]} comes twice, nested and flat")
            flat[name] = item
    return flat


def _joined(parts: Mapping[str, Any], layout: ObservationLayout) -> FloatArray:
    missing = [part for part in layout.state_parts if part not in parts]
    if missing:
        raise _refuse(f"missing {', '.join(missing)}, which make up the state with {', '.join(parts)}")
    return np.concatenate([_vector(parts[part], None, part) for part in layout.state_parts])


def _instruction(texts: Mapping[str, Any], given: str | None, layout: ObservationLayout) -> str:
    if any(not isinstance(text, str) for text in texts.values()):
        raise _refuse(f"{', '.join(texts)} must be text")
    different = {str(text) for text in texts.values()}
    if len(different) > 1:
        raise _refuse(f"{' and '.join(texts)} say different things; send one of them")
    text = different.pop() if different else given if given is not None else layout.default_prompt
    if text is None:
        raise _refuse(f"missing prompt; {_expected(layout)}")
    return text


def _image(value: Any, camera: Camera, name: str) -> Image:
    wanted = camera.shape
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or not _fits(value.shape, wanted):
        raise _refuse(f"images/{name}: expected uint8 {_shape(wanted)} RGB ({camera.layout}), got {_what(value)}")
    pixels = value.transpose(1, 2, 0) if camera.layout == "CHW" else value
    return np.array(pixels, np.uint8, order="C")  # an own copy: what is sent may not be written to


def _depth(value: Any, camera: Camera, name: str) -> FloatArray:
    wanted = [camera.height, camera.width]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not _fits(value.shape, wanted):
        raise _refuse(f"depths/{name}: expected float32 {_shape(wanted)} in metres, got {_what(value)}")
    return np.array(value, np.float32, order="C")


def _vector(value: Any, size: int | None, name: str) -> FloatArray:
    if isinstance(value, list):
        if not all(isinstance(number, int | float | np.number) for number in value):
            raise _refuse(f"{name}: expected {size or 'some'} numbers, got a list of something else")
        value = np.array(value, np.float32)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.ndim > 1:
        raise _refuse(f"{name}: expected {size or 'some'} numbers (float32), got {_what(value)}")
    if size is not None and value.shape != (size,):
        raise _refuse(f"{name}: expected shape ({size},), got {value.shape}")
    return np.atleast_1d(np.array(value, np.float32))


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise _refuse(f"{name}: expected a number, got {_what(value)}")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _refuse(f"reset: expected true or false, got {_what(value)}")
    return bool(value)


def read_seed(value: Any) -> int | None:
    """An episode's seed; None where none is given. Raises `RequestError` for all but whole numbers in range."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= MAX_SEED:
        raise _refuse(f"seed: expected a whole number from 0 to {MAX_SEED}, got {_what(value)}")
    return int(value)


def _fits(shape: tuple[int, ...], wanted: list[int | None]) -> bool:
    return len(shape) == len(wanted) and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))


def _shape(wanted: list[int | None]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in wanted) + ")"


def _what(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return f"{type(value).__name__} {value!r:.40}"


def _names(message: Mapping[Any, Any]) -> str:
    return ", ".join(str(key)[:40] for key in list(_flatten(message))[:20]) or "nothing"


def _expected(layout: ObservationLayout) -> str:
    further = ", ".join([*layout.aliases, *layout.state_parts])
    others = f" (also {further})" if further else ""
    return f"expected {', '.join(layout.arrays())}, prompt{others}, and optionally {', '.join(CONTROL_KEYS)}"
