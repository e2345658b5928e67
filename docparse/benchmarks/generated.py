"""Generated documents as files: what ``fovea data documents`` writes, and the way back.

Layout of a folder: ``documents/{document}.pdf`` (the pages as pictures with their words as invisible text),
``pages/{document}-{page}.png`` (from 1), and ``questions.jsonl`` with an object a question::

    {"id", "document", "split", "seed", "document_kind", "template", "question", "answers": [...], "kind", "note",
     "evidence": [{"page": from 0, "box": [x0, y0, x1, y1]}],
     "pages": [{"image", "width", "height", "dpi"}], "pdf"}

Boxes are pixels of the PNGs. An unanswerable question has no answers and no evidence. ``words.jsonl`` has an object a
page: ``{"document", "page", "words": [[text, x0, y0, x1, y1, line, block], ...]}``.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from backbone.errors import DataError
from docparse.areas import Place
from docparse.benchmarks.files import corners, first_that_exists, page_file, read_lines, text_of
from docparse.benchmarks.items import Benchmark, Item, collect

QUESTIONS, WORDS = "questions.jsonl", "words.jsonl"


def load(path: Path) -> Benchmark:
    """All questions of a folder, answerable or not.

    Raises:
        DataError: the folder is not in this layout, or no question is usable.
    """
    file = path if path.is_file() else path / QUESTIONS
    rows = list(read_lines(file))
    splits = sorted({str(record.get("split", "")) for _, record in rows})
    if len(splits) > 1:
        raise DataError(f"{file} mixes the splits {', '.join(splits)}; write each to a folder of its own")
    makers = [functools.partial(_item, record, where, file.parent) for where, record in rows]
    return collect("generated", splits[0] if splits else "", makers)


def _item(record: dict[str, Any], where: str, folder: Path) -> Item:
    answers, evidence = record.get("answers"), record.get("evidence")
    if not isinstance(answers, list) or not isinstance(evidence, list) or bool(answers) != bool(evidence):
        raise DataError(f"{where}: answers and evidence must be lists, both empty or neither")
    pages = record.get("pages")
    if not isinstance(pages, list) or not all(isinstance(p, dict) for p in pages):
        raise DataError(f"{where}: pages must be a list of objects, got {pages!r}")
    places: list[Place] = []
    for entry in evidence:
        if not isinstance(entry, dict) or not isinstance(entry.get("page"), int):
            raise DataError(f"{where}: evidence must be objects with a page and a box, got {entry!r}")
        places.append((entry["page"], corners(entry.get("box"), where)))
    images = [first_that_exists([folder / text_of(p, ("image",), where)], where) for p in pages]
    pdf = record.get("pdf")
    return Item(
        id=text_of(record, ("id",), where),
        question=text_of(record, ("question",), where),
        answers=tuple(str(a) for a in answers),
        pages=tuple(page_file(image) for image in images),
        evidence=tuple(places),
        kind=str(record.get("kind", "")),
        document=text_of(record, ("document",), where),
        path=folder / str(pdf) if pdf else None,
    )
