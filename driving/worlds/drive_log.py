"""What happened to the ego car in an episode: its path, how it was driven, and the measures of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from backbone.contracts import FloatArray
from driving.worlds.route import Floats, to_ego, wrap_angle


@dataclass
class DriveLog:
    """One row a control step, every ``step_s`` seconds, the start included: x, y, heading, speed."""

    step_s: float
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    progress_m: float = 0.0
    needed_m: float = 1.0
    collision: bool = False
    off_road: bool = False
    arrived: bool = False
    success: bool = False

    @property
    def poses(self) -> Floats:
        """The rows (N, 4) so far."""
        return np.array(self.rows, np.float64).reshape(-1, 4)

    def history(self, seconds: float, dt_s: float) -> FloatArray:
        """The poses (N, 3) x, y, heading of the last ``seconds`` in the present ego frame, ``dt_s`` apart.

        Oldest first, the last one (0, 0, 0); before the episode began the first pose stands.
        """
        poses = self.poses
        x, y, heading, _ = poses[-1].tolist()
        count = round(seconds / dt_s)
        back = np.arange(count, -1, -1) * dt_s / self.step_s
        where = np.maximum(len(poses) - 1 - back, 0.0)
        grid = np.arange(len(poses))
        points = np.stack([np.interp(where, grid, poses[:, i]) for i in (0, 1)], 1)
        turns = np.interp(where, grid, np.unwrap(poses[:, 2]))
        local = np.concatenate([to_ego(points, x, y, heading), wrap_angle(turns - heading)[:, None]], 1)
        return local.astype(np.float32)

    def metrics(self) -> dict[str, float]:
        """Finite measures: lengths in m, speeds in m/s, ``max_jerk`` in m/s^3, the rest 0 to 1.

        ``route_completion`` is the part driven of the way to the destination; where there is none, of the way that
        must be made for success.
        """
        poses = self.poses
        way = np.hypot(*np.diff(poses[:, :2], axis=0).T) if len(poses) > 1 else np.zeros(0)
        rates = np.diff(poses[:, 3]) / self.step_s
        jerks = np.abs(np.diff(rates)) / self.step_s
        turning = np.abs(wrap_angle(np.diff(poses[:, 2]))) / self.step_s
        side = turning * poses[1:, 3] if len(poses) > 1 else np.zeros(0)
        return {
            "success": float(self.success),
            "collision": float(self.collision),
            "off_road": float(self.off_road),
            "arrived": float(self.arrived),
            "path_length": float(way.sum()),
            "mean_speed": float(way.sum() / (len(way) * self.step_s)) if len(way) else 0.0,
            "route_completion": float(np.clip(self.progress_m / self.needed_m, 0.0, 1.0)),
            "max_jerk": float(jerks.max()) if len(jerks) else 0.0,
            "max_lateral_acceleration": float(side.max()) if len(side) else 0.0,
        }
