"""An exception as a row's error: the same text whichever way the episode was run."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from backbone.errors import CancelledError, WorldError
from backbone.rollout.limits import Stopped
from backbone.rollout.results import EpisodeError

LINES = 24  # of a traceback's end
CHARACTERS = 2_000  # of a message: some carry a whole worker's log
OWN_FOLDER = Path(__file__).parent
ASKED = (CancelledError, KeyboardInterrupt, Stopped)  # somebody wants the run to end; all else is a failure


@contextlib.contextmanager
def contained(what: str) -> Iterator[None]:
    """Turn what is no `Exception`, such as a `SystemExit` of a user's class, into a `WorldError` that names it.

    It would end this program in silence, with an exit code of its choice.
    """
    try:
        yield
    except (Exception, *ASKED):
        raise
    except BaseException as error:
        raise WorldError(f"{what}: it raised {type(error).__name__}({error}), which would end the program") from error


@contextlib.contextmanager
def suppressed() -> Iterator[None]:
    """Go on after whatever is raised within, unless it asks for the run to end."""
    try:
        yield
    except ASKED:
        raise
    except BaseException:  # noqa: S110 - the caller has the error that matters, or needs none
        pass


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
