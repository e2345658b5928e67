"""Trajectories on disk: one file an episode, with its pictures as JPEG and everything else as JSON; nothing pickled.

A trajectory is a list of cycles. In stage 1 there is one, without a look around; from stage 2 on each begins with a
look around and a thought, and all but the last end in ``obs``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Image, check_image
from backbone.errors import DataError
from navigation.actions import ALL, END, MOTOR, OBS
from navigation.memory import VIEWS, Landmark, Memory

FORMAT = 1
QUALITY = 95  # of the pictures
SHARD = 1000  # episodes a folder

Pose = tuple[float, float, float]  # x, z, heading: metres and radians, in the world's frame


@dataclass(frozen=True)
class Cycle:
    """What happened between two looks around.

    ``frames[i]`` is the number of the picture that was seen when ``actions[i]`` was chosen, ``poses[i]`` where. In a
    cycle with ``views`` (ahead, left, behind, right) the first picture is the view ahead. ``learn[i]`` says whether the
    action is one to be learned, or only happened.
    """

    frames: tuple[int, ...]
    actions: tuple[str, ...]
    learn: tuple[bool, ...]
    poses: tuple[Pose, ...]
    views: tuple[int, ...] = ()
    thought: str = ""

    def __post_init__(self) -> None:
        lengths = {len(self.frames), len(self.actions), len(self.learn), len(self.poses)}
        if len(lengths) != 1 or not self.actions:
            raise DataError(f"a cycle needs as many frames, actions, marks and poses, at least one: {lengths}")
        if self.actions[-1] not in ALL or any(a not in MOTOR for a in self.actions[:-1]):
            raise DataError(f"a cycle is motor actions, and at most one {OBS} or {END} at its end: {self.actions}")
        if len(self.views) not in (0, VIEWS) or (self.views and self.views[0] != self.frames[0]):
            raise DataError(f"a look around has {VIEWS} pictures, the first of them the first frame: {self.views}")
        if self.views and self.actions[0] == OBS:
            raise DataError(f"a cycle that begins with a look around must not begin with {OBS} again")


@dataclass(frozen=True)
class Trajectory:
    """One episode. ``source`` names what made it (``shortest``, ``exploratory``, ``rollout``), ``facts`` is JSON."""

    id: str
    world: str
    task: str
    category: str
    seed: int
    source: str
    success: bool
    cycles: tuple[Cycle, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i, cycle in enumerate(self.cycles):
            last = i == len(self.cycles) - 1
            if not last and (cycle.actions[-1] != OBS or not self.cycles[i + 1].views):
                raise DataError(f"{self.id}: cycle {i} must end in {OBS}, and a look around begin the next one")
        if not self.cycles:
            raise DataError(f"{self.id}: a trajectory needs a cycle")

    @property
    def steps(self) -> int:
        """Actions of the body, ``end`` included."""
        return sum(a != OBS for c in self.cycles for a in c.actions)

    @property
    def actions(self) -> tuple[str, ...]:
        """All actions in order, ``obs`` included."""
        return tuple(a for c in self.cycles for a in c.actions)

    @property
    def poses(self) -> tuple[Pose, ...]:
        """Where each action of `actions` was chosen."""
        return tuple(p for c in self.cycles for p in c.poses)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A trajectory with its pictures, still packed."""

    trajectory: Trajectory
    packed: tuple[bytes, ...]

    def __post_init__(self) -> None:
        most = max(n for c in self.trajectory.cycles for n in (*c.frames, *c.views))
        if most >= len(self.packed):
            raise DataError(f"{self.trajectory.id}: picture {most} is asked for, there are {len(self.packed)}")

    def picture(self, number: int) -> Image:
        """One picture, uint8 (H, W, 3) RGB."""
        return unpack(self.packed[number])

    def memory(self, cycle: int, limit: int) -> Memory:
        """The memory at the start of a cycle, its own look around included."""
        memory = Memory(limit)
        edge: tuple[str, ...] = ()
        step = 0
        for number, past in enumerate(self.trajectory.cycles[: cycle + 1]):
            if not past.views:
                raise DataError(f"{self.trajectory.id}: cycle {number} has no look around, so there is no memory")
            ahead, left, behind, right = (self.picture(v) for v in past.views)
            memory = memory.add(Landmark((ahead, left, behind, right), step), edge)
            edge = tuple(a for a in past.actions if a in MOTOR)
            step += len(edge)
        return memory


class Camera:
    """Collects the pictures of a trajectory while it is made; each is packed once."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.packed: list[bytes] = []

    def add(self, image: Image) -> int:
        """Keep a picture; its number."""
        self.packed.append(pack(image))
        return len(self.packed) - 1


def pack(image: Image) -> bytes:
    """A picture as JPEG, colours at full resolution."""
    check_image(image, "trajectory picture")
    whole = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
    _, data = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY, *whole])
    return data.tobytes()


def unpack(data: bytes) -> Image:
    """The picture of a JPEG; `DataError` for bytes that are none."""
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if bgr is None:
        raise DataError(f"a picture of {len(data)} bytes cannot be decoded; make its trajectory again")
    return np.ascontiguousarray(bgr[..., ::-1])


def episode_path(folder: Path, number: int) -> Path:
    """Where an episode is kept."""
    return folder / f"{number // SHARD:05d}" / f"{number:08d}.npz"


def write_episode(recorded: Recorded, folder: Path, number: int) -> Path:
    """Write one episode; the file appears whole or not at all."""
    path = episode_path(folder, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **asdict(recorded.trajectory)}, allow_nan=False).encode()
    ends = np.cumsum([len(p) for p in recorded.packed], dtype=np.int64)
    partial = path.with_suffix(f".{os.getpid()}.part")
    with partial.open("wb") as stream:
        np.savez(
            stream,
            record=np.frombuffer(text, np.uint8),
            pictures=np.frombuffer(b"".join(recorded.packed), np.uint8),
            ends=ends,
        )
    os.replace(partial, path)
    return path


def read_episode(path: Path) -> Recorded:
    """Read one episode; `DataError` says which file is broken and how."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            record, pictures, ends = (np.asarray(stored[k]) for k in ("record", "pictures", "ends"))
        content = json.loads(record.tobytes())
        if content.pop("format") != FORMAT:
            raise DataError(f"{path}: of another format than {FORMAT}; make it again with this version")
        return Recorded(_trajectory(content), _split(pictures, ends))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such episode") from error
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise DataError(f"{path}: no trajectory, or a broken one ({type(error).__name__}: {error})") from error


def read_trajectory(path: Path) -> Trajectory:
    """The trajectory of an episode without its pictures, many times faster."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            content = json.loads(np.asarray(stored["record"]).tobytes())
        content.pop("format")
        return _trajectory(content)
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise DataError(f"{path}: no trajectory, or a broken one ({type(error).__name__}: {error})") from error


def _split(pictures: NDArray[np.uint8], ends: NDArray[np.int64]) -> tuple[bytes, ...]:
    starts = [0, *ends.tolist()[:-1]]
    return tuple(pictures[a:b].tobytes() for a, b in zip(starts, ends.tolist(), strict=True))


def _trajectory(content: dict[str, Any]) -> Trajectory:
    cycles = tuple(
        Cycle(
            frames=tuple(c["frames"]),
            actions=tuple(c["actions"]),
            learn=tuple(c["learn"]),
            poses=tuple((float(x), float(z), float(h)) for x, z, h in c["poses"]),
            views=tuple(c["views"]),
            thought=c["thought"],
        )
        for c in content.pop("cycles")
    )
    return Trajectory(**content, cycles=cycles)


def list_episodes(folder: Path) -> list[Path]:
    """All episodes of a folder in order; `DataError` if there are none."""
    found = sorted(folder.glob("[0-9]*/[0-9]*.npz"))
    if not found:
        raise DataError(f"{folder} holds no episodes; make some with: fovea data navigation")
    return found


def read_episodes(paths: Sequence[Path]) -> Iterator[Recorded]:
    """Episodes one after the other."""
    return (read_episode(path) for path in paths)


def with_thoughts(recorded: Recorded, thoughts: Sequence[str]) -> Recorded:
    """The same with other thoughts, one a cycle."""
    if len(thoughts) != len(recorded.trajectory.cycles):
        raise DataError(f"{len(recorded.trajectory.cycles)} cycles need as many thoughts, got {len(thoughts)}")
    cycles = tuple(replace(c, thought=t) for c, t in zip(recorded.trajectory.cycles, thoughts, strict=True))
    return Recorded(replace(recorded.trajectory, cycles=cycles), recorded.packed)
