"""Reading LeRobot v3.0 data sets, one's own and others', episode by episode; a broken one is left out and named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from backbone.contracts import Image, Observation
from backbone.errors import DataError
from backbone.images import read_image
from backbone.records import layout
from backbone.records.checks import Columns, check_columns, check_video
from backbone.records.columns import array_of
from backbone.records.files import read_json
from backbone.records.layout import CAMERA, NUMBERS, STATE, Info, file_path, is_depth
from backbone.records.rows import EpisodeRow, episode_files, read_rows
from backbone.records.tasks import read_tasks
from backbone.records.video import frame_times, read_frames


@dataclass(frozen=True)
class Problem:
    """Why an episode, or a file of the data set, could not be read; ``episode`` is None where it concerns several."""

    episode: int | None
    what: str

    def __str__(self) -> str:
        return self.what if self.episode is None else f"episode {self.episode}: {self.what}"


@dataclass(frozen=True)
class Frame:
    """One frame: what was seen, and every column's value of it (a scalar or an array)."""

    observation: Observation
    values: Mapping[str, Any]


@dataclass(frozen=True)
class RecordedEpisode:
    """One sound episode. ``columns`` are arrays (T,) or (T, ...) by feature; pictures are decoded when asked for."""

    row: EpisodeRow
    info: Info
    tasks: tuple[str, ...]  # the instruction of each frame
    columns: Columns
    _root: Path = field(repr=False)

    @property
    def index(self) -> int:
        """Its number in the data set."""
        return self.row.index

    def __len__(self) -> int:
        return self.row.length

    def images(self, camera: str) -> Iterator[Image]:
        """The pictures of a camera, each (H, W, 3), by its feature's key or the name behind ``observation.images.``.

        Raises:
            DataError: no such camera, or its video is missing, damaged, or has other times than the frames.
        """
        key = camera if camera in self.info.features else CAMERA + camera
        if key not in self.info.cameras:
            raise DataError(f"no camera {camera!r}; there are: {', '.join(self.info.cameras) or 'none'}")
        if self.info.features[key].dtype == "image":
            for entry in self.columns[key]:
                yield read_image(entry["bytes"]).resized(None)
            return
        part = self.row.videos[key]
        path = _video_path(self._root, self.info, self.row, key)
        shape = self.info.features[key].shape
        for image in read_frames(path, part.from_s, len(self), self.info.fps):
            if image.shape not in (shape, (shape[1], shape[2], shape[0])):
                raise DataError(f"{path}: expected pictures of shape {shape}, got {image.shape}")
            yield image

    def __iter__(self) -> Iterator[Frame]:
        """The frames in order, decoded as they are asked for; raises `DataError` where a video turns out damaged."""
        cameras = [key for key in self.info.cameras if key.startswith(CAMERA)]
        streams = [self.images(key) for key in cameras]
        state = self.columns.get(STATE)
        for at in range(len(self)):
            images = {key.removeprefix(CAMERA): next(s) for key, s in zip(cameras, streams, strict=True)}
            seen = np.atleast_1d(state[at]).astype(np.float32) if state is not None else None
            time_s = float(self.columns.get(layout.WORLD_TIME, self.columns["timestamp"])[at])
            values = {key: column[at] for key, column in self.columns.items() if key not in cameras}
            yield Frame(Observation(images, self.tasks[at], seen, time_s), values)


class RecordedDataset:
    """A LeRobot v3.0 data set on disk. Iterating gives its sound episodes; `problems` lists all others met so far."""

    def __init__(self, root: Path, *, strict: bool = False) -> None:
        """Read the description; ``strict`` makes every problem a `DataError` at once instead of an entry of `problems`.

        Raises:
            DataError: there is no such data set, it is of another version, or its description is broken.
        """
        self.root, self._strict = Path(root), strict
        self.problems: list[Problem] = []
        self._last_times: dict[str, tuple[Path, np.ndarray[Any, Any]]] = {}
        path = self.root / layout.INFO
        self.info = Info.read(read_json(path), str(path))
        self.tasks = {number: text for text, number in read_tasks(self.root / layout.TASKS).items()}
        self.rows = self._rows()

    def _rows(self) -> dict[int, EpisodeRow]:
        rows: dict[int, EpisodeRow] = {}
        for path in episode_files(self.root):
            try:
                for row in read_rows(path, self.info.videos):
                    if row.index in rows:
                        raise DataError(f"{path}: episode {row.index} stands in an earlier file already")
                    rows[row.index] = row
            except DataError as error:
                self._note(None, str(error))
        missing = [index for index in range(self.info.total_episodes) if index not in rows]
        for index in missing[:1000]:
            self._note(index, f"no row of {layout.EPISODES_FOLDER} describes it")
        return dict(sorted(rows.items()))

    def __len__(self) -> int:
        """How many episodes are described; some of them may turn out broken."""
        return len(self.rows)

    def __iter__(self) -> Iterator[RecordedEpisode]:
        """The sound episodes in order, one in memory at a time. Videos are checked by their index, not decoded."""
        for index in self.rows:
            try:
                episode = self.episode(index)
            except DataError as error:
                self._note(index, str(error))
                continue
            yield episode

    def episode(self, index: int) -> RecordedEpisode:
        """One episode, checked: its counts, times, numbers and instructions, and that its videos have its frames.

        Raises:
            DataError: there is no such episode, or what is wrong with it.
        """
        if index not in self.rows:
            raise DataError(f"{self.root}: no episode {index}; there are {len(self.rows)}")
        row = self.rows[index]
        columns = _read_columns(self.root, self.info, row)
        check_columns(columns, row, self.info)
        unknown = set(columns["task_index"].tolist()) - set(self.tasks)
        if unknown:
            raise DataError(f"its frames name the tasks {sorted(unknown)[:10]}, which {layout.TASKS} does not have")
        for key in self.info.videos:
            path = _video_path(self.root, self.info, row, key)
            check_video(path, self._times(key, path), row, key, self.info)
        tasks = tuple(self.tasks[int(number)] for number in columns["task_index"])
        return RecordedEpisode(row, self.info, tasks, columns, self.root)

    def _times(self, key: str, path: Path) -> np.ndarray[Any, Any]:
        """When the frames of a video stand; the last file of each camera is kept, since episodes share files."""
        known, times = self._last_times.get(key, (None, np.empty(0)))
        if known != path:
            times = np.array([float(time) for time in frame_times(path)])
            self._last_times[key] = path, times
        return times

    def check(self) -> list[Problem]:
        """Decode everything there is; returns all problems of the data set, or raises the first one if strict."""
        for episode in self:
            try:
                for key in self.info.cameras:
                    for _ in episode.images(key):
                        pass
            except DataError as error:
                self._note(episode.index, str(error))
        return list(self.problems)

    def _note(self, episode: int | None, what: str) -> None:
        problem = Problem(episode, what)
        if self._strict:
            raise DataError(f"{self.root}: {problem}")
        if problem not in self.problems:
            self.problems.append(problem)


def _video_path(root: Path, info: Info, row: EpisodeRow, key: str) -> Path:
    part = row.videos[key]
    return file_path(root, info.video_path or layout.VIDEO_PATH, part.chunk, part.file, key)


def _read_columns(root: Path, info: Info, row: EpisodeRow) -> dict[str, np.ndarray[Any, Any]]:
    path = file_path(root, info.data_path, row.data_chunk, row.data_file)
    wanted = {k: f for k, f in info.features.items() if f.dtype in NUMBERS or f.dtype in ("string", "image")}
    try:
        with pq.ParquetFile(path) as file:
            missing = sorted(set(wanted) - set(file.schema_arrow.names))
        if missing:
            raise DataError(f"{path}: the columns {', '.join(missing)} are missing")
        table = pq.read_table(
            path, columns=list(wanted), filters=[("episode_index", "=", row.index)], partitioning=None
        )
    except FileNotFoundError:
        raise DataError(f"{path} is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is no readable parquet file: {error}") from error
    if len(table) != row.length:
        raise DataError(f"{path}: expected {row.length} frames, got {len(table)}")
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for key, feature in wanted.items():
        if feature.dtype == "image":
            if not is_depth(feature):
                columns[key] = np.array(table.column(key).to_pylist(), object)
        else:
            columns[key] = array_of(table.column(key), feature, f"{path}, {key}")
    return columns
