"""What the Documents tab holds between requests: the one reader, turn-taking, and what each user has open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apps.demo.jobs import Jobs

if TYPE_CHECKING:
    from docparse.documents import Document
    from docparse.pipeline import DocumentAnswer, DocumentReader, DocumentSession

KEPT = 6  # users whose document stays open; each holds its file and the words of its pages


@dataclass(frozen=True, eq=False)
class OpenDocument:
    """One user's document, read, with the last answer about it."""

    key: str  # of the file's content and password
    document: Document
    session: DocumentSession
    answer: DocumentAnswer | None = None


class Shelf:
    """One open document a user, at most ``most``; the one not used for the longest is closed for a new one."""

    def __init__(self, most: int = KEPT) -> None:
        """Empty."""
        self._most = most
        self._open: OrderedDict[str, OpenDocument] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, owner: str) -> OpenDocument | None:
        """What this user has open, and nobody else's."""
        with self._lock:
            found = self._open.get(owner)
            if found is not None:
                self._open.move_to_end(owner)
            return found

    def put(self, owner: str, opened: OpenDocument) -> None:
        """Keep it in place of what this user had open."""
        closing = []
        with self._lock:
            before = self._open.pop(owner, None)
            if before is not None and before.document is not opened.document:
                closing.append(before)
            self._open[owner] = opened
            while len(self._open) > self._most:
                closing.append(self._open.popitem(last=False)[1])
        for old in closing:
            old.document.close()

    def answered(self, owner: str, opened: OpenDocument, answer: DocumentAnswer) -> None:
        """Keep the answer beside its document, unless that was closed in the meantime."""
        with self._lock:
            now = self._open.get(owner)
            if now is not None and now.document is opened.document:
                self._open[owner] = replace(now, answer=answer)

    def drop(self, owner: str) -> None:
        """The user has left."""
        with self._lock:
            gone = self._open.pop(owner, None)
        if gone is not None:
            gone.document.close()

    def __len__(self) -> int:
        return len(self._open)


def load_shipped() -> DocumentReader:
    """The shipped reader."""
    from docparse.pipeline import DocumentReader

    return DocumentReader.load()


@dataclass(frozen=True, eq=False)
class Desk:
    """The reader, loaded when it is first needed and shared by all; one document is read or asked at a time."""

    load: Callable[[], DocumentReader] = load_shipped
    jobs: Jobs = field(default_factory=lambda: Jobs(300.0))
    shelf: Shelf = field(default_factory=Shelf)
    _loaded: list[DocumentReader] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reader(self) -> DocumentReader:
        """The reader. Raises `ModelError` if there are no weights."""
        with self._lock:
            if not self._loaded:
                self._loaded.append(self.load())
            return self._loaded[0]

    def leave(self, owner: str) -> None:
        """Stop a user's work and close what they had open."""
        self.jobs.cancel(owner)
        self.shelf.drop(owner)
