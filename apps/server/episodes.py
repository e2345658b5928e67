"""One episode of the served agent: opened, asked and closed by the threads of inference, never by the event loop."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from apps.server.wording import short_trace
from backbone.contracts import Agent, Decision, Observation, Session
from backbone.errors import ServerError

logger = logging.getLogger("fovea.server")


class Episode:
    """A session of ``agent`` that is opened by its first observation and closed exactly once.

    Whoever is not answering any more (a client that vanished, a call that hangs) may still be inside the session, so
    the thread that leaves it last closes it.
    """

    def __init__(self, agent: Agent, instruction: str, seed: int) -> None:
        """Nothing is opened yet."""
        self.instruction, self.seed = instruction, seed
        self._agent = agent
        self._session: Session | None = None
        self._state = threading.Lock()
        self._busy = self._ended = False

    @property
    def opened(self) -> bool:
        """Whether the session exists; until then the instruction may still be set."""
        return self._session is not None

    def act(self, observation: Observation) -> Decision:
        """On a thread of inference: the session's decision."""
        with self.entered() as session:
            return session.act(observation)

    @contextlib.contextmanager
    def entered(self) -> Iterator[Session]:
        """On a thread of inference: the session, opened if need be, and closed on leaving if the episode has ended."""
        with self._state:
            if self._ended or self._busy:
                raise ServerError("this episode has ended, or is being asked already")
            self._busy = True
        try:
            if self._session is None:
                self._session = self._agent.session(self.instruction, self.seed)
            yield self._session
        finally:
            with self._state:
                self._busy, ended = False, self._ended
            if ended:
                self.close()

    def end(self) -> bool:
        """Nothing more will be asked; True if the caller must have `close` run, False if there is nothing to close."""
        with self._state:
            first, self._ended = not self._ended, True
            return first and not self._busy and self._session is not None

    def close(self) -> None:
        """On a thread of inference: close the session; what it raises is logged, for nobody waits for it."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except BaseException as error:  # SystemExit would end the thread
                logger.error("closing a session failed\n%s", short_trace(error))
