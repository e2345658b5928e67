"""Playing the episodes of stages 1 and 2: along the shortest way, and along exploratory ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.errors import WorldError
from backbone.worlds.world import World
from navigation.actions import END
from navigation.config import DataConfig
from navigation.data import Dropped, MakingConfig, Stage
from navigation.exploration import GridGround, Ground, HomeGround, plan_route
from navigation.following import Follower, HomeFollower, ProbeFollower
from navigation.playing import Play, perturbation
from navigation.records import Pose, Recorded
from navigation.segments import due, leg_ends
from navigation.straying import Straying
from navigation.surroundings import scene_of, surroundings
from navigation.thoughts import TemplateTeacher, think_all
from navigation.worlds.habitat import HabitatWorld
from navigation.worlds.rooms_scene import Scene

CELL_M = 0.1  # of the grid in scenes of habitat-sim
Points = NDArray[np.float64]


@dataclass(frozen=True)
class MakingJob:
    """Episodes of stage 1 or 2, for `navigation.producing`."""

    making: MakingConfig = field(default_factory=MakingConfig)
    world_name: str = "rooms"  # kept with the settings

    def open(self) -> WorldStudio:
        """Open the world."""
        return WorldStudio(self.making)


class WorldStudio:
    """A world in which episodes of a stage are played."""

    def __init__(self, config: MakingConfig) -> None:
        """Open the world."""
        self._config = config
        self._world: World = config.ready_world().make()

    def make(self, number: int) -> Recorded:
        """See `make_episode`."""
        return make_episode(self._world, self._config, number)

    def close(self) -> None:
        """Close the world."""
        self._world.close()


def make_episode(world: World, config: MakingConfig, number: int) -> Recorded:
    """Episode ``number`` of a stage, in a world made by ``config.ready_world()``.

    Raises:
        Dropped: the stage's rules leave it out.
        WorldError: the world could not give it.
    """
    makers: Mapping[Stage, Callable[[World, MakingConfig, int], Recorded]] = {
        "stage1": shortest,
        "stage2": exploratory,
    }
    return makers[config.stage](world, config, number)


def shortest(world: World, config: MakingConfig, number: int) -> Recorded:
    """Stage 1: along the shortest way to a view point, then turned to the object, then ``end``."""
    play = Play(world, config.episode_seed(number), config.options(number))
    rng = np.random.default_rng([config.seed, number, 0xA1])
    while not play.over:
        _advance(play, play.expert(), config, rng)
    return _finish(play, config, number, "shortest")


def exploratory(world: World, config: MakingConfig, number: int) -> Recorded:
    """Stage 2: through waypoints to the target in segments, each begun by a look around and a thought."""
    play = Play(world, config.episode_seed(number), config.options(number))
    rng = np.random.default_rng([config.seed, number, 0xA2])
    scene = scene_of(world, play.told)
    legs, astray = plan_legs(play, scene, config.data, rng), Straying(rng, config.stray)
    while not play.over:
        wanted = legs.action(play.pose) or play.expert()
        if astray.blocked(play.pose) or _looks(play, wanted, config.data):
            known = surroundings(world, scene, play.pose, str(play.info["category"]))
            play.look_around(known)
            astray.stop()
            if any(metres <= config.seen_m for view in known["views"] for metres in view["goals"]):
                legs.skip()
                wanted = play.expert()
        _advance(play, wanted, config, rng, astray)
    made = _finish(play, config, number, "exploratory")
    return think_all(made, TemplateTeacher(config.thoughts, config.seed))


def _looks(play: Play, wanted: str, config: DataConfig) -> bool:
    """Whether it is time to look around: at the start, after so many actions, and where a leg ends."""
    if not (play.cycles or play.since_look):
        return True
    late = due(play.since_look, config.segment_steps)
    return (late and wanted != END) or leg_ends(play.since_look, play.begun, play.pose, wanted, config)


def _advance(
    play: Play, wanted: str, config: MakingConfig, rng: np.random.Generator, astray: Straying | None = None
) -> None:
    """One action, now and then another one than is wanted, which is not learned."""
    if play.steps >= config.data.repaired_steps:
        raise Dropped(f"the way takes more than {config.data.repaired_steps} steps")
    thinks = play.thinks and not play.since_look  # a thought goes with the action that it leads to
    other = None
    if wanted != END and not thinks:
        strays = astray is not None and (astray.under_way or play.since_look >= config.data.least_leg)
        other = (astray.action(play.pose) if astray and strays else None) or perturbation(rng, config.noise)
    play.act(other or wanted, learn=other is None or other == wanted)


def _finish(play: Play, config: MakingConfig, number: int, source: str) -> Recorded:
    if not play.info["success"]:
        raise Dropped("the way to the nearest view point does not end within reach of the object")
    return play.finish(f"{config.stage}-{config.seed}-{number}", source, {"noise": config.noise, "stray": config.stray})


class Legs:
    """Leads through waypoints one after the other."""

    def __init__(self, places: Sequence[Points], follow: Callable[[Points, Pose], Follower]) -> None:
        """``follow`` makes what leads from a pose to a place."""
        self._places, self._follow = list(places), follow
        self._now: Follower | None = None

    def skip(self) -> None:
        """Leave out the places that are left."""
        self._places.clear()

    def action(self, pose: Pose) -> str | None:
        """The next action; None once all are passed. A place that cannot be reached is left out."""
        while self._places:
            self._now = self._now or self._follow(self._places[0], pose)
            action = self._now.action(pose)
            if action is not None:
                return action
            self._places.pop(0)
            self._now = None
        return None


def plan_legs(play: Play, scene: Scene | None, config: DataConfig, rng: np.random.Generator) -> Legs:
    """The way through the waypoints of an episode; `Dropped` where the rules allow none."""
    goals = play.told["goals"]
    views = np.array([v for g in goals for v in g["view_points"]], np.float64)[:, [0, -1]]  # (x, z) of (x, [y,] z)
    boxes = {str(o["id"]): o for o in play.told["objects"]}
    middles = np.array([_middle(g, boxes) for g in goals])
    ground, here = ground_of(play.world, scene), np.array(play.pose[:2])
    nearest = int(np.linalg.norm(middles - here, axis=1).argmin())
    route = plan_route(ground, here, views, middles[nearest], middles, config, rng)
    if route is None:
        raise Dropped("no waypoint is far enough from start and target, or the way is too long")
    if scene is not None:
        return Legs(list(route.waypoints), lambda place, pose: HomeFollower(scene, place, pose))
    return Legs(list(route.waypoints), lambda place, pose: ProbeFollower(ground.distance(place[None])))


def _middle(goal: Mapping[str, Any], boxes: Mapping[str, Any]) -> tuple[float, float]:
    """Where a goal is over the floor: the middle of its box, or of its view points where the scene has no box."""
    box = boxes.get(str(goal["id"]))
    if box is None:
        x, z = np.mean(np.asarray(goal["view_points"], np.float64), axis=0)[[0, -1]]
        return float(x), float(z)
    return (box["low"][0] + box["high"][0]) / 2, (box["low"][2] + box["high"][2]) / 2


def ground_of(world: World, scene: Scene | None) -> Ground:
    """The floor of the episode under way."""
    if scene is not None:
        return HomeGround(scene.floor)
    if not isinstance(world, HabitatWorld):
        raise WorldError(f"{world.name}: no ways are known in this world")
    height = float(world.call("describe")["position"][1])
    floor = world.call("floor_map", metres_per_pixel=CELL_M)

    def geodesics(starts: Points, ends: Points) -> list[float | None]:
        raised = (np.stack([p[:, 0], np.full(len(p), height), p[:, 1]], 1) for p in (starts, ends))
        found: list[float | None] = world.call("geodesics", **dict(zip(("starts", "ends"), raised, strict=True)))
        return found

    return GridGround(floor["free"], floor["corner"], CELL_M, geodesics)
