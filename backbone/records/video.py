"""Writing a camera's pictures as a video whose frame ``i`` stands exactly at ``i / fps``, and reading them again.

H.264 in 4:2:0 (4:4:4 for odd sizes), no B-frames, a key frame every second frame: a frame is found by decoding two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import av.error
import numpy as np
from av.container import InputContainer, OutputContainer
from av.video.stream import VideoStream

from backbone.contracts import Image
from backbone.errors import ConfigError, DataError

KEY_FRAME_EVERY = 2
TOLERANCE_S = 1e-4  # LeRobot's own


@dataclass(frozen=True)
class VideoQuality:
    """How pictures are compressed: ``crf`` 0 (all but lossless) to 51 (smallest), as x264 counts."""

    crf: int = 18
    preset: str = "veryfast"

    def __post_init__(self) -> None:
        if not 0 <= self.crf <= 51:
            raise ConfigError(f"crf must be 0 to 51, got {self.crf}")
        if self.preset not in ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow"):
            raise ConfigError(f"preset must be one of x264's from ultrafast to slow, got {self.preset!r}")

    def about(self, fps: Fraction) -> dict[str, Any]:
        """What the info file says of the coding, in LeRobot's words."""
        whole = int(fps) if fps.denominator == 1 else float(fps)
        coding = {"video.codec": "h264", "video.fps": whole, "video.channels": 3}
        chosen = {"video.g": KEY_FRAME_EVERY, "video.crf": self.crf, "video.preset": self.preset}
        return {**coding, **chosen, "has_audio": False, "is_depth_map": False}


def pixel_format(width: int, height: int) -> str:
    """How colours are stored: one for four pixels, or one for each where a side is odd and has no pairs of pixels."""
    return "yuv444p" if width % 2 or height % 2 else "yuv420p"


class VideoWriter:
    """One video file, picture by picture."""

    def __init__(self, path: Path, fps: Fraction, width: int, height: int, quality: VideoQuality) -> None:
        """Create the file; pictures are (height, width, 3)."""
        self._file: OutputContainer | None = av.open(str(path), "w", options={"movflags": "faststart"})
        options = {"crf": str(quality.crf), "preset": quality.preset, "g": str(KEY_FRAME_EVERY), "bf": "0"}
        self._stream: VideoStream = self._file.add_stream("libx264", rate=fps, options=options)
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = pixel_format(width, height)
        self._stream.codec_context.thread_count = 1
        self._stream.codec_context.time_base = self._tick = 1 / fps
        self._count = 0

    def add(self, image: Image) -> None:
        """Append a picture."""
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        if self._file is None:
            raise DataError("the video is closed; no picture can be added")
        frame.pts, frame.time_base = self._count, self._tick
        self._file.mux(self._stream.encode(frame))
        self._count += 1

    def close(self) -> None:
        """Finish the file; closing twice does nothing."""
        if self._file is not None:
            self._file.mux(self._stream.encode(None))
            self.abandon()

    def abandon(self) -> None:
        """Let the file go as it is."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def frame_times(path: Path) -> list[Fraction]:
    """When each frame of a video is shown, in seconds and in order, from its index, without decoding.

    Raises:
        DataError: the file is missing or no video.
    """
    with _opened(path) as (file, stream):
        base = stream.time_base or Fraction(1)
        return sorted(packet.pts * base for packet in file.demux(stream) if packet.pts is not None)


def read_frames(path: Path, start_s: float, count: int, fps: Fraction) -> Iterator[Image]:
    """The ``count`` pictures from ``start_s`` on, each (H, W, 3), each at its time to `TOLERANCE_S`.

    Raises:
        DataError: the file is missing, no video, damaged, too short, or its frames stand at other times.
    """
    with _opened(path) as (file, stream):
        base = stream.time_base or Fraction(1)
        file.seek(max(0, round(Fraction(start_s) / base) - 1), stream=stream, backward=True)
        found = 0
        for frame in file.decode(stream):
            at = float((frame.pts or 0) * base)
            wanted = start_s + float(found / fps)
            if at < wanted - TOLERANCE_S:
                if found:
                    raise DataError(f"{path}: frame {found} stands at {at:.4f} s, expected {wanted:.4f} s")
                continue  # between the key frame and the first one wanted
            if at > wanted + TOLERANCE_S:
                raise DataError(f"{path}: no frame at {wanted:.4f} s, the next one stands at {at:.4f} s")
            yield cast(Image, frame.to_ndarray(format="rgb24"))
            found += 1
            if found == count:
                return
        raise DataError(f"{path}: it ends after {found} of {count} frames from {start_s:.4f} s")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The container and its video stream; damage raises instead of being painted over."""
    if not path.is_file():
        raise DataError(f"{path} is missing")
    try:
        with av.open(str(path), "r") as file:
            if not file.streams.video or file.streams.video[0].codec_context is None:
                raise DataError(f"{path} has no pictures in it that anything here can decode")
            stream = file.streams.video[0]
            stream.codec_context.options = {"err_detect": "explode"}
            stream.codec_context.thread_count = 1
            yield file, stream
    except DataError:
        raise
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise DataError(f"{path} is damaged or no video: {error}") from error
