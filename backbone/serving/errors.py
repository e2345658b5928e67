"""What can go wrong between a policy's client and its server, as types a caller can tell apart."""

from __future__ import annotations

from backbone.errors import ServerError


class RequestError(ServerError):
    """A server's reason for not answering one request: a ``code`` for programs and a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        """``code`` is one word with underscores; a server counts its errors by it."""
        super().__init__(message)
        self.code = code


class WireError(RequestError):
    """A frame that is not what the protocol allows: broken, hostile, or in another protocol's form."""

    def __init__(self, message: str) -> None:
        """A ``bad_frame``."""
        super().__init__("bad_frame", message)


class UnreachableError(ServerError):
    """Nothing that speaks the protocol answered at this address."""


class RefusedError(ServerError):
    """The server answered and does not let this client in: wrong token, full, or shutting down."""


class NoAnswerError(ServerError):
    """No answer within the client's time; the connection was given up, so that a late answer is never read."""


class ConnectionLostError(ServerError):
    """The connection ended between request and answer; what the policy remembered of the episode is gone."""


class AnswerError(ServerError):
    """The server answered with an error, or with something that is no answer of its protocol."""
