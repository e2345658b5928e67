"""Rows of benchmark files (TSV, JSON lines, Parquet) whose pictures are read only when asked for, one at a time."""

from __future__ import annotations

import base64
import binascii
import csv
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backbone.errors import ConfigError, DataError

MAXIMUM_CELL = 256 << 20  # bytes of one cell: an 8K picture in base64 is about 20 MB
POINTER_LENGTH = 64  # VLMEvalKit: a picture cell this short is the index of the row that holds the picture
SUFFIXES = (".tsv", ".jsonl", ".parquet")


@dataclass(frozen=True)
class Row:
    """One record without its pictures; ``picture`` reads the first of ``pictures``' bytes from the file again."""

    values: dict[str, Any]
    where: str
    pictures: int
    picture: Callable[[], bytes] = field(repr=False, compare=False)


def read_rows(path: Path, picture_key: str = "image") -> Iterator[Row]:
    """The rows of one file in order, in the memory of one row.

    Raises:
        DataError: missing file, unknown suffix, no column ``picture_key``, broken JSON or a cell over the limit.
        ConfigError: a Parquet file without pyarrow installed.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a file ending in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise DataError(f"{path} does not exist; give the file or the folder the benchmark was downloaded to")
    readers = {".tsv": _tsv_rows, ".jsonl": _json_rows, ".parquet": _parquet_rows}
    yield from readers[path.suffix](path, picture_key)


# TSV


def _tsv_rows(path: Path, key: str) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), MAXIMUM_CELL))
    offsets: dict[str, int] = {}  # row index -> byte offset, for pointers to earlier or later rows
    with path.open("rb") as file:
        lines = _Lines(file, path)
        names = _cells(lines, path)
        if not names or key not in names:
            raise DataError(f"{path}: no column {key!r}; columns are {', '.join(names or [])}")
        number = 1
        while True:
            offset = file.tell()
            cells = _cells(lines, path)
            if cells is None:
                return
            number += 1
            if len(cells) != len(names):
                raise DataError(f"{path}, row {number}: {len(cells)} cells for {len(names)} columns")
            values: dict[str, Any] = dict(zip(names, cells, strict=True))
            cell = values.pop(key)
            offsets[str(values.get("index", number))] = offset
            where = f"{path.name}, row {number}"
            yield Row(
                values, where, int(bool(cell)), functools.partial(_tsv_picture, path, names.index(key), offset, offsets)
            )


def _tsv_picture(path: Path, column: int, offset: int, offsets: dict[str, int]) -> bytes:
    seen = set()
    while offset not in seen:
        seen.add(offset)
        with path.open("rb") as file:
            file.seek(offset)
            cells = _cells(_Lines(file, path), path)
        if cells is None:
            raise DataError(f"{path} was shortened while it was read")
        cell = cells[column]
        if len(cell) > POINTER_LENGTH:
            return _decoded(cell, str(path))
        if cell not in offsets:
            raise DataError(f"{path}: a picture points to row {cell!r}, which does not exist")
        offset = offsets[cell]
    raise DataError(f"{path}: pictures point to each other in a circle at row {cell!r}")


@dataclass
class _Lines:
    """Decoded lines of a binary file, one at a time, so that ``tell`` stays exact."""

    file: Any
    path: Path

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self.file.readline(MAXIMUM_CELL)
        if not line:
            raise StopIteration
        try:
            return str(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path}: not UTF-8 text: {error}") from error


def _cells(lines: _Lines, path: Path) -> list[str] | None:
    try:
        return next(csv.reader(lines, "excel-tab", strict=True), None)
    except csv.Error as error:
        raise DataError(f"{path}: broken TSV: {error}") from error


# JSON lines


def _json_rows(path: Path, key: str) -> Iterator[Row]:
    with path.open("rb") as file:
        number = 0
        while True:
            offset = file.tell()
            line = file.readline(MAXIMUM_CELL)
            if not line:
                return
            number += 1
            if not line.strip():
                continue
            values = _json_object(line, f"{path.name}, line {number}")
            if key not in values:
                raise DataError(f"{path}, line {number}: no key {key!r}; keys are {', '.join(values)}")
            cell = values.pop(key)
            count = len(cell) if isinstance(cell, list) else int(bool(cell))
            yield Row(values, f"{path.name}, line {number}", count, functools.partial(_json_picture, path, offset, key))


def _json_picture(path: Path, offset: int, key: str) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return _first_picture(_json_object(file.readline(MAXIMUM_CELL), str(path))[key], str(path))


def _json_object(line: bytes, where: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: broken JSON: {error}") from error
    if not isinstance(values, dict):
        raise DataError(f"{where}: expected a JSON object, got {type(values).__name__}")
    return values


# Parquet


def _parquet_rows(path: Path, key: str) -> Iterator[Row]:
    file = _parquet(path)
    names = file.schema_arrow.names
    if key not in names:
        raise DataError(f"{path}: no column {key!r}; columns are {', '.join(names)}")
    leaves = [file.schema.column(i).path for i in range(len(file.schema))]
    paths = [
        leaf for leaf in leaves if leaf.startswith(f"{key}.") and leaf.endswith(".path")
    ]  # small, beside the bytes
    columns = [name for name in names if name != key] + paths
    number = 0
    for group in range(file.num_row_groups):
        within = 0
        for batch in file.iter_batches(64, row_groups=[group], columns=columns):
            for values in batch.to_pylist():
                number += 1
                cell = values.pop(key, None)
                count = len(cell) if isinstance(cell, list) else 1
                picture = functools.partial(_parquet_picture, path, key, group, within)
                yield Row(values, f"{path.name}, row {number}", count, picture)
                within += 1


def _parquet_picture(path: Path, key: str, group: int, within: int) -> bytes:
    for number, batch in enumerate(_parquet(path).iter_batches(1, row_groups=[group], columns=[key])):
        if number == within:
            return _first_picture(batch.to_pylist()[0][key], str(path))
    raise DataError(f"{path} was shortened while it was read")


def _parquet(path: Path) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ConfigError(f"reading {path} needs pyarrow: pip install pyarrow; or use the TSV or JSON lines") from error
    try:
        return parquet.ParquetFile(path)
    except (ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: broken Parquet: {error}") from error


def _first_picture(cell: Any, where: str) -> bytes:
    """The bytes of a cell: base64 text, bytes, the ``datasets`` form ``{"bytes": ...}``, or a list of these."""
    if isinstance(cell, list) and cell:
        return _first_picture(cell[0], where)
    if isinstance(cell, dict) and isinstance(cell.get("bytes"), bytes):
        return bytes(cell["bytes"])
    if isinstance(cell, bytes):
        return cell
    if isinstance(cell, str) and cell:
        return _decoded(cell, where)
    raise DataError(f"{where}: expected a picture as base64 text or bytes, got {type(cell).__name__}")


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{where}: a picture is not valid base64: {error}") from error
