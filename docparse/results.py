"""The result of an evaluation as one JSON file, written and read back for comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from backbone.errors import DataError
from docparse.scoring import Row, compare, summary

VERSION = 1


def make_result(rows: Sequence[Row], expected: int, about: Mapping[str, Any], resamples: int) -> dict[str, Any]:
    """What was run (``about``), the report with its intervals, and all rows."""
    report = summary(rows, expected, resamples=resamples)
    return {"version": VERSION, **about, "summary": report, "rows": [row.to_dict() for row in rows]}


def read_rows(path: Path) -> list[Row]:
    """The rows of a result. Raises `DataError` if the file is not one."""
    try:
        values = json.loads(path.read_text("utf-8"))
        if values["version"] != VERSION:
            raise DataError(f"{path}: a result of version {values['version']}, expected {VERSION}; evaluate again")
        return [_row(entry) for entry in values["rows"]]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give the result.json of another run") from error
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: is no result of `fovea eval docparse` ({type(error).__name__}: {error})") from error


def compared(rows: Sequence[Row], other: Path, resamples: int) -> dict[str, Any]:
    """These rows minus those of another result, paired by item. Raises `DataError` for other items."""
    return {"file": str(other), **compare(rows, read_rows(other), resamples=resamples)}


def _row(entry: dict[str, Any]) -> Row:
    places = {
        name: tuple((int(page), tuple(float(v) for v in box)) for page, box in entry[name])
        for name in ("regions", "truth")
    }
    return Row(**{**entry, **places, "scores": tuple(entry["scores"])})
