"""What makes an episode sound: its frames are in order and at their times, and its videos have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from backbone.errors import DataError
from backbone.records.layout import Info
from backbone.records.rows import EpisodeRow
from backbone.records.video import TOLERANCE_S

Columns = Mapping[str, np.ndarray[Any, Any]]


def check_columns(columns: Columns, row: EpisodeRow, info: Info) -> None:
    """`DataError` unless the frames are in order and stand at ``frame / fps``."""
    frames = np.arange(row.length)
    wrong = np.flatnonzero(columns["frame_index"] != frames)
    if len(wrong):
        at = int(wrong[0])
        raise DataError(f"its frames are out of order: frame_index of row {at} is {columns['frame_index'][at]}")
    wrong = np.flatnonzero(columns["index"] != frames + row.from_index)
    if len(wrong):
        at = int(wrong[0])
        raise DataError(f"frame {at}: index is {columns['index'][at]}, expected {row.from_index + at}")
    late = np.abs(columns["timestamp"].astype(np.float64) - frames / float(info.fps))
    wrong = np.flatnonzero(~(late <= TOLERANCE_S + 1e-6 * frames))
    if len(wrong):
        at = int(wrong[0])
        expected = f"{at / float(info.fps):.4f} s at {float(info.fps):g} frames a second"
        raise DataError(f"frame {at}: timestamp is {columns['timestamp'][at]:.4f} s, expected {expected}")


def check_video(path: Path, times: np.ndarray[Any, Any], row: EpisodeRow, key: str, info: Info) -> None:
    """`DataError` unless the video, whose frames stand at ``times`` in seconds, has one at each of the episode's."""
    wanted = row.videos[key].from_s + np.arange(row.length) / float(info.fps)
    if not len(times):
        raise DataError(f"{path} has no frames")
    nearest = np.clip(np.searchsorted(times, wanted), 1, max(1, len(times) - 1))
    apart = np.minimum(np.abs(times[nearest - 1] - wanted), np.abs(times[np.minimum(nearest, len(times) - 1)] - wanted))
    wrong = np.flatnonzero(apart > TOLERANCE_S)
    if len(wrong):
        at = int(wrong[0])
        raise DataError(f"{path}: no frame at {wanted[at]:.4f} s, where frame {at} of {row.length} should be")
