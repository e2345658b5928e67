"""The `metadrive` world: MetaDrive 0.3.0.1 in its own interpreter, seen through three front cameras drawn here.

Generated maps with MetaDrive's traffic, and the recorded drives its wheel carries (three of Waymo's, one of
Argoverse's, read from the wheel; Waymo's terms allow no commercial use). MetaDrive's own camera makes fewer than 20
pictures a second without a GPU, so the worker sends the roads and all bodies, and the driving scenery draws them.

Frame: metres, x east, y north, origin where the car starts, headings counter-clockwise from east. The state (25,) is
speed (m/s), yaw rate (rad/s, to the left), steering and the last action (as in the action spec), then ten points of the
route ahead, 5 m apart, as x forward, y left of the car.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backbone.contracts import Image, Observation
from backbone.errors import ConfigError
from backbone.worlds.bridge import BridgedWorld
from backbone.worlds.environments import environment_python
from backbone.worlds.world import Info
from driving.worlds.body import Body, Kind
from driving.worlds.overhead import draw_overhead
from driving.worlds.scenery import Rig, RoadScene
from driving.worlds.scenery_meshes import Marking, Points, Strip

WORKER = Path(__file__).with_name("metadrive_worker.py")
KINDS: tuple[Kind, ...] = ("car", "truck", "cyclist", "pedestrian", "obstacle")
BLOCKS = "SCrRXTOyY"  # straight, curve, ramp in, ramp out, crossing, T crossing, roundabout, merge, split
LOGS = {"generated": 0, "waymo": 3, "argoverse": 1}


@dataclass(frozen=True)
class MetaDriveConfig:
    """``blocks``: how many random ones a generated map has, or their letters (of `BLOCKS`) in order."""

    source: Literal["generated", "waymo", "argoverse"] = "generated"
    blocks: str = "3"
    traffic_density: float = 0.1  # of generated maps: vehicles for each 10 m of lane
    log: int | None = None  # the recorded drive; by default they take turns
    width: int = 128  # of each camera, in pixels
    height: int = 128
    depth: bool = False
    max_steps: int = 1000
    python: str = ""  # the interpreter that has MetaDrive; by default that of `fovea worlds install metadrive`

    def __post_init__(self) -> None:
        if self.source not in LOGS:
            raise ConfigError(f"metadrive: no source {self.source!r}; there are: {', '.join(LOGS)}")
        counted = self.blocks.isdigit() and 1 <= int(self.blocks) <= 20
        if not (counted or (self.blocks and not set(self.blocks) - {*BLOCKS})):
            raise ConfigError(f"metadrive: blocks must be 1 to 20, or letters of {BLOCKS}, got {self.blocks!r}")
        if not 0.0 <= self.traffic_density <= 1.0:
            raise ConfigError(f"metadrive: traffic_density must lie in [0, 1], got {self.traffic_density}")
        if self.log is not None and not 0 <= self.log < LOGS[self.source]:
            raise ConfigError(f"metadrive: {self.source} has {LOGS[self.source]} recorded drives, got log {self.log}")
        if not (8 <= self.width <= 2048 and 8 <= self.height <= 2048 and self.max_steps >= 1):
            raise ConfigError(
                f"metadrive: width and height must lie in [8, 2048] and max_steps be positive, "
                f"got {self.width} x {self.height} and {self.max_steps}"
            )

    @property
    def world(self) -> str:
        """The world's name."""
        return "metadrive"

    def options(self, index: int) -> dict[str, Any]:
        """The recorded drive of episode ``index``; nothing for generated maps, which the seed chooses."""
        if self.source == "generated":
            return {}
        return {"log": self.log if self.log is not None else index % LOGS[self.source]}

    def make(self) -> MetaDriveWorld:
        """Start MetaDrive; raises `WorldError` with the remedy where it is not installed."""
        return MetaDriveWorld(self)


class MetaDriveWorld(BridgedWorld):
    """Success is to arrive (generated), or to end within 5 m of the record's end, on the road and without a touch."""

    def __init__(self, config: MetaDriveConfig) -> None:
        """Start the worker and open the renderer."""
        self.config = config
        self._scene = RoadScene(config.width, config.height, Rig())
        self._strips: list[Strip] = []
        self._markings: list[Marking] = []
        self._route: Points = np.zeros((0, 2))
        self._driven: list[tuple[float, float]] = []
        self._ego = Body(0, "car", 0.0, 0.0, 0.0, 0.0, 4.51, 1.85)
        self._bodies: list[Body] = []
        arguments = {
            "source": config.source,
            "blocks": int(config.blocks) if config.blocks.isdigit() else config.blocks,
            "traffic_density": config.traffic_density,
            "max_steps": config.max_steps,
        }
        try:
            python = environment_python("metadrive", config.python)
            super().__init__(WORKER, python, arguments, start_timeout_s=300.0, step_timeout_s=60.0)
        except BaseException:
            self._scene.close()
            raise

    def reset(self, *, seed: int, options: Mapping[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin the episode of ``seed``; of a recorded source ``options["log"]`` chooses the drive."""
        chosen = dict(options or {})
        unknown = set(chosen) - ({"log"} if self.config.source != "generated" else set())
        if unknown:
            raise ConfigError(f"metadrive: no reset options {sorted(unknown)} with source {self.config.source}")
        self._driven.clear()
        return super().reset(seed=seed, options=chosen)

    def observe(self, reply: Mapping[str, Any]) -> Observation:
        """What the three cameras see from the poses in a reply."""
        if not self._driven:
            self._build()
        x, y, heading = (float(v) for v in reply["pose"])
        self._driven.append((x, y))
        self._ego = Body(0, "car", x, y, heading, float(reply["state"][0]), 4.51, 1.85)
        self._bodies = [_body(row) for row in reply["bodies"].tolist()]
        frames = self._scene.render(x, y, heading, self._bodies, depth=self.config.depth)
        return Observation(
            {name: frame.rgb for name, frame in frames.items()},
            reply["instruction"],
            reply["state"],
            reply["time_s"],
            {name: frame.depth for name, frame in frames.items() if frame.depth is not None},
        )

    def draw(self) -> Image:
        """The surroundings from above, the car's heading upwards."""
        self._check_begun("draw")
        return draw_overhead(self._ego, self._bodies, self._strips, self._markings, self._route, self._driven)

    def close(self) -> None:
        """End the worker and release the renderer."""
        super().close()
        self._scene.close()

    def _build(self) -> None:
        found = self.call("geometry")
        self._strips = [Strip(points, float(values[0])) for points, values in _lines(found["strips"])]
        self._markings = [
            Marking(points, dashed=values[0] == 1, colour="yellow" if values[1] else "white")
            for points, values in _lines(found["markings"])
        ]
        self._route = found["route"].astype(np.float64)
        self._scene.build(self._strips, self._markings, int(found["number"]))


def _lines(packed: Mapping[str, Any]) -> list[tuple[Points, Any]]:
    """The lines that the worker packed: points (N, 2) and the numbers of each."""
    if not len(packed["counts"]):
        return []
    pieces = np.split(packed["points"].astype(np.float64), np.cumsum(packed["counts"])[:-1])
    return list(zip(pieces, packed["values"], strict=True))


def _body(row: list[float]) -> Body:
    number, kind, x, y, heading, speed, length, width, height, braking = row
    return Body(int(number), KINDS[int(kind)], x, y, heading, speed, length, width, height, bool(braking))
