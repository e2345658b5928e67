"""Files that are either whole or absent, whenever the process or the machine dies."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backbone.errors import DataError

MAX_JSON_BYTES = 64_000_000  # a hostile meta file must not fill the memory


def publish(temporary: Path, final: Path) -> None:
    """Move a finished file to its name, on disk before this returns: written out, renamed, its folder written out."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    final.parent.mkdir(parents=True, exist_ok=True)
    os.replace(temporary, final)
    folder = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, value: Mapping[str, Any], scratch: Path) -> None:
    """Replace a JSON file in one step; ``scratch`` is a folder of the same file system. NaN raises `ValueError`."""
    temporary = scratch / f"{path.name}.new"
    temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    publish(temporary, path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; `DataError` where it is missing, broken, too large, or something else."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise DataError(f"{path} has more than {MAX_JSON_BYTES} bytes; this is no data set's description")
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is missing; a LeRobot v3.0 data set has it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} holds a JSON {type(value).__name__}, expected an object")
    return value


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder against another recording, also one of another process; the kernel frees it if this one dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = f"another process records into {folder.parent}; wait for it or choose another folder"
            raise DataError(busy) from None
        yield
