"""DocVQA (Mathew et al. 2021): one page a question, answers without boxes.

Layout of the challenge's download: ``train_v1.0*.json`` or ``val_v1.0*.json`` with ``{"dataset_name", "dataset_split",
"data": [...]}``; each record has ``questionId``, ``question``, ``image`` ("documents/xnbl0037_1.png"), ``docId``,
``ucsf_document_id``, ``ucsf_document_page_no`` and, but for the test split, ``answers``. Pictures lie under the path
that ``image`` gives, or by their bare name in ``documents``, ``spdocvqa_images``, ``images`` or beside the JSON.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from backbone.errors import DataError
from docparse.benchmarks.files import first_that_exists, found_file, page_file, read_json, text_of, texts
from docparse.benchmarks.items import Benchmark, Item, collect, refuse_without_answers

FOLDERS = ("documents", "spdocvqa_images", "images", "")


def load(path: Path, images: Path | None = None) -> Benchmark:
    """All questions of a split; ``images`` is the folder of pictures, by default that of the JSON.

    Raises:
        DataError: no such file or another layout, no answers (the test split), or no picture at all.
    """
    file = found_file(path, ("val_v1.0*.json", "train_v1.0*.json"), "DocVQA")
    split, records = challenge_records(file, "DocVQA")
    folder = images or file.parent
    makers = [functools.partial(_item, r, f"{file.name}, record {i}", folder) for i, r in enumerate(records, 1)]
    return collect("docvqa", split, makers)


def challenge_records(file: Path, name: str) -> tuple[str, list[dict[str, Any]]]:
    """Split and records of a file in the challenge's layout, refused if none has an answer."""
    content = read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise DataError(f'{file} is not in the layout of {name}: expected an object with a list under "data"')
    records = content["data"]
    wrong = next((i for i, r in enumerate(records, 1) if not isinstance(r, dict)), None)
    if wrong is not None:
        raise DataError(f"{file}: record {wrong} of data is no object")
    split = str(content.get("dataset_split") or next((r.get("data_split", "") for r in records), ""))
    refuse_without_answers(name, split, sum(bool(r.get("answers")) for r in records), len(records))
    return split, records


def _item(record: dict[str, Any], where: str, folder: Path) -> Item:
    image = text_of(record, ("image",), where)
    places = [folder / image, *(folder / f / Path(image).name for f in FOLDERS)]
    kinds = record.get("question_types") or []
    return Item(
        id=f"docvqa-{text_of(record, ('questionId',), where)}",
        question=text_of(record, ("question",), where),
        answers=_answers(record, where),
        pages=(page_file(first_that_exists(places, where)),),
        evidence_pages=(0,),
        kind="+".join(str(k) for k in kinds) if isinstance(kinds, list) else str(kinds),
        document=str(record.get("ucsf_document_id") or record.get("docId") or image),
    )


def _answers(record: dict[str, Any], where: str) -> tuple[str, ...]:
    answers = texts(record.get("answers"), where)
    if not answers:
        raise DataError(f"{where}: no answer")
    return answers
