"""``meta/tasks.parquet``: the instructions of a data set and their numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backbone.errors import DataError
from backbone.records.files import publish
from backbone.records.rows import EpisodeRow

# LeRobot reads the file with pandas and takes the instruction from the index, which only this note makes one.
_PANDAS = {
    "index_columns": ["task"],
    "column_indexes": [],
    "columns": [
        {
            "name": "task_index",
            "field_name": "task_index",
            "pandas_type": "int64",
            "numpy_type": "int64",
            "metadata": None,
        },
        {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": None},
    ],
    "creator": {"library": "pyarrow", "version": pa.__version__},
    "pandas_version": "2.2.0",
}


def write_tasks(path: Path, tasks: Mapping[str, int], scratch: Path) -> None:
    """Replace the file in one step."""
    schema = pa.schema([("task_index", pa.int64()), ("task", pa.string())], {"pandas": json.dumps(_PANDAS)})
    temporary = scratch / path.name
    pq.write_table(pa.table([list(tasks.values()), list(tasks)], schema=schema), temporary)
    publish(temporary, path)


def read_tasks(path: Path) -> dict[str, int]:
    """Instructions by text. `DataError` if the file is missing or broken, or two instructions share a number."""
    try:
        table = pq.read_table(path)
        names = set(table.column_names)
        text = "task" if "task" in names else "__index_level_0__"
        if not {text, "task_index"} <= names:
            raise DataError(f"{path}: expected the columns task and task_index, got {sorted(names)}")
        texts, numbers = table.column(text).to_pylist(), table.column("task_index").to_pylist()
    except FileNotFoundError:
        raise DataError(f"{path} is missing; without it nobody knows what the episodes were about") from None
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is no readable parquet file: {error}") from error
    wrong = [n for n in numbers if not isinstance(n, int)] or [t for t in texts if not isinstance(t, str)]
    if wrong or len(set(numbers)) != len(numbers):
        raise DataError(f"{path}: each instruction needs one number of its own, got {numbers[:10]} for {texts[:10]}")
    return dict(zip(texts, numbers, strict=True))


def tasks_of(rows: Iterable[EpisodeRow]) -> dict[str, int]:
    """The numbers that a recording gave its instructions: in the order in which they came up first."""
    tasks: dict[str, int] = {}
    for row in rows:
        for task in row.tasks:
            tasks.setdefault(task, len(tasks))
    return tasks
