"""LeRobot v3.0 data sets: what is written is what was shown, bit for bit, and others' layouts are read too."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="recording needs the extra 'worlds'")

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from backbone.errors import CancelledError, ConfigError, DataError
from backbone.records import layout
from backbone.records.labels import flatten, label_values, to_json
from backbone.records.layout import Info, rate
from backbone.records.reader import RecordedDataset
from backbone.records.run import RecordConfig, record_dataset
from backbone.records.statistics import PictureStats, column_stats, merge
from backbone.records.video import VideoQuality, VideoWriter, frame_times, read_frames
from backbone.rollout.agents import ExpertConfig
from tests.backbone.records_world import SPEC, LineWorld, open_writer, record, seed_of, shown

EPISODES = 4
pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, no_waiting_for_the_disk: None) -> Path:
    root = tmp_path_factory.mktemp("records") / "line"
    record(root, EPISODES)
    return root


def test_states_actions_and_labels_come_back_bit_for_bit(recorded: Path) -> None:
    dataset = RecordedDataset(recorded, strict=True)
    assert len(list(dataset)) == EPISODES
    for episode in dataset:
        log = shown(seed_of(episode.index))
        columns = episode.columns
        assert len(episode) == len(log.actions)
        assert columns["action"].dtype == np.float32
        assert columns["action"].tobytes() == np.stack(log.actions).tobytes()
        assert columns["observation.state"].tobytes() == np.stack([o.state for o in log.observations]).tobytes()
        assert columns["next.reward"].tolist() == [np.float32(r) for r in log.rewards]
        assert columns["next.done"].tolist() == [False] * (len(episode) - 1) + [True]
        assert columns["next.success"].tolist() == [False] * (len(episode) - 1) + [True]
        assert columns["world.time_s"].tolist() == [o.time_s for o in log.observations]
        assert [json.loads(text) for text in columns["privileged.json"]] == log.descriptions
        names = episode.info.features["privileged.values"].names
        wanted = np.stack([label_values(d, names) for d in log.descriptions])
        assert columns["privileged.values"].tobytes() == wanted.tobytes()
        assert set(episode.tasks) == {log.observations[0].instruction}


def test_frames_show_what_was_seen_at_exact_times(recorded: Path) -> None:
    for episode in RecordedDataset(recorded):
        log = shown(seed_of(episode.index))
        for at, frame in enumerate(episode):
            for name, image in log.observations[at].images.items():
                apart = np.abs(frame.observation.images[name].astype(int) - image)
                assert apart.mean() < 5, "beyond what the codec loses"
                dot = np.all(np.abs(image.astype(int) - (255, 40, 20)) < 5, axis=-1)
                assert apart[dot].mean() < 40, "the dot is elsewhere: this is another frame"
        times = frame_times(recorded / f"videos/observation.images.front/chunk-000/file-{episode.index:03d}.mp4")
        assert times == [Fraction(2 * i, 25) for i in range(len(episode))]


def test_layout_is_lerobots(recorded: Path) -> None:
    info = json.loads((recorded / "meta/info.json").read_text())
    lengths = [len(shown(seed_of(i)).actions) for i in range(EPISODES)]
    assert info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"]) == (EPISODES, sum(lengths))
    assert info["fps"] == 12.5
    assert info["splits"] == {"train": f"0:{EPISODES}"}
    assert info["features"]["observation.images.wrist"]["shape"] == [48, 64, 3]
    assert info["features"]["action"]["names"] == ["push", "lift"]
    assert info["features"]["timestamp"] == {"dtype": "float32", "shape": [1], "names": None}
    assert not (recorded / ".recording").exists()
    table = pa.concat_tables([pq.read_table(p) for p in sorted((recorded / "data").glob("*/*.parquet"))])
    assert table.column("index").to_pylist() == list(range(sum(lengths)))
    assert table.schema.field("action").type == pa.list_(pa.float32(), 2)
    rows = pa.concat_tables([pq.read_table(p) for p in sorted((recorded / "meta/episodes").glob("*/*.parquet"))])
    assert rows.column("length").to_pylist() == lengths
    assert rows.column("dataset_from_index").to_pylist() == np.cumsum([0, *lengths[:-1]]).tolist()


def test_statistics_are_those_of_the_values(recorded: Path) -> None:
    stats = json.loads((recorded / "meta/stats.json").read_text())
    actions = np.concatenate([np.stack(shown(seed_of(i)).actions) for i in range(EPISODES)]).astype(np.float64)
    for name, value in (
        ("min", actions.min(0)),
        ("max", actions.max(0)),
        ("mean", actions.mean(0)),
        ("std", actions.std(0)),
    ):
        np.testing.assert_allclose(stats["action"][name], value, atol=1e-12)
    assert stats["action"]["count"] == [len(actions)]
    assert np.shape(stats["observation.images.front"]["mean"]) == (3, 1, 1)
    assert not any(key.startswith("privileged") for key in stats)


@given(st.lists(st.lists(st.integers(0, 255), min_size=2, max_size=9), min_size=1, max_size=4))
def test_picture_statistics_are_numpys(pictures: list[list[int]]) -> None:
    counted, seen = PictureStats(), []
    for values in pictures:
        image = np.stack([np.array([values], np.uint8)] * 3, -1)
        counted.add(image)
        seen += values
    stats, wanted = counted.stats(), np.array(seen) / 255
    for name, value in (("min", wanted.min()), ("max", wanted.max()), ("mean", wanted.mean()), ("std", wanted.std())):
        np.testing.assert_allclose(stats[name].ravel(), [value] * 3, atol=1e-7)
    inverted = np.quantile(wanted, 0.5, method="inverted_cdf")
    np.testing.assert_allclose(stats["q50"].ravel(), [inverted] * 3)
    assert stats["count"].tolist() == [len(pictures)]


@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), min_size=1, max_size=5))
def test_merged_statistics_are_those_of_all(parts: list[list[float]]) -> None:
    merged = merge([{"x": column_stats(np.array(part))} for part in parts])["x"]
    whole = column_stats(np.array([value for part in parts for value in part]))
    for name in ("min", "max", "mean", "std", "count"):
        np.testing.assert_allclose(merged[name], whole[name], atol=1e-5)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(2**70), 2**70) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(".\\ab", max_size=3), inner, max_size=3),
    max_leaves=12,
)


def count_numbers(value: Any) -> int:
    if isinstance(value, dict):
        return sum(count_numbers(item) for item in value.values())
    if isinstance(value, list):
        return sum(count_numbers(item) for item in value)
    return isinstance(value, int | float)


@given(st.dictionaries(st.text(".\\ab", max_size=3), JSON, max_size=4))
def test_every_number_has_a_name_of_its_own_whatever_the_order(description: dict[str, Any]) -> None:
    flat = flatten(description)
    assert len(flat) == count_numbers(description), "two paths share a name, or a number was lost"
    assert all(isinstance(v, float) and not math.isinf(v) for v in flat.values())
    turned = dict(reversed(list(description.items())))
    assert list(flatten(turned)) == list(flat)
    assert json.loads(to_json(description)).keys() == description.keys()


def test_labels_by_hand() -> None:
    description = {"b": {"at": np.array([1.5, 2]), "seen": True}, "a": 3, "name": "mug", "far": math.inf, "none": None}
    flat = flatten(description)
    assert {k: v for k, v in flat.items() if k != "far"} == {"a": 3.0, "b.at.0": 1.5, "b.at.1": 2.0, "b.seen": 1.0}
    assert math.isnan(flat["far"])
    assert to_json(description) == '{"a":3,"b":{"at":[1.5,2.0],"seen":true},"far":null,"name":"mug","none":null}'
    np.testing.assert_array_equal(label_values({"a": 1}, ["a", "b.seen"]), [1.0, math.nan])


@pytest.mark.parametrize(
    ("height", "width", "hz"), [(48, 64, 10.0), (33, 47, 30.0), (16, 16, 12.5), (64, 48, 1000 / 3)]
)
def test_videos_of_any_size_and_rate(tmp_path: Path, height: int, width: int, hz: float) -> None:
    fps, path = rate(hz, "test"), tmp_path / "a.mp4"
    writer = VideoWriter(path, fps, width, height, VideoQuality(crf=10))
    pictures = [np.full((height, width, 3), (20 * i, 255 - 20 * i, 90), np.uint8) for i in range(12)]
    for picture in pictures:
        writer.add(picture)
    writer.close()
    writer.close()
    assert all(abs(float(t) - i / hz) < 1e-5 for i, t in enumerate(frame_times(path)))
    for start in range(12):
        found = list(read_frames(path, start / hz, 12 - start, fps))
        assert [np.abs(a.astype(int) - b).max() < 8 for a, b in zip(found, pictures[start:], strict=True)] == [True] * (
            12 - start
        )
    with pytest.raises(DataError, match="ends after 2 of 3 frames"):
        list(read_frames(path, 10 / hz, 3, fps))
    with pytest.raises(DataError, match="no frame at"):
        next(read_frames(path, 0.4 / hz, 1, fps))


def test_bad_rates_and_qualities_are_refused() -> None:
    for value in (0, -1, math.nan, math.inf, "10 fps", None, math.pi, 2000):
        with pytest.raises(DataError, match="fps must be"):
            rate(value, "test")
    assert rate(29.97, "test") == Fraction(2997, 100)
    with pytest.raises(ConfigError, match="crf"):
        VideoQuality(crf=60)


@dataclass(frozen=True)
class LineConfig:
    broken: tuple[int, ...] = ()  # episodes in which the world breaks
    short: tuple[int, ...] = ()  # episodes in which the expert gives up

    @property
    def world(self) -> str:
        return "line"

    def options(self, index: int) -> dict[str, Any]:
        return {}

    def make(self) -> LineWorld:
        world = LineWorld({seed_of(index): 3 for index in self.broken})
        world.stop_short = {seed_of(index) for index in self.short}
        return world


def test_failed_and_unsuccessful_episodes_are_listed_and_the_rest_goes_on(tmp_path: Path) -> None:
    config = RecordConfig(
        world=LineConfig((1,), (2,)), agent=ExpertConfig(), output=tmp_path / "set", episodes=4, only_successes=True
    )
    told: list[tuple[int, bool]] = []
    report = record_dataset(config, on_episode=lambda result, kept: told.append((result.index, kept)))
    assert told == [(0, True), (1, False), (2, False), (3, True)]
    assert report["n"] == {"expected": 4, "recorded": 2, "skipped": 2}
    assert [(s["index"], s["reason"]) for s in report["skipped"]] == [(1, "WorldError"), (2, "unsuccessful")]
    assert "the line broke" in report["skipped"][0]["message"]
    dataset = RecordedDataset(tmp_path / "set", strict=True)
    assert [(e.index, e.row.rollout["index"]) for e in dataset] == [(0, 0), (1, 3)]
    told.clear()
    again = record_dataset(config, on_episode=lambda result, kept: told.append((result.index, kept)))
    assert told == [(1, False)], "a failed episode is tried again, the others are not"
    assert again["n"] == report["n"]


def test_a_recording_grows_but_does_not_shrink_or_change(tmp_path: Path) -> None:
    def config(**changes: Any) -> RecordConfig:
        base: dict[str, Any] = {
            "world": LineConfig(),
            "agent": ExpertConfig(),
            "output": tmp_path / "set",
            "episodes": 2,
        }
        return RecordConfig(**{**base, **changes})

    record_dataset(config())
    assert record_dataset(config(episodes=3))["n"]["recorded"] == 3
    with pytest.raises(ConfigError, match="at least 3"):
        record_dataset(config(episodes=2))
    with pytest.raises(ConfigError, match=r"other settings \(seed: 0 -> 1\)"):
        record_dataset(config(episodes=3, seed=1))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("keep")
    with pytest.raises(DataError, match="not empty"):
        record_dataset(config(output=tmp_path / "notes"))
    assert (tmp_path / "notes/mine.txt").read_text() == "keep"


def test_nothing_recorded_is_an_error_and_a_stop_keeps_what_is_done(tmp_path: Path) -> None:
    broken = RecordConfig(world=LineConfig((0,)), agent=ExpertConfig(), output=tmp_path / "a", episodes=1)
    with pytest.raises(DataError, match="no episode was recorded"):
        record_dataset(broken)
    stop = threading.Event()
    config = RecordConfig(world=LineConfig(), agent=ExpertConfig(), output=tmp_path / "b", episodes=3)
    with pytest.raises(CancelledError, match="stopped"):
        record_dataset(config, on_episode=lambda result, kept: stop.set(), stop=stop)
    assert len(list(RecordedDataset(tmp_path / "b", strict=True))) == 1
    assert record_dataset(config)["n"]["recorded"] == 3


def test_only_one_process_records_into_a_folder(tmp_path: Path) -> None:
    with open_writer(tmp_path / "set"), pytest.raises(DataError, match="another process"):
        open_writer(tmp_path / "set")
    open_writer(tmp_path / "set").close()


def test_frames_that_do_not_fit_are_named(tmp_path: Path) -> None:
    record(tmp_path / "set", 1)
    other = LineWorld(size=(48, 32))
    record(tmp_path / "set", 2, other)
    noted = json.loads((tmp_path / "set/meta/recording.json").read_text())["skipped"]
    assert "(48, 32, 3)" in noted[0]["message"]
    assert "(48, 64, 3)" in noted[0]["message"]


def test_without_state_or_labels(tmp_path: Path) -> None:
    config = RecordConfig(world=LineConfig(), agent=ExpertConfig(), output=tmp_path / "set", episodes=1, labels=False)
    record_dataset(config)
    features = RecordedDataset(tmp_path / "set", strict=True).info.features
    assert not any(key.startswith("privileged") for key in features)


def one_file_for_all(source: Path, target: Path) -> None:
    """The same data set as LeRobot itself lays it out: all episodes in one file of each kind, one video a camera."""
    dataset = RecordedDataset(source, strict=True)
    for part in ("meta", "data/chunk-000", "meta/episodes/chunk-000"):
        (target / part).mkdir(parents=True, exist_ok=True)
    for name in ("info.json", "tasks.parquet", "stats.json"):
        (target / "meta" / name).write_bytes((source / "meta" / name).read_bytes())
    tables = [pq.read_table(p) for p in sorted((source / "data").glob("*/*.parquet"))]
    with pq.ParquetWriter(target / "data/chunk-000/file-000.parquet", tables[0].schema) as file:
        for table in tables:
            file.write_table(table)
    rows = pa.concat_tables(
        [pq.read_table(p) for p in sorted((source / "meta/episodes").glob("*/*.parquet"))]
    ).to_pylist()
    fps = dataset.info.fps
    for key in dataset.info.videos:
        path = target / f"videos/{key}/chunk-000/file-000.mp4"
        path.parent.mkdir(parents=True)
        height, width, _ = dataset.info.features[key].shape
        video, start = VideoWriter(path, fps, width, height, VideoQuality(crf=4)), 0
        for row, episode in zip(rows, dataset, strict=True):
            for image in episode.images(key):
                video.add(image)
            row[f"videos/{key}/from_timestamp"] = float(start / fps)
            start += len(episode)
            row[f"videos/{key}/to_timestamp"] = float(start / fps)
            row[f"videos/{key}/file_index"] = row["data/file_index"] = 0
        video.close()
    pq.write_table(pa.Table.from_pylist(rows), target / "meta/episodes/chunk-000/file-000.parquet")


def test_many_episodes_in_one_file_are_read_alike(recorded: Path, tmp_path: Path) -> None:
    one_file_for_all(recorded, tmp_path)
    theirs = RecordedDataset(tmp_path, strict=True)
    assert theirs.check() == []
    for mine, other in zip(RecordedDataset(recorded), theirs, strict=True):
        assert mine.columns.keys() == other.columns.keys()
        for key in mine.columns:
            assert mine.columns[key].tolist() == other.columns[key].tolist() or key == "privileged.values"
        for a, b in zip(mine, other, strict=True):
            apart = np.abs(a.observation.images["front"].astype(int) - b.observation.images["front"])
            assert apart.mean() < 2


def test_info_reads_what_it_writes() -> None:
    features = {**layout.DEFAULT_FEATURES, "action": layout.Feature("float32", (2,), ["a", "b"], {"units": ["m", "m"]})}
    info = Info(Fraction(25, 2), features, "line", 3, 30, 2)
    assert Info.read(json.loads(json.dumps(info.to_dict())), "test") == info
    assert SPEC.control_hz == float(info.fps)
