"""Small trajectories for tests."""

import os
from dataclasses import dataclass

import numpy as np

from backbone.errors import DataError
from navigation.actions import END, LEFT, MOVE, OBS, RIGHT
from navigation.data import Dropped
from navigation.records import Camera, Cycle, Recorded, Trajectory


def picture(number, size=(128, 160)):
    rng = np.random.default_rng(number)
    small = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return np.ascontiguousarray(np.kron(small, np.ones((size[0] // 4, size[1] // 5, 1), np.uint8)))


def stage_one(actions=(LEFT, MOVE, MOVE, RIGHT, END), learn=None, **options):
    camera = Camera()
    frames = tuple(camera.add(picture(i)) for i in range(len(actions)))
    poses = tuple((0.25 * i, 0.0, 0.0) for i in range(len(actions)))
    cycle = Cycle(frames, tuple(actions), tuple(learn or (True,) * len(actions)), poses)
    return Recorded(_trajectory((cycle,), "shortest", **options), tuple(camera.packed))


def stage_two(cycles=((MOVE, LEFT, OBS), (RIGHT, MOVE, MOVE, OBS), (MOVE, END)), thoughts=("one", "two", "three")):
    camera, made, number = Camera(), [], 0
    for actions, thought in zip(cycles, thoughts, strict=True):
        views = tuple(camera.add(picture(100 + number + i)) for i in range(4))
        frames = (views[0], *(camera.add(picture(number + i)) for i in range(1, len(actions))))
        poses = tuple((0.25 * (number + i), 1.0, 0.5) for i in range(len(actions)))
        made.append(Cycle(frames, tuple(actions), (True,) * len(actions), poses, views, thought))
        number += len(actions)
    return Recorded(_trajectory(tuple(made), "exploratory"), tuple(camera.packed))


def _trajectory(cycles, source, **options):
    facts = {"distances": [1.0], "around": []}
    told = {"id": "t-1", "world": "rooms", "task": "find the bed", "category": "bed", "seed": 7, "success": True}
    return Trajectory(**{**told, "source": source, "cycles": cycles, "facts": facts, **options})


@dataclass(frozen=True)
class FakeJob:
    """Makes small trajectories at once; drops every fifth, fails at 7 and 17, and may kill its process at 11."""

    taste: str = "sweet"
    dies: bool = False

    def open(self):
        return FakeStudio(self.dies)


class FakeStudio:
    def __init__(self, dies):
        self.dies = dies

    def make(self, number):
        if number % 5 == 0:
            raise Dropped("every fifth")
        if number % 10 == 7:
            raise DataError("seven and seventeen fail")
        if self.dies and number == 11:
            os._exit(9)
        return stage_one(seed=number)

    def close(self):
        pass
