"""ObjectNav episodes in Habitat's own schema: HM3D, MP3D and OVON files, and episodes of our own homes, are one type.

Everything of a record is kept, known or not, so that reading and writing again changes nothing. Positions are metres,
y up; rotations are ``x, y, z, w`` as in the files, and named so: numpy-quaternion and nuScenes write ``w`` first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError

Points = NDArray[np.float64]
SCENE_PREFIX = "data/scene_datasets/"  # older files name scenes from here; Habitat strips it, so do we
UNIT_TOLERANCE = 1e-3  # of a quaternion's length: the files hold float32 values
GOAL_FIELDS = (
    "position",
    "radius",
    "object_id",
    "object_name",
    "object_name_id",
    "object_category",
    "room_id",
    "room_name",
    "view_points",
)
EPISODE_FIELDS = (
    "episode_id",
    "scene_id",
    "scene_dataset_config",
    "additional_obj_config_paths",
    "start_position",
    "start_rotation",
    "info",
    "goals",
    "start_room",
    "shortest_paths",
    "object_category",
)


@dataclass(frozen=True, eq=False)
class ObjectGoal:
    """One object that ends the search, and the places to stand at: positions (N, 3), rotations_xyzw (N, 4), ious (N,).

    An ``iou`` of NaN stands for null. ``fields`` are the record's other entries as they were read.
    """

    category: str
    object_id: int | str
    position: tuple[float, float, float]
    view_positions: Points
    view_rotations_xyzw: Points
    view_ious: Points
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, record: Any, where: str) -> ObjectGoal:
        """Check and take in one goal; raises `DataError` beginning with ``where``."""
        entry = _mapping(record, where)
        views = [_mapping(v, f"{where} view point {i}") for i, v in enumerate(entry.get("view_points") or ())]
        states = [_mapping(v.get("agent_state"), f"{where} view point {i}") for i, v in enumerate(views)]
        positions = [numbers(s.get("position"), 3, f"{where} view point {i} position") for i, s in enumerate(states)]
        rotations = [unit_xyzw(s.get("rotation"), f"{where} view point {i} rotation") for i, s in enumerate(states)]
        ious = [_iou(v.get("iou"), f"{where} view point {i}") for i, v in enumerate(views)]
        object_id = entry.get("object_id")
        if not isinstance(object_id, int | str) or isinstance(object_id, bool):
            raise DataError(f"{where}: object_id must be a number or text, got {object_id!r}")
        return cls(
            category=_text(entry.get("object_category"), f"{where} object_category"),
            object_id=object_id,
            position=_point(entry.get("position"), f"{where} position"),
            view_positions=np.asarray(positions, np.float64).reshape(-1, 3),
            view_rotations_xyzw=np.asarray(rotations, np.float64).reshape(-1, 4),
            view_ious=np.asarray(ious, np.float64),
            fields=rest(entry, ("position", "object_id", "view_points"), where),
        )

    def to_json(self) -> dict[str, Any]:
        """The record as it stands in a file, with the fields Habitat expects first."""
        own = {"position": list(self.position), "object_id": self.object_id, "object_category": self.category}
        views = [
            {"agent_state": {"position": p, "rotation": r}, "iou": None if math.isnan(i) else i}
            for p, r, i in zip(
                self.view_positions.tolist(), self.view_rotations_xyzw.tolist(), self.view_ious.tolist(), strict=True
            )
        ]
        known = dict.fromkeys(GOAL_FIELDS) if not self.fields else {}
        return {**known, **self.fields, **own, "view_points": views}


@dataclass(frozen=True, eq=False)
class Episode:
    """A start and a category to find. ``fields`` are the record's other entries (``info``, OVON's children, ...)."""

    episode_id: str
    scene_id: str
    category: str
    start_position: tuple[float, float, float]
    start_rotation_xyzw: tuple[float, float, float, float]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def goals_key(self) -> str:
        """Under which its goals are filed: the scene's file name and the category."""
        return f"{PurePosixPath(self.scene_id).name}_{self.category}"

    @property
    def geodesic_distance(self) -> float | None:
        """Metres of the shortest path as the file states it, if it does."""
        value = (self.fields.get("info") or {}).get("geodesic_distance")
        return None if value is None else float(value)

    @property
    def scene_dataset_config(self) -> str:
        """The scene dataset the scene belongs to, ``default`` for none."""
        return str(self.fields.get("scene_dataset_config") or "default")

    def scene_path(self, scenes: Path) -> Path:
        """The scene's file below the folder ``scenes``; `DataError` for an id that leads out of it."""
        relative = PurePosixPath(self.scene_id.removeprefix(SCENE_PREFIX))
        if relative.is_absolute() or ".." in relative.parts:
            raise DataError(f"episode {self.episode_id}: scene {self.scene_id!r} leads out of the scene folder")
        return scenes / relative

    @classmethod
    def from_json(cls, record: Any, where: str) -> Episode:
        """Check and take in one episode; raises `DataError` beginning with ``where``."""
        entry = _mapping(record, where)
        episode_id = entry.get("episode_id")
        if not isinstance(episode_id, str | int) or isinstance(episode_id, bool):
            raise DataError(f"{where}: episode_id must be text or a number, got {episode_id!r}")
        info = entry.get("info")
        stated = _mapping(info, f"{where} info").get("geodesic_distance") if info is not None else None
        if stated is not None:
            numbers([stated], 1, f"{where} info.geodesic_distance")
        own = ("episode_id", "scene_id", "start_position", "start_rotation", "object_category", "goals")
        return cls(
            episode_id=str(episode_id),
            scene_id=_text(entry.get("scene_id"), f"{where} scene_id"),
            category=_text(entry.get("object_category"), f"{where} object_category"),
            start_position=_point(entry.get("start_position"), f"{where} start_position"),
            start_rotation_xyzw=unit_xyzw(entry.get("start_rotation"), f"{where} start_rotation"),
            fields=rest(entry, own, where),
        )

    def to_json(self) -> dict[str, Any]:
        """The record as it stands in a file; goals are filed apart, so its own list is empty."""
        own = {
            "episode_id": self.episode_id,
            "scene_id": self.scene_id,
            "start_position": list(self.start_position),
            "start_rotation": list(self.start_rotation_xyzw),
            "object_category": self.category,
            "goals": [],
        }
        return {**self.fields, **own}


@dataclass(frozen=True, eq=False)
class EpisodeSet:
    """Episodes with the goals of every scene and category, and the numbers categories have for the task and the scenes.

    ``scene_ids_field`` is the name the second table has in the file: MP3D's differs from HM3D's.
    Raises `DataError` for ids that occur twice in a scene, and for an episode without a goal or a place to stand.
    """

    episodes: tuple[Episode, ...]
    goals: Mapping[str, tuple[ObjectGoal, ...]]
    task_ids: Mapping[str, int]
    scene_ids: Mapping[str, int]
    scene_ids_field: str = "category_to_scene_annotation_category_id"
    source: str = "episodes"
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.task_ids) != set(self.scene_ids):
            differ = sorted(set(self.task_ids) ^ set(self.scene_ids))
            raise DataError(f"{self.source}: the two category tables must name the same categories, {differ} do not")
        seen: set[tuple[str, str]] = set()
        for episode in self.episodes:
            where = f"{self.source}, episode {episode.episode_id}"
            key = (episode.scene_id, episode.episode_id)
            if key in seen:
                raise DataError(f"{where}: this id occurs twice in {episode.scene_id}; read with renumber=True")
            seen.add(key)
            if not self.goals.get(episode.goals_key):
                raise DataError(f"{where}: no goals under {episode.goals_key!r} in goals_by_category")
            if not any(len(goal.view_positions) for goal in self.goals[episode.goals_key]):
                raise DataError(f"{where}: none of its {len(self.goals[episode.goals_key])} goals has a view point")

    def goals_of(self, episode: Episode) -> tuple[ObjectGoal, ...]:
        """The objects any of which ends the search."""
        return self.goals[episode.goals_key]

    def view_positions(self, episode: Episode) -> Points:
        """All places (N, 3) at which a stop succeeds."""
        return np.concatenate([goal.view_positions for goal in self.goals_of(episode)])


def numbers(value: Any, count: int, where: str) -> list[float]:
    """``count`` finite numbers; `DataError` beginning with ``where`` otherwise."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != count:
        raise DataError(f"{where}: expected {count} numbers, got {_short(value)}")
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
        raise DataError(f"{where}: expected {count} numbers, got {_short(value)}")
    try:
        result = [float(v) for v in value]
    except OverflowError:
        result = [math.inf]
    if not all(math.isfinite(v) for v in result):
        raise DataError(f"{where}: NaN or infinite: {_short(value)}")
    return result


def unit_xyzw(value: Any, where: str) -> tuple[float, float, float, float]:
    """A rotation ``x, y, z, w`` of length 1; `DataError` beginning with ``where`` otherwise."""
    x, y, z, w = numbers(value, 4, where)
    length = math.hypot(x, y, z, w)
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise DataError(f"{where}: a rotation x, y, z, w has length 1, this one {length:.4g}: {_short(value)}")
    return x, y, z, w


def rest(entry: Mapping[str, Any], taken: Sequence[str], where: str) -> dict[str, Any]:
    """The fields not ``taken``, kept as they are; `DataError` if NaN or infinity, which are no JSON, hide in them."""
    kept = {key: value for key, value in entry.items() if key not in taken}
    try:
        json.dumps(kept, allow_nan=False)
    except ValueError as error:
        raise DataError(f"{where}: NaN or infinite value in {_short(kept)}") from error
    return kept


def _point(value: Any, where: str) -> tuple[float, float, float]:
    x, y, z = numbers(value, 3, where)
    return x, y, z


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: expected an object with fields, got {_short(value)}")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise DataError(f"{where}: expected text, got {_short(value)}")
    return value


def _iou(value: Any, where: str) -> float:
    return math.nan if value is None else numbers([value], 1, f"{where} iou")[0]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
