"""A classical explorer: a map drawn from depth, the nearest frontier until a detector sees the target, then up to it.

It needs depth and pose, which Hydra-Nav does without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backbone.contracts import ActionSpec, Decision, Observation
from backbone.errors import ConfigError, DataError, WorldError
from backbone.rollout.agents import CLOSED, single
from backbone.worlds.world import World
from navigation.actions import END, LEFT, MOVE, RIGHT, ActionMap
from navigation.detectors import Detector, ModelDetector, TrueDetector
from navigation.occupancy import Cell, OccupancyMap, Pose, Ways, ways_from
from navigation.worlds.navigation_world import wrapped

TURNS = 12  # of a full circle
STEP_M, TURN = 0.25, math.radians(30.0)
REPLAN = 6  # steps
STOP_M = 0.75  # from the target's nearest point; view points lie within 1 m of it
AHEAD_M = 0.35  # how far along its way the agent aims
TASK = "find the "


@dataclass(frozen=True)
class FrontierConfig:
    """Frontier exploration with a detector.

    ``truth`` is the world's labels, ``model`` the boxes that a model writes, ``sight`` the kinds that a tower sees.
    """

    detector: Literal["truth", "model", "sight"] = "truth"
    model: str = "nano"  # of detectors model and sight
    adapter: str = "auto"  # a LoRA directory for it, or the name of a shipped one; auto: shipped sight for nano's
    least: float = 0.6  # of detector sight: probability from which a cell shows the object
    device: str = "auto"
    hfov_deg: float = 79.0  # of the world's camera
    camera_height: float = 0.88

    @property
    def agent(self) -> str:
        """``frontier``."""
        return "frontier"

    def world_settings(self) -> dict[str, Any]:
        """Depth and pose."""
        return {"depth": True, "pose_in_state": True}

    def make(self, spec: ActionSpec) -> FrontierAgent:
        """Make the agent, with the model's weights if its boxes are asked for."""
        if self.detector == "truth":
            return FrontierAgent(spec, self, None)
        from navigation.agent_config import load
        from navigation.config import NavigationConfig

        if self.detector == "sight":
            return FrontierAgent(spec, self, self._sight())
        adapter = "" if self.adapter == "auto" else self.adapter
        vlm, name = load(self.model, NavigationConfig.preset("qwen"), adapter, self.device)
        return FrontierAgent(spec, self, ModelDetector(vlm, name))

    def _sight(self) -> Detector:
        from backbone.local import LocalVLM
        from navigation.agent_config import load, preset_for, resolved_adapter
        from navigation.config import NavigationConfig
        from navigation.sight_detector import SightDetector

        config = NavigationConfig.preset(preset_for(self.model))
        folder = resolved_adapter(self.model, self.adapter, "sight")
        vlm, name = load(self.model, config, folder, self.device)
        if not isinstance(vlm, LocalVLM):
            raise ConfigError(f"{self.model} is behind a server; detector sight needs its tower in this process")
        return SightDetector(vlm, name, Path(folder), config, self.least)


class FrontierAgent:
    """With the true detector it reads the world and is privileged; with any other it sees the observation alone."""

    def __init__(self, spec: ActionSpec, config: FrontierConfig, detector: Detector | None) -> None:
        """``detector`` None takes the world's labels."""
        self.spec, self.config = spec, config
        self.actions = ActionMap.of(spec)
        self._detector = detector

    @property
    def privileged(self) -> bool:
        """Whether it reads the world."""
        return self._detector is None

    def session_in(self, world: World, instruction: str, seed: int) -> FrontierSession:
        """Start an episode in ``world``."""
        return FrontierSession(self, TrueDetector(world), instruction)

    def session(self, instruction: str, seed: int) -> FrontierSession:
        """Start an episode; `ConfigError` if the detector is the world's own."""
        if self._detector is None:
            raise ConfigError("detector truth reads the world; serve and compare it with detector model")
        return FrontierSession(self, self._detector, instruction)


class FrontierSession:
    """One episode: the map so far, the way it is on, and the target once it was seen."""

    def __init__(self, agent: FrontierAgent, detector: Detector, instruction: str) -> None:
        """Nothing seen yet."""
        self._agent, self._detector = agent, detector
        self._what = instruction.removeprefix(TASK)
        self.map = OccupancyMap(agent.config.hfov_deg, agent.config.camera_height)
        self.target: np.ndarray[Any, np.dtype[np.float64]] | None = None  # (N, 2) points of it
        self._path: list[Cell] = []
        self._turns = 0  # of the first full circle
        self._since = 0  # steps since the way was planned
        self._before: Pose | None = None  # where the last step forward began
        self._closed = False

    def act(self, observation: Observation) -> Decision:
        """One action."""
        if self._closed:
            raise WorldError(CLOSED)
        pose = _pose(observation)
        depth = observation.depths.get("front")
        if depth is None:
            raise DataError(
                "frontier exploration needs depth; run it in a world with --world.depth --world.pose-in-state"
            )
        self.map.see(depth, pose)
        self._notice_bump(pose)
        self._notice_target(observation, pose)
        action, status = self._next(pose)
        self._before = pose if action == MOVE else None
        return Decision(single(np.array([self._agent.actions.index(action)]), self._agent.spec), status=status)

    def close(self) -> None:
        """End the episode."""
        self._closed = True

    def _notice_bump(self, pose: Pose) -> None:
        if self._before is not None and math.dist(self._before[:2], pose[:2]) < STEP_M / 5:
            self.map.bump(pose, STEP_M)
            self._path = []

    def _notice_target(self, observation: Observation, pose: Pose) -> None:
        mask = self._detector(observation, self._what)
        if mask is None:
            return
        places, _, known = self.map.points(observation.depths["front"], pose)
        shown = places[mask & known]
        if len(shown):
            self._path = self._path if self.target is not None else []
            self.target = shown

    def _next(self, pose: Pose) -> tuple[str, str]:
        if self.target is not None:
            return self._approach(pose), "approach"
        if self._turns < TURNS:
            self._turns += 1
            return LEFT, "look around"
        self._since += 1
        if not self._path or self._since >= REPLAN:
            self._path = self._to_frontier(pose)
        if not self._path:
            return END, "nothing left to explore"
        return self._follow(pose), "explore"

    def _ways(self, pose: Pose) -> Ways:
        self._since = 0
        return ways_from(self.map.passable(), self.map.cell(pose[0], pose[1]), self.map.config.cell_m)

    def _to_frontier(self, pose: Pose) -> list[Cell]:
        """The way to the nearest frontier; nothing where none can be reached."""
        ways = self._ways(pose)
        edge = self.map.frontier(self.map.passable())
        length = np.where(edge & (ways.length > STEP_M), ways.length, np.inf)
        best = int(length.argmin())
        if not np.isfinite(length.flat[best]):
            return []
        i, j = np.unravel_index(best, length.shape)
        return ways.path((int(i), int(j)))

    def _approach(self, pose: Pose) -> str:
        """Up to the target's nearest point, then towards its middle, then the end."""
        assert self.target is not None  # noqa: S101 - for the type checker: only called with one
        distance = np.linalg.norm(self.target - np.array(pose[:2]), axis=1)
        self._since += 1
        if distance.min() > STOP_M and (not self._path or self._since >= REPLAN):
            self._path = self._to_target(pose)
        if distance.min() > STOP_M and self._path:
            return self._follow(pose)
        middle = np.median(self.target, axis=0)
        turn = _turn_towards(pose, (float(middle[0]), float(middle[1])))
        return turn or END

    def _to_target(self, pose: Pose) -> list[Cell]:
        """The way to the reachable cell that is nearest to the target, unless the agent is there."""
        assert self.target is not None  # noqa: S101 - as above
        ways = self._ways(pose)
        cells = np.argwhere(np.isfinite(ways.length))
        places = (cells + 0.5 - len(self.map.cells) / 2) * self.map.config.cell_m
        points = self.target[:: max(1, len(self.target) // 64)]
        gaps = np.linalg.norm(places[:, None] - points[None], axis=-1).min(1)
        cost = np.maximum(gaps, STOP_M - self.map.config.cell_m) + 1e-3 * ways.length[cells[:, 0], cells[:, 1]]
        i, j = cells[int(cost.argmin())]
        if ways.length[i, j] < STEP_M / 2:
            return []
        return ways.path((int(i), int(j)))

    def _follow(self, pose: Pose) -> str:
        """Along the way: turn to what lies ahead of it, or go."""
        here = np.array(pose[:2])
        places = np.array([self.map.place(cell) for cell in self._path])
        nearest = int(np.linalg.norm(places - here, axis=1).argmin())
        self._path, places = self._path[nearest:], places[nearest:]
        far = np.flatnonzero(np.linalg.norm(places - here, axis=1) >= AHEAD_M)
        aim = places[int(far[0])] if len(far) else places[-1]
        if len(far) == 0 and math.dist(aim, here) < STEP_M / 2:
            self._path = []
        return _turn_towards(pose, (float(aim[0]), float(aim[1]))) or MOVE


def _turn_towards(pose: Pose, place: tuple[float, float]) -> str | None:
    """The turn that brings ``place`` nearer to straight ahead; None where none does."""
    off = wrapped(math.atan2(place[1] - pose[1], place[0] - pose[0]) - pose[2])
    if abs(off) <= TURN / 2 + 1e-6:
        return None
    return LEFT if off > 0 else RIGHT


def _pose(observation: Observation) -> Pose:
    """Where Habitat's GPS and compass say the agent is."""
    if observation.state is None or len(observation.state) != 3:
        raise DataError(
            "frontier exploration needs GPS and compass; run it in a world with --world.pose-in-state --world.depth"
        )
    ahead, right, heading = (float(v) for v in observation.state)
    return ahead, -right, heading
