"""Labels for trajectory learning, as pure functions of `describe()`: ego frame, x forward, y left, metres."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from backbone.contracts import Trajectory
from backbone.errors import DataError
from driving.worlds.route import Floats, to_ego

TRAJECTORY_DT_S, TRAJECTORY_S = 0.5, 4.0  # the usual open-loop horizon: eight points
STILL_M = 0.05  # below this a displacement has no direction


def poses_of(path: Mapping[str, Any]) -> Floats:
    """The poses (N, 4) x, y, heading, speed of a description's ``path``; `DataError` if it is not one."""
    rows = np.asarray(path.get("rows", []), np.float64)
    if rows.ndim != 2 or rows.shape[1] != 4 or not np.isfinite(rows).all():
        raise DataError(f"labels: a path needs finite rows (N, 4) x, y, heading, speed, got shape {rows.shape}")
    return rows


def future_trajectory(
    poses: ArrayLike, step_s: float, index: int, *, dt_s: float = TRAJECTORY_DT_S, horizon_s: float = TRAJECTORY_S
) -> Trajectory | None:
    """Where the ego car goes from pose ``index`` on: points (horizon / dt, 2), the first one ``dt_s`` ahead.

    ``poses`` (N, >= 3) x, y, heading every ``step_s`` seconds. None if the episode ends before the horizon, rather
    than an invented rest. Raises `DataError` for an index outside or times that are not positive.
    """
    rows = np.asarray(poses, np.float64)
    if rows.ndim != 2 or rows.shape[1] < 3:
        raise DataError(f"labels: expected poses (N, >= 3) x, y, heading, got shape {rows.shape}")
    if not 0 <= index < len(rows):
        raise DataError(f"labels: pose {index} of {len(rows)}; it must lie in [0, {len(rows)})")
    if not (step_s > 0 and dt_s > 0 and horizon_s >= dt_s):
        raise DataError(f"labels: needs step, dt > 0 and horizon >= dt, got {step_s}, {dt_s}, {horizon_s}")
    where = index + np.arange(1, round(horizon_s / dt_s) + 1) * dt_s / step_s
    if where[-1] > len(rows) - 1 + 1e-9:
        return None
    grid = np.arange(len(rows))
    points = np.stack([np.interp(where, grid, rows[:, i]) for i in (0, 1)], 1)
    x, y, heading = rows[index, :3].tolist()
    return Trajectory(to_ego(points, x, y, heading).astype(np.float32), dt_s)


def trajectories(description: Mapping[str, Any], **times: float) -> list[Trajectory | None]:
    """The future trajectory of every step of an episode, from the description at its end; ``times`` as above."""
    path = description["path"]
    rows = poses_of(path)
    return [future_trajectory(rows, float(path["dt_s"]), k, **times) for k in range(len(rows))]


def headings_from_motion(trajectory: Trajectory) -> Floats:
    """Headings (T,) in radians of a trajectory that gives none: the direction of each step, kept while standing."""
    points = np.concatenate([np.zeros((1, 2)), np.asarray(trajectory.points[:, :2], np.float64)])
    headings, last = [], 0.0
    for dx, dy in np.diff(points, axis=0).tolist():
        if math.hypot(dx, dy) > STILL_M:
            last = math.atan2(dy, dx)
        headings.append(last)
    return np.unwrap(np.array(headings))


def turn_of(trajectory: Trajectory, threshold_deg: float = 15.0) -> str:
    """``left``, ``right``, ``straight`` or ``stopped``, by where the car ends up facing."""
    if float(np.hypot(*trajectory.points[-1, :2])) < 1.0:
        return "stopped"
    turned = math.degrees(float(headings_from_motion(trajectory)[-1]))
    if abs(turned) < threshold_deg:
        return "straight"
    return "left" if turned > 0 else "right"


def displacement_errors(predicted: Trajectory, truth: Trajectory, at_s: Sequence[float]) -> dict[str, float]:
    """Distances in metres under both of the protocols in use, which must not be mixed.

    ``l2_at_Ts`` is the distance at T seconds, ``l2_mean_to_Ts`` the mean of all points up to T.
    """
    if predicted.dt_s != truth.dt_s or predicted.points.shape != truth.points.shape or predicted.frame != truth.frame:
        raise DataError(
            f"labels: trajectories differ in form: {predicted.points.shape} every {predicted.dt_s} s "
            f"({predicted.frame}) and {truth.points.shape} every {truth.dt_s} s ({truth.frame})"
        )
    apart = np.hypot(*(predicted.points[:, :2] - truth.points[:, :2]).T.astype(np.float64))
    found = {}
    for seconds in at_s:
        last = round(seconds / truth.dt_s)
        if not 1 <= last <= len(apart):
            raise DataError(f"labels: {seconds} s lie outside the trajectory of {len(apart) * truth.dt_s:g} s")
        found[f"l2_at_{seconds:g}s"] = float(apart[last - 1])
        found[f"l2_mean_to_{seconds:g}s"] = float(apart[:last].mean())
    return found
