"""LIBERO's side of `vla.worlds.libero`, in the interpreter that has it. NumPy, MuJoCo and LIBERO; nothing of Fovea.

World frame: metres, x away from the robot, y to its left, z up. Every reset builds the scene anew: LIBERO would keep
parts of the last episode otherwise (the gripper's command among them), and no episode may depend on the one before.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from typing import Any

import numpy as np

STEPS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520, "libero_90": 400}
CAMERAS = ("agentview", "robot0_eye_in_hand")
CONTROL_HZ = 20
SETTLING = 10  # steps with an open gripper that let the objects fall into place, as LIBERO's evaluations do
COLLISION_GROUP = 0  # geoms that only collide; robosuite does not draw them either


def open_world(arguments: dict[str, Any]) -> LiberoEpisodes:
    """The world of `arguments`, see `vla.worlds.libero.LiberoConfig`."""
    return LiberoEpisodes(**arguments)


def _load_camera() -> Any:
    """The module ``mujoco_camera`` next to this file, which is on no path of this interpreter."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mujoco_camera.py")
    spec = importlib.util.spec_from_file_location("fovea_mujoco_camera", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def axis_angle(rotation_xyzw: np.ndarray) -> np.ndarray:
    """Axis times angle (3,) with an angle of 0 to 2 pi, zeros for no rotation: the form of LIBERO's data sets."""
    w = min(1.0, max(-1.0, float(rotation_xyzw[3])))
    sine = math.sqrt(1.0 - w * w)
    if math.isclose(sine, 0.0):
        return np.zeros(3)
    return np.asarray(rotation_xyzw[:3], float) * 2.0 * math.acos(w) / sine


class LiberoEpisodes:
    """One suite; the simulator of the last task stays open."""

    def __init__(
        self,
        suite: str,
        width: int,
        height: int,
        cameras: list[str],
        max_steps: int | None,
        end_at_success: bool,
        mirrored: bool,
    ) -> None:
        """Load LIBERO and the suite's list of tasks; the first reset opens a simulator."""
        self._pictures = _load_camera()
        self._pictures.gl_backend()  # settle OpenGL before MuJoCo is imported
        self._benchmark = importlib.import_module("libero.libero.benchmark").get_benchmark_dict()[suite]()
        self._suite, self._size, self._cameras = suite, (width, height), cameras
        self._max_steps, self._end_at_success, self._mirrored = max_steps or STEPS[suite], end_at_success, mirrored
        self._env: Any = None
        self._drawer: Any = None
        self._task = -1

    def spec(self) -> dict[str, Any]:
        """The name, the action, and the number of steps."""
        target = "moves the gripper's target {}; the arm goes about a quarter of it in a step"
        turn = "turns the gripper's target about the world's {} axis"
        return {
            "name": "libero",
            "action_spec": {
                "names": ["x", "y", "z", "turn_x", "turn_y", "turn_z", "gripper"],
                "units": ["5 cm", "5 cm", "5 cm", "0.5 rad", "0.5 rad", "0.5 rad", "command"],
                "low": [-1.0] * 7,
                "high": [1.0] * 7,
                "control_hz": float(CONTROL_HZ),
                "meanings": [
                    *(target.format(way) for way in ("away from the robot", "to the robot's left", "up")),
                    *(turn.format(axis) for axis in "xyz"),
                    "-1 opens the gripper, +1 closes it; only the sign counts, 0 keeps the last command",
                ],
            },
            "max_steps": self._max_steps,
        }

    def tasks(self) -> list[str]:
        """The instructions of the suite in order."""
        return [task.language for task in self._benchmark.tasks]

    # episodes --------------------------------------------------------------------------------------------------------

    def reset(self, seed: int, options: dict[str, Any]) -> dict[str, Any]:
        """Begin an episode: ``task`` and ``init`` (the initial state, 0 to 49) from the options, else from the seed."""
        count = self._benchmark.n_tasks
        chosen = {"task": seed % count, "init": None, **options}
        task = int(chosen.pop("task"))
        if not 0 <= task < count:
            raise ValueError(f"{self._suite} has tasks 0 to {count - 1}, got {task}")
        states = self._benchmark.get_task_init_states(task)
        wish = chosen.pop("init")
        self._init = seed // count % len(states) if wish is None else int(wish)
        if not 0 <= self._init < len(states) or chosen:
            raise ValueError(f"reset takes task and init (0 to {len(states) - 1}), got {options}")
        np.random.seed(seed % 2**32)  # LIBERO draws from the global generator where fixtures stand, by a centimetre
        self._open(task)
        self._env.reset()
        self._seen = self._env.set_init_state(states[self._init])
        for _ in range(SETTLING):
            self._seen, _, _, _ = self._env.step([0.0] * 6 + [-1.0])
        self._renew_camera()
        self._steps, self._return, self._success, self._path = 0, 0.0, False, [self._hand()]
        return self._reply(0.0, False, False)

    def _open(self, task: int) -> None:
        if self._env is not None and task == self._task:
            return
        self.close()
        wrapper = importlib.import_module("libero.libero.envs.env_wrapper")
        self._env = wrapper.ControlEnv(
            bddl_file_name=self._benchmark.get_task_bddl_file_path(task),
            has_renderer=False,
            has_offscreen_renderer=False,
            use_camera_obs=False,
            control_freq=CONTROL_HZ,
        )
        self._task = task

    def _renew_camera(self) -> None:
        """A reset makes a new model, and a camera belongs to its model."""
        if self._drawer is not None:
            self._drawer.close()
        self._drawer = self._pictures.MujocoCameras(self._model(), *self._size, hidden_groups=(COLLISION_GROUP,))

    def step(self, action: np.ndarray) -> dict[str, Any]:
        """One control step of 50 ms. The reward is LIBERO's: 1 while the goal holds, else 0."""
        self._seen, reward, _, _ = self._env.step(np.asarray(action, float))
        self._steps += 1
        self._return += float(reward)
        self._path.append(self._hand())
        reached = bool(self._env.check_success())
        self._success = self._success or reached
        terminated = self._success and self._end_at_success
        return self._reply(float(reward), terminated, not terminated and self._steps >= self._max_steps, reached)

    def _reply(self, reward: float, terminated: bool, truncated: bool, reached: bool = False) -> dict[str, Any]:
        images = {name: self._drawer.render(self._data(), name) for name in self._cameras}
        if self._mirrored:
            images = {name: np.ascontiguousarray(image[:, ::-1]) for name, image in images.items()}
        return {
            "images": images,
            "state": self._state(),
            "instruction": self._benchmark.get_task(self._task).language,
            "time_s": self._steps / CONTROL_HZ,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "info": {"success": self._success, "success_now": reached, "task": self._task, "init": self._init},
        }

    def _model(self) -> Any:
        return self._env.sim.model._model

    def _data(self) -> Any:
        return self._env.sim.data._data

    def _hand(self) -> np.ndarray:
        return np.array(self._seen["robot0_eef_pos"], float)

    def _state(self) -> np.ndarray:
        """Gripper position (3,), its axis times angle (3,), the two fingers' joints (2,): metres and radians."""
        turn = axis_angle(self._seen["robot0_eef_quat"])
        return np.concatenate([self._hand(), turn, self._seen["robot0_gripper_qpos"]]).astype(np.float32)

    # what the world knows --------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Task, gripper, every object and fixture, the goal's predicates and whether each holds, the cameras."""
        inner = self._env.env
        goal = [{"predicate": list(part), "holds": self._holds(part)} for part in inner.parsed_problem["goal_state"]]
        return {
            "suite": self._suite,
            "task": self._task,
            "init": self._init,
            "instruction": self._benchmark.get_task(self._task).language,
            "step": self._steps,
            "hand": {"position_m": self._hand().tolist(), "fingers_m": self._seen["robot0_gripper_qpos"].tolist()},
            "objects": {name: self._body(name) for name in (*inner.objects_dict, *inner.fixtures_dict)},
            "of_interest": list(self._env.obj_of_interest),
            "goal": goal,
            "cameras": {name: self._camera(name) for name in self._cameras},
            "mirrored": self._mirrored,
            "success": self._success,
        }

    def _holds(self, predicate: Any) -> bool:
        return bool(self._env.env._eval_predicate(predicate))

    def _body(self, name: str) -> dict[str, list[float]]:
        index = self._env.env.obj_body_id[name]
        data = self._data()
        return {"position_m": data.xpos[index].tolist(), "rotation_wxyz": data.xquat[index].tolist()}

    def _camera(self, name: str) -> dict[str, Any]:
        model, data = self._model(), self._data()
        index = model.camera(name).id
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = data.cam_xmat[index].reshape(3, 3), data.cam_xpos[index]
        half = math.tan(math.radians(float(model.cam_fovy[index])) / 2) * self._size[0] / self._size[1]
        return {"pose": pose.tolist(), "hfov_deg": 2 * math.degrees(math.atan(half))}

    def metrics(self) -> dict[str, float]:
        """Success at any step, the gripper's way in metres, steps, and the sum of rewards."""
        way = np.linalg.norm(np.diff(np.stack(self._path), axis=0), axis=1).sum()
        return {
            "success": float(self._success),
            "path_length": float(way),
            "steps": float(self._steps),
            "return": self._return,
        }

    def path(self) -> np.ndarray:
        """Where the gripper was, (steps + 1, 3) metres."""
        return np.stack(self._path)

    def move_object(self, name: str, position_m: list[float]) -> None:
        """Put a movable object somewhere, as it is turned and at rest: to set up a scene by hand."""
        inner = self._env.env
        if name not in inner.objects_dict:
            raise ValueError(f"there is no object {name!r}; there are {', '.join(inner.objects_dict)}")
        joint = inner.objects_dict[name].joints[-1]
        pose = np.array(self._env.sim.data.get_joint_qpos(joint))
        pose[:3] = position_m
        self._env.sim.data.set_joint_qpos(joint, pose)
        self._env.sim.data.set_joint_qvel(joint, np.zeros(6))
        self._env.sim.forward()

    def close(self) -> None:
        """Free the simulator and the GL context."""
        if self._drawer is not None:
            self._drawer.close()
        if self._env is not None:
            self._env.close()
        self._env = self._drawer = None
