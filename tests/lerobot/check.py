"""Checks our data sets with LeRobot itself, and LeRobot's with our reader: values bit for bit, pictures frame by frame.

Run from the project's folder (the first run installs 5 GB into the folder and takes some minutes)::

    python -m tests.lerobot.check --environment /opt/lerobot-env --output lerobot.json

LeRobot's second decoder, torchcodec, needs FFmpeg's own libraries: ``apt-get install ffmpeg``. Exit code 0 when every
check passed, else 1.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from backbone.records.reader import RecordedDataset
from tests.backbone.records_world import LineWorld, record, seed_of
from tests.lerobot.environment import LEROBOT, install

EPISODES, BROKEN = 5, 2  # episodes run, and the one in which the world breaks
PICTURE_TOLERANCE = 1.0  # mean grey levels between two decoders of one video
CODEC_TOLERANCE = 6.0  # mean grey levels that a codec may lose of a smooth picture
BACKENDS = ("pyav", "torchcodec")
logger = logging.getLogger(__name__)
Report = dict[str, Any]


class Mismatch(Exception):  # noqa: N818 - what a check found, not a fault of the check
    """Two sides that must agree do not."""


def expect(condition: object, what: str) -> None:
    """Raise `Mismatch` unless ``condition`` holds."""
    if not condition:
        raise Mismatch(what)


def main() -> int:
    """Install, check, write the JSON, and say what came out."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    python = install(options.environment)
    with tempfile.TemporaryDirectory(prefix="fovea-lerobot-", dir=options.scratch) as scratch:
        report = run_checks(python, Path(scratch), options.only)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    for name, result in report["checks"].items():
        logger.info("%-28s %s", name, result["outcome"] if result["passed"] else f"FAILED: {result['outcome']}")
    return 0 if report["passed"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--environment", type=Path, default=Path("/opt/lerobot-env"), help="where LeRobot is or will be"
    )
    parser.add_argument("--output", type=Path, default=Path("lerobot.json"))
    parser.add_argument("--scratch", type=Path, help="folder for temporary data sets")
    parser.add_argument("--only", help="run only the checks whose name has this in it")
    return parser.parse_args()


def run_checks(python: Path, scratch: Path, only: str | None = None) -> Report:
    """Every check with its outcome. Each is alone with its data sets; one that fails stops no other."""
    ours = scratch / "ours"
    record(ours, EPISODES, LineWorld({seed_of(BROKEN): 3}))
    checks: dict[str, Callable[[], str]] = {
        **{f"LeRobot reads ours ({b})": lambda b=b: they_read(python, scratch, ours, b) for b in BACKENDS},  # type: ignore[misc]
        **{f"we read LeRobot's ({c})": lambda c=c: we_read(python, scratch, c) for c in ("h264", "libsvtav1", "image")},  # type: ignore[misc]
        "LeRobot appends to ours": lambda: they_append(python, scratch),
        "LeRobot merges ours": lambda: they_merge(python, scratch, ours),
    }
    results: dict[str, Any] = {}
    for name, check in checks.items():
        if only is not None and only not in name:
            continue
        began = time.monotonic()
        try:
            passed, outcome = True, check()
        except (Mismatch, Exception) as error:
            passed, outcome = False, f"{type(error).__name__}: {error}"
        results[name] = {"passed": passed, "outcome": outcome, "seconds": round(time.monotonic() - began, 1)}
    return {
        "lerobot": LEROBOT,
        "passed": all(r["passed"] for r in results.values()) and results != {},
        "checks": results,
    }


def they_read(python: Path, scratch: Path, ours: Path, backend: str) -> str:
    """`LeRobotDataset` opens ours: lengths, every value, every frame of every camera, windows, single episodes."""
    out = scratch / f"read-{backend}.npz"
    call(python, "read", ours, out, backend)
    theirs = np.load(out)
    about = json.loads(str(theirs["about"]))
    episodes = list(RecordedDataset(ours, strict=True))
    frames = sum(len(e) for e in episodes)
    expect((about["frames"], about["episodes"], about["fps"]) == (frames, EPISODES - 1, 12.5), f"counts: {about}")
    expect(about["tasks"] == list(RecordedDataset(ours).tasks.values()), f"tasks: {about['tasks']}")
    expect(about["successes"] == list(range(EPISODES - 1)), f"successes: {about['successes']}")
    columns = {key: np.concatenate([e.columns[key] for e in episodes]) for key in episodes[0].columns}
    for key, mine in columns.items():
        exact = theirs[f"stored/{key}"] if mine.dtype == np.float64 else theirs[key]
        same = exact.tolist() == mine.tolist() if mine.dtype == object else exact.tobytes() == mine.tobytes()
        expect(same, f"{key}: {exact[:3]} is not {mine[:3]}")
    expect(theirs["task"].tolist() == [task for e in episodes for task in e.tasks], "the instructions of the frames")
    worst = 0.0
    for key in about["cameras"]:
        mine = np.stack([image for e in episodes for image in e.images(key)])
        worst = max(worst, *_apart(theirs[key].transpose(0, 2, 3, 1), mine))
    expect(worst <= PICTURE_TOLERANCE, f"a frame differs by {worst:.2f} grey levels in the mean")
    ahead = np.concatenate([np.minimum(np.arange(len(e)) + 1, len(e) - 1) + e.row.from_index for e in episodes])
    expect(theirs["ahead/action"][:, 1].tobytes() == columns["action"][ahead].tobytes(), "windows of actions")
    expect((theirs["ahead/picture"][:, 1] == theirs[about["cameras"][0]][ahead]).all(), "windows of pictures")
    expect(theirs["loader/index"].tolist() == list(range(frames)), "the order of the data loader")
    one = episodes[1].row
    expect(theirs["only/index"].tolist() == list(range(one.from_index, one.to_index)), "one episode alone")
    return f"{frames} frames of {len(columns)} columns equal, worst picture {worst:.3f} grey levels apart"


def we_read(python: Path, scratch: Path, codec: str) -> str:
    """A data set recorded by LeRobot, with many episodes in each file, is read value by value and frame by frame."""
    rng = np.random.default_rng(7)
    lengths = (7, 12, 5, 9)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    y, x = np.mgrid[:48, :64]
    picture = np.stack([np.stack([(x * 3 + 9 * i) % 200, y * 4, x + y], -1) for i in range(len(episode))]).astype(
        np.uint8
    )
    given = {
        "episode": episode,
        "picture": picture,
        "state": rng.normal(size=(len(episode), 5)).astype(np.float32),
        "action": rng.normal(size=(len(episode), 1)).astype(np.float32),
        "grip": rng.normal(size=len(episode)),
        "grid": rng.integers(-9, 9, (len(episode), 2, 3)),
    }
    source, root = scratch / f"source-{codec}.npz", scratch / f"theirs-{codec}"
    np.savez(source, **given)
    call(python, "write", source, root, codec)
    dataset, worst = RecordedDataset(root, strict=True), 0.0
    expect([len(e) for e in dataset] == list(lengths), f"lengths: {[len(e) for e in dataset]}")
    names = {"observation.state": "state", "action": "action", "grip": "grip", "grid": "grid"}
    for found in dataset:
        rows = episode == found.index
        for key, name in names.items():
            wanted = given[name][rows]
            expect(found.columns[key].tobytes() == wanted.tobytes(), f"{key} of episode {found.index}")
        expect(set(found.tasks) == {f"task {found.index % 2}"}, f"tasks of episode {found.index}: {set(found.tasks)}")
        worst = max(worst, *_apart(np.stack(list(found.images("front"))), picture[rows]))
    expect(worst <= (0.0 if codec == "image" else CODEC_TOLERANCE), f"a frame differs by {worst:.2f} grey levels")
    return f"{len(episode)} frames equal, worst picture {worst:.3f} grey levels from what was given"


def they_append(python: Path, scratch: Path) -> str:
    """LeRobot goes on with a data set of ours; what was there stays equal, and its episode is read too."""
    root = scratch / "appended"
    record(root, 2, LineWorld(hz=10.0))  # its encoder takes whole rates only
    before = [e.columns for e in RecordedDataset(root, strict=True)]
    call(python, "resume", root)
    after = list(RecordedDataset(root, strict=True))
    expect([len(e) for e in after[2:]] == [4], f"episodes: {[len(e) for e in after]}")
    expect(set(after[2].tasks) == {"appended by LeRobot"}, f"tasks: {set(after[2].tasks)}")
    for old, new in zip(before, after, strict=False):
        expect(
            all(old[key].tolist() == new.columns[key].tolist() for key in old if old[key].dtype != np.float64), "values"
        )
    expect(RecordedDataset(root).check() == [], "not every frame can be decoded")
    return "its episode is read beside ours, which are unchanged"


def they_merge(python: Path, scratch: Path, ours: Path) -> str:
    """LeRobot joins two of ours into its own large files; every value and frame is still there."""
    second, out = scratch / "second", scratch / "merged"
    record(second, 2)
    call(python, "merge", ours, second, out)
    wanted = [*RecordedDataset(ours, strict=True), *RecordedDataset(second, strict=True)]
    found = list(RecordedDataset(out, strict=True))
    expect([len(e) for e in found] == [len(e) for e in wanted], f"lengths: {[len(e) for e in found]}")
    worst = 0.0
    for mine, theirs in zip(wanted, found, strict=True):
        for key in ("action", "observation.state", "world.time_s", "privileged.values", "timestamp"):
            expect(theirs.columns[key].tobytes() == mine.columns[key].tobytes(), f"{key} of episode {mine.index}")
        expect(theirs.tasks == mine.tasks, f"tasks of episode {mine.index}: {theirs.tasks[0]}")
        for key in mine.info.cameras:
            worst = max(worst, *_apart(np.stack(list(theirs.images(key))), np.stack(list(mine.images(key)))))
    expect(worst <= PICTURE_TOLERANCE, f"a frame differs by {worst:.2f} grey levels in the mean")
    files = len(list((out / "data").rglob("*.parquet")))
    return f"{len(found)} episodes in {files} data files, worst picture {worst:.3f} grey levels apart"


def call(python: Path, *arguments: str | Path) -> None:
    """Run `inside.py` in LeRobot's interpreter; its last lines become the error."""
    script = Path(__file__).with_name("inside.py")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONPATH": ""}
    command = [str(python), str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603
    expect(done.returncode == 0, " | ".join(done.stderr.strip().splitlines()[-4:]))


def _apart(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> list[float]:
    """Mean difference of each picture in grey levels."""
    expect(a.shape == b.shape, f"pictures of shape {a.shape} and {b.shape}")
    return [float(np.abs(x.astype(np.int16) - y).mean()) for x, y in zip(a, b, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
