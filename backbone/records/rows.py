"""The rows of ``meta/episodes``: where an episode's frames lie, its statistics, and how it came about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from backbone.errors import DataError
from backbone.records.layout import EPISODES_FOLDER, MAX_COUNT
from backbone.records.statistics import NAMES, Stats

ROLLOUT = "rollout/"  # our own columns: index, seed, success, and metrics as JSON
COMPRESSION = "zstd"


@dataclass(frozen=True)
class VideoPart:
    """The part of a video file that belongs to an episode."""

    chunk: int
    file: int
    from_s: float
    to_s: float


@dataclass(frozen=True)
class EpisodeRow:
    """One episode of a data set. ``rollout`` is empty for data sets that others recorded."""

    index: int
    tasks: tuple[str, ...]
    length: int
    data_chunk: int
    data_file: int
    from_index: int
    to_index: int
    videos: Mapping[str, VideoPart]
    rollout: Mapping[str, Any] = field(default_factory=dict)
    stats: Mapping[str, Stats] = field(default_factory=dict)

    def to_table(self, chunk: int, file: int) -> pa.Table:
        """A table of this one row, to be stored as the given file, with LeRobot's columns and types."""
        whole: dict[str, int] = {
            "length": self.length,
            "data/chunk_index": self.data_chunk,
            "data/file_index": self.data_file,
            "dataset_from_index": self.from_index,
            "dataset_to_index": self.to_index,
            "meta/episodes/chunk_index": chunk,
            "meta/episodes/file_index": file,
        }
        times: dict[str, float] = {}
        for key, part in self.videos.items():
            whole[f"videos/{key}/chunk_index"], whole[f"videos/{key}/file_index"] = part.chunk, part.file
            times[f"videos/{key}/from_timestamp"], times[f"videos/{key}/to_timestamp"] = part.from_s, part.to_s
        columns: dict[str, pa.Array] = {
            "episode_index": pa.array([self.index], pa.int64()),
            "tasks": pa.array([list(self.tasks)], pa.list_(pa.string())),
            **{name: pa.array([value], pa.int64()) for name, value in whole.items()},
            **{name: pa.array([value], pa.float64()) for name, value in times.items()},
            ROLLOUT + "index": pa.array([self.rollout["index"]], pa.int64()),
            ROLLOUT + "seed": pa.array([self.rollout["seed"]], pa.int64()),
            ROLLOUT + "success": pa.array([self.rollout["success"]], pa.bool_()),
            ROLLOUT + "metrics": pa.array([json.dumps(self.rollout["metrics"], sort_keys=True)], pa.string()),
        }
        for key, stats in self.stats.items():
            for name, value in stats.items():
                columns[f"stats/{key}/{name}"] = pa.array([value.tolist()], _nested(value))
        return pa.table(columns)


def _nested(value: np.ndarray[Any, Any]) -> pa.DataType:
    found = pa.int64() if value.dtype == np.int64 else pa.float64()
    for _ in value.shape:
        found = pa.list_(found)
    return found


def episode_files(root: Path) -> list[Path]:
    """The files of ``meta/episodes`` in their order."""
    return sorted((root / EPISODES_FOLDER).glob("chunk-*/file-*.parquet"))


def read_rows(path: Path, videos: tuple[str, ...], *, stats: bool = False) -> list[EpisodeRow]:
    """The rows of one file of ``meta/episodes``; with ``stats`` their statistics too.

    Raises:
        DataError: the file is broken, or a row lacks a column or has an impossible value.
    """
    try:
        file = pq.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if stats or not name.startswith("stats/")]
        records = file.read(columns=names).to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise DataError(f"{path} is no readable parquet file: {error}") from error
    return [_row(record, videos, f"{path}, row {i}") for i, record in enumerate(records)]


def _row(record: Mapping[str, Any], videos: tuple[str, ...], where: str) -> EpisodeRow:
    tasks = record.get("tasks")
    if not isinstance(tasks, list) or not all(isinstance(task, str) for task in tasks):
        raise DataError(f"{where}: tasks must be a list of texts, got {str(tasks)[:80]}")
    parts = {
        key: VideoPart(
            _whole(record, f"videos/{key}/chunk_index", where),
            _whole(record, f"videos/{key}/file_index", where),
            _seconds(record, f"videos/{key}/from_timestamp", where),
            _seconds(record, f"videos/{key}/to_timestamp", where),
        )
        for key in videos
    }
    length = _whole(record, "length", where)
    bounds = _whole(record, "dataset_from_index", where), _whole(record, "dataset_to_index", where)
    if length < 1 or bounds[1] - bounds[0] != length:
        raise DataError(f"{where}: length {length} does not fit the frames {bounds[0]} to {bounds[1]}")
    return EpisodeRow(
        _whole(record, "episode_index", where),
        tuple(tasks),
        length,
        _whole(record, "data/chunk_index", where),
        _whole(record, "data/file_index", where),
        *bounds,
        parts,
        {key.removeprefix(ROLLOUT): value for key, value in record.items() if key.startswith(ROLLOUT)},
        _stats(record),
    )


def _stats(record: Mapping[str, Any]) -> dict[str, Stats]:
    found: dict[str, Stats] = {}
    for column, value in record.items():
        if column.startswith("stats/") and value is not None:
            key, _, name = column.removeprefix("stats/").rpartition("/")
            if name in NAMES:
                found.setdefault(key, {})[name] = np.array(value)
    return found


def _whole(record: Mapping[str, Any], name: str, where: str) -> int:
    value = record.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise DataError(f"{where}: {name} must be a whole number, got {str(value)[:80]}")
    return value


def _seconds(record: Mapping[str, Any], name: str, where: str) -> float:
    value = record.get(name)
    if not isinstance(value, int | float) or not 0 <= value < MAX_COUNT:
        raise DataError(f"{where}: {name} must be seconds, got {str(value)[:80]}")
    return float(value)
