"""XLRS-Bench-lite (Wang et al. 2025): multiple choice on remote-sensing pictures of about 8500 x 8500 px.

Layout: a folder of the published Parquet files, of VLMEvalKit's ``XLRS-Bench-lite_part*.jsonl``, or of TSV, with
``index``, ``question``, ``multi-choice options`` (a list or one text, marked ``(A)`` ...), ``answer`` (letters),
``category``, ``l2-category`` and ``image`` (base64 or bytes, or a list of them). Its published split is named
``train``. It has no boxes. Questions of the task "Overall Land use classification" ask for all right options; as
published, the set of letters must be exactly right, in any order. Questions on two pictures (change detection) cannot
be asked here; they are skipped and counted, as are several letters in any other task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from backbone.errors import DataError
from perception.benchmarks.choices import collect, letter_index, letter_indices, marked_options, picture_of, text_of
from perception.benchmarks.items import Benchmark, Item
from perception.benchmarks.tables import SUFFIXES, Row, read_rows

OPTIONS = "multi-choice options"
SEVERAL = (
    "overall land use classification"  # the task, by which the published evaluation asks for all, whatever is right
)


def load(path: Path) -> Benchmark:
    """All rows of the file, or of the files in the folder, in order of their numbers.

    Raises:
        DataError: no such files, missing columns, no answers, or no usable row.
    """
    return collect("xlrs-lite", "train", _rows(path), _item)


def _item(row: Row) -> Item:
    options = marked_options(row.values.get(OPTIONS), row.where)
    kind = "/".join(str(row.values[k]).strip() for k in ("category", "l2-category") if row.values.get(k))
    several = letter_indices(row, options) if SEVERAL in kind.lower() else ()
    return Item(
        id=f"xlrs-lite-{text_of(row, 'index')}",
        kind=kind or "all",
        question=text_of(row, "question"),
        options=options,
        answer=several[0] if several else letter_index(row, options),
        load=picture_of(row),
        several=several,
    )


def _rows(path: Path) -> Iterator[Row]:
    files = [path] if path.is_file() else _files(path)
    for file in files:
        yield from read_rows(file)


def _files(folder: Path) -> list[Path]:
    """The files of the first layout found, in the folder itself or in its ``data`` folder."""
    for place in (folder, folder / "data"):
        for suffix in SUFFIXES:
            found = [p for p in place.glob(f"*{suffix}") if p.is_file()] if place.is_dir() else []
            if found:
                return sorted(found, key=_number)
    raise DataError(f"{folder}: no XLRS-Bench-lite files ({', '.join('*' + s for s in SUFFIXES)})")


def _number(path: Path) -> tuple[int, str]:
    digits = re.search(r"(\d+)", path.stem.replace("XLRS", ""))
    return (int(digits.group(1)) if digits else 0, path.name)
