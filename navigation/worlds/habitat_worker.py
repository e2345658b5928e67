"""Habitat's side of `navigation.worlds.habitat`: episodes in habitat-sim, in the interpreter that has it.

Needs Python 3.8 or newer, NumPy and habitat-sim (0.2.2 from ``fovea worlds install habitat``, or conda's own build);
imports nothing of Fovea. Metres, y up, -z forward; rotations are ``x, y, z, w``. Distances are Habitat's: along the
navigation mesh to the nearest view point; None stands for "no path".
"""

from __future__ import annotations

import importlib.util
import math
import os
from typing import Any

import numpy as np


def _load_episode() -> Any:
    """The module ``habitat_episode`` next to this file, which is on no path of this interpreter."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "habitat_episode.py")
    spec = importlib.util.spec_from_file_location("fovea_habitat_episode", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ep = _load_episode()
cameras = ep.cameras
WALKER, HEAD, LABELER = cameras.WALKER, cameras.HEAD, cameras.LABELER
SMALL_PICTURE = 256 * 256  # pixels
MOST_SHIFT = 0.2  # metres from a start to the navigation mesh


def load_habitat() -> Any:
    """The habitat_sim module; our environment's build is made ready by a module of its own."""
    os.environ.setdefault("MAGNUM_LOG", "quiet")  # both are read at import
    os.environ.setdefault("HABITAT_SIM_LOG", "quiet")
    if importlib.util.find_spec("fovea_habitat") is not None:
        import fovea_habitat  # type: ignore[import-not-found]

        return fovea_habitat.habitat_sim
    import habitat_sim  # type: ignore[import-not-found]

    return habitat_sim


def open_world(arguments: dict[str, Any]) -> HabitatEpisodes:
    """The world of `arguments`, see `navigation.worlds.habitat.HabitatConfig`."""
    return HabitatEpisodes(arguments)


class HabitatEpisodes:
    """One simulator that moves from scene to scene, and the episode under way."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        """Load habitat-sim; scenes are opened by the first episode."""
        if arguments["width"] * arguments["height"] <= SMALL_PICTURE:
            os.environ.setdefault(
                "LP_NUM_THREADS", "0"
            )  # Mesa's threads cost more than they bring; read when it starts
        self._hs = load_habitat()
        self._settings = arguments
        self._sim: Any = None
        self._scene: Any = None
        self._episode: Any = None
        self._eyes: Any = None  # new ones in each scene

    def spec(self) -> dict[str, Any]:
        """Name, action spec and limit of steps; and the simulator's version."""
        choices = list(self._settings["actions"])
        limits = {"low": [0.0], "high": [len(choices) - 1.0]}
        action = {"names": ["action"], "units": ["index"], "kind": "discrete", "choices": choices, "control_hz": 1.0}
        version = str(self._hs.__version__)
        return {
            "name": "habitat",
            "action_spec": {**action, **limits},
            "max_steps": self._settings["max_steps"],
            "habitat_sim": version,
        }

    # episodes ----------------------------------------------------------------------------------------------------

    def reset(self, seed: int, options: dict[str, Any]) -> dict[str, Any]:
        """Begin the episode described by ``options``: scene, start, view points (N, 3), instruction.

        With ``onto_mesh`` the start is moved onto the navigation mesh, if that is near; a first turn would do so too.
        """
        self._open_scene(options["scene"], options.get("scene_dataset") or "default")
        self._sim.seed(seed)
        start = np.asarray(options["start_position"], np.float32)
        if options.get("onto_mesh"):
            snapped = np.asarray(self._sim.pathfinder.snap_point(start), np.float32)
            start = snapped if np.linalg.norm(snapped - start) < MOST_SHIFT else start  # NaN where there is no mesh
        ep.place(self._hs, self._sim, WALKER, start, options["start_rotation_xyzw"])
        self._episode = ep.Episode(self._hs, self._sim, options, self._settings)
        self._eyes.compare()
        return self._reply(False)

    def step(self, action: Any) -> dict[str, Any]:
        """Apply one action by its index; ``stop`` ends the episode, and the picture stays."""
        name = self._settings["actions"][int(np.asarray(action)[0])]
        episode = self._episode
        if name == "look_around":
            return self._look_around()
        if name == "stop":
            episode.stop()
            return self._reply(False)
        collided = bool(self._sim.get_agent(WALKER).act(name))  # what sim.step does, but for physics, which is off
        episode.moved(name, collided)
        return self._reply(collided)

    def _look_around(self) -> dict[str, Any]:
        """A step that moves nothing; the reply has the four pictures of a panorama."""
        self._episode.steps += 1
        around = self.panorama()["images"]
        reply = self._reply(False)
        reply["images"].update(left=around[1], back=around[2], right=around[3])
        return reply

    def _reply(self, collided: bool) -> dict[str, Any]:
        episode = self._episode
        succeeded = episode.succeeded()
        position, rotation = ep.pose_of(self._sim, WALKER)
        info = {
            "success": succeeded,
            "collided": collided,
            "distance_to_goal": ep.finite(episode.distance),
            "position": position.tolist(),
            "rotation_xyzw": rotation,
        }
        colour, depth = self._eyes.look()
        return {
            "images": {"front": colour},
            "depths": {} if depth is None else {"front": depth},
            "state": None,
            "instruction": episode.instruction,
            "time_s": float(episode.steps),
            "reward": float(succeeded),
            "terminated": episode.stopped,
            "truncated": not episode.stopped and episode.steps >= self._settings["max_steps"],
            "info": info,
        }

    def expert_action(self) -> list[float]:
        """The index of the action that leads along the shortest path to the nearest view point, and stops there."""
        return [float(self._settings["actions"].index(self._episode.expert.action()))]

    def outcome(self) -> dict[str, Any]:
        """What was measured so far, as raw numbers; the formulas are on Fovea's side."""
        return dict(self._episode.outcome())

    def describe(self) -> dict[str, Any]:
        """Privileged state: pose, distances, the labelled objects of the scene."""
        episode = self._episode
        position, rotation = ep.pose_of(self._sim, WALKER)
        return {
            "position": position.tolist(),
            "rotation_xyzw": rotation,
            "tilt_deg": ep.tilt_of(self._sim, WALKER),
            "distance_to_goal": ep.finite(episode.distance),
            "geodesic_distance": ep.finite(episode.shortest),
            "objects": self._objects,
            "steps": episode.steps,
        }

    # further calls -----------------------------------------------------------------------------------------------

    def panorama(self) -> dict[str, Any]:
        """Four pictures (H, W, 3) at 0, 90, 180 and 270 degrees to the left; counted, but no step of the episode."""
        position, _ = ep.pose_of(self._sim, WALKER)
        rotation = self._sim.get_agent(WALKER).get_state().rotation
        pictures = []
        for quarter in range(4):
            turned = rotation * self._hs.utils.common.quat_from_angle_axis(quarter * math.pi / 2, np.array([0, 1, 0]))
            ep.place(self._hs, self._sim, HEAD, position, ep.xyzw(turned))
            pictures.append(np.ascontiguousarray(self._sim.get_sensor_observations(agent_ids=HEAD)["rgb"][..., :3]))
        self._episode.panoramas += 1
        return {"images": np.stack(pictures)}

    def instances(self) -> Any:
        """Object ids (H, W) int32 of the present view, 0 for none."""
        return self._labels(self._sim.get_agent(WALKER).get_state().sensor_states["rgb"])

    def look(self, position: Any, rotation_xyzw: Any) -> dict[str, Any]:
        """Object ids and picture of a body anywhere in the open scene; the episode does not notice."""
        ep.place(self._hs, self._sim, HEAD, position, rotation_xyzw)
        rgb = self._sim.get_sensor_observations(agent_ids=HEAD)["rgb"][..., :3]
        ids = self._labels(self._sim.get_agent(HEAD).get_state().sensor_states["rgb"])
        return {"ids": ids, "rgb": np.ascontiguousarray(rgb)}

    def _labels(self, camera: Any) -> Any:
        """The label picture from the pose of another body's camera."""
        state = self._hs.AgentState()
        state.sensor_states = {"semantic": camera}
        self._sim.get_agent(LABELER).set_state(state, reset_sensors=False, infer_sensor_states=False)
        ids = self._sim.get_sensor_observations(agent_ids=LABELER)["semantic"]
        return np.ascontiguousarray(ids.astype(np.int32))

    def geodesics(self, starts: Any, ends: Any) -> list[float | None]:
        """Length of the shortest path between each pair of rows, None where there is none."""
        pairs = zip(np.asarray(starts, np.float32), np.asarray(ends, np.float32))  # noqa: B905 - Python 3.8
        return [ep.finite(ep.distance_to(self._hs, self._sim.pathfinder, start, end[None])[0]) for start, end in pairs]

    def snap(self, points: Any) -> Any:
        """Nearest walkable point to each row; NaN cannot be sent, so a row without one raises."""
        snapped = np.stack([np.asarray(self._sim.pathfinder.snap_point(p)) for p in np.asarray(points, np.float32)])
        if not np.isfinite(snapped).all():
            raise ValueError(f"no walkable point near rows {np.flatnonzero(~np.isfinite(snapped).all(1)).tolist()}")
        return snapped.astype(np.float32)

    def ways(self) -> dict[str, Any]:
        """The way walked (T, 3) and the shortest one from the start (K, 3), empty where there is none."""
        episode = self._episode
        return {"walked": np.asarray(episode.way, np.float32), "shortest": episode.goal.path(episode.start[0])}

    def floor_map(self, metres_per_pixel: float) -> dict[str, Any]:
        """Walkable cells (H, W) at the height where the body stands, and where their first corner lies (x, z)."""
        position, _ = ep.pose_of(self._sim, WALKER)
        low = np.asarray(self._sim.pathfinder.get_bounds()[0], np.float64)
        free = np.asarray(self._sim.pathfinder.get_topdown_view(metres_per_pixel, float(position[1])))
        return {"free": free.astype(np.uint8), "corner": [float(low[0]), float(low[2])]}

    def open_scene(self, scene: str, scene_dataset: str = "default") -> dict[str, Any]:
        """Open a scene without an episode: its labelled objects and the area one can walk on."""
        self._open_scene(scene, scene_dataset)
        return {"objects": self._objects, "navigable_area": float(self._sim.pathfinder.navigable_area)}

    def drawing(self) -> dict[str, bool]:
        """Whether one drawing gives colour and depth, see `habitat_cameras.Eyes`."""
        return {"at_once": self._eyes.at_once}

    def close(self) -> None:
        """Release the simulator."""
        if self._sim is not None:
            self._sim.close()
            self._sim = None

    # within ------------------------------------------------------------------------------------------------------

    def _open_scene(self, scene: str, scene_dataset: str) -> None:
        if (scene, scene_dataset) == self._scene:
            return
        if not os.path.isfile(scene):
            raise FileNotFoundError(f"scene {scene} does not exist")
        config = self._configuration(scene, scene_dataset)
        self._scene = None
        if self._sim is None:
            self._sim = self._hs.Simulator(config)
        else:
            self._sim.reconfigure(config)
        if not self._sim.pathfinder.is_loaded:
            raise RuntimeError(f"scene {scene} has no navigation mesh and none could be computed")
        self._objects = ep.labelled_objects(self._sim)
        self._eyes = cameras.Eyes(self._sim, self._settings["depth"])
        self._scene = (scene, scene_dataset)

    def _configuration(self, scene: str, scene_dataset: str) -> Any:
        s = self._settings
        simulator = self._hs.SimulatorConfiguration()
        simulator.scene_id = scene
        simulator.scene_dataset_config_file = scene_dataset
        simulator.gpu_device_id = s["gpu_device_id"]
        simulator.allow_sliding = s["allow_sliding"]
        simulator.enable_physics = False
        simulator.load_semantic_mesh = True
        if s["lighting"]:  # scenes are drawn in their plain colours otherwise
            simulator.override_scene_light_defaults = True
            simulator.scene_light_setup = self._hs.gfx.DEFAULT_LIGHTING_KEY
        return self._hs.Configuration(simulator, cameras.bodies(self._hs, s))
