"""An episode's film as mp4: every frame goes to the encoder at once, so that memory does not grow with its length."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from backbone.contracts import Image
from backbone.errors import CancelledError
from backbone.rollout.episode import Moment
from backbone.rollout.frame import Caption, Layout
from backbone.rollout.results import EpisodeResult

MIN_FPS, MAX_FPS = 2.0, 60.0
LAST_FRAME_S = 1.0  # how long the end is shown
MAP = "map"


class Film:
    """A watcher that writes ``path``; the file appears under its name when the episode has ended.

    A film that cannot be written never costs the episode: the row says so in its notes.
    """

    def __init__(self, path: Path, agent: str) -> None:
        """Nothing is written before the first moment."""
        self._path = path
        self._part = path.with_name(f".{path.stem}.part.mp4")
        self._agent = agent
        self._layout: Layout | None = None
        self._writer: Any = None
        self._last: tuple[dict[str, Image], Caption] | None = None
        self._fps = MIN_FPS
        self._trouble = ""

    def __call__(self, moment: Moment) -> None:
        """Add the frame of this moment."""
        if self._trouble:
            return
        try:
            pictures = {**moment.observation.images, MAP: moment.world.draw()}
            caption = _caption(moment, self._agent)
            self._last = pictures, caption
            if self._writer is None:
                self._open(moment, pictures)
            assert self._layout is not None  # noqa: S101 - for the type checker: `_open` made it
            self._writer.append_data(self._layout.compose(pictures, caption))
        except CancelledError:
            raise
        except Exception as error:  # no encoder, a full disk, a map that cannot be drawn
            self._trouble = (
                f"no video: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            )

    def finish(self, row: EpisodeResult) -> EpisodeResult:
        """Show how it ended, close the file, and return the row with a note if there is no film."""
        try:
            if self._writer is not None and not self._trouble and self._layout and self._last:
                pictures, caption = self._last
                frame = self._layout.compose(pictures, _ended(caption, row))
                for _ in range(max(1, round(self._fps * LAST_FRAME_S))):
                    self._writer.append_data(frame)
            self._close()
            if not self._trouble and self._part.exists():
                self._part.replace(self._path)
        except (OSError, RuntimeError) as error:
            self._trouble = self._trouble or f"no video: {type(error).__name__}: {error}"
        self.discard()
        return replace(row, notes=(*row.notes, self._trouble)) if self._trouble else row

    def discard(self) -> None:
        """Drop what was not finished; a second call does nothing."""
        with contextlib.suppress(OSError, RuntimeError):
            self._close()
        self._part.unlink(missing_ok=True)

    def _open(self, moment: Moment, pictures: dict[str, Image]) -> None:
        import imageio.v2 as imageio

        self._layout = Layout(pictures)
        self._fps = min(MAX_FPS, max(MIN_FPS, moment.world.action_spec.control_hz))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = imageio.get_writer(
            self._part,
            format="FFMPEG",
            fps=self._fps,
            codec="libx264",
            pixelformat="yuv420p",  # what browsers play
            macro_block_size=2,
            quality=7,
            ffmpeg_log_level="error",
            output_params=["-movflags", "+faststart"],
        )

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _caption(moment: Moment, agent: str) -> Caption:
    decision = moment.latest
    metrics = moment.world.metrics()
    distances = {name: value for name, value in metrics.items() if "distance" in name}
    numbers = dict(list(distances.items())[:1]) | {"path": metrics.get("path_length", 0.0)}
    return Caption(
        title=f"{moment.world.name}, episode {moment.episode.index}, seed {moment.episode.seed}, {agent}",
        instruction=moment.observation.instruction,
        step=moment.step,
        max_steps=moment.world.max_steps,
        spec=moment.world.action_spec,
        action=None if moment.action is None else [float(v) for v in moment.action],
        status=decision.status if decision else "",
        reasoned=moment.decision is not None and moment.decision.ledger.total().reasoned,
        thought=decision.thought if decision else "",
        numbers=numbers,
        success=bool(moment.info.get("success", False)),
    )


def _ended(caption: Caption, row: EpisodeResult) -> Caption:
    if row.error is not None:
        thought = f"{row.error.type}: {row.error.message}"
        return replace(caption, outcome="failed", success=False, thought=thought)
    return replace(caption, outcome="success" if row.success else "no success", success=row.success)
