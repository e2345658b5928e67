"""The layout of a LeRobot v3.0 data set: its files, its features, and ``meta/info.json``, checked when it is read.

An info file may come from anywhere, so nothing in it is trusted: its path templates may name files inside the data set
only, and every number has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

from backbone.errors import DataError

VERSION = "v3.0"
INFO, STATS, TASKS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
EPISODES_FOLDER = "meta/episodes"
EPISODES_PATH = EPISODES_FOLDER + "/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
CHUNK_SIZE = 1000  # files a folder
MAX_COUNT = 10**12  # episodes or frames; more is a broken file
CAMERA = "observation.images."
STATE, ACTION = "observation.state", "action"
REWARD, DONE, SUCCESS = "next.reward", "next.done", "next.success"
WORLD_TIME = "world.time_s"
LABELS, LABELS_JSON = "privileged.values", "privileged.json"
NUMBERS = {
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
}
_FIELD = re.compile(r"\{(\w+)(?::0(\d)d)?\}")


@dataclass(frozen=True)
class Feature:
    """One feature as the info file states it; ``dtype`` is one of `NUMBERS`, or string, image or video."""

    dtype: str
    shape: tuple[int, ...]
    names: Any = None
    info: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON values in LeRobot's order."""
        plain = {"dtype": self.dtype, "shape": list(self.shape), "names": self.names}
        return {**plain, "info": dict(self.info)} if self.info else plain

    @classmethod
    def read(cls, value: Any, where: str) -> Feature:
        """From a read JSON value; `DataError` naming ``where`` if it is no feature."""
        if not isinstance(value, dict) or not isinstance(value.get("dtype"), str):
            raise DataError(f"{where}: expected an object with a dtype, got {str(value)[:80]}")
        shape = value.get("shape")
        if not isinstance(shape, list) or not all(_count(n) for n in shape) or not 0 < len(shape) <= 5:
            raise DataError(f"{where}: expected a shape of 1 to 5 whole numbers, got {str(shape)[:80]}")
        info = value.get("info") or value.get("video_info") or {}
        return cls(value["dtype"], tuple(shape), value.get("names"), info if isinstance(info, dict) else {})


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


DEFAULT_FEATURES = {
    "timestamp": Feature("float32", (1,)),
    "frame_index": Feature("int64", (1,)),
    "episode_index": Feature("int64", (1,)),
    "index": Feature("int64", (1,)),
    "task_index": Feature("int64", (1,)),
}


@dataclass(frozen=True)
class Info:
    """``meta/info.json``."""

    fps: Fraction
    features: Mapping[str, Feature]
    robot_type: str | None = None
    total_episodes: int = 0
    total_frames: int = 0
    total_tasks: int = 0
    chunks_size: int = CHUNK_SIZE
    data_files_size_in_mb: int = 100
    video_files_size_in_mb: int = 200
    data_path: str = DATA_PATH
    video_path: str | None = VIDEO_PATH

    @property
    def cameras(self) -> tuple[str, ...]:
        """Keys of the features that are pictures, whether videos or single images, without depth maps."""
        pictures = ((key, f) for key, f in self.features.items() if f.dtype in ("video", "image"))
        return tuple(key for key, f in pictures if not is_depth(f))

    @property
    def videos(self) -> tuple[str, ...]:
        """Keys of the features stored as videos."""
        return tuple(key for key, feature in self.features.items() if feature.dtype == "video")

    def to_dict(self) -> dict[str, Any]:
        """JSON values; a whole frame rate is an integer, as LeRobot has it."""
        counts = ("total_episodes", "total_frames", "total_tasks", "chunks_size")
        sizes = ("data_files_size_in_mb", "video_files_size_in_mb")
        return {
            "codebase_version": VERSION,
            "robot_type": self.robot_type,
            **{key: getattr(self, key) for key in (*counts, *sizes)},
            "fps": int(self.fps) if self.fps.denominator == 1 else float(self.fps),
            "splits": {"train": f"0:{self.total_episodes}"},
            "data_path": self.data_path,
            "video_path": self.video_path,
            "features": {key: feature.to_dict() for key, feature in self.features.items()},
        }

    @classmethod
    def read(cls, value: Mapping[str, Any], where: str) -> Info:
        """From read JSON; `DataError` that names the field for another version or anything impossible."""
        version = value.get("codebase_version")
        if version != VERSION:
            convert = "convert it with lerobot.scripts.convert_dataset_v21_to_v30"
            raise DataError(f"{where}: expected codebase_version {VERSION!r}, got {version!r}; an older one: {convert}")
        features = value.get("features")
        if not isinstance(features, dict) or not features:
            raise DataError(f"{where}: expected features, got {str(features)[:80]}")
        missing = sorted(set(DEFAULT_FEATURES) - set(features))
        if missing:
            raise DataError(f"{where}: features lack {', '.join(missing)}, which every LeRobot data set has")
        counts = {key: value.get(key, 0) for key in ("total_episodes", "total_frames", "total_tasks")}
        for key, count in counts.items():
            if not _count(count):
                raise DataError(f"{where}: {key} must be a whole number, got {str(count)[:80]}")
        return cls(
            rate(value.get("fps"), where),
            {key: Feature.read(entry, f"{where}, feature {key!r}") for key, entry in features.items()},
            value.get("robot_type"),
            **counts,
            data_path=_template(value.get("data_path", DATA_PATH), where, "data_path"),
            video_path=_template(value.get("video_path") or VIDEO_PATH, where, "video_path"),
        )


def rate(value: Any, where: str) -> Fraction:
    """Frames a second as an exact fraction: 12.5 is 25/2; `DataError` for what is no rate a video can have."""
    try:
        found = Fraction(value).limit_denominator(1001)
    except (TypeError, ValueError, OverflowError):
        found = Fraction(0)
    if not 0 < found <= 1000 or abs(float(found) - float(value)) > 1e-9 * float(value):
        raise DataError(f"{where}: fps must be a number above 0 and up to 1000, with a simple fraction, got {value!r}")
    return found


def _template(value: Any, where: str, name: str) -> str:
    """A path template that can only name files below the data set; str.format is never given anything else."""
    plain = _FIELD.sub("", value) if isinstance(value, str) and len(value) < 500 else "{"
    fields = {match[1] for match in _FIELD.finditer(value)} if isinstance(value, str) else set()
    path = PurePosixPath(value if isinstance(value, str) else "/")
    if "{" in plain or "}" in plain or fields - {"chunk_index", "file_index", "video_key"} or not _inside(path):
        raise DataError(
            f"{where}: {name} must be a relative path with the fields chunk_index, file_index and video_key alone, "
            f"got {str(value)[:80]!r}"
        )
    return str(value)


def _inside(path: PurePosixPath) -> bool:
    return not path.is_absolute() and ".." not in path.parts and "\0" not in str(path)


def file_path(root: Path, template: str, chunk: int, file: int, video_key: str = "") -> Path:
    """The file of a template below ``root``; `DataError` if the video's key would lead out of it."""
    relative = PurePosixPath(template.format(chunk_index=chunk, file_index=file, video_key=video_key))
    if not _inside(relative) or "/" in video_key:
        raise DataError(f"{root}: the feature {video_key!r} leads out of the data set")
    return root / relative


def place(index: int) -> tuple[int, int]:
    """Chunk and file of the ``index``-th file."""
    return divmod(index, CHUNK_SIZE)


def is_depth(feature: Feature) -> bool:
    """Whether a picture holds distances rather than colours."""
    return bool(feature.info.get("is_depth_map") or feature.info.get("video.is_depth_map"))
