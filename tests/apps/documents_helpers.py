"""A reader at a known pace, and small documents, for the tests of the Documents tab."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from docparse.config import DocparseConfig
from docparse.documents import Document
from docparse.pipeline import DocumentReader, DocumentSession
from tests.docparse.making_documents import pdf, write
from tests.docparse.untrained import EMBEDDER, untrained_network


class PacedReader(DocumentReader):
    """Untrained; takes ``page_s`` more for every page, and knows what it reads."""

    def __init__(self, found: bool = True, page_s: float = 0.0) -> None:
        config = DocparseConfig()
        super().__init__(untrained_network(found, config), config, EMBEDDER)
        self.page_s = page_s
        self.documents: list[Document] = []
        self.active = 0

    def session(
        self, document: Document, *, on_page: Any = None, cancel: threading.Event | None = None
    ) -> DocumentSession:
        def paced(done: int, total: int) -> None:
            time.sleep(self.page_s)
            if on_page is not None:
                on_page(done, total)

        self.documents.append(document)
        self.active += 1
        try:
            return super().session(document, on_page=paced, cancel=cancel)
        finally:
            self.active -= 1


def closed(document: Document) -> bool:
    return document._closed


def document_file(folder: Path, lines: list[str], pages: int = 1, name: str = "invoice.pdf") -> Path:
    """Each page has the lines and its number."""
    count = iter(range(1, pages + 1))

    def draw(canvas: Any) -> None:
        for row, line in enumerate([*lines, f"Sheet {next(count)}"]):
            write(canvas, line, 40, 250 - 40 * row)

    path = folder / name
    path.write_bytes(pdf(draw, pages))
    return path
