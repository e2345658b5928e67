"""HR-Bench 4K and 8K (Wang et al. 2024): 200 questions in four option orders each, on 4K and 8K photographs.

Layout: one table ``hr_bench_4k`` or ``hr_bench_8k`` (TSV or Parquet) with the columns ``index``, ``question``,
``answer`` (a letter), ``category`` (single or cross), ``A`` to ``D``, ``cycle_category`` and ``image`` (base64; in
VLMEvalKit's files possibly the index of the row that holds the picture). It has no boxes. The option orders are the
benchmark's own: they are kept, and accuracy is reported over all cycles and by cycle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from backbone.errors import DataError
from perception.benchmarks.choices import collect, column_options, letter_index, picture_of, text_of
from perception.benchmarks.items import Benchmark, Item
from perception.benchmarks.tables import SUFFIXES, Row, read_rows

Resolution = Literal["4k", "8k"]


def load(path: Path, resolution: Resolution) -> Benchmark:
    """All rows of the table at ``path``, or of the table of this resolution in the folder ``path``.

    Raises:
        DataError: no such table, missing columns, no answers, or no usable row.
    """
    table = _table(path, resolution)

    def to_item(row: Row) -> Item:
        options = column_options(row)
        return Item(
            id=f"hrbench-{resolution}-{text_of(row, 'index')}",
            kind=text_of(row, "category"),
            question=text_of(row, "question"),
            options=options,
            answer=letter_index(row, options),
            load=picture_of(row),
            group=f"cycle {text_of(row, 'cycle_category')}",
        )

    return collect(f"hrbench-{resolution}", "test", read_rows(table), to_item)


def _table(path: Path, resolution: Resolution) -> Path:
    if path.is_file():
        return path
    names = [f"hr_bench_{resolution}{suffix}" for suffix in SUFFIXES]
    for name in names:
        if (path / name).is_file():
            return path / name
    raise DataError(f"{path}: no HR-Bench table; expected one of {', '.join(names)}")
