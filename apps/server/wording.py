"""Errors as they are logged and sent: whatever a client or a policy put into them, they stay short, on one line."""

from __future__ import annotations

import re
import traceback

VALUE = 200  # characters of one quoted value
MESSAGE = 900  # of a whole message
LINES = 40  # of a traceback's end
_LONG_VALUE = re.compile(rf"(?<!\w)(?:'[^']{{{VALUE}}}[^']+'?|\"[^\"]{{{VALUE}}}[^\"]+\"?)")


def one_line(text: str, limit: int = MESSAGE) -> str:
    """``text`` on one line of at most ``limit`` characters, each quoted value in it cut to 200."""
    short = _LONG_VALUE.sub(lambda found: f"{found[0][: VALUE + 1]}...{found[0][0]}", text)
    line = " ".join(short[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def short_trace(error: BaseException) -> str:
    """The end of an error's traceback for the log; an error's message may quote a megabyte of a client's prompt."""
    lines = "".join(traceback.format_exception(error)).splitlines()[-LINES:]
    return "\n".join(one_line(line, VALUE) if len(line) > VALUE else line for line in lines)
