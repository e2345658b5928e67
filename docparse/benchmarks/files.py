"""Reading the files of benchmarks: JSON and JSON lines with limits, pictures beside them, cells of Parquet files."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from backbone.errors import ConfigError, DataError
from backbone.images import read_image
from docparse.areas import Corners
from docparse.benchmarks.items import PageFile

MAXIMUM_JSON = 1 << 30  # bytes of a file


def read_json(path: Path) -> Any:
    """The values of a JSON file; raises `DataError` if it is missing, larger than 1 GiB or broken."""
    if not path.is_file():
        raise DataError(f"{path} does not exist; give the file or the folder the benchmark was downloaded to")
    if path.stat().st_size > MAXIMUM_JSON:
        raise DataError(f"{path}: {path.stat().st_size} bytes, more than the {MAXIMUM_JSON} of an annotation file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: broken JSON: {error}") from error


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """``(where, object)`` of each line of a JSON lines file; raises `DataError` naming the line that is broken."""
    if not path.is_file():
        raise DataError(f"{path} does not exist; give the file or the folder the benchmark was downloaded to")
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path.name}, line {number}"
            try:
                values = json.loads(line)
            except ValueError as error:
                raise DataError(f"{where}: broken JSON: {error}") from error
            if not isinstance(values, dict):
                raise DataError(f"{where}: expected a JSON object, got {type(values).__name__}")
            yield where, values


def found_file(folder: Path, patterns: Sequence[str], what: str) -> Path:
    """The only file in ``folder`` that one of the patterns names, tried in order; ``folder`` itself if it is a file.

    Raises:
        DataError: none, or several, in which case the split has to be chosen by giving the file.
    """
    if folder.is_file():
        return folder
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(p.name for p in found[:4])
            raise DataError(f"{folder}: several files of {what} ({names}); give one of them as the path")
    raise DataError(f"{folder}: no file of {what}: expected one named like {' or '.join(patterns)}")


def page_file(path: Path) -> PageFile:
    """A picture on disk as a page."""
    return PageFile(functools.partial(read_image, path), functools.partial(_size_of_file, path), str(path))


def page_bytes(load: Callable[[], bytes], name: str) -> PageFile:
    """A picture whose bytes are fetched when they are needed."""
    return PageFile(lambda: read_image(load()), lambda: _size(io.BytesIO(load()), name), name)


def first_that_exists(paths: Sequence[Path], what: str) -> Path:
    """The first path that is a file; raises `DataError` naming the first two otherwise."""
    for path in paths:
        if path.is_file():
            return path
    raise DataError(f"{what}: no picture at {' or '.join(str(p) for p in paths[:2])}")


def corners(box: Any, where: str) -> Corners:
    """Four numbers ``[x0, y0, x1, y1]`` in order; raises `DataError` for anything else."""
    numbers = numbers4(box, where)
    if not (numbers[0] < numbers[2] and numbers[1] < numbers[3]):
        raise DataError(f"{where}: expected [x0, y0, x1, y1] with x0 < x1 and y0 < y1, got {box!r}")
    return numbers


def numbers4(box: Any, where: str) -> Corners:
    """Four finite numbers; raises `DataError` for anything else."""
    if not isinstance(box, (list, tuple)) or len(box) != 4 or not all(_is_number(v) for v in box):
        raise DataError(f"{where}: a box needs four numbers, got {box!r}")
    a, b, c, d = (float(v) for v in box)
    return a, b, c, d


def texts(value: Any, where: str) -> tuple[str, ...]:
    """A text or a list of texts, without blank ones and repetitions; raises `DataError` for anything else."""
    values = [value] if isinstance(value, (str, int, float)) and not isinstance(value, bool) else value
    if not isinstance(values, list) or not all(isinstance(v, (str, int, float)) for v in values):
        raise DataError(f"{where}: expected an answer or a list of answers, got {value!r}")
    return tuple(dict.fromkeys(str(v).strip() for v in values if str(v).strip()))


def text_of(record: dict[str, Any], keys: Sequence[str], where: str) -> str:
    """The text under the first of ``keys`` that has one; raises `DataError` if none has."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    raise DataError(f"{where}: no {' or '.join(repr(k) for k in keys)}; keys are {', '.join(map(str, record))}")


def parquet(path: Path) -> Any:
    """An open Parquet file; raises `DataError` if it is broken, `ConfigError` without pyarrow."""
    try:
        from pyarrow import ArrowInvalid, parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ConfigError(f"reading {path} needs pyarrow: pip install pyarrow") from error
    try:
        return parquet.ParquetFile(path)
    except (ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: broken Parquet: {error}") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")


def _size_of_file(path: Path) -> tuple[int, int]:
    return _size(path, str(path))


def _size(source: Path | io.BytesIO, name: str) -> tuple[int, int]:
    """Width and height as `read_image` will give them: after the EXIF orientation."""
    try:
        with Image.open(source) as picture:
            width, height = picture.size
            turned = picture.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    except (OSError, UnidentifiedImageError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{name}: not a picture that can be read: {error}") from error
    return (height, width) if turned else (width, height)
