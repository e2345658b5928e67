"""Opening a document from a path or bytes, within limits that are stated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from backbone.errors import ConfigError, DataError
from docparse.documents.document import Document

HEAD_BYTES = 1024  # a PDF's mark may stand anywhere in the first kilobyte


@dataclass(frozen=True)
class Limits:
    """What a document may cost.

    ``pages`` are read at most, the rest is left out and said. ``page_pixels``: a PDF page is shown at fewer dpi to stay
    under it, a larger picture is refused. ``page_seconds`` go to opening the file and to each page, whose error says
    so if they pass; loading the OCR engine, once a process, is not counted. Files over ``file_bytes`` are refused.
    ``page_words`` are kept at most. ``dpi`` is the resolution at which PDF pages are shown. ``ocr`` False never reads
    scans.
    """

    pages: int = 200
    page_pixels: int = 50_000_000
    page_seconds: float = 60.0
    file_bytes: int = 200_000_000
    page_words: int = 10_000
    dpi: float = 150.0
    ocr: bool = True

    def __post_init__(self) -> None:
        for name in ("pages", "page_pixels", "file_bytes", "page_words"):
            if getattr(self, name) < 1:
                raise ConfigError(f"document limits: {name} must be at least 1, got {getattr(self, name)}")
        if not (math.isfinite(self.page_seconds) and self.page_seconds > 0):
            raise ConfigError(f"document limits: page_seconds must be positive, got {self.page_seconds}")
        if not 10 <= self.dpi <= 1200:
            raise ConfigError(f"document limits: dpi must be from 10 to 1200, got {self.dpi}")
        if self.page_pixels > 150_000_000:
            raise ConfigError(f"document limits: page_pixels must be at most 150 million, got {self.page_pixels}")


def open_document(
    source: Path | str | bytes, limits: Limits | None = None, *, password: str | None = None, name: str | None = None
) -> Document:
    """Open a PDF, PNG, JPEG, WebP, GIF, BMP or (multi-page) TIFF; its pages are read when they are asked for.

    ``name`` is what messages call it, by default the file's name.

    Raises:
        PasswordError: it is encrypted and ``password`` is missing or wrong.
        DataError: missing, empty, over ``limits``, damaged beyond repair, without pages, or of another kind.
        ConfigError: the libraries of the extra ``documents`` are not installed.
    """
    limits = limits or Limits()
    if isinstance(source, bytes):
        data, title = source, name or f"document of {len(source)} bytes"
        _check_size(len(data), title, limits)
    else:
        path = Path(source)
        title = name or path.name or str(path)
        data = _read(path, title, limits)
    return Document(title, data, _kind(data, title), limits, password)


def _read(path: Path, title: str, limits: Limits) -> bytes:
    if not path.exists():
        raise DataError(f"{title}: no such file ({path}); check the path")
    if not path.is_file():
        raise DataError(f"{title}: is not a file; give the path of one PDF or picture")
    try:
        _check_size(path.stat().st_size, title, limits)
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{title}: may not be read ({error.strerror}); check its permissions") from error


def _check_size(size: int, title: str, limits: Limits) -> None:
    if size == 0:
        raise DataError(f"{title}: the file is empty (0 bytes); copy or download it again")
    if size > limits.file_bytes:
        raise DataError(f"{title}: {size} bytes exceed the limit of {limits.file_bytes}; split the file or raise it")


def _kind(data: bytes, title: str) -> str:
    """``pdf`` or ``picture``; raises `DataError` for what is surely neither."""
    head = data[:HEAD_BYTES]
    if b"%PDF-" in head:
        return "pdf"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body")):
        raise DataError(
            f"{title}: is a web page (it begins with {start[:15].decode('ascii', 'replace')!r}), not a document; often "
            "an error or login page saved under a document's name: download the document itself"
        )
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise DataError(f"{title}: is an office file or archive; export it as PDF first")
    return "picture"
