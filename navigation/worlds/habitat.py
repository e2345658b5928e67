"""The world ``habitat``: real habitat-sim, in its own interpreter, behind the same actions and measures as `rooms`.

By default it shows the homes of `rooms`: for equal settings and seed the same home, start, goal and view points. With
``episodes`` and ``scenes`` it plays ObjectNav files (HM3D, MP3D, OVON) unchanged. Navigation mesh, collisions, geodesic
distances and pictures are habitat-sim's. Metres, y up, -z forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import FloatArray, Image, Observation
from backbone.errors import ConfigError
from backbone.worlds.bridge import BridgedWorld
from backbone.worlds.environments import environment_path, environment_python
from backbone.worlds.world import Info, Step
from navigation import metrics
from navigation.homes.generate import Split
from navigation.worlds.habitat_export import WALK_HEIGHT
from navigation.worlds.habitat_map import draw_scene
from navigation.worlds.habitat_tasks import FileSource, HomeSource, Source, Task
from navigation.worlds.habitat_views import describe, numbers_of
from navigation.worlds.navigation_world import (
    ACTIONS,
    LOOK_AROUND,
    LOOKS,
    PANORAMA,
    gps_compass,
    heading_of,
    instruction_for,
    with_panorama,
)
from navigation.worlds.rooms import RoomsConfig
from navigation.worlds.rooms_map import HomeMap

WORKER = Path(__file__).with_name("habitat_worker.py")
MOST_TILT_DEG = 60.0
START_TIMEOUT_S = 300.0  # importing habitat-sim takes 3 s of a core, and minutes on a machine that is overloaded


@dataclass(frozen=True)
class HabitatConfig:
    """How episodes are drawn and seen; fields that `RoomsConfig` has too mean the same there.

    ``success_distance`` is 0.1 or, for ``object``, 1.0 when None. ``gpu_device_id`` -1 draws on whatever EGL offers
    first, for example Mesa's software renderer; 0 and up look for that CUDA device and fail without one.
    """

    width: int = 128
    height: int = 128
    hfov_deg: float = 79.0
    camera_height: float = 0.88
    forward_m: float = 0.25
    turn_deg: float = 30.0
    max_steps: int = 500
    split: Split = "train"
    home: int | None = None  # the home's seed; None: the episode's seed chooses among `homes`
    homes: int = 1000  # how many homes of the split there are to choose from
    category: str | None = None  # what to find; None: the episode's seed chooses
    depth: bool = False
    pose_in_state: bool = False  # Habitat's GPS and compass (3,): metres ahead and right of the start, radians left
    look: bool = False  # adds look_up and look_down
    panorama: bool = False  # adds look_around, and cameras left, back, right that see only after it
    distance_to: Literal["view_points", "object"] = "view_points"
    success_distance: float | None = None
    min_rooms: int = 3
    max_rooms: int = 8
    unusual: tuple[tuple[str, str], ...] = ()  # (category, kind of room) pairs, see `HomeRules`
    episodes: str = ""  # an ObjectNav .json.gz, or the folder of a split, instead of generated homes
    scenes: str = ""  # the folder the file's scene ids start from
    content: tuple[str, ...] = ()  # the content files (names without endings) to read; all by default
    scene_dataset: str = ""  # a scene_dataset_config.json, or default, in place of what the episodes name
    renumber: bool = False  # number episodes by their place, for files whose ids occur twice
    lighting: bool = False  # habitat's lamps on a file's scenes instead of their plain colours; costs half the speed
    allow_sliding: bool = False  # along walls at contact; the benchmarks forbid it
    agent_radius: float = 0.18
    agent_height: float = 0.88
    gpu_device_id: int = -1
    python: str = ""  # the interpreter that has habitat-sim; by default that of `fovea worlds install habitat`

    def __post_init__(self) -> None:
        self._as_rooms()
        if bool(self.episodes) != bool(self.scenes):
            raise ConfigError("habitat: episodes (the file) and scenes (the folder of its scenes) go together")
        if not self.episodes and (self.content or self.scene_dataset or self.renumber or self.lighting):
            raise ConfigError("habitat: content, scene_dataset, renumber and lighting belong to episodes from a file")
        if self.episodes and (self.home is not None or self.category is not None or self.unusual):
            raise ConfigError("habitat: home, category and unusual belong to generated homes, not to an episode file")
        if not (0.05 <= self.agent_radius <= 1.0 and 0.1 <= self.agent_height <= 2.5 and self.gpu_device_id >= -1):
            raise ConfigError(
                "habitat: agent_radius must lie in [0.05, 1], agent_height in [0.1, 2.5] and gpu_device_id be -1 or "
                f"more, got {self.agent_radius}, {self.agent_height} and {self.gpu_device_id}"
            )

    @property
    def world(self) -> str:
        """The world's name."""
        return "habitat"

    @property
    def success_radius(self) -> float:
        """Metres within which a stop succeeds."""
        usual = metrics.VIEWPOINT_RADIUS_M if self.distance_to == "view_points" else metrics.OBJECT_RADIUS_M
        return usual if self.success_distance is None else self.success_distance

    def options(self, index: int) -> dict[str, Any]:
        """The number of an episode from a file; nothing for generated homes, where the seed alone chooses."""
        return {"episode": index} if self.episodes else {}

    def source(self) -> Source:
        """Where the episodes come from."""
        if self.episodes:
            return FileSource(
                Path(self.episodes), Path(self.scenes), tuple(self.content), self.scene_dataset, self.renumber
            )
        folder = environment_path("habitat") / "homes"
        return HomeSource(folder, self.split, self._as_rooms().rules(), self.homes, self.home, self.category)

    def _as_rooms(self) -> RoomsConfig:
        """The settings shared with `rooms`; `ConfigError` for a wrong one."""
        own = {field.name for field in fields(self)}
        return RoomsConfig(**{f.name: getattr(self, f.name) for f in fields(RoomsConfig) if f.name in own})

    def arguments(self) -> dict[str, Any]:
        """What the worker needs to know."""
        raised = 0.0 if self.episodes else WALK_HEIGHT  # the body stands that much above the floor of our homes
        by_view_point = self.distance_to == "view_points"
        return {
            "actions": [*ACTIONS, *(LOOKS if self.look else ()), *((LOOK_AROUND,) if self.panorama else ())],
            "camera_height_m": self.camera_height - raised,
            "success_radius_m": self.success_radius if by_view_point else metrics.VIEWPOINT_RADIUS_M,
            "agent_radius_m": self.agent_radius,
            "agent_height_m": self.agent_height,
            "most_tilt_deg": MOST_TILT_DEG,
            **{name: getattr(self, name) for name in ("width", "height", "hfov_deg", "forward_m", "turn_deg")},
            **{name: getattr(self, name) for name in ("max_steps", "depth", "lighting", "allow_sliding")},
            "gpu_device_id": self.gpu_device_id,
        }

    def make(self) -> HabitatWorld:
        """Start habitat-sim; `WorldError` with the remedy where it is not installed."""
        return HabitatWorld(self)


class HabitatWorld(BridgedWorld):
    """One agent in one scene of habitat-sim. ``options`` of `reset` as `HomeSource` and `FileSource` say."""

    def __init__(self, config: HabitatConfig) -> None:
        """Start the worker; scenes are opened by resets."""
        self.config = config
        self._source = config.source()
        self._task: Task | None = None
        self._map: HomeMap | None = None
        self._stopped = False
        python = environment_python("habitat", config.python or None)
        super().__init__(WORKER, python, config.arguments(), start_timeout_s=START_TIMEOUT_S)

    @property
    def task(self) -> Task:
        """The episode under way; `WorldError` before the first reset."""
        if self._task is None:
            self._check_open()
            self._ask("describe")  # raises what is wrong
        assert self._task is not None  # noqa: S101 - a worker with an episode got it from here
        return self._task

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin the episode of ``seed``, or the one ``options`` name."""
        self._check_open()
        task = self._source.task(seed, options or {})
        self._task, self._map, self._stopped = task, None, False
        views, faces = task.view_points, task.faces
        if self.config.distance_to == "object":  # the expert must lead to where this rule is met as well
            near = [task.object_distance(x, z) < 0.9 * self.config.success_radius for x, _, z in views.tolist()]
            views, faces = (views[near], faces[near]) if any(near) else (views, faces)
        sent = {
            "scene": str(task.scene),
            "scene_dataset": task.dataset,
            "start_position": list(task.start_position),
            "start_rotation_xyzw": list(task.start_rotation_xyzw),
            "view_points": views.astype(np.float32),
            "faces": faces.astype(np.float32),
            "instruction": instruction_for(task.category),
            "onto_mesh": task.home is not None,  # a file's starts are taken as they are, as habitat-lab does
        }
        observation, info = super().reset(seed=seed, options=sent)
        return observation, self._judged(info) | {"category": task.category, **task.about}

    def step(self, action: FloatArray) -> Step:
        """One of Habitat's actions."""
        observation, reward, terminated, truncated, info = super().step(action)
        self._stopped = terminated
        info = self._judged(info)
        if self.config.distance_to == "object":
            reward = float(info["success"])
        return observation, reward, terminated, truncated, info | {"category": self.task.category, **self.task.about}

    def observe(self, reply: Mapping[str, Any]) -> Observation:
        """The observation in the worker's reply, with Habitat's GPS and compass if they are asked for."""
        seen = super().observe(reply)
        if self.config.panorama:
            around = seen.images if len(seen.images) > 1 else None
            seen = replace(seen, images=with_panorama(seen.images["front"], around))
        if not self.config.pose_in_state:
            return seen
        start, info = self.task, reply["info"]
        state = gps_compass(
            (start.start_position[0], start.start_position[2]),
            heading_of(start.start_rotation_xyzw),
            (info["position"][0], info["position"][2]),
            heading_of(tuple(info["rotation_xyzw"])),
        )
        return Observation(seen.images, seen.instruction, state, seen.time_s, seen.depths)

    def _judged(self, info: Info) -> Info:
        """``info`` with success by this world's rule, where that is not the worker's."""
        if self.config.distance_to == "object":
            near = self.task.object_distance(info["position"][0], info["position"][2])
            info["success"] = metrics.success(self._stopped, near, self.config.success_radius)
        info["distance_to_goal"] = metrics.finite_distance(metrics.distance_of(info["distance_to_goal"]))
        return info

    def metrics(self) -> dict[str, float]:
        """Habitat's measures of the episode so far and SOT; see `navigation.metrics.outcome_metrics`."""
        raw = self._ask("outcome")
        outcome = metrics.Outcome(
            shortest_m=metrics.distance_of(raw["shortest"]),
            walked_m=raw["path_length"],
            distance_m=metrics.distance_of(raw["distance"]),
            object_m=self.task.object_distance(raw["position"][0], raw["position"][2]),
            closest_m=metrics.distance_of(raw["closest"]),
            stopped=raw["stopped"],
            actions=metrics.Actions(raw["moves"], raw["turns"], raw["panoramas"], int(raw["stopped"])),
            expert=metrics.Actions(raw["expert_moves"], raw["expert_turns"], 0, 1),
            steps=raw["steps"],
            collisions=raw["collisions"],
            step_m=self.config.forward_m,
        )
        return metrics.outcome_metrics(outcome, self.config.distance_to, self.config.success_radius)

    def panorama(self) -> dict[str, Image]:
        """Four pictures around the agent, a quarter turn to the left each; counted, but no step of the episode."""
        return dict(zip(PANORAMA, self._ask("panorama")["images"], strict=True))

    def instances(self) -> NDArray[np.int32]:
        """The id of the object in each pixel (H, W): keys of ``labels`` in `describe`, 0 for nothing."""
        ids: NDArray[np.int32] = self._ask("instances")
        return ids

    def semantic(self) -> NDArray[np.int32]:
        """The category in each pixel (H, W), 0 for none; numbers as `habitat_views.numbers_of` says."""
        return numbers_of(self.task, self.instances(), self._ask("describe")["objects"])

    def describe(self) -> dict[str, Any]:
        """Pose, rooms and objects with boxes, those in the picture, goals with view points, distances."""
        return describe(self.task, self._ask("describe"), self.instances())

    def draw(self) -> Image:
        """The scene from above: goals (orange), their view points, the shortest way, the way taken."""
        ways, task = self._ask("ways"), self.task
        pose = self._ask("describe")
        heading = heading_of(tuple(pose["rotation_xyzw"]))
        walked, shortest = (np.asarray(ways[k], np.float64)[:, [0, 2]] for k in ("walked", "shortest"))
        views = task.view_points[:, [0, 2]]
        way = [(float(x), float(z)) for x, z in walked]
        if task.home is None:
            floor = self.call("floor_map", metres_per_pixel=0.05)
            goals = np.array([goal.position for goal in task.goals])[:, [0, 2]]
            return draw_scene(floor["free"], floor["corner"], 0.05, way, heading, goals, views, shortest)
        if self._map is None:
            self._map = HomeMap(task.home.home)
        things = [int(goal.object_id) for goal in task.goals]
        return self._map.draw(way, heading, things, views, shortest if len(shortest) else np.array(way[:1]))
