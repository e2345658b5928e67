"""One episode being recorded: its videos and its frames, written as they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from backbone.contracts import FloatArray, Observation
from backbone.errors import DataError
from backbone.records.columns import array_of, arrow_schema, arrow_type, check_frame
from backbone.records.labels import label_values, to_json
from backbone.records.layout import (
    ACTION,
    CAMERA,
    DONE,
    LABELS,
    LABELS_JSON,
    REWARD,
    STATE,
    SUCCESS,
    WORLD_TIME,
    Feature,
    Info,
)
from backbone.records.rows import COMPRESSION
from backbone.records.statistics import PictureStats, Stats, column_stats
from backbone.records.video import VideoQuality, VideoWriter

ROWS_IN_MEMORY = 256


@dataclass(frozen=True)
class EpisodeFiles:
    """A finished episode that has not been moved into the data set yet."""

    index: int
    length: int
    from_index: int
    data: Path
    videos: Mapping[str, Path]
    stats: Mapping[str, Stats]
    tasks: Mapping[str, int]  # all of the data set, with those this episode adds
    episode_tasks: tuple[str, ...]


class EpisodeWriter:
    """Writes frames into a folder of its own; memory holds `ROWS_IN_MEMORY` rows and no pictures."""

    def __init__(
        self, folder: Path, info: Info, index: int, from_index: int, tasks: Mapping[str, int], quality: VideoQuality
    ) -> None:
        """Begin episode ``index``, whose first frame is number ``from_index`` of the data set."""
        self.index, self.length = index, 0
        self._info, self._from, self._folder = info, from_index, folder
        self._tasks = dict(tasks)
        self._own_tasks: dict[str, None] = {}
        self._schema = arrow_schema(info.features)
        self._rows: list[dict[str, Any]] = []
        self._data = folder / "data.parquet"
        self._file: pq.ParquetWriter | None = pq.ParquetWriter(self._data, self._schema, compression=COMPRESSION)
        self._paths = {key: folder / f"{number}.mp4" for number, key in enumerate(info.videos)}
        self._videos = {key: self._video(key, quality) for key in info.videos}
        self._pictures = {key: PictureStats() for key in info.videos}

    def _video(self, key: str, quality: VideoQuality) -> VideoWriter:
        height, width = self._info.features[key].shape[:2]
        return VideoWriter(self._paths[key], self._info.fps, width, height, quality)

    def add(
        self,
        observation: Observation,
        action: FloatArray,
        *,
        reward: float,
        done: bool,
        success: bool,
        description: Mapping[str, Any],
    ) -> None:
        """Add a frame: what was seen, what was done then, and what came of it; ``description`` is of what was seen.

        Raises:
            DataError: the observation has other cameras, sizes or another state than the data set's first frame.
        """
        check_frame(observation, self._info.features, f"episode {self.index}, frame {self.length}")
        for name, image in observation.images.items():
            self._videos[CAMERA + name].add(image)
            self._pictures[CAMERA + name].add(image)
        task = self._tasks.setdefault(observation.instruction, len(self._tasks))
        self._own_tasks[observation.instruction] = None
        row: dict[str, Any] = {
            "timestamp": np.float32(self.length / self._info.fps),
            "frame_index": self.length,
            "episode_index": self.index,
            "index": self._from + self.length,
            "task_index": task,
            ACTION: action,
            REWARD: np.float32(reward),
            DONE: done,
            SUCCESS: success,
            WORLD_TIME: float(observation.time_s),
            STATE: observation.state,
        }
        if LABELS_JSON in self._info.features:
            row[LABELS_JSON] = to_json(description)
        if LABELS in self._info.features:
            row[LABELS] = label_values(description, self._info.features[LABELS].names)
        self._rows.append(row)
        self.length += 1
        if len(self._rows) >= ROWS_IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        if self._file is None:
            raise DataError(f"episode {self.index} is finished; no frame can be added")
        if self._rows:
            columns = [
                _column([row[key] for row in self._rows], self._info.features[key]) for key in self._schema.names
            ]
            self._file.write_table(pa.Table.from_arrays(columns, schema=self._schema))
            self._rows.clear()

    def finish(self) -> EpisodeFiles:
        """Close the files, read the frames back for their statistics, and say where everything is.

        Raises:
            DataError: the episode has no frames.
        """
        if not self.length:
            raise DataError(f"episode {self.index} has no frames; it ended before its first step")
        self._flush()
        for video in self._videos.values():
            video.close()
        self._close_data()
        return EpisodeFiles(
            self.index,
            self.length,
            self._from,
            self._data,
            self._paths,
            self._stats(),
            self._tasks,
            tuple(self._own_tasks),
        )

    def abandon(self) -> None:
        """Drop the episode; its files stay in the scratch folder until the next one begins."""
        for video in self._videos.values():
            video.abandon()
        self._close_data()

    def _close_data(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _stats(self) -> dict[str, Stats]:
        """Of every feature but texts and labels: a label may be absent in a frame, and no model is fed with labels."""
        stats = {key: pictures.stats() for key, pictures in self._pictures.items()}
        with pq.ParquetFile(self._data) as file:
            for key, feature in self._info.features.items():
                if feature.dtype in ("video", "string") or key == LABELS:
                    continue
                column = file.read(columns=[key]).column(key)
                stats[key] = column_stats(array_of(column, feature, f"{self._data}, {key}"))
        return stats


def _column(values: list[Any], feature: Feature) -> pa.Array:
    """A column of an Arrow table; numbers go through one array, so they keep their bits."""
    if feature.dtype == "string":
        return pa.array(values, pa.string())
    stacked = np.asarray(values, feature.dtype).reshape(len(values), -1)
    flat = pa.array(stacked.ravel())
    if feature.shape == (1,):
        return flat.cast(arrow_type(feature))
    return pa.FixedSizeListArray.from_arrays(flat, stacked.shape[1])
