"""One training picture with everything asked about it, and the registry of the functions that make such samples."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from backbone.contracts import Image, check_image
from backbone.curriculum.scenes import Thing
from backbone.errors import ConfigError, DataError

Message = dict[str, Any]
Region = tuple[float, float, float, float]  # pixels of the sample's image


@dataclass(frozen=True)
class Sample:
    """A picture and independent conversations about it; every assistant turn is a target.

    Each conversation begins with a user turn whose first part is the sample's own picture, so that one encoding of it
    serves all of them. Assistant text parts may carry ``focus``: the region of the picture that determines them.
    ``things`` are what the picture holds (for dense supervision of the vision tower); None where that is unknown.
    ``maps`` are labels of its visual tokens by name, int64 (rows, columns), -100 where there is nothing to learn.
    """

    image: Image
    conversations: tuple[tuple[Message, ...], ...]
    things: tuple[Thing, ...] | None = None
    maps: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_image(self.image, "training sample")
        for name, labels in self.maps.items():
            height, width = self.image.shape[:2]
            if labels.ndim != 2 or height % labels.shape[0] or height * labels.shape[1] != width * labels.shape[0]:
                raise DataError(
                    f"label map {name!r} of shape {labels.shape} is no grid of square cells over a picture of "
                    f"{height} x {width}; give one label for each visual token"
                )
        if not self.conversations:
            raise DataError("a training sample needs at least one conversation")
        for messages in self.conversations:
            first = messages[0]["content"][0] if messages and messages[0]["role"] == "user" else {}
            if first.get("image") is not self.image:
                raise DataError(
                    "every conversation of a sample must begin with a user turn that shows the sample's image"
                )
            if messages[-1]["role"] != "assistant":
                raise DataError("every conversation of a sample must end with an assistant turn, its target")


Source = Callable[[Generator, tuple[int, int]], Sample]


@dataclass(frozen=True)
class RegisteredSource:
    """A named function that makes one sample of about ``size`` = (width, height) pixels, and how often it is drawn."""

    name: str
    make: Source
    weight: float


_SOURCES: dict[str, RegisteredSource] = {}


def source(name: str, weight: float) -> Callable[[Source], Source]:
    """Register a sample source under a unique name; ``weight`` is its default share of the curriculum."""

    def register(make: Source) -> Source:
        if name in _SOURCES and _SOURCES[name].make.__qualname__ != make.__qualname__:
            raise ConfigError(f"curriculum source {name!r} is registered twice: {_SOURCES[name].make} and {make}")
        if weight < 0:
            raise ConfigError(f"curriculum source {name!r} needs a weight >= 0, got {weight}")
        _SOURCES[name] = RegisteredSource(name, make, weight)
        return make

    return register


def sources() -> dict[str, RegisteredSource]:
    """All registered sources by name."""
    return dict(_SOURCES)


def get_source(name: str) -> RegisteredSource:
    """One source; an unknown name is answered with the closest ones."""
    if name not in _SOURCES:
        close = difflib.get_close_matches(name, _SOURCES, n=3)
        raise ConfigError(f"no curriculum source {name!r}; {f'did you mean {close}?' if close else sorted(_SOURCES)}")
    return _SOURCES[name]


def ask(image: Image, question: str, *answer: str | tuple[str, Region]) -> tuple[Message, ...]:
    """A one-turn conversation. Answer pieces are text, or ``(text, focus region)``."""
    return (
        {"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": question}]},
        reply(*answer),
    )


def reply(*pieces: str | tuple[str, Region]) -> Message:
    """An assistant turn from text pieces, some with the region that determines them."""
    parts: list[Message] = []
    for piece in pieces:
        text, focus = (piece, None) if isinstance(piece, str) else piece
        parts.append({"type": "text", "text": text, "focus": focus})
    return {"role": "assistant", "content": parts}


def box_pieces(
    items: Sequence[tuple[Region, str]], size: tuple[int, int], grid: int = 1000
) -> list[str | tuple[str, Region]]:
    """Pieces of the JSON list of boxes in Qwen3-VL's form; the numbers of each box carry it as their focus."""
    pieces: list[str | tuple[str, Region]] = []
    lead = "["
    for region, label in items:
        numbers = [round(v * grid / size[i % 2]) for i, v in enumerate(region)]
        pieces += [lead + '{"bbox_2d": [', (", ".join(str(n) for n in numbers), region), f'], "label": "{label}"}}']
        lead = ", "
    return [*pieces, "]"] if items else ["[]"]
