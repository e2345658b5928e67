"""MP-DocVQA (Tito et al. 2023): up to 20 pages a question, the page of the answer, no boxes.

Layout: ``train.json`` or ``val.json`` with ``{"dataset_name": "MP-DocVQA", "dataset_split", "data": [...]}``; each
record has ``questionId``, ``question``, ``doc_id``, ``page_ids`` (the names of the pages in order) and, but for the
test split, ``answers`` and ``answer_page_idx`` (index into ``page_ids``, from 0). Pictures are
``images/{page_id}.jpg`` beside the JSON.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from backbone.errors import DataError
from docparse.benchmarks.docvqa import challenge_records
from docparse.benchmarks.files import first_that_exists, found_file, page_file, text_of, texts
from docparse.benchmarks.items import Benchmark, Item, collect

SUFFIXES = (".jpg", ".png", ".jpeg")


def load(path: Path, images: Path | None = None) -> Benchmark:
    """All questions of a split; ``images`` is the folder of pictures, by default ``images`` beside the JSON.

    Raises:
        DataError: no such file or another layout, no answers (the test split), or no picture at all.
    """
    file = found_file(path, ("val.json", "train.json"), "MP-DocVQA")
    split, records = challenge_records(file, "MP-DocVQA")
    folder = images or file.parent / "images"
    makers = [functools.partial(_item, r, f"{file.name}, record {i}", folder) for i, r in enumerate(records, 1)]
    return collect("mpdocvqa", split, makers)


def _item(record: dict[str, Any], where: str, folder: Path) -> Item:
    pages = record.get("page_ids")
    if not isinstance(pages, list) or not pages:
        raise DataError(f"{where}: no page_ids")
    index = record.get("answer_page_idx")
    if not isinstance(index, int) or isinstance(index, bool):
        raise DataError(f"{where}: answer_page_idx must be a whole number, got {index!r}")
    answers = texts(record.get("answers"), where)
    if not answers:
        raise DataError(f"{where}: no answer")
    return Item(
        id=f"mpdocvqa-{text_of(record, ('questionId',), where)}",
        question=text_of(record, ("question",), where),
        answers=answers,
        pages=tuple(page_file(first_that_exists([folder / f"{p}{s}" for s in SUFFIXES], where)) for p in pages),
        evidence_pages=(index,),
        document=str(record.get("doc_id", "")),
    )
