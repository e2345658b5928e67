"""From the rollout loop to a data set: a watcher that writes what an episode shows it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Mapping
from typing import Any

from backbone.contracts import Agent, Observation
from backbone.errors import CancelledError, DataError
from backbone.records.episode import EpisodeWriter
from backbone.records.rows import EpisodeRow
from backbone.records.writer import DatasetWriter
from backbone.rollout.config import Episode
from backbone.rollout.episode import EpisodeRun, EpisodeSettings, Moment
from backbone.rollout.limits import Overtime
from backbone.rollout.results import EpisodeResult
from backbone.worlds.world import World

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class Recorder:
    """Watches one episode and writes its frames: each observation with the action it led to and what came of that.

    The last observation leads to no action and is not written, as in all LeRobot data sets.
    """

    def __init__(self, writer: DatasetWriter, *, labels: bool) -> None:
        """``labels`` asks the world to describe itself before each step."""
        self._writer, self._labels = writer, labels
        self._seen: tuple[Observation, Mapping[str, Any]] | None = None
        self.episode: EpisodeWriter | None = None

    def __call__(self, moment: Moment) -> None:
        """Write the step that ``moment`` shows."""
        if moment.step:
            self._write(moment)
        description = moment.world.describe() if self._labels else {}
        if not moment.step:
            self.episode = self._writer.episode(moment.observation, description)
        self._seen = moment.observation, description

    def _write(self, moment: Moment) -> None:
        if self.episode is None or self._seen is None or moment.action is None:
            raise DataError("a recorder must watch an episode from its start")
        observation, description = self._seen
        self.episode.add(
            observation,
            moment.action,
            reward=moment.reward,
            done=moment.terminated or moment.truncated,
            success=bool(moment.info.get("success", False)),
            description=description,
        )


def record_episode(
    writer: DatasetWriter,
    world: World,
    agent: Agent,
    episode: Episode,
    settings: EpisodeSettings,
    *,
    labels: bool = True,
    only_successes: bool = False,
    stop: threading.Event | None = None,
) -> tuple[EpisodeResult, EpisodeRow | None]:
    """Run an episode and add it to the data set.

    An episode that fails is left out and noted in the data set with its reason, and so is, with ``only_successes``, one
    that does not succeed. Returns its result, and its row or None. Raises `CancelledError` once ``stop`` is set.
    """
    recorder = Recorder(writer, labels=labels)

    def stopping(_: Moment) -> None:
        if stop is not None and stop.is_set():
            raise CancelledError("the recording was stopped; its finished episodes are kept")

    run = EpisodeRun(world, agent, episode, settings, (stopping, recorder))
    kept = False
    try:
        result = _run(run)
        if result.error is not None:
            writer.skip(episode.index, episode.seed, result.error.type, result.error.message)
        elif only_successes and not result.success:
            writer.skip(
                episode.index, episode.seed, "unsuccessful", f"it ended {result.end} after {result.steps} steps"
            )
        elif recorder.episode is not None:
            about = {"index": episode.index, "seed": episode.seed, "success": result.success, "metrics": result.metrics}
            row = writer.commit(recorder.episode, about)
            kept = True
            return result, row
        return result, None
    finally:
        if recorder.episode is not None and not kept:
            recorder.episode.abandon()


def _run(run: EpisodeRun) -> EpisodeResult:
    """The episode's row; whatever the world, the agent or the writer raises makes it a failed one."""
    try:
        return run.play()
    except CancelledError:
        run.close()
        raise
    except (Exception, Overtime) as error:
        failed = run.fail(error)
        if isinstance(error, OSError) and error.errno in NO_ROOM:  # every further episode would fail as well
            raise
        return failed
