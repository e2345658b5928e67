"""Turning multiple-choice rows into items: answers as letters, options as columns or as text."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from backbone.errors import DataError
from backbone.images import SourceImage, read_image
from perception.benchmarks.items import MAXIMUM_OPTIONS, Benchmark, Item
from perception.benchmarks.tables import Row

LETTERS = "ABCDEFGHIJ"
MISSING = frozenset({"", "nan", "none", "null", "n/a"})  # how tables write an absent value
_MARKED = re.compile(r"(?:^|\s)\(([A-J])\)\s*(.*?)(?=\s*\([A-J]\)|\Z)", re.DOTALL)
_PREFIX = re.compile(r"^\s*(?:\(([A-J])\)|([A-J])[.):])\s*")


def text_of(row: Row, key: str) -> str:
    """The stripped text of a column; raises `DataError` if it is absent or empty."""
    value = row.values.get(key)
    text = "" if value is None else str(value).strip()
    if text.lower() in MISSING:
        raise DataError(f"{row.where}: no {key!r}")
    return text


def column_options(row: Row) -> tuple[str, ...]:
    """Options from the columns A, B, C ... up to the first that is empty."""
    options: list[str] = []
    for letter in LETTERS:
        value = row.values.get(letter)
        if value is None or str(value).strip() == "" or str(value).strip().lower() == "nan":
            break
        options.append(str(value).strip())
    return tuple(options)


def marked_options(value: Any, where: str) -> tuple[str, ...]:
    """Options from a list of texts, or one text, each marked ``(A)``, ``(B)`` ... in order."""
    parts = value if isinstance(value, list) else ["".join(m.group(0)) for m in _MARKED.finditer(str(value))]
    options: list[str] = []
    for index, part in enumerate(parts[:MAXIMUM_OPTIONS]):
        text = str(part).strip()
        mark = _PREFIX.match(text)
        if mark and (mark.group(1) or mark.group(2)) != LETTERS[index]:
            raise DataError(
                f"{where}: option {index + 1} is marked {mark.group(0).strip()!r}, expected ({LETTERS[index]})"
            )
        options.append(text[mark.end() :].strip() if mark else text)
    if len(parts) > MAXIMUM_OPTIONS or len(options) < 2:
        raise DataError(
            f"{where}: expected 2 to {MAXIMUM_OPTIONS} marked options, got {len(parts)}: {str(value)[:80]!r}"
        )
    return tuple(options)


def letter_index(row: Row, options: Sequence[str], key: str = "answer") -> int:
    """The index that the answer's letter names, or that of the option it repeats."""
    text = text_of(row, key)
    letter = text.strip("().: ").upper()
    if len(letter) == 1 and letter in LETTERS[: len(options)]:
        return LETTERS.index(letter)
    if text in options:
        return options.index(text)
    if len(letter) > 1 and set(letter.replace(",", "").replace(" ", "")) <= set(LETTERS[: len(options)]):
        raise DataError(f"{row.where}: several right options ({text}); only single answers are asked here")
    raise DataError(f"{row.where}: answer {text!r} is neither a letter A to {LETTERS[len(options) - 1]} nor an option")


def letter_indices(row: Row, options: Sequence[str], key: str = "answer") -> tuple[int, ...]:
    """The indices, ascending, that the answer's letters name, however they are separated ("ABD", "A, B, D")."""
    text = text_of(row, key)
    found = re.sub(r"[\s,;/()\[\]'\".]+", "", text).upper()
    if not set(found) <= set(LETTERS[: len(options)]) or len(set(found)) != len(found):
        raise DataError(f"{row.where}: answer {text!r} is not letters A to {LETTERS[len(options) - 1]}, each once")
    return tuple(sorted(LETTERS.index(letter) for letter in found))


def picture_of(row: Row) -> Callable[[], SourceImage]:
    """A loader for the row's only picture; raises `DataError` if it has none or several."""
    if row.pictures != 1:
        raise DataError(f"{row.where}: {row.pictures} pictures; only questions on one picture are asked here")
    return functools.partial(_read, row)


def _read(row: Row) -> SourceImage:
    return read_image(row.picture())


def collect(
    name: str, split: str, rows: Iterable[Row], to_item: Callable[[Row], Item], answer_key: str = "answer"
) -> Benchmark:
    """Items of all rows that can be asked; the others are listed in ``skipped`` with their reason.

    Raises:
        DataError: no row carries an answer (a test split cannot be scored), or no row can be asked.
    """
    items: list[Item] = []
    skipped: list[str] = []
    answered = total = 0
    for row in rows:
        total += 1
        answered += str(row.values.get(answer_key, "")).strip().lower() not in MISSING
        try:
            items.append(to_item(row))
        except DataError as error:
            skipped.append(str(error))
    if total and not answered:
        raise DataError(
            f"{name}, split {split!r}: none of {total} rows has an {answer_key!r}; this split cannot be scored, "
            "use one that was published with answers"
        )
    return Benchmark(name, split, tuple(items), tuple(skipped))
