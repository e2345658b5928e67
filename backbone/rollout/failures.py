"""An exception as a row's error: the same text whichever way the episode was run."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from backbone.rollout.results import EpisodeError

LINES = 24  # of a traceback's end
CHARACTERS = 2_000  # of a message: some carry a whole worker's log
OWN_FOLDER = Path(__file__).parent


def describe_error(error: BaseException) -> EpisodeError:
    """The error's type, message and the end of its traceback, without the frames of the machinery that ran it."""
    text = "".join(traceback.format_exception(type(error), error, _first_foreign(error.__traceback__)))
    return EpisodeError(type(error).__name__, _end(str(error), CHARACTERS), "\n".join(text.splitlines()[-LINES:]))


def _first_foreign(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from its first frame outside this package, or its last frame if there is none."""
    while trace is not None and trace.tb_next is not None and _own(trace):
        trace = trace.tb_next
    return trace


def _own(trace: TracebackType) -> bool:
    file = Path(trace.tb_frame.f_code.co_filename)
    return file.parent == OWN_FOLDER or file.name == "contextlib.py"


def _end(text: str, limit: int) -> str:
    return text if len(text) <= limit else "... " + text[-limit:]
