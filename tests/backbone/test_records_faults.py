"""Recording that is killed at any moment, and data sets with something broken in them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="recording needs the extra 'worlds'")

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backbone.errors import DataError, FoveaError
from backbone.records import writer as writer_module
from backbone.records.layout import Info
from backbone.records.reader import RecordedDataset
from backbone.records.video import VideoQuality, VideoWriter, read_frames
from tests.backbone.records_world import LineWorld, open_writer, record, seed_of

EPISODES = 3
FRONT = "videos/observation.images.front/chunk-000/file-001.mp4"
pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, no_waiting_for_the_disk: None) -> Path:
    root = tmp_path_factory.mktemp("sound") / "set"
    record(root, EPISODES)
    return root


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "set"))


def content(root: Path) -> dict[str, Any]:
    """Everything a data set says, comparable: its JSON files, and its tables and pictures as values."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = str(path.relative_to(root))
        if path.suffix == ".json":
            found[name] = json.loads(path.read_text())
        elif path.suffix == ".parquet":
            found[name] = repr(pq.read_table(path).to_pylist())
        else:
            found[name] = path.read_bytes() if path.suffix == ".mp4" else "?"
    return found


class Killed(BaseException):
    """Stands for the end of the process: nothing below the test handles it."""


@contextlib.contextmanager
def dies_at(moment: int) -> Iterator[None]:
    """The process ends before its ``moment``-th file is published (even) or right after it was (odd)."""
    count = 0

    def publish(temporary: Path, final: Path) -> None:
        nonlocal count
        count += 1
        if 2 * count == moment + 2:
            raise Killed
        real(temporary, final)
        if 2 * count == moment + 1:
            raise Killed

    real = writer_module.publish
    with pytest.MonkeyPatch.context() as patch:
        for name in ("writer", "files", "tasks"):
            patch.setattr(f"backbone.records.{name}.publish", publish)
        yield


def test_killed_between_any_two_files_the_recording_goes_on_to_the_same_data_set(tmp_path: Path) -> None:
    episodes, moment, ended = 2, 0, False
    record(tmp_path / "straight", episodes)
    wanted = content(tmp_path / "straight")
    while not ended:
        root = tmp_path / f"at{moment}"
        with dies_at(moment):
            try:
                record(root, episodes)
                ended = True
            except Killed:
                pass
        before = len(RecordedDataset(root).rows) if (root / "meta/tasks.parquet").exists() else 0
        kept = record(root, episodes)
        assert len(kept.rows) == episodes
        assert before <= episodes
        assert content(root) == wanted, f"killed at moment {moment}"
        shutil.rmtree(root)
        moment += 1
    assert moment > 2 * episodes * 7, "too few moments were tried"


DRILL = """
import sys
from pathlib import Path
from tests.backbone.records_world import LineWorld, record
class Slow(LineWorld):
    def reset(self, *, seed, options=None):
        print("episode", flush=True)
        return super().reset(seed=seed, options=options)
record(Path(sys.argv[1]), 50, Slow())
"""


def test_kill_9_keeps_the_finished_episodes(tmp_path: Path) -> None:
    root = tmp_path / "set"
    process = subprocess.Popen([sys.executable, "-c", DRILL, str(root)], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    for _ in range(4):
        assert process.stdout.readline() == "episode\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    count = len(list((root / "meta/episodes").rglob("*.parquet")))
    assert 3 <= count < 50
    dataset = RecordedDataset(root)
    assert [len(e) for e in dataset] == [dataset.rows[i].length for i in range(count)]
    modified = {path: path.stat().st_mtime_ns for path in (root / "data").rglob("*.parquet")}
    record(root, count + 1)
    assert RecordedDataset(root, strict=True).check() == []
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in list(modified.items())[:count])


def test_a_full_disk_ends_the_recording_and_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "set", 1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(VideoWriter, "add", full)
    with pytest.raises(OSError, match="No space left"):
        record(tmp_path / "set", 5)
    monkeypatch.undo()
    assert [entry["index"] for entry in json.loads((tmp_path / "set/meta/recording.json").read_text())["skipped"]] == []
    assert len(record(tmp_path / "set", 2).rows) == 2


def rewrite(path: Path, change: Callable[[dict[str, list[Any]]], None]) -> None:
    table = pq.read_table(path)
    columns = table.to_pydict()
    change(columns)
    pq.write_table(pa.table(columns, schema=table.schema), path)


def swap(name: str) -> Callable[[dict[str, list[Any]]], None]:
    def change(columns: dict[str, list[Any]]) -> None:
        columns[name][2], columns[name][5] = columns[name][5], columns[name][2]

    return change


def drop_last(columns: dict[str, list[Any]]) -> None:
    for values in columns.values():
        values.pop()


def cut(path: Path, part: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])


def spoil(path: Path) -> None:
    """Overwrite bytes in a video's picture data, the last part of the file."""
    data = bytearray(path.read_bytes())
    at = (data.rindex(b"mdat") + 800 + len(data)) // 2  # behind the encoder's note about itself
    data[at : at + 60] = bytes((7 * i) % 256 for i in range(60))
    path.write_bytes(bytes(data))


def shorter_video(path: Path) -> None:
    writer = VideoWriter(path, RecordedDataset(path.parents[3]).info.fps, 64, 48, VideoQuality())
    for _ in range(4):
        writer.add(np.zeros((48, 64, 3), np.uint8))
    writer.close()


def slower_video(path: Path) -> None:
    writer = VideoWriter(path, RecordedDataset(path.parents[3]).info.fps * 9 / 10, 64, 48, VideoQuality())
    for _ in range(20):
        writer.add(np.zeros((48, 64, 3), np.uint8))
    writer.close()


DATA = "data/chunk-000/file-001.parquet"
FAULTS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "truncated parquet": (DATA, lambda p: cut(p, 0.5), "no readable parquet"),
    "empty parquet": (DATA, lambda p: p.write_bytes(b""), "no readable parquet"),
    "missing parquet": (DATA, Path.unlink, "is missing"),
    "missing video": (FRONT, Path.unlink, "is missing"),
    "truncated video": (FRONT, lambda p: cut(p, 0.5), "damaged|no frame"),
    "no video at all": (FRONT, lambda p: p.write_bytes(b"not a video" * 100), "damaged or no video"),
    "video too short": (FRONT, shorter_video, "no frame at"),
    "video at another rate": (FRONT, slower_video, "no frame at"),
    "shuffled timestamps": (DATA, lambda p: rewrite(p, swap("timestamp")), "frame 2: timestamp is"),
    "shuffled frames": (DATA, lambda p: rewrite(p, swap("frame_index")), "out of order"),
    "shuffled index": (DATA, lambda p: rewrite(p, swap("index")), "frame 2: index is"),
    "wrong count": (DATA, lambda p: rewrite(p, drop_last), "frames, got"),
    "unknown task": (DATA, lambda p: rewrite(p, lambda c: c["task_index"].__setitem__(0, 77)), r"tasks \[77\]"),
    "another episode's data": (DATA, lambda p: shutil.copy(p.with_name("file-000.parquet"), p), "frames, got 0"),
    "a missing column": (
        DATA,
        lambda p: pq.write_table(pq.read_table(p).drop_columns(["action"]), p),
        "columns action",
    ),
    "missing values": (DATA, lambda p: rewrite(p, lambda c: c["action"].__setitem__(3, None)), "are missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_episode_is_named_and_the_others_are_read(copy: Path, fault: str) -> None:
    name, breaks, message = FAULTS[fault]
    breaks(copy / name)
    dataset = RecordedDataset(copy)
    assert [episode.index for episode in dataset] == [0, 2]
    assert [problem.episode for problem in dataset.problems] == [1]
    assert dataset.problems[0].what
    with pytest.raises(DataError, match=message):
        dataset.episode(1)
    with pytest.raises(DataError, match="episode 1"):
        list(RecordedDataset(copy, strict=True))


def test_damage_inside_the_pictures_is_found_by_decoding(copy: Path) -> None:
    spoil(copy / FRONT)
    dataset = RecordedDataset(copy)
    problems = dataset.check()
    assert [problem.episode for problem in problems] == [1]
    assert "front" in problems[0].what


def test_a_broken_row_file_costs_its_episodes_only(copy: Path) -> None:
    cut(copy / "meta/episodes/chunk-000/file-001.parquet", 0.7)
    dataset = RecordedDataset(copy)
    assert [episode.index for episode in dataset] == [0, 2]
    assert [problem.episode for problem in dataset.problems] == [None, 1]
    assert "file-001.parquet" in str(dataset.problems[0])
    with pytest.raises(DataError, match=r"a file is missing|no readable parquet"):
        record(copy, EPISODES + 1)


@pytest.mark.parametrize("name", ["meta/info.json", "meta/tasks.parquet"])
@pytest.mark.parametrize("broken", [None, b"", b"{", b"[]", b"\xff\xfe\x00"])
def test_without_its_description_it_is_no_data_set(copy: Path, name: str, broken: bytes | None) -> None:
    path = copy / name
    path.unlink()
    if broken is not None:
        path.write_bytes(broken)
    with pytest.raises(DataError, match=path.name):
        RecordedDataset(copy)


def test_other_versions_say_what_to_do(copy: Path) -> None:
    info = json.loads((copy / "meta/info.json").read_text())
    (copy / "meta/info.json").write_text(json.dumps({**info, "codebase_version": "v2.1"}))
    with pytest.raises(DataError, match="convert_dataset_v21_to_v30"):
        RecordedDataset(copy)


HOSTILE = [
    ("data_path", "../../{chunk_index}"),
    ("data_path", "/etc/passwd"),
    ("data_path", "{chunk_index.__class__}"),
    ("data_path", "{0}"),
    ("data_path", "{chunk_index:99999999d}"),
    ("video_path", "videos/{video_key!r}"),
    ("fps", 0),
    ("fps", "NaN"),
    ("total_episodes", -1),
    ("total_frames", True),
    ("features", {}),
    ("features", {"action": {"dtype": "float32", "shape": [1]}}),
]


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_hostile_descriptions_are_refused(copy: Path, key: str, value: Any) -> None:
    path = copy / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(DataError, match=key):
        RecordedDataset(copy)


def test_a_camera_cannot_lead_out_of_the_data_set(copy: Path) -> None:
    path = copy / "meta/info.json"
    info = json.loads(path.read_text())
    info["features"]["../../front"] = info["features"].pop("observation.images.front")
    path.write_text(json.dumps(info))
    assert list(RecordedDataset(copy)) == []


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["codebase_version", "fps", "features", "total_episodes", "data_path", "video_path", "robot_type", "splits"]


@given(st.dictionaries(st.sampled_from(KEYS), ANY_JSON, min_size=1), st.booleans())
def test_no_description_raises_anything_else(changes: dict[str, Any], keep_version: bool) -> None:
    features = {
        key: {"dtype": "int64", "shape": [1]} for key in ("frame_index", "episode_index", "index", "task_index")
    }
    features["timestamp"] = {"dtype": "float32", "shape": [1]}
    good = {"codebase_version": "v3.0", "fps": 10, "features": features}
    with contextlib.suppress(FoveaError):
        Info.read({**good, **changes, **({"codebase_version": "v3.0"} if keep_version else {})}, "test")


@given(st.binary(max_size=40), st.floats(0, 1))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_of_a_video_raise_anything_else(sound: Path, tmp_path: Path, noise: bytes, where: float) -> None:
    data = bytearray((sound / FRONT).read_bytes())
    at = int(where * len(data))
    data[at : at + len(noise)] = noise
    path = tmp_path / "noisy.mp4"
    path.write_bytes(bytes(data))
    with contextlib.suppress(FoveaError):
        list(read_frames(path, 0.0, 9, RecordedDataset(sound).info.fps))


def test_the_broken_world_leaves_no_trace(tmp_path: Path) -> None:
    record(tmp_path / "with", EPISODES, LineWorld({seed_of(0): 2}))
    dataset = RecordedDataset(tmp_path / "with", strict=True)
    assert [(e.index, e.row.rollout["index"]) for e in dataset] == [(0, 1), (1, 2)]
    assert dataset.tasks[0] == dataset.episode(0).tasks[0]
    record(tmp_path / "with", EPISODES)  # the same seeds in a sound world: the missing one is added
    dataset = RecordedDataset(tmp_path / "with", strict=True)
    assert [e.row.rollout["index"] for e in dataset] == [1, 2, 0]
    assert json.loads((tmp_path / "with/meta/recording.json").read_text())["skipped"] == []


@pytest.mark.slow
def test_memory_does_not_grow_with_an_episode(tmp_path: Path) -> None:
    import psutil

    world, process = LineWorld(size=(96, 128)), psutil.Process()
    observation, _ = world.reset(seed=1)
    sizes: list[int] = []
    with open_writer(tmp_path / "set") as writer:
        episode = writer.episode(observation, world.describe())
        for at in range(6000):
            action = np.zeros(2, np.float32)
            description = {**world.describe(), "note": "x" * 2000}
            episode.add(observation, action, reward=0.0, done=False, success=False, description=description)
            if at % 1000 == 999:
                sizes.append(process.memory_info().rss)
        writer.commit(episode, {"index": 0, "seed": 1, "success": True, "metrics": {}})
    assert max(sizes[1:]) - sizes[0] < 12_000_000, f"{[size // 10**6 for size in sizes]} MB"
