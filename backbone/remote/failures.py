"""What went wrong with a server, in words: its address, what answered, what to try."""

from __future__ import annotations

import json

import httpx

from backbone.errors import RemoteError

KEY_ADVICE = "set the environment variable FOVEA_API_KEY"
ADVICE = {
    401: KEY_ADVICE,
    403: KEY_ADVICE,
    429: "the server is busy: try later or lower the concurrency",
    503: "the server is still loading or overloaded: try later",
}


class Failures:
    """Makes the errors of one server."""

    def __init__(self, url: str) -> None:
        """``url`` is the API's root."""
        self._url = url

    def error(self, message: str) -> RemoteError:
        """A RemoteError that begins with the server's address."""
        return RemoteError(f"model server {self._url}: {message}")

    def unreachable(self, error: Exception, tries: int) -> RemoteError:
        """No connection, or one that ended without an HTTP answer."""
        if isinstance(error, httpx.ConnectError):
            return self.error(f"cannot connect ({kind(error)}; tried {tries} times); is a server running on this port?")
        return self.error(
            f"the connection was closed without an HTTP answer ({kind(error)}; tried {tries} times); is it an HTTP "
            "server, and is http:// or https:// right?"
        )

    def refused(self, path: str, status: int, reason: str, text: str) -> RemoteError:
        """An answer with a status other than 200, whose body begins with ``text``."""
        words, answered = said(text), f"{path} answered {status} {reason}".rstrip()
        if words is None:
            return self.error(f"{answered} with {_looks(text)}: no OpenAI-compatible API; does the address end in /v1?")
        advice = ADVICE.get(status)
        return self.error(f"{answered}: {words}" + (f"; {advice}" if advice else ""))

    def not_json(self, path: str, data: bytes, content_type: str | None) -> RemoteError:
        """An answer with status 200 that is not JSON."""
        return self.error(
            f"{path} answered {_looks(data.decode('utf-8', 'replace'))} ({content_type or 'no content type'}) where "
            "JSON was expected; is this an OpenAI-compatible API, and does the address end in /v1?"
        )


def said(text: str) -> str | None:
    """The words of a JSON error body in the forms servers use, or ``None`` if it is no JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    error = value.get("error", value.get("detail", value.get("message", value)))
    words = error.get("message", error) if isinstance(error, dict) else error
    return (words if isinstance(words, str) else json.dumps(words))[:600]


def kind(error: Exception) -> str:
    """An exception as its type and, where it has one, its message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _looks(text: str) -> str:
    return "an HTML page" if "<html" in text.lower() or "<!doctype" in text.lower() else repr(text[:120])
