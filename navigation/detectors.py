"""Whether and where a picture shows what is looked for: by the world's own labels, or by a model's boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from json_repair import repair_json
from numpy.typing import NDArray

from backbone.contracts import Box, Observation
from backbone.errors import DataError, WorldError
from backbone.vlm import VLM
from navigation.looking import front_of

Mask = NDArray[np.bool_]
ASK = 'Where is the {what}? Reply with JSON only: [{{"bbox_2d": [x0, y0, x1, y1], "label": "{what}"}}], or [].'


class Detector(Protocol):
    """Answers for the picture ahead of an observation."""

    def __call__(self, observation: Observation, what: str) -> Mask | None:
        """The pixels (H, W) that show it, or None if it is not in the picture. ``what`` as in ``tv monitor``."""
        ...


class TrueDetector:
    """The world's own labels: an upper bound for any detector, and privileged."""

    def __init__(self, world: Any, least: float = 0.002) -> None:
        """``world`` has ``instances()`` and ``describe()``; less than the share ``least`` of a picture is not seen.

        Raises:
            WorldError: the scene has no labels.
        """
        told = world.describe()
        self._goals = [int(goal["id"]) for goal in told["goals"]]
        self._instances: Callable[[], NDArray[np.int32]] = world.instances
        self._least = least
        if not {str(goal) for goal in self._goals} & set(told["labels"]):
            raise WorldError("the scene has no labels, so nothing can be detected by them; use the model's detector")

    def __call__(self, observation: Observation, what: str) -> Mask | None:
        """See `Detector`."""
        mask: Mask = np.isin(self._instances(), self._goals)
        return mask if mask.mean() >= self._least else None


class ModelDetector:
    """The boxes a model writes when it is asked where something is."""

    def __init__(self, vlm: VLM, adapter: str | None = None, max_new_tokens: int = 64) -> None:
        """One question a picture."""
        self._vlm, self._adapter, self._limit = vlm, adapter, max_new_tokens

    def __call__(self, observation: Observation, what: str) -> Mask | None:
        """See `Detector`; all boxes of the reply, filled."""
        image = front_of(observation)
        height, width = image.shape[:2]
        content = [{"type": "image", "image": image}, {"type": "text", "text": ASK.format(what=what)}]
        reply = self._vlm.generate(
            [{"role": "user", "content": content}],
            max_new_tokens=self._limit,
            adapter=self._adapter,
            stage="detecting",
        )
        mask = np.zeros((height, width), bool)
        for box in boxes_of(reply.texts[0], self._vlm, width, height):
            mask[int(box.y0) : int(np.ceil(box.y1)), int(box.x0) : int(np.ceil(box.x1))] = True
        return mask if mask.any() else None


def boxes_of(text: str, vlm: VLM, width: int, height: int) -> list[Box]:
    """The boxes in a reply, in pixels; entries that are none are left out."""
    begin = text.find("[")
    value: Any = repair_json(text[begin:], return_objects=True) if begin >= 0 else []
    boxes = []
    for entry in value if isinstance(value, list) else []:
        numbers = entry.get("bbox_2d") if isinstance(entry, dict) else None
        if isinstance(numbers, list) and len(numbers) == 4 and all(isinstance(n, int | float) for n in numbers):
            try:
                boxes.append(vlm.numbers_to_box(numbers, width, height))
            except DataError:
                continue  # a box without area
    return boxes
