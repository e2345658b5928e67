"""Making many episodes: in several processes, sharded by episode, resumable, with every failure counted and kept.

Episode ``n`` is the same whatever the number of workers. An episode that fails or is dropped leaves a small JSON file
with the reason, so that a resumed run does not try it again.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from backbone.errors import ConfigError, DataError, FoveaError
from navigation.data import Dropped
from navigation.records import Recorded, episode_path, read_trajectory, write_episode

BLOCK = 8  # episodes a worker is given at a time; a multiple keeps the episodes of a home together


class Studio(Protocol):
    """What makes episodes, with the world and the model it needs open."""

    def make(self, number: int) -> Recorded:
        """Episode ``number``; raises `Dropped` where the rules leave it out, a `FoveaError` where it failed."""
        ...

    def close(self) -> None:
        """Release what is open."""
        ...


@runtime_checkable
class JointStudio(Protocol):
    """A studio that makes the episodes of a block side by side, each as it would be alone."""

    def make_many(self, numbers: Sequence[int]) -> list[Recorded | Dropped | FoveaError]:
        """The episodes in order; in place of one that the rules leave out, or that failed, the reason."""
        ...


class Job(Protocol):
    """Settings of episodes, a frozen dataclass of plain values; a worker process opens its studio from it."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def open(self) -> Studio:
        """Open the world, and whatever else it takes."""
        ...


@dataclass(frozen=True)
class Report:
    """What came of a run: episodes expected, made, dropped by the rules, failed; why; and seconds of this run."""

    expected: int
    made: int
    dropped: int
    failed: int
    steps: int
    reasons: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    new: int = 0  # made in this run

    @property
    def complete(self) -> bool:
        """Whether no episode failed or is missing."""
        return self.failed == 0 and self.made + self.dropped == self.expected


def produce(
    job: Job,
    episodes: int,
    output: Path,
    *,
    workers: int = 1,
    first: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Make episodes ``first`` to ``first + episodes - 1`` into ``output``, those that are there already excepted.

    Raises:
        ConfigError: ``output`` holds episodes of other settings.
        DataError: a worker died; what was made is kept, and the same call goes on.
    """
    if episodes < 1 or workers < 1 or first < 0:
        raise ConfigError(
            f"episodes and workers must be at least 1 and first 0 or more: {episodes}, {workers}, {first}"
        )
    _same_settings(job, output)
    numbers = [n for n in range(first, first + episodes) if not _settled(output, n)]
    started, new = time.monotonic(), 0
    for done in _run(job, output, numbers, workers):
        new += done
        if progress is not None:
            progress(done)
    report = count(output, range(first, first + episodes), time.monotonic() - started, new)
    text = json.dumps({**asdict(report), "config": _plain(job)}, indent=1, default=str)
    _write(output / "summary.json", text)
    return report


def _run(job: Job, output: Path, numbers: Sequence[int], workers: int) -> Iterator[int]:
    """Numbers of episodes settled, as they are."""
    blocks: dict[int, list[int]] = {}
    for n in numbers:
        blocks.setdefault(n // BLOCK, []).append(n)
    if workers == 1 or len(blocks) <= 1:
        maker = Maker(job, output)
        try:
            for block in blocks.values():
                yield maker.make(block)
        finally:
            maker.close()
        return
    with ProcessPoolExecutor(min(workers, len(blocks)), get_context("spawn")) as pool:
        waiting: set[Future[int]] = {pool.submit(_in_worker, job, output, block) for block in blocks.values()}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool as error:
            raise DataError(
                f"a worker died (killed, or out of memory); {output} keeps what was made: run the same again, "
                "perhaps with fewer workers"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


class Maker:
    """Makes episodes one after the other in one studio, which is opened when it is first needed."""

    def __init__(self, job: Job, output: Path) -> None:
        """Nothing is opened yet."""
        self._job, self._output = job, output
        self._studio: Studio | None = None

    def make(self, numbers: Sequence[int]) -> int:
        """Settle some episodes: each is written, or the reason why not is; how many."""
        self._studio = self._studio or self._job.open()
        if isinstance(self._studio, JointStudio):
            for number, made in zip(numbers, self._studio.make_many(numbers), strict=True):
                self._settle(number, made)
            return len(numbers)
        for number in numbers:
            try:
                self._studio = self._studio or self._job.open()
                self._settle(number, self._studio.make(number))
            except (Dropped, FoveaError) as reason:
                self._settle(number, reason)
        return len(numbers)

    def _settle(self, number: int, made: Recorded | Dropped | FoveaError) -> None:
        """Write the episode, or why there is none."""
        if isinstance(made, Recorded):
            write_episode(made, self._output, number)
        elif isinstance(made, Dropped):
            _write_reason(self._output, number, "dropped", str(made))
        else:
            self.close()  # a world that failed may be in no state to go on
            trace = "".join(traceback.format_exception(made))
            _write_reason(self._output, number, "failed", str(made), trace)

    def close(self) -> None:
        """Close the studio."""
        if self._studio is not None:
            self._studio.close()
            self._studio = None


_maker: Maker | None = None


def _in_worker(job: Job, output: Path, numbers: Sequence[int]) -> int:
    global _maker  # one studio for each worker process, whatever blocks it is given
    _maker = _maker or Maker(job, output)
    return _maker.make(numbers)


def reason_path(folder: Path, number: int) -> Path:
    """Where it is kept why an episode was not made."""
    return episode_path(folder, number).with_suffix(".json")


def _settled(folder: Path, number: int) -> bool:
    return episode_path(folder, number).exists() or reason_path(folder, number).exists()


def _write_reason(folder: Path, number: int, kind: str, reason: str, trace: str = "") -> None:
    path = reason_path(folder, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, json.dumps({"kind": kind, "reason": reason, "traceback": trace}))


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text(text + "\n", encoding="utf-8")
    os.replace(partial, path)


def count(folder: Path, numbers: Sequence[int], seconds: float = 0.0, new: int = 0) -> Report:
    """What a folder holds of some episodes."""
    made = steps = 0
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for number in numbers:
        if episode_path(folder, number).exists():
            made += 1
            steps += read_trajectory(episode_path(folder, number)).steps
        elif reason_path(folder, number).exists():
            told = json.loads(reason_path(folder, number).read_text(encoding="utf-8"))
            kinds[told["kind"]] += 1
            reasons[f"{told['kind']}: {told['reason']}"[:120]] += 1
    return Report(
        len(numbers), made, kinds["dropped"], kinds["failed"], steps, dict(reasons.most_common(20)), seconds, new
    )


def _same_settings(job: Job, output: Path) -> None:
    """Settings are written on the first run and compared on later ones."""
    path, now = output / "config.json", _plain(job)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        wrong = sorted(k for k in now.keys() | before.keys() if now.get(k) != before.get(k))
        if wrong:
            shown = ", ".join(f"{k}: {before.get(k)!r} there, {now.get(k)!r} now" for k in wrong[:4])
            raise ConfigError(f"{output} holds episodes of other settings ({shown}); choose another folder")
        return
    output.mkdir(parents=True, exist_ok=True)
    _write(path, json.dumps(now, indent=1))


def _plain(job: Job) -> dict[str, Any]:
    """The settings as flat JSON values."""
    flat: dict[str, Any] = {}

    def add(prefix: str, values: dict[str, Any]) -> None:
        for key, value in values.items():
            if isinstance(value, dict):
                add(f"{prefix}{key}.", value)
            else:
                flat[prefix + key] = value

    add("", asdict(cast(Any, job)))
    return dict(json.loads(json.dumps(flat, default=str)))
