"""The recorded drives that MetaDrive's wheel carries, read where they lie: three of Waymo's, one of Argoverse's.

Runs in MetaDrive's interpreter. A case has Waymo's form: ``tracks`` {id: {"type", "state" (T, 10): x, y, z, length,
width, height, heading, vx, vy, valid}} at 10 Hz, ``sdc_index`` the id of the recording car, ``map`` {id: feature}.
Frame of a case: metres, x east, y north, headings counter-clockwise from east.

Argoverse's record holds positions alone: headings and speeds are taken from them, sizes are those of a usual car, and
the roads, of which there is no map in the wheel, are strips along what was driven.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import metadrive
import numpy as np
from metadrive.manager.waymo_data_manager import WaymoDataManager
from metadrive.utils.waymo_utils.waymo_utils import AgentType, read_waymo_data

ASSETS = Path(metadrive.__file__).parent / "assets"
ARGOVERSE = "c6911883-1843-3727-8eaa-41dc8cda8993"
ARGOVERSE_EGO = "00000000-0000-0000-0000-000000000000"
CAR = (4.6, 1.9, 1.6)  # length, width, height in metres
MOVED_M = 0.6  # a heading is taken from a movement of at least this length
DT_S = 0.1
SAFE = {("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")}


class _Reader(pickle.Unpickler):
    """The wheel's record is a pickle; only NumPy arrays and plain values are let in."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in SAFE:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a recorded drive")
        return super().find_class(module, name)


def read_case(source: str, index: int) -> dict[str, Any]:
    """Recorded drive ``index`` of ``waymo`` or ``argoverse``."""
    if source == "waymo":
        return dict(read_waymo_data(str(ASSETS / "waymo" / f"{index}.pkl")))
    with (ASSETS / "real_data" / f"{ARGOVERSE}.pkl").open("rb") as file:
        records, _ = _Reader(file).load()
    length = max(int(step) for record in records.values() for step in record["traj"])
    tracks = {name: {"type": AgentType.VEHICLE, "state": _states(record["traj"], length)}
              for name, record in records.items()}  # fmt: skip
    return {"tracks": tracks, "sdc_index": ARGOVERSE_EGO, "map": _driven_lanes(tracks)}


def _states(places: dict[str, Any], length: int) -> Any:
    """Waymo's (T, 10) of one record, whose y points south and whose steps begin at 1."""
    states = np.zeros((length, 10))
    for step, place in places.items():
        if int(step) >= 1:
            states[int(step) - 1, [0, 1, 9]] = place[0], -place[1], 1.0
    states[:, 3:6] = CAR
    seen = np.flatnonzero(states[:, 9])
    states[seen, 6] = _headings(states[seen, :2])
    if len(seen) > 1:
        states[seen, 7:9] = np.gradient(states[seen, :2], seen * DT_S, axis=0)
    return states


def _headings(points: Any) -> Any:
    """The direction of movement at each point; where nothing moves, the last one known, or the first to come."""
    headings = np.full(len(points), np.nan)
    for k in range(len(points)):
        before, after = max(k - 3, 0), min(k + 3, len(points) - 1)
        step = points[after] - points[before]
        if np.hypot(*step) > MOVED_M:
            headings[k] = np.arctan2(step[1], step[0])
    known = np.flatnonzero(np.isfinite(headings))
    if not len(known):
        return np.zeros(len(points))
    last = known[np.maximum(np.searchsorted(known, np.arange(len(points)), side="right") - 1, 0)]
    return headings[last]


def spaced(points: Any, spacing: float) -> Any:
    """The points (N, 2) of a track that lie at least ``spacing`` metres after the one before."""
    kept = [points[0]]
    for point in points[1:]:
        if np.hypot(*(point - kept[-1])) >= spacing:
            kept.append(point)
    return np.array(kept)


def _driven_lanes(tracks: dict[str, Any]) -> dict[int, Any]:
    lanes: dict[int, Any] = {}
    for number, track in enumerate(tracks.values()):
        line = spaced(track["state"][track["state"][:, 9] > 0, :2], 1.0)
        if len(line) > 15:
            empty: dict[str, Any] = {"entry": [], "exit": [], "left_neighbor": [], "right_neighbor": []}
            polyline = np.pad(line, ((0, 0), (0, 1)))
            lanes[number] = {
                "type": "center_lane",
                "polyline": polyline,
                "width": np.full((len(line), 2), 2.2),
                **empty,
            }
    return lanes


def track_at(state: Any, step: int) -> Any:
    """The row of ``state`` at ``step``, or None where the track is not seen."""
    return state[step] if step < len(state) and state[step, 9] else None


class LogData(WaymoDataManager):  # type: ignore[misc]
    """Gives MetaDrive the cases of `read_case`."""

    source = "waymo"

    def _get_case(self, index: int) -> dict[str, Any]:
        return read_case(self.source, index)


class ArgoverseData(LogData):
    """The same for Argoverse's."""

    source = "argoverse"
