"""Writing a LeRobot v3.0 data set episode by episode, in constant memory, so that a crash costs one episode at most.

Every episode has files of its own, so a broken file costs one episode too. An episode is written beside the data set,
in ``.recording``, and moved in when it ended: its videos, its frames, new tasks, and last its row of ``meta/episodes``.
With that row the episode counts; whatever a crash left before it is removed when the recording goes on, and
``stats.json`` and ``info.json`` are made from the rows. ``meta/recording.json`` says what was recorded and which
episodes were left out.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow.parquet as pq

from backbone.contracts import ActionSpec, Observation
from backbone.errors import ConfigError, DataError
from backbone.records import layout
from backbone.records.columns import features_of
from backbone.records.episode import EpisodeFiles, EpisodeWriter
from backbone.records.files import only_writer, publish, read_json, write_json
from backbone.records.labels import label_names
from backbone.records.layout import Info, file_path, place, rate
from backbone.records.rows import COMPRESSION, EpisodeRow, VideoPart, episode_files, read_rows
from backbone.records.statistics import Stats, merge, to_json
from backbone.records.tasks import tasks_of, write_tasks
from backbone.records.video import VideoQuality
from backbone.rollout.config import differing_fields

SCRATCH = ".recording"
RECORDING = "meta/recording.json"
SHOWN = 3  # reasons of a recording that came to nothing


class DatasetWriter:
    """A data set under construction. Use it in a ``with``: leaving it frees the folder and drops an open episode."""

    def __init__(
        self,
        root: Path,
        spec: ActionSpec,
        *,
        robot_type: str,
        run: Mapping[str, Any],
        labels: bool = True,
        quality: VideoQuality | None = None,
    ) -> None:
        """Begin a data set in ``root``, or go on with the one that lies there; leftovers of a crash are removed.

        Args:
            root: a folder that is empty, absent, or holds a data set of this writer.
            spec: of the actions; its ``control_hz`` is the frame rate.
            robot_type: the world's name, as LeRobot calls it.
            run: the settings that decide what is recorded, as JSON values; a recording goes on only with the same.
            labels: keep the world's privileged description beside each frame.
            quality: of the videos.

        Raises:
            ConfigError: the folder holds a recording of other settings; the message names those that differ.
            DataError: the folder holds something else, or another process writes it.
        """
        self.root = root
        self._spec, self._labels, self._quality = spec, labels, quality or VideoQuality()
        self._robot_type, self._fps = robot_type, rate(spec.control_hz, "the world's control_hz")
        self._run = json.loads(json.dumps(run, allow_nan=False))
        self.skipped: dict[int, dict[str, Any]] = {}
        self._info: Info | None = None
        self._tasks: dict[str, int] = {}
        self._stats: dict[str, Stats] = {}
        self.rows: list[EpisodeRow] = []
        _check_ours(root)
        self._held = ExitStack()
        self._held.enter_context(only_writer(root / SCRATCH))
        try:
            self._go_on()
        except BaseException:
            self._held.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Free the folder for other writers; a second call does nothing."""
        self._held.close()

    @property
    def scratch(self) -> Path:
        """The folder of unfinished files, on the data set's own file system."""
        return self.root / SCRATCH

    def episode(self, observation: Observation, description: Mapping[str, Any]) -> EpisodeWriter:
        """Begin an episode; its first frame shows what all frames of the data set have to look like.

        An episode counts once it is given to `commit`; one that is not is dropped when the next one begins.
        """
        if self._info is None:
            names = label_names(description) if self._labels else None
            features = features_of(observation, self._spec, names, self._quality.about(self._fps))
            self._info = Info(self._fps, features, self._robot_type)
        folder = self.scratch / "episode"
        _remove(folder)
        folder.mkdir(parents=True)
        frames = self.rows[-1].to_index if self.rows else 0
        return EpisodeWriter(folder, self._info, len(self.rows), frames, self._tasks, self._quality)

    def commit(self, episode: EpisodeWriter, rollout: Mapping[str, Any]) -> EpisodeRow:
        """Add a finished episode to the data set.

        ``rollout`` has its ``index`` in the run, ``seed``, ``success`` and ``metrics``.
        """
        if self._info is None or episode.index != len(self.rows):
            raise DataError(f"episode {episode.index} is not the one under way, which is {len(self.rows)}")
        files = episode.finish()
        if not self.rows:  # what the features are must be known before anything that follows them
            write_json(self.root / layout.INFO, self._info.to_dict(), self.scratch)
        row = self._move_in(self._info, files, rollout)
        self.rows.append(replace(row, stats={}))
        if self.skipped.pop(rollout["index"], None):
            self._write_recording()
        self._stats = merge([self._stats, row.stats]) if self._stats else dict(row.stats)
        self._tasks = dict(files.tasks)
        self._write_summary()
        return row

    def _move_in(self, info: Info, files: EpisodeFiles, rollout: Mapping[str, Any]) -> EpisodeRow:
        chunk, file = place(files.index)
        for key, path in files.videos.items():
            publish(path, file_path(self.root, layout.VIDEO_PATH, chunk, file, key))
        publish(files.data, file_path(self.root, layout.DATA_PATH, chunk, file))
        if files.tasks != self._tasks:
            write_tasks(self.root / layout.TASKS, files.tasks, self.scratch)
        duration = float(files.length / info.fps)
        row = EpisodeRow(
            files.index,
            files.episode_tasks,
            files.length,
            chunk,
            file,
            files.from_index,
            files.from_index + files.length,
            {key: VideoPart(chunk, file, 0.0, duration) for key in files.videos},
            rollout,
            files.stats,
        )
        temporary = self.scratch / "row.parquet"
        pq.write_table(row.to_table(chunk, file), temporary, compression=COMPRESSION)
        publish(temporary, file_path(self.root, layout.EPISODES_PATH, chunk, file))
        return row

    def _write_summary(self) -> None:
        """The statistics, and last the info file: a reader that sees its counts finds everything they count."""
        if self._info is None:
            return
        frames = self.rows[-1].to_index if self.rows else 0
        counts = {"total_episodes": len(self.rows), "total_frames": frames, "total_tasks": len(self._tasks)}
        self._info = replace(self._info, **counts)  # type: ignore[arg-type]
        write_json(self.root / layout.STATS, to_json(self._stats), self.scratch)
        write_json(self.root / layout.INFO, self._info.to_dict(), self.scratch)

    def skip(self, index: int, seed: int, reason: str, message: str) -> None:
        """Note that the run's episode ``index`` is left out: an error's type or ``unsuccessful``, and what it said."""
        self.skipped[index] = {"index": index, "seed": seed, "reason": reason, "message": message}
        self._write_recording()

    def _why_none(self) -> str:
        """The reasons of the first episodes that were left out."""
        left_out = [self.skipped[index] for index in sorted(self.skipped)]
        told = [f"episode {entry['index']} {entry['reason']}: {entry['message'][:200]}" for entry in left_out[:SHOWN]]
        more = f"; and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
        return f"; left out: {'; '.join(told)}{more}" if told else ""

    def _write_recording(self) -> None:
        skipped = [self.skipped[index] for index in sorted(self.skipped)]
        write_json(self.root / RECORDING, {"run": self._run, "skipped": skipped}, self.scratch)

    def finalize(self) -> Info:
        """Write everything that is derived, and free and remove the scratch folder; returns the info file's content.

        Raises:
            DataError: no episode was recorded, so there is no data set.
        """
        if self._info is None or not self.rows:
            raise DataError(f"{self.root}: no episode was recorded, so there is no data set{self._why_none()}")
        self._write_summary()
        self.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        return self._info

    def _go_on(self) -> None:
        """Take up what is there: the rows are the truth, everything else is checked against them or made again."""
        _remove(self.scratch / "episode")
        self._compare_runs()
        stats: list[Mapping[str, Stats]] = []
        if (self.root / layout.INFO).exists():
            self._info = self._known_info()
            for path in episode_files(self.root):
                for row in read_rows(path, self._info.videos, stats=True):
                    if row.index != len(self.rows):
                        raise DataError(
                            f"{path}: expected episode {len(self.rows)}, got {row.index}; a file is missing"
                        )
                    stats.append(row.stats)
                    self.rows.append(replace(row, stats={}))
        self._stats, self._tasks = merge(stats), tasks_of(self.rows)
        _remove_leftovers(self.root, self._info, len(self.rows))
        if self.rows:
            write_tasks(self.root / layout.TASKS, self._tasks, self.scratch)
            self._write_summary()

    def _compare_runs(self) -> None:
        path = self.root / RECORDING
        if path.exists():
            noted = read_json(path)
            changed = differing_fields(noted.get("run") or {}, self._run)
            if changed:
                raise ConfigError(
                    f"{self.root} holds a recording of other settings ({'; '.join(changed)}); give the same settings "
                    "to go on with it, or choose another folder"
                )
            self.skipped = {entry["index"]: entry for entry in noted.get("skipped", ())}
        else:
            self._write_recording()

    def _known_info(self) -> Info:
        """The info file of the data set that goes on; it must be of this world and these actions."""
        where = str(self.root / layout.INFO)
        info = Info.read(read_json(self.root / layout.INFO), where)
        wanted = features_of(Observation.make_example(), self._spec, None, {})[layout.ACTION]
        got = info.features.get(layout.ACTION)
        for name, mine, theirs in (
            ("robot_type", self._robot_type, info.robot_type),
            ("fps", self._fps, info.fps),
            ("action", wanted.to_dict(), got and got.to_dict()),
            ("labels", self._labels, layout.LABELS_JSON in info.features),
        ):
            if mine != theirs:
                raise DataError(f"{where}: cannot go on with another {name}: expected {mine}, got {theirs}")
        return info


def _check_ours(root: Path) -> None:
    """Refuse a folder that holds anything but a data set of this writer: nothing of others is removed or mixed in."""
    if root.exists() and not root.is_dir():
        raise DataError(f"{root} is a file; give a folder")
    if root.is_dir() and any(root.iterdir()) and not ((root / SCRATCH).is_dir() or (root / RECORDING).is_file()):
        raise DataError(f"{root} is not empty and was not recorded by this program; choose another folder")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_leftovers(root: Path, info: Info | None, count: int) -> None:
    """Remove the files of the one episode that a crash may have left without its row."""
    chunk, file = place(count)
    _remove(file_path(root, layout.DATA_PATH, chunk, file))
    for key in info.videos if info else ():
        _remove(file_path(root, layout.VIDEO_PATH, chunk, file, key))
