"""MetaDrive's side of the `metadrive` world: runs in MetaDrive's own interpreter, behind the bridge.

Frame of everything that leaves this file: metres, x east, y north, z up (MetaDrive's own y points south), its origin
where the car starts; headings in radians counter-clockwise from east. One step is 0.1 s.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SEEDS = 1 << 16  # maps are numbered below this
MAPS = 50  # MetaDrive keeps all the maps it has made; after so many it is opened anew
ROUTE_M = np.arange(5.0, 55.0, 5.0)
DT_S = 0.1
OFF_LOG_M = 6.0  # further than this from the recorded line counts as having left the road
ARRIVED_M = 5.0
KINDS = {"CYCLIST": 2, "PEDESTRIAN": 3, "OTHER": 4, "UNSET": 4}  # others are cars, or trucks by their length
TRUCK_M = 6.5


def _sibling(name: str) -> Any:
    """A module beside this file, which is loaded by its path and so has no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - the files lie side by side
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


roads = _sibling("metadrive_roads")
experts = _sibling("metadrive_expert")


class DrivingWorld:
    """A generated map with MetaDrive's traffic, or a recorded drive among its recorded traffic."""

    def __init__(self, source: str, blocks: int | str, traffic_density: float, max_steps: int) -> None:
        """Open MetaDrive; ``source`` is generated, waymo or argoverse."""
        self.source, self.max_steps = source, max_steps
        self.recorded = source != "generated"
        self._logs: Any = _sibling("metadrive_logs") if self.recorded else None
        self._open = self._open_log if self.recorded else partial(self._open_generated, blocks, traffic_density)
        self.env = self._open()
        self.maps: set[int] = set()
        self.case: dict[str, Any] = {}
        self.steps = 0

    def _open_generated(self, blocks: int | str, traffic_density: float) -> Any:
        from metadrive.envs.metadrive_env import MetaDriveEnv

        sight = {
            "num_lasers": 1,
            "distance": 50,
        }  # the expert asks the lidar for what is near; nobody looks at its rays
        return MetaDriveEnv({
            "start_seed": 0, "environment_num": SEEDS, "map": blocks, "traffic_density": traffic_density,
            "force_destroy": True,  # used bodies keep some of their state, and with it a seed's episode changes
            "vehicle_config": {"lidar": sight},
        })  # fmt: skip

    def _open_log(self) -> Any:
        from metadrive.envs.real_data_envs.waymo_env import WaymoEnv

        data = self._logs.LogData if self.source == "waymo" else self._logs.ArgoverseData
        few = {"lidar": {"num_lasers": 1, "distance": 50}, "side_detector": {"num_lasers": 1, "distance": 5}}

        class LogEnv(WaymoEnv):  # type: ignore[misc]
            def setup_engine(self) -> None:
                super().setup_engine()
                self.engine.update_manager("data_manager", data())

        # The recorded traffic is not simulated: it goes where it went, and a touch is found from the recorded sizes.
        settings = {"case_num": self.logs(), "horizon": None, "no_traffic": True, "force_destroy": True}
        return LogEnv({**settings, "vehicle_config": few})

    def logs(self) -> int:
        """How many recorded drives the source has."""
        return {"generated": 0, "waymo": 3, "argoverse": 1}[self.source]

    def spec(self) -> dict[str, Any]:
        """Steering and acceleration, as MetaDrive takes them."""
        meanings = ["share of 40 degrees of wheel angle, to the left above 0", "throttle above 0, brake below"]
        action: dict[str, Any] = {"names": ["steer", "accelerate"], "units": ["share", "share"], "meanings": meanings}
        limits: dict[str, Any] = {"low": [-1.0, -1.0], "high": [1.0, 1.0], "control_hz": 10.0, "kind": "continuous"}
        return {"name": "metadrive", "action_spec": {**action, **limits}, "max_steps": self.max_steps}

    def reset(self, seed: int, options: dict[str, Any]) -> dict[str, Any]:
        """The map and traffic of ``seed``; of recorded drives ``options["log"]``, or the one ``seed`` chooses."""
        self.number = int(options.get("log", seed)) % self.logs() if self.recorded else seed % SEEDS
        np.random.seed(self.number)  # MetaDrive draws some sizes from NumPy's global generator
        self.maps.add(self.number)
        if len(self.maps) > MAPS:
            self.env.close()
            self.env = self._open()
            self.maps = {self.number}
        self.env.reset(force_seed=self.number)
        self.car = self.env.vehicle
        self.steps, self.path_m, self.action = 0, 0.0, np.zeros(2, np.float32)
        self.flags = {"collision": False, "out_of_road": False, "arrived": False}
        self.errors: list[float] = []
        self.numbers: dict[str, int] = {}  # of MetaDrive's vehicles, by their names
        self.last: dict[int, tuple[float, float]] = {}  # heading and speed of the bodies one step ago
        self._set_route()
        self.pose = self._pose()
        self.yaw_rate = 0.0
        self.bodies = self._bodies()
        self.start_at = self.route.at
        return self._reply(0.0)

    def _set_route(self) -> None:
        if self.recorded:
            self.case = self.env.engine.data_manager.get_case(self.number)
            self.log = self.case["tracks"][str(self.case["sdc_index"])]["state"]
            self.origin = self.log[0, :2].copy()
            line = self.log[self.log[:, 9] > 0, :2] - self.origin
        else:
            self.origin = np.asarray(self.car.position, np.float64) * (1.0, -1.0)
            line = roads.generated_route(self.car, self.env.current_map.road_network, self.origin)
        self.route = roads.Route(line)
        self.route.follow(0.0, 0.0)

    def step(self, action: Any) -> dict[str, Any]:
        """One tenth of a second."""
        self.action = np.asarray(action, np.float32)
        before = self.pose
        _, reward, _, info = self.env.step([float(v) for v in action])
        self.steps += 1
        self.pose = self._pose()
        self.path_m += math.hypot(self.pose[0] - before[0], self.pose[1] - before[1])
        self.yaw_rate = _wrap(self.pose[2] - before[2]) / DT_S
        self.route.follow(*self.pose[:2])
        self.bodies = self._bodies()
        self._judge(info)
        return self._reply(float(reward))

    def _judge(self, info: dict[str, Any]) -> None:
        hit = any(info[f"crash_{what}"] for what in ("vehicle", "object", "building"))
        if not self.recorded:
            self.flags = {"collision": hit, "out_of_road": info["out_of_road"], "arrived": info["arrive_dest"]}
            return
        there = self.log[min(self.steps, len(self.log) - 1), :2] - self.origin
        self.errors.append(math.hypot(*(there - self.pose[:2])))
        self.flags["collision"] = hit or self._touches_anything()
        self.flags["out_of_road"] = abs(self.route.offset) > OFF_LOG_M
        self.flags["arrived"] = self.steps >= len(self.log) - 1 and self.errors[-1] <= ARRIVED_M

    def _touches_anything(self) -> bool:
        near = self.bodies[np.hypot(self.bodies[:, 2] - self.pose[0], self.bodies[:, 3] - self.pose[1]) < 15.0]
        ours = (*self.pose, self.car.LENGTH, self.car.WIDTH)
        return any(experts.overlap(ours, (*row[2:5], row[6], row[7])) for row in near.tolist())

    def _over(self) -> bool:
        log_ended = self.recorded and self.steps >= len(self.log) - 1
        return log_ended or any(self.flags.values())

    def _success(self) -> bool:
        return self.flags["arrived"] and not self.flags["collision"] and not self.flags["out_of_road"]

    def _pose(self) -> tuple[float, float, float]:
        x, y = roads.east_north(self.car.position, self.origin)
        return float(x), float(y), _wrap(-float(self.car.heading_theta))

    def _reply(self, reward: float) -> dict[str, Any]:
        x, y, heading = self.pose
        speed = float(self.car.speed)
        ahead = experts.to_ego(self.route.ahead(ROUTE_M), self.pose)
        state = [speed, self.yaw_rate, float(self.car.steering), *self.action.tolist(), *ahead.ravel().tolist()]
        return {
            "state": np.array(state, np.float32),
            "instruction": "follow the recorded drive" if self.recorded else "follow the route to its end",
            "time_s": self.steps * DT_S,
            "reward": reward,
            "terminated": self._over(),
            "truncated": self.steps >= self.max_steps,
            "info": {"success": self._success(), **{key: bool(value) for key, value in self.flags.items()}},
            "pose": [x, y, heading],
            "bodies": self.bodies.astype(np.float32),
        }

    def _bodies(self) -> Any:
        """All others, (N, 10): id, kind, x, y, heading, speed, length, width, height, whether it brakes."""
        rows = self._recorded_rows() if self.recorded else self._simulated_rows()
        last, self.last = self.last, {int(row[0]): (row[4], row[5]) for row in rows}
        self.turning = []
        for row in rows:
            heading, speed = last.get(int(row[0]), (row[4], row[5]))
            self.turning.append(_wrap(row[4] - heading) / DT_S)
            row.append(float(speed - row[5] > 0.08))
        return np.array(rows, np.float64).reshape(-1, 10)

    def _simulated_rows(self) -> list[list[float]]:
        rows = []
        for name, body in self.env.engine.traffic_manager.spawned_objects.items():
            number = self.numbers.setdefault(name, len(self.numbers) + 1)
            x, y = roads.east_north(body.position, self.origin)
            kind = 1.0 if body.LENGTH > TRUCK_M - 1.0 else 0.0
            size = [float(body.LENGTH), float(body.WIDTH), float(body.HEIGHT)]
            rows.append([number, kind, float(x), float(y), -float(body.heading_theta), float(body.speed), *size])
        return rows

    def _recorded_rows(self) -> list[list[float]]:
        rows = []
        for number, (name, track) in enumerate(self.case["tracks"].items(), 1):
            row = self._logs.track_at(track["state"], self.steps)
            if name != str(self.case["sdc_index"]) and row is not None:
                kind = float(KINDS.get(track["type"].name, row[3] > TRUCK_M))
                x, y = (row[:2] - self.origin).tolist()
                size = row[3:6].tolist()
                rows.append([number, kind, x, y, float(row[6]), math.hypot(row[7], row[8]), *size])
        return rows

    # the expert --------------------------------------------------------------------------------------------------

    def expert_action(self) -> list[float]:
        """The route follower that gives way, or the controller that keeps to the recorded drive."""
        speed, size = float(self.car.speed), (float(self.car.LENGTH), float(self.car.WIDTH))
        if not self.recorded:
            return list(experts.drive(self.pose, speed, size, self.route, self.bodies, self.turning))
        now, then = (min(self.steps + k, len(self.log) - 1) for k in (1, 3))
        lead = self._along_log(now) - self.route.at - speed * DT_S
        recorded = math.hypot(*self.log[then, 7:9])
        return list(experts.keep_to_log(self.pose, speed, size[0], self.route, lead, recorded))

    def _along_log(self, step: int) -> float:
        """Where the record is on the route at ``step``, metres along."""
        track = self.log[: step + 1]
        places = track[track[:, 9] > 0, :2]
        return float(np.hypot(*np.diff(places, axis=0).T).sum())

    # questions ---------------------------------------------------------------------------------------------------

    def geometry(self) -> dict[str, Any]:
        """The roads and the route, for drawing."""
        if self.recorded:
            found = roads.recorded_roads(self.case, self.route.points, self.origin, self.source == "argoverse")
        else:
            found = roads.generated_roads(self.env.current_map.road_network, self.origin)
        return {**found, "route": self.route.points.astype(np.float32), "number": self.number}

    def describe(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        x, y, heading = self.pose
        names = ("id", "kind", "x", "y", "heading", "speed", "length", "width", "height", "braking")
        size = {"length": float(self.car.LENGTH), "width": float(self.car.WIDTH)}
        ahead = self.route.ahead(ROUTE_M).tolist()
        found: dict[str, Any] = {
            "source": self.source,
            "number": self.number,
            "time_s": self.steps * DT_S,
            "ego": {"x": x, "y": y, "heading": heading, "speed": float(self.car.speed), **size},
            "bodies": [dict(zip(names, row)) for row in self.bodies.tolist()],  # noqa: B905
            "route": {"length": self.route.length, "along": self.route.at, "left": self.route.offset, "ahead": ahead},
        }
        if self.recorded:
            steps = [min(self.steps + 5 * k, len(self.log) - 1) for k in range(1, 9)]
            found["recorded_future"] = (self.log[steps, :2] - self.origin).tolist()  # every half second
        return found

    def metrics(self) -> dict[str, float]:
        """Finite numbers; the distances to the recorded drive for those alone."""
        way = max(self.route.length - self.start_at, 1e-6)
        done = 1.0 if self.flags["arrived"] else min(max((self.route.at - self.start_at) / way, 0.0), 1.0)
        found = {
            "success": float(self._success()),
            "path_length": self.path_m,
            "route_completion": done,
            **{key: float(value) for key, value in self.flags.items()},
        }
        if self.recorded:
            mean = float(np.mean(self.errors)) if self.errors else 0.0
            found.update(log_l2_mean=mean, log_l2_last=self.errors[-1] if self.errors else 0.0)
            found["log_replayed"] = min(self.steps / (len(self.log) - 1), 1.0)
        return found

    def close(self) -> None:
        """Release MetaDrive's engine."""
        self.env.close()


def _wrap(angle: float) -> float:
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


def open_world(arguments: dict[str, Any]) -> DrivingWorld:
    """The world of the client's arguments."""
    return DrivingWorld(**arguments)
