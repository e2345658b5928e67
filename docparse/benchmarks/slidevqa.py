"""SlideVQA (Tanaka et al. 2023): decks of 20 slides, the slides with the evidence, no evidence boxes.

Layout of the repository: ``annotations/qa/{split}.jsonl`` with ``qa_id``, ``question``, ``answer``, ``deck_name``,
``evidence_pages`` (from 1), ``reasoning_type``, ``answer_type``, ``image_urls``; pictures are
``images/{split}/{deck_name}/*.jpg`` with the slide's number as ``-N-`` in the name. The boxes of
``annotations/bbox`` are layout boxes ``[x1, y1, w, h]`` of whole slides, not of evidence, and are not read.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from backbone.errors import DataError
from docparse.benchmarks.files import found_file, page_file, read_lines, text_of, texts
from docparse.benchmarks.items import Benchmark, Item, PageFile, collect, refuse_without_answers

_NUMBER = re.compile(r"-(\d+)-\d*\D*$")
_LAST = re.compile(r"(\d+)\D*$")


def load(path: Path, images: Path | None = None) -> Benchmark:
    """All questions of a split: ``path`` is the JSON lines file, or a folder with only one split.

    ``images`` is the folder of decks, by default ``images/{split}`` in the folder that holds ``annotations``.

    Raises:
        DataError: no such file or another layout, no answers, or no picture at all.
    """
    file = found_file(path, ("annotations/qa/*.jsonl", "qa/*.jsonl", "*.jsonl"), "SlideVQA's questions")
    split = file.stem
    rows = list(read_lines(file))
    refuse_without_answers("SlideVQA", split, sum(bool(str(r.get("answer", "")).strip()) for _, r in rows), len(rows))
    folder = images or file.parents[2] / "images" / split
    return collect("slidevqa", split, [functools.partial(_item, r, where, folder) for where, r in rows])


def _item(record: dict[str, Any], where: str, folder: Path) -> Item:
    deck = text_of(record, ("deck_name",), where)
    pages = _deck(folder / Path(deck).name)
    numbers = record.get("evidence_pages")
    if not isinstance(numbers, list) or not numbers or not all(isinstance(n, int) and n >= 1 for n in numbers):
        raise DataError(f"{where}: evidence_pages must be a list of slide numbers from 1, got {numbers!r}")
    answers = texts(record.get("answer"), where)
    if not answers:
        raise DataError(f"{where}: no answer")
    return Item(
        id=f"slidevqa-{text_of(record, ('qa_id',), where)}",
        question=text_of(record, ("question",), where),
        answers=answers,
        pages=pages,
        evidence_pages=tuple(sorted({n - 1 for n in numbers})),
        kind=str(record.get("reasoning_type", "")),
        document=deck,
    )


@functools.lru_cache(maxsize=8)
def _deck(folder: Path) -> tuple[PageFile, ...]:
    """The slides in order of their numbers, which run from 1 without gaps: a missing one would shift the others."""
    found = [p for p in folder.glob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png")] if folder.is_dir() else []
    if not found:
        raise DataError(f"no slides in {folder}")
    numbered = sorted((_number(p), p) for p in found)
    numbers = [number for number, _ in numbered]
    if numbers != list(range(1, len(numbers) + 1)):
        raise DataError(f"the slides in {folder} are numbered {numbers}, expected 1 to {len(numbers)}")
    return tuple(page_file(p) for _, p in numbered)


def _number(path: Path) -> int:
    match = _NUMBER.search(path.name) or _LAST.search(path.stem)
    return int(match.group(1)) if match else 0
