"""An episode of a world that is played and written down at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backbone.contracts import Image, Observation
from backbone.errors import ConfigError, WorldError
from backbone.worlds.world import World
from navigation.actions import MOTOR, OBS, ActionMap
from navigation.records import Camera, Cycle, Pose, Recorded, Trajectory
from navigation.worlds.navigation_world import PANORAMA, ahead, heading_of, wrapped


class Play:
    """One episode under way: the cycle at its end is open until the next look around or `finish`.

    The world must look around by an action (``panorama``), and give Habitat's GPS and compass (``pose_in_state``), from
    which poses are taken.
    """

    def __init__(self, world: World, seed: int, options: Mapping[str, Any]) -> None:
        """Reset the world; where it starts is asked for once."""
        self.world, self.seed = world, seed
        self.map = ActionMap.of(world.action_spec)
        if not self.map.looks_around:
            raise ConfigError(f"{world.name}: trajectories need a world that looks around; open it with panorama")
        self.camera = Camera()
        self.cycles: list[Cycle] = []
        self.around: list[dict[str, Any]] = []  # what is known of every look around, for thoughts
        self.observation, self.info = world.reset(seed=seed, options=options)
        told = world.describe()
        x, _, z = told["position"]
        self._start: Pose = (float(x), float(z), heading_of(tuple(told["rotation_xyzw"])))
        self.told = told  # the world's description of the start
        self.about: dict[str, Any] = {k: told[k] for k in ("home", "episode", "scene") if k in told}
        self.over = False
        self.steps = 0
        self.distances: list[float] = []  # to the goal, at each action
        self._open_cycle()

    @property
    def image(self) -> Image:
        """What the robot sees ahead."""
        return self.observation.images["front"]

    @property
    def distance(self) -> float:
        """Metres of the shortest way that are left."""
        return float(self.info["distance_to_goal"])

    @property
    def pose(self) -> Pose:
        """Where the robot is, in the world's frame."""
        return absolute(self._start, self.observation)

    def expert(self) -> str:
        """The expert's action here, as the model writes it."""
        return self.map.word(int(self.world.expert_action()[0]))

    def _open_cycle(self) -> None:
        self._frames: list[int] = []
        self._actions: list[str] = []
        self._learn: list[bool] = []
        self._poses: list[Pose] = []
        self._views: tuple[int, ...] = ()
        self._thought = ""

    def look_around(self, known: Mapping[str, Any] | None = None) -> tuple[Image, Image, Image, Image]:
        """Look around and begin a cycle here; the one before it ends with ``obs``, which is to be learned."""
        if self._actions or self.cycles:
            self._note(OBS, True)
            self._close_cycle()
        self._step(OBS)
        views = tuple(self.observation.images[name] for name in PANORAMA)
        self._views = tuple(self.camera.add(v) for v in views)
        self.around.append(dict(known or {}))
        return views[0], views[1], views[2], views[3]

    def think(self, thought: str) -> None:
        """The thought of the open cycle."""
        self._thought = thought

    def act(self, action: str, learn: bool = True) -> None:
        """One action of the body."""
        if self.over:
            raise WorldError("the episode is over; no further action can be written down")
        self._note(action, learn)
        self._step(action)
        self.steps += 1

    def _step(self, action: str) -> None:
        self.observation, _, terminated, truncated, self.info = self.world.step(
            np.array([self.map.index(action)], np.float32)
        )
        self.over = terminated or truncated

    def _note(self, action: str, learn: bool) -> None:
        first = self._views and not self._actions
        self._frames.append(self._views[0] if first else self.camera.add(self.image))
        self._actions.append(action)
        self._learn.append(learn)
        self._poses.append(self.pose)
        self.distances.append(self.distance)

    def _close_cycle(self) -> None:
        self.cycles.append(
            Cycle(
                tuple(self._frames),
                tuple(self._actions),
                tuple(self._learn),
                tuple(self._poses),
                self._views,
                self._thought,
            )
        )
        self._open_cycle()

    @property
    def since_look(self) -> int:
        """Motor actions of the open cycle."""
        return len(self._actions)

    @property
    def begun(self) -> Pose:
        """Where the open cycle began."""
        return self._poses[0] if self._poses else self.pose

    @property
    def thinks(self) -> bool:
        """Whether the open cycle began with a look around."""
        return bool(self._views)

    def finish(self, name: str, source: str, facts: Mapping[str, Any] | None = None) -> Recorded:
        """The whole episode."""
        if self._actions:
            self._close_cycle()
        told: dict[str, Any] = {
            "distances": [round(d, 3) for d in self.distances],
            "around": self.around[: len(self.cycles)],  # a last look may have led to nothing
            "measures": {k: round(float(v), 5) for k, v in self.world.metrics().items()},
            **self.about,
            **dict(facts or {}),
        }
        trajectory = Trajectory(
            id=name,
            world=self.world.name,
            task=self.observation.instruction,
            category=str(self.info["category"]),
            seed=self.seed,
            source=source,
            success=bool(self.info["success"]),
            cycles=tuple(self.cycles),
            facts=told,
        )
        return Recorded(trajectory, tuple(self.camera.packed))


def absolute(start: Pose, observation: Observation) -> Pose:
    """The pose in the world's frame, from that of the start and Habitat's GPS and compass."""
    if observation.state is None or observation.state.shape != (3,):
        raise WorldError("poses are taken from GPS and compass; open the world with pose_in_state")
    forward, right, turned = (float(v) for v in observation.state)
    x, z, heading = start
    fx, fz = ahead(heading)
    return (x + forward * fx - right * fz, z + forward * fz + right * fx, wrapped(heading + turned))


def perturbation(rng: np.random.Generator, chance: float) -> str | None:
    """Now and then something else than the expert's action, so that one learns to get back on the way."""
    return str(rng.choice(MOTOR)) if rng.random() < chance else None
