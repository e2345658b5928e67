"""Meta-World 3 in this interpreter: 50 table-top tasks of a Sawyer arm, each with a scripted expert.

World frame: metres, x to the right, y away from the robot, z up from the table. The state is Meta-World's own
observation with the goal visible, 39 values named by `STATE_NAMES`. An episode is a pure function of task, seed and
actions: the seed draws where objects and goal stand, over the same ranges as Meta-World's benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backbone.contracts import FloatArray, Image, Observation
from backbone.errors import ConfigError, WorldError
from backbone.rendering.mesh import Camera
from backbone.rendering.projection import project
from backbone.worlds.world import Info, Step, World, check_action
from vla.worlds.arm_drawing import draw_arm
from vla.worlds.metaworld_expert import REMEDY, scripted_action
from vla.worlds.metaworld_tasks import ACTION_SPEC, CONTROL_HZ, INSTRUCTIONS, check_task
from vla.worlds.mujoco_camera import MujocoCameras, PictureError, gl_backend

# Whether the camera hangs upside down in Meta-World's own scene; the world turns its pictures, once, and nobody else.
CAMERAS: dict[str, bool] = {
    "topview": False,
    "corner": True,
    "corner2": True,
    "corner3": True,
    "corner4": True,
    "behindGripper": False,
    "gripperPOV": False,
}
LIMIT = 500  # Meta-World's own horizon; its simulator refuses to go beyond


@dataclass(frozen=True)
class MetaWorldConfig:
    """Which tasks, seen how. Success is Meta-World's own, reached at any step; by default it ends the episode."""

    task: str = "drawer-open-v3"  # a task, several separated by commas, or all 50 with: all
    width: int = 128
    height: int = 128
    cameras: tuple[str, ...] = ("corner2",)  # of topview, corner, corner2, corner3, corner4, behindGripper, gripperPOV
    max_steps: int = LIMIT
    end_at_success: bool = True  # otherwise the episode runs to max_steps and success is remembered

    def __post_init__(self) -> None:
        if not self.tasks or len(set(self.tasks)) != len(self.tasks):
            raise ConfigError(f"metaworld: name each task once, separated by commas, got {self.task!r}")
        for task in self.tasks:
            check_task(task)
        wrong = [name for name in self.cameras if name not in CAMERAS]
        if wrong or not self.cameras or len(set(self.cameras)) != len(self.cameras):
            raise ConfigError(f"metaworld: cameras must be one or more of {', '.join(CAMERAS)}, got {self.cameras}")
        if not (16 <= self.width <= 2048 and 16 <= self.height <= 2048):
            raise ConfigError(f"metaworld: width and height must lie in [16, 2048], got {self.width} x {self.height}")
        if not 1 <= self.max_steps <= LIMIT:
            raise ConfigError(f"metaworld: max_steps must lie in [1, {LIMIT}], got {self.max_steps}")

    @property
    def world(self) -> str:
        """The world's name."""
        return "metaworld"

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks in order."""
        return tuple(INSTRUCTIONS) if self.task == "all" else tuple(filter(None, self.task.replace(" ", "").split(",")))

    def options(self, index: int) -> dict[str, Any]:
        """Episode ``index`` plays the tasks in turn."""
        return {"task": self.tasks[index % len(self.tasks)]}

    def make(self) -> MetaWorldWorld:
        """Open the world; `WorldError` without Meta-World or an OpenGL that needs no screen."""
        return MetaWorldWorld(self)


def _open_simulator(task: str) -> Any:
    """A Meta-World environment with its goal visible, whose layouts come from its own seeded generator."""
    try:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    except ImportError as error:
        raise WorldError(f"{REMEDY} ({error})") from error
    simulator = ALL_V3_ENVIRONMENTS[task]()
    # What Meta-World's own goal-observable classes set, without their use of NumPy's global generator.
    simulator._partially_observable = False
    simulator.__dict__.pop("sawyer_observation_space", None)  # cached for a hidden goal
    simulator._set_task_called = True
    simulator._freeze_rand_vec, simulator.seeded_rand_vec = False, True
    if not math.isclose(1.0 / simulator.dt, CONTROL_HZ):
        raise WorldError(f"Meta-World steps at {1.0 / simulator.dt:g} Hz, this world expects {CONTROL_HZ:g}; pin 3.1.1")
    return simulator


class MetaWorldWorld(World):
    """One Meta-World episode at a time; ``reset(options={"task": ...})`` changes the task."""

    def __init__(self, config: MetaWorldConfig) -> None:
        """Open the simulator of the config's first task; `WorldError` where it or OpenGL is missing."""
        self.name, self.action_spec, self.max_steps = config.world, ACTION_SPEC, config.max_steps
        self.config = config
        self._simulator: Any = None
        self._cameras: MujocoCameras | None = None
        self._task, self._seed, self._running = "", 0, False
        self._measures: dict[str, float] = {}
        self._open(config.tasks[0])

    def _open(self, task: str) -> None:
        if self._simulator is not None and task == self._task:
            return
        self.close()
        try:
            gl_backend()  # settle OpenGL before MuJoCo is imported
            self._simulator = _open_simulator(task)
            self._cameras = MujocoCameras(self._simulator.model, self.config.width, self.config.height)
        except PictureError as error:
            self.close()
            raise WorldError(f"metaworld: {error}") from error
        self._task = task

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin an episode; ``options["task"]`` names the task, else the seed picks one of the config's."""
        chosen = dict(options or {})
        task = str(chosen.pop("task", self.config.tasks[seed % len(self.config.tasks)]))
        if chosen or task not in INSTRUCTIONS or seed < 0:
            raise WorldError(f"metaworld: reset takes a seed >= 0 and the option task, got {seed} and {options}")
        self._running = False
        self._open(task)
        self._simulator.seed(seed)
        self._simulator.reset()
        self._seed, self._steps, self._return, self._success, self._running = seed, 0, 0.0, False, True
        self._measures = {}
        self._state = self._first_state()
        self._path = [self._state[:3].astype(np.float64)]
        return self._observe(), self._info(False)

    def _first_state(self) -> FloatArray:
        """The state after a reset, with every object where it stands now.

        Meta-World moves objects without recomputing positions, and in many tasks its first observation shows them
        where they were before. Positions alone are recomputed here, so that the physics that follow stay its own.
        """
        import mujoco

        simulator = self._simulator
        for update in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight):
            update(simulator.model, simulator.data)
        seen = simulator._get_curr_obs_combined_no_goal()
        simulator._prev_obs = seen
        space, stacked = simulator.sawyer_observation_space, np.hstack((seen, seen, simulator._get_pos_goal()))
        state: FloatArray = np.clip(stacked, space.low, space.high).astype(np.float32)
        return state

    def step(self, action: FloatArray) -> Step:
        """Move for 12.5 ms. The reward is Meta-World's, 0 to 10."""
        if not self._running:
            raise WorldError("metaworld: this episode is over or was never begun; call reset")
        values = check_action(action, self.action_spec, f"metaworld {self._task}")
        try:
            state, reward, _, _, measures = self._simulator.step(np.clip(values, -1.0, 1.0))
        except Exception as error:
            self._running = False
            raise WorldError(f"metaworld {self._task}, seed {self._seed}, step {self._steps}: {error!r}") from error
        self._steps += 1
        self._state = state.astype(np.float32)
        self._path.append(self._state[:3].astype(np.float64))
        self._measures = {key: float(value) for key, value in measures.items()}
        reached = bool(self._measures.pop("success"))
        self._return += float(reward)
        self._success |= reached
        terminated = self._success and self.config.end_at_success
        truncated = not terminated and self._steps >= self.max_steps
        self._running = not (terminated or truncated)
        return self._observe(), float(reward), terminated, truncated, self._info(reached)

    def _info(self, reached: bool) -> Info:
        """``success``: at any step so far (Meta-World's rule); ``success_now``: at this step."""
        return {"success": self._success, "success_now": reached, "task": self._task, **self._measures}

    def _observe(self) -> Observation:
        cameras = self._cameras
        if cameras is None:
            raise WorldError("metaworld: the world is closed; call reset")
        self._images = {
            name: cameras.render(self._simulator.data, name, upside_down=CAMERAS[name]) for name in self.config.cameras
        }
        return Observation(self._images, INSTRUCTIONS[self._task], self._state.copy(), self._steps / CONTROL_HZ)

    def expert_action(self) -> FloatArray:
        """Meta-World's scripted policy on the state of the last observation."""
        self._check_begun()
        return scripted_action(self._task, self._state)

    def _check_begun(self) -> None:
        if not hasattr(self, "_path"):
            raise WorldError("metaworld: no episode was begun; call reset")

    def _objects(self) -> list[dict[str, list[float]]]:
        """Position and quaternion of the one or two objects, as the state has them."""
        parts = self._state[4:18].astype(float).reshape(2, 7)
        return [{"position_m": part[:3].tolist(), "quaternion": part[3:].tolist()} for part in parts if part.any()]

    def camera_pose(self, name: str) -> Camera:
        """Where the camera is and how its delivered picture is turned."""
        model, data = self._simulator.model, self._simulator.data
        index = model.camera(name).id
        pose = np.eye(4, dtype=np.float32)
        turn = np.diag([-1.0, -1.0, 1.0]) if CAMERAS[name] else np.eye(3)
        pose[:3, :3], pose[:3, 3] = data.cam_xmat[index].reshape(3, 3) @ turn, data.cam_xpos[index]
        half = math.tan(math.radians(float(model.cam_fovy[index])) / 2) * self.config.width / self.config.height
        return Camera(pose, 2 * math.degrees(math.atan(half)))

    def describe(self) -> dict[str, Any]:
        """Task, layout, gripper, objects, goal, Meta-World's own measures, and each camera with the gripper's pixel."""
        self._check_begun()
        tip = np.asarray(self._simulator.tcp_center, np.float64)
        cameras = {}
        for name in self.config.cameras:
            pose = self.camera_pose(name)
            (pixel,), (depth,) = project(tip, self.config.width, self.config.height, pose)
            cameras[name] = {
                "pose": np.asarray(pose.pose, float).tolist(),
                "hfov_deg": pose.hfov_deg,
                "gripper_px": pixel.tolist() if depth > 0 else None,
            }
        return {
            "task": self._task,
            "instruction": INSTRUCTIONS[self._task],
            "seed": self._seed,
            "step": self._steps,
            "layout": np.asarray(self._simulator._last_rand_vec, float).tolist(),
            "hand_m": self._state[:3].tolist(),
            "gripper": {"fingertips_m": tip.tolist(), "opening": float(self._state[3])},
            "objects": self._objects(),
            "goal_m": np.asarray(self._simulator._get_pos_goal(), float).tolist(),
            "cameras": cameras,
            "measures": dict(self._measures),
            "success": self._success,
        }

    def metrics(self) -> dict[str, float]:
        """Success at any step, the hand's way in metres, steps, and the sum of rewards."""
        self._check_begun()
        moves = np.diff(np.stack(self._path), axis=0)
        return {
            "success": float(self._success),
            "path_length": float(np.linalg.norm(moves, axis=1).sum()),
            "steps": float(self._steps),
            "return": self._return,
        }

    def draw(self) -> Image:
        """The first camera, and the hand's way from above and from the side, with objects and goal."""
        self._check_begun()
        marks = {
            f"object {n}": ("object", np.asarray(thing["position_m"])) for n, thing in enumerate(self._objects(), 1)
        }
        goal = np.asarray(self._simulator._get_pos_goal(), np.float64)
        return draw_arm(self._images[self.config.cameras[0]], np.stack(self._path), {**marks, "goal": ("goal", goal)})

    def close(self) -> None:
        """Free the simulator and its GL context."""
        self._running = False
        if self._cameras is not None:
            self._cameras.close()
        self._cameras, self._simulator = None, None
