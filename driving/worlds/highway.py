"""highway-env's traffic through three rendered front cameras, in this interpreter.

World frame: metres, x east, y north, z up, headings counter-clockwise from east; the ego frame has x forward, y left.
An action is a steering angle (left positive) and an acceleration, held for one control period over highway-env's
bicycle model at 15 Hz. The state vector's values are named by `STATE_NAMES`. An episode is a function of scenario,
seed and actions; the seed draws the traffic, the command and what stands beside the road.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from backbone.contracts import ActionSpec, FloatArray, Image, Observation
from backbone.errors import ConfigError, WorldError
from backbone.rendering.mesh import Frame
from backbone.worlds.world import Info, Step, World, check_action
from driving.worlds.drive_log import DriveLog
from driving.worlds.scenery import Rig, RoadScene

if TYPE_CHECKING:
    from driving.worlds.traffic import Simulation

SCENARIOS = ("highway", "merge", "roundabout", "intersection", "racetrack")
AHEAD_M = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0)
STATE_NAMES = (
    "speed_m_s",
    "yaw_rate_rad_s",
    "steering_rad",
    "acceleration_m_s2",
    *(f"route_{axis}_at_{metres:g}m" for metres in AHEAD_M for axis in ("x", "y")),
)
REMEDY = "highway-env is missing: pip install -e '.[worlds]'"
OFF_ROAD_M = 0.75  # how far the car's middle may leave the outermost lane
PROGRESS_SHARE = 0.4  # of the way at the speed limit, to succeed where there is no destination


@dataclass(frozen=True)
class HighwayConfig:
    """Which traffic, seen how. Success is no collision, never off the road, and the command carried out."""

    scenario: str = "all"  # highway, merge, roundabout, intersection, racetrack, or all in turn
    width: int = 128
    height: int = 96
    hfov_deg: float = 64.0  # of each of the three cameras, which look 55 degrees left, ahead and 55 degrees right
    control_hz: int = 5  # 1, 3, 5 or 15: the simulation's 15 Hz must be a multiple
    duration_s: float = 30.0
    traffic: float = 1.0  # how many other cars, as a factor on the scenario's usual number
    depth: bool = False  # whether observations carry depth images

    def __post_init__(self) -> None:
        if self.scenario != "all" and self.scenario not in SCENARIOS:
            raise ConfigError(f"highway: scenario must be all or one of {', '.join(SCENARIOS)}, got {self.scenario!r}")
        if not (16 <= self.width <= 2048 and 16 <= self.height <= 2048):
            raise ConfigError(f"highway: width and height must lie in [16, 2048], got {self.width} x {self.height}")
        if not 20.0 <= self.hfov_deg <= 120.0:
            raise ConfigError(f"highway: hfov_deg must lie in [20, 120], got {self.hfov_deg}")
        if self.control_hz not in (1, 3, 5, 15):
            raise ConfigError(f"highway: control_hz must divide 15 Hz: 1, 3, 5 or 15; got {self.control_hz}")
        if not 2.0 <= self.duration_s <= 300.0:
            raise ConfigError(f"highway: duration_s must lie in [2, 300], got {self.duration_s}")
        if not 0.0 <= self.traffic <= 3.0:
            raise ConfigError(f"highway: traffic must lie in [0, 3], got {self.traffic}")

    @property
    def world(self) -> str:
        """The world's name."""
        return "highway"

    def options(self, index: int) -> dict[str, Any]:
        """Episode ``index`` plays the scenarios in turn."""
        return {"scenario": SCENARIOS[index % len(SCENARIOS)] if self.scenario == "all" else self.scenario}

    def make(self) -> HighwayWorld:
        """Open the world; `WorldError` without highway-env, moderngl or an EGL."""
        return HighwayWorld(self)


class HighwayWorld(World):
    """One car in highway-env's traffic. Further methods: `history`, `views`."""

    def __init__(self, config: HighwayConfig) -> None:
        """Open the renderer; the simulations are opened when first needed."""
        try:
            import driving.worlds.traffic  # noqa: F401 - tells a missing simulator before anything else is opened
        except ImportError as error:
            raise WorldError(f"{REMEDY} ({error})") from error
        from driving.worlds.traffic import MAX_ACCELERATION, MAX_STEERING_RAD

        self.name = "highway"
        self.config = config
        self.max_steps = round(config.duration_s * config.control_hz)
        self.action_spec = ActionSpec(
            ("steering", "acceleration"),
            ("rad", "m/s^2"),
            (-MAX_STEERING_RAD, -MAX_ACCELERATION),
            (MAX_STEERING_RAD, MAX_ACCELERATION),
            float(config.control_hz),
            meanings=("front wheels' angle, left positive", "of the car, negative brakes; it does not reverse"),
        )
        self._scene: RoadScene | None = RoadScene(config.width, config.height, Rig(hfov_deg=config.hfov_deg))
        self._simulations: dict[str, Simulation] = {}
        self._steps = -1  # below 0: no episode

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin an episode; ``options["scenario"]`` chooses among `SCENARIOS` (the config's own by default)."""
        from driving.worlds.lanes import highway_scene
        from driving.worlds.planning import plan
        from driving.worlds.traffic import Simulation

        scene = self._open_scene()
        scenario = str({**self.config.options(seed), **(options or {})}["scenario"])
        if scenario not in SCENARIOS:
            raise WorldError(f"highway: no scenario {scenario!r}; there are {', '.join(SCENARIOS)}")
        if scenario not in self._simulations:
            self._simulations[scenario] = Simulation(scenario, self.config.control_hz, self.config.traffic)
        simulation = self._simulation = self._simulations[scenario]
        simulation.reset(seed)
        self._ego = simulation.body(simulation.ego)
        self._route = plan(simulation, seed, self.config.duration_s)
        self._s, self._lateral = self._route.project(self._ego.x, self._ego.y, near=75.0, window=80.0)
        self._first_s = self._s
        self._strips, self._markings = highway_scene(simulation.network, self._ego, 40.0 * self.config.duration_s + 300)
        scene.build(self._strips, self._markings, seed)
        self._applied = (0.0, 0.0)
        self._log = DriveLog(1.0 / self.config.control_hz, needed_m=self._needed())
        self._steps, self._ended = 0, False
        self._record()
        return self._observe(), self._info()

    def step(self, action: FloatArray) -> Step:
        """Steering angle (rad, left positive) and acceleration (m/s^2), held for one control period.

        The reward is the progress along the route in metres, plus 10 for success, minus 10 for a collision or for
        leaving the road, which end the episode, as arriving does.
        """
        if self._steps < 0 or self._ended:
            raise WorldError("highway: step outside an episode; call reset first")
        steering, acceleration = check_action(action, self.action_spec, "highway").astype(np.float64).tolist()
        applied = self._simulation.step(steering, acceleration)
        self._applied = (steering, applied)
        self._steps += 1
        self._ego = self._simulation.body(self._simulation.ego)
        before = self._s
        self._s, self._lateral = self._route.project(self._ego.x, self._ego.y, near=self._s)
        self._record()
        log = self._log
        terminated = log.collision or log.off_road or log.arrived
        truncated = not terminated and self._steps >= self.max_steps
        if truncated and self._route.goal_s is None:
            log.success = log.progress_m >= log.needed_m and self._obeyed()
        self._ended = terminated or truncated
        reward = self._s - before + 10.0 * log.success - 10.0 * (log.collision or log.off_road)
        return self._observe(), reward, terminated, truncated, self._info()

    def describe(self) -> dict[str, Any]:
        """The scene in numbers: see `driving.worlds.description.describe`."""
        from driving.worlds.description import describe

        self._need_episode("describe")
        steering, acceleration = self._applied
        return describe(
            self._simulation, self._route, self._log, self._ego, s=self._s, lateral=self._lateral, steering=steering,
            acceleration=acceleration, yaw_rate=self._yaw_rate(), time_s=self._time_s(),
        )  # fmt: skip

    def expert_action(self) -> FloatArray:
        """The expert's action: along the route, behind the leading car, yielding where paths cross."""
        from driving.worlds.expert import Car, Driver, drive, future_times
        from driving.worlds.foresight import foresee, lane_to_hold

        self._need_episode("expert_action")
        driver = Driver()
        ego = self._ego
        car = Car(ego.x, ego.y, ego.heading, ego.speed, 1.0 / self.config.control_hz)
        others = foresee(self._simulation, future_times(driver))
        hold = lane_to_hold(driver, car, self._route, self._s, self._lateral, others)
        steering, acceleration = drive(driver, car, self._route, self._s, self._lateral, others, hold)
        return np.clip(
            np.array([steering, acceleration], np.float32),
            np.array(self.action_spec.low, np.float32),
            np.array(self.action_spec.high, np.float32),
        )

    def metrics(self) -> dict[str, float]:
        """Measures of the episode so far, as `DriveLog.metrics` names them."""
        self._need_episode("metrics")
        return self._log.metrics()

    def history(self, seconds: float = 2.0, dt_s: float = 0.5) -> FloatArray:
        """Past poses (N, 3) x, y, heading in the present ego frame, oldest first; the last one is (0, 0, 0)."""
        self._need_episode("history")
        return self._log.history(seconds, dt_s)

    def views(self, *, depth: bool = True, ids: bool = True) -> Mapping[str, Frame]:
        """The cameras' pictures now, with depth in metres and the ids of `describe`'s vehicles."""
        self._need_episode("views")
        ego = self._ego
        return self._open_scene().render(ego.x, ego.y, ego.heading, self._simulation.bodies(), depth=depth, ids=ids)

    def draw(self) -> Image:
        """The road from above, the ego car's heading upwards, with its path and the route ahead."""
        from driving.worlds.overhead import draw_overhead

        self._need_episode("draw")
        ahead = self._route.at(np.arange(self._s, self._s + 100.0, 1.0))[0]
        driven = [(x, y) for x, y, _, _ in self._log.rows]
        return draw_overhead(self._ego, self._simulation.bodies(), self._strips, self._markings, ahead, driven)

    def close(self) -> None:
        """Release the renderer and the simulations."""
        if self._scene is not None:
            self._scene.close()
        self._scene, self._steps = None, -1
        for simulation in self._simulations.values():
            simulation.close()
        self._simulations.clear()

    def _record(self) -> None:
        log, ego = self._log, self._ego
        log.rows.append((ego.x, ego.y, ego.heading, ego.speed))
        log.progress_m = self._s - self._first_s
        log.collision = bool(self._simulation.ego.crashed)
        log.off_road = self._simulation.metres_off_road() > OFF_ROAD_M
        goal = self._route.goal_s
        log.arrived = goal is not None and self._s >= goal and self._obeyed()
        log.success = log.arrived and not log.collision and not log.off_road

    def _needed(self) -> float:
        if self._route.goal_s is not None:
            return self._route.goal_s - self._first_s
        return PROGRESS_SHARE * self._route.value_at(self._route.limits, self._s) * self.config.duration_s

    def _obeyed(self) -> bool:
        """Whether the car is where its command wants it; on the track either lane will do."""
        return abs(self._lateral) < (6.0 if self._route.command == "follow_track" else 2.0)

    def _yaw_rate(self) -> float:
        slip = math.atan(math.tan(self._applied[0]) / 2)
        return self._ego.speed * math.sin(slip) / (self._ego.length / 2)

    def _time_s(self) -> float:
        return self._steps / self.config.control_hz

    def _observe(self) -> Observation:
        from driving.worlds.route import to_ego

        ego = self._ego
        frames = self.views(depth=self.config.depth, ids=False)
        ahead = to_ego(self._route.at(self._s + np.array(AHEAD_M))[0], ego.x, ego.y, ego.heading)
        state = np.array([ego.speed, self._yaw_rate(), *self._applied, *ahead.ravel()], np.float32)
        depths = {name: f.depth for name, f in frames.items() if f.depth is not None}
        images = {name: f.rgb for name, f in frames.items()}
        return Observation(images, self._route.instruction, state, self._time_s(), depths)

    def _info(self) -> Info:
        log = self._log
        return {
            "success": log.success,
            "collision": log.collision,
            "off_road": log.off_road,
            "arrived": log.arrived,
            "scenario": self._simulation.scenario,
            "command": self._route.command,
            "applied": np.array(self._applied, np.float32),
        }

    def _need_episode(self, what: str) -> None:
        if self._steps < 0:
            raise WorldError(f"highway: {what} before the first reset, or after close")

    def _open_scene(self) -> RoadScene:
        if self._scene is None:
            raise WorldError("highway: the world is closed; make a new one")
        return self._scene
