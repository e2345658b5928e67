"""The world ``rooms``: generated homes of several rooms, and an object of a category to find in them.

Actions, frames, sensors and measures are those of Habitat's ObjectNav: a step goes 0.25 m ahead and stops at contact
without sliding, a turn is 30 degrees, ``stop`` ends the episode. Metres, y up, floor at 0; a camera at 0.88 m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import ActionSpec, FloatArray, Image, Observation
from backbone.errors import ConfigError, WorldError
from backbone.worlds.world import Info, Step, World, check_action
from navigation.homes.furniture import GOAL_CATEGORIES
from navigation.homes.generate import HomeRules, Split
from navigation.worlds.navigation_world import (
    ACTIONS,
    LOOK_AROUND,
    LOOKS,
    PANORAMA,
    gps_compass,
    instruction_for,
    rotation_xyzw,
    with_panorama,
)
from navigation.worlds.rooms_episode import Episode, choose_start
from navigation.worlds.rooms_expert import Expert
from navigation.worlds.rooms_map import HomeMap
from navigation.worlds.rooms_scene import Scene, generated_home, generated_scene, needs
from navigation.worlds.rooms_view import View, visible_things

_HOMES_TRIED = 40  # for one that has the category asked for
_MOST_TILT = math.radians(60.0)


@dataclass(frozen=True)
class RoomsConfig:
    """How episodes of ``rooms`` are drawn and seen. ``success_distance`` is 0.1 or, for ``object``, 1.0 when None."""

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
    forward_noise_m: float = 0.0  # standard deviations of what a step or turn does; the seed fixes the noise
    turn_noise_deg: float = 0.0
    min_rooms: int = 3
    max_rooms: int = 8
    unusual: tuple[tuple[str, str], ...] = ()  # (category, kind of room) pairs, see `HomeRules`

    def __post_init__(self) -> None:
        checks = {
            "width and height must lie in [8, 4096]": min(self.width, self.height) >= 8
            and max(self.width, self.height) <= 4096,
            "hfov_deg must lie in [10, 150]": 10.0 <= self.hfov_deg <= 150.0,
            "camera_height must lie in [0.1, 2.4] m": 0.1 <= self.camera_height <= 2.4,
            "forward_m must lie in (0, 2] m": 0.0 < self.forward_m <= 2.0,
            "turn_deg must divide 360": self.turn_deg > 0
            and abs(360.0 / self.turn_deg - round(360.0 / self.turn_deg)) < 1e-9,
            "max_steps must be at least 1": self.max_steps >= 1,
            "homes must lie in [1, 1e9]": 1 <= self.homes <= 1_000_000_000,
            f"split must be one of {get_args(Split)}": self.split in get_args(Split),
            "distance_to must be view_points or object": self.distance_to in ("view_points", "object"),
            "success_distance must be positive": self.success_distance is None or self.success_distance > 0,
            "noise must not be negative": min(self.forward_noise_m, self.turn_noise_deg) >= 0,
            f"category must be one of {', '.join(GOAL_CATEGORIES)}": self.category in (None, *GOAL_CATEGORIES),
        }
        wrong = [text for text, fine in checks.items() if not fine]
        if wrong:
            raise ConfigError(f"rooms: {'; '.join(wrong)}; got {self}")
        self.rules()

    @property
    def world(self) -> str:
        """The world's name."""
        return "rooms"

    def rules(self) -> HomeRules:
        """What the homes are like."""
        pairs = tuple((str(category), str(kind)) for category, kind in self.unusual)
        return HomeRules((self.min_rooms, self.max_rooms), pairs)

    def options(self, index: int) -> dict[str, Any]:
        """Nothing: the seed alone chooses an episode."""
        return {}

    def make(self) -> RoomsWorld:
        """Open the world; the renderer is opened by the first reset."""
        return RoomsWorld(self)


class RoomsWorld(World):
    """One agent in one home. ``options`` of `reset` may name a ``home`` (seed) and a ``category``."""

    name = "rooms"

    def __init__(self, config: RoomsConfig) -> None:
        """Nothing is generated before the first reset."""
        self.config = config
        choices = ACTIONS + (LOOKS if config.look else ()) + ((LOOK_AROUND,) if config.panorama else ())
        self.action_spec = ActionSpec.discrete(choices, 1.0)
        self.max_steps = config.max_steps
        self._view = View(config.width, config.height, config.hfov_deg, config.camera_height)
        self._episode: Episode | None = None
        self._over = True
        self._noise = np.random.default_rng(0)
        self._map: HomeMap | None = None

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin the episode of ``seed``; `WorldError` for options it does not know or a home without the category."""
        given = dict(options or {})
        home, category = given.pop("home", self.config.home), given.pop("category", self.config.category)
        if given:
            raise WorldError(f"rooms: unknown options {sorted(given)}; there are home and category")
        config = self.config
        scene = self._scene_of(seed, home, category)
        start = choose_start(scene, seed, category)
        radius = config.success_distance or (0.1 if config.distance_to == "view_points" else 1.0)
        goals = needs(scene.goals(start.category), scene.home, start.category)
        self._episode = Episode(scene, goals, start, config.distance_to, radius)
        self._expert = Expert(self._episode, math.radians(config.turn_deg), config.forward_m)
        self._noise = np.random.default_rng([seed, 0x5E5])
        self._view.show(scene)
        if self._map is None or self._map.home is not scene.home:
            self._map = None
        self._over = False
        return self._observe(), self._info(False)

    def _scene_of(self, seed: int, home: int | None, category: str | None) -> Scene:
        """The home that was asked for, or else the seed's; with a category, the next one after it that has it."""
        config, rules = self.config, self.config.rules()
        if home is not None:
            return generated_scene(int(home), config.split, rules)
        if category is None:
            return generated_scene(seed % config.homes, config.split, rules)
        tries = min(_HOMES_TRIED, config.homes)
        for i in range(tries):
            number = (seed + i) % config.homes
            if generated_home(number, config.split, rules).of(category):
                scene = generated_scene(number, config.split, rules)
                if scene.goals(category) is not None:
                    return scene
        raise WorldError(
            f"rooms: none of the {tries} homes from {seed % config.homes} on has a reachable {category!r}; "
            "raise homes or min_rooms, or choose another category"
        )

    def step(self, action: FloatArray) -> Step:
        """One of Habitat's actions; a step forward ends at contact, without sliding."""
        episode = self._running()
        if self._over:
            raise WorldError("rooms: the episode is over; reset the world to begin the next one")
        name = self.action_spec.choices[int(check_action(action, self.action_spec, "rooms")[0])]
        collided, around = False, None
        config = self.config
        episode.steps += 1
        if name == "stop":
            episode.stopped = True
        elif name == "move_forward":
            metres = max(config.forward_m + config.forward_noise_m * self._noise.standard_normal(), 0.0)
            collided = episode.forward(metres)
        elif name == LOOK_AROUND:
            around = self.panorama()
        elif name in LOOKS:
            up = math.radians(config.turn_deg) * (1 if name == "look_up" else -1)
            episode.tilt = min(max(episode.tilt + up, -_MOST_TILT), _MOST_TILT)
            episode.turns += 1
        else:
            angle = config.turn_deg + config.turn_noise_deg * self._noise.standard_normal()
            episode.turn(math.radians(angle) * (1 if name == "turn_left" else -1))
        truncated = not episode.stopped and episode.steps >= self.max_steps
        self._over = episode.stopped or truncated
        return self._observe(around), float(episode.success), episode.stopped, truncated, self._info(collided)

    def _observe(self, around: Mapping[str, Image] | None = None) -> Observation:
        e, config = self._running(), self.config
        frame = self._view.render(e.place, e.heading, e.tilt, depth=config.depth)
        state = None
        if config.pose_in_state:
            state = gps_compass(e.start.place, e.start.heading, (float(e.place[0]), float(e.place[1])), e.heading)
        depths = {} if frame.depth is None else {"front": frame.depth}
        images = with_panorama(frame.rgb, around) if config.panorama else {"front": frame.rgb}
        return Observation(images, instruction_for(e.start.category), state, float(e.steps), depths)

    def _info(self, collided: bool) -> Info:
        e = self._running()
        return {
            "success": e.success,
            "collided": collided,
            "distance_to_goal": e.distance,
            "position": [float(e.place[0]), 0.0, float(e.place[1])],
            "category": e.start.category,
            "home": e.scene.home.seed,
        }

    def _running(self) -> Episode:
        if self._episode is None:
            raise WorldError("rooms: no episode yet; call reset first")
        return self._episode

    def panorama(self) -> dict[str, Image]:
        """Four pictures around the agent, a quarter turn to the left each; counted, but no step of the episode."""
        e = self._running()
        e.panoramas += 1
        turned = (e.heading + i * math.pi / 2 for i in range(4))
        return {name: self._view.render(e.place, h, 0.0).rgb for name, h in zip(PANORAMA, turned, strict=True)}

    def instances(self) -> NDArray[np.int32]:
        """The id of the thing in each pixel (H, W): keys of ``labels`` in `describe`, 0 for nothing."""
        e = self._running()
        ids = self._view.render(e.place, e.heading, e.tilt, ids=True).ids
        if ids is None:
            raise WorldError("rooms: the renderer gave no ids")
        return ids

    def semantic(self) -> NDArray[np.int32]:
        """The category in each pixel (H, W): its index in `navigation.homes.furniture.CATEGORIES` plus one."""
        numbers: NDArray[np.int32] = self._running().scene.category_numbers[self.instances()]
        return numbers

    def describe(self) -> dict[str, Any]:
        """Pose, home, rooms, things with boxes, those in the picture, goals with view points, distances."""
        e = self._running()
        home = e.scene.home
        views = {i: e.goals.views[e.goals.owner == i].round(4).tolist() for i in e.goals.things}
        x, z = float(e.place[0]), float(e.place[1])
        return {
            "position": [x, 0.0, z],
            "rotation_xyzw": list(rotation_xyzw(e.heading)),
            "tilt_deg": math.degrees(e.tilt),
            "home": {"seed": home.seed, "split": home.split},
            "room": home.room_at(x, z),
            "rooms": [{"name": r.name, "kind": r.kind, "box": [r.x0, r.z0, r.x1, r.z1]} for r in home.rooms],
            "objects": [
                {"id": t.id, "category": t.category, "room": t.room, "low": list(t.box()[0]), "high": list(t.box()[1])}
                for t in home.things
            ],
            "labels": {str(i): c for i, c in home.labels().items()},
            "visible": visible_things(home, self.instances()),
            "category": e.start.category,
            "goals": [{"id": i, "room": home.thing(i).room, "view_points": v} for i, v in views.items()],
            "distance_to_goal": e.distance,
            "geodesic_distance": e.shortest,
            "steps": e.steps,
        }

    def expert_action(self) -> FloatArray:
        """Along the shortest way to the nearest view point, then towards the object, then stop."""
        self._running()
        return np.array([self.action_spec.choices.index(self._expert.action())], np.float32)

    def metrics(self) -> dict[str, float]:
        """Habitat's measures of the episode so far and SOT; see `navigation.metrics.outcome_metrics`."""
        e = self._running()
        if e.expert_actions is None:
            e.expert_actions = self._expert.whole(self.max_steps)
        return e.measures(e.expert_actions, self.config.forward_m)

    def draw(self) -> Image:
        """The home from above: things, goals (orange), their view points, the shortest way, the way taken."""
        e = self._running()
        if self._map is None:
            self._map = HomeMap(e.scene.home)
        shortest = e.scene.floor.path_in(e.goals.way, np.array(e.start.place))
        return self._map.draw(e.way, e.heading, e.goals.things, e.goals.views, shortest)

    def close(self) -> None:
        """Free the renderer; a later reset opens it again."""
        self._view.close()
        self._over = True
