"""Getting the four pictures of a look around: from the world in one action, or by turning the body full circle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import cv2
import numpy as np

from backbone.contracts import Image, Observation
from navigation.actions import LEFT, OBS, ActionMap
from navigation.worlds.navigation_world import PANORAMA

QUARTER = 3  # turns of 30 degrees
Views = tuple[Image, Image, Image, Image]


def front_of(observation: Observation) -> Image:
    """The camera that looks ahead: ``front``, or the first one."""
    images = observation.images
    return images[PANORAMA[0]] if PANORAMA[0] in images else next(iter(images.values()))


def panorama_of(images: Mapping[str, Image]) -> Views | None:
    """The four pictures ahead, to the left, behind and to the right; None if one is missing or all black."""
    if any(name not in images or not images[name].any() for name in PANORAMA):
        return None
    front, left, back, right = (images[name] for name in PANORAMA)
    return front, left, back, right


def fitted(image: Image, width: int, height: int) -> Image:
    """A picture of the size the model is used to: cut about its middle to that shape, then scaled.

    A picture that is too high loses rows above and below, so that its horizontal field of view stays.
    """
    have_height, have_width = image.shape[:2]
    if (have_width, have_height) == (width, height):
        return image
    rows = min(have_height, max(1, round(have_width * height / width)))
    columns = min(have_width, max(1, round(have_height * width / height)))
    top, left = (have_height - rows) // 2, (have_width - columns) // 2
    cut = np.ascontiguousarray(image[top : top + rows, left : left + columns])
    way = cv2.INTER_AREA if cut.shape[1] >= width else cv2.INTER_LINEAR
    return np.ascontiguousarray(cv2.resize(cut, (width, height), interpolation=way)).astype(np.uint8)


@dataclass
class Look:
    """A look around under way: `first` says what to do, `feed` takes what is then seen until all four are there.

    Where the world looks around by itself that takes one action. Elsewhere, and where the pictures did not come, the
    body turns to the left by quarters, twelve turns in all, and ends as it stood.
    """

    actions: ActionMap
    by_turning: bool = False
    _seen: list[Image] = field(default_factory=list)
    _turns: int = 0

    def first(self, observation: Observation) -> str:
        """The first action."""
        self.by_turning = self.by_turning or not self.actions.looks_around
        return self._turn(observation) if self.by_turning else OBS

    def feed(self, observation: Observation) -> str | Views:
        """The next action, or the four pictures."""
        if not self.by_turning:
            views = panorama_of(observation.images)
            if views is not None:
                return views
            self.by_turning = True
        if self._turns == 4 * QUARTER:
            front, left, back, right = self._seen
            return front, left, back, right
        return self._turn(observation)

    def _turn(self, observation: Observation) -> str:
        if self._turns % QUARTER == 0:
            self._seen.append(front_of(observation))
        self._turns += 1
        return LEFT
