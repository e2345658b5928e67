"""BoundingDocs (arXiv 2501.03403): questions on documents of eleven sources, the answer's words boxed.

Layout: ``data/{split}-*.parquet`` with ``source``, ``doc_id``, ``doc_images`` (a picture a page), ``doc_ocr`` (Amazon
Textract's JSON a page, as text) and ``Q&A`` (JSON as text): a list of questions, or in release 2.0 an object of them,
each with ``question``, ``rephrased_question`` and ``answers`` of ``value``, ``location`` and ``page`` (from 1).

``location`` is a list of ``[width, height, x, y]``, **in thousandths of the page's width and height**. The card calls
``(x, y)`` the bottom left corner; the authors' own evaluation takes it as the top left, as Textract has it, and that is
read here. Where the row has Textract's words, it is checked against them: the words that spell the answer must lie in
the boxes so read; if they lie instead where the other reading puts them, or the boxes go beyond 1000, the unit cannot
be told and the question is skipped with that reason.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from backbone.errors import ConfigError, DataError
from docparse.areas import Corners, Place, overlap
from docparse.benchmarks.files import numbers4, page_bytes, parquet, text_of, texts
from docparse.benchmarks.items import Benchmark, Item, collect, refuse_without_answers

COLUMNS = ("source", "doc_id", "doc_images", "Q&A")
BEYOND = 5.0  # thousandths that a box may pass the page's edge by


def load(
    path: Path,
    split: str = "test",
    *,
    question: Literal["rephrased", "template"] = "rephrased",
    answers: Literal["first", "all"] = "first",
    boxes: Literal["answer", "words"] = "answer",
    check: bool = True,
) -> Benchmark:
    """All questions of a split: ``path`` is a Parquet file, or the folder that holds them (or their ``data`` folder).

    The defaults are what the authors score against: the place of the first answer, one box around its words.

    Args:
        path: where the files are.
        split: whose files to take from a folder.
        question: the wording; where a source has no rephrased one its only wording is taken.
        answers: whether the evidence is the place of the first answer or of all; every value is accepted either way.
        boxes: one box around each answer's words on a page, or one a word.
        check: whether boxes are compared with the row's ``doc_ocr``.

    Raises:
        DataError: no such files or columns, no answers, or no usable question.
        ConfigError: an unknown option, or pyarrow is not installed.
    """
    for name, value, known in (
        ("question", question, ("rephrased", "template")),
        ("answers", answers, ("first", "all")),
        ("boxes", boxes, ("answer", "words")),
    ):
        if value not in known:
            raise ConfigError(f"{name} must be {' or '.join(known)}, got {value!r}")
    files = [path] if path.is_file() else _files(path, split)
    asked = [q for file in files for q in _asked(file)]
    refuse_without_answers("BoundingDocs", split, sum(asked), len(asked))
    make = functools.partial(_item, wording=question, which=answers, whole=boxes == "answer")
    makers = (functools.partial(make, row, q, i) for row in _rows(files, check) for i, q in enumerate(row.questions))
    return collect("boundingdocs", split, makers)


@dataclass(frozen=True)
class _Pictures:
    """The pages of a row, read again from the file when one is needed; two documents' pages are kept."""

    file: Path
    group: int
    within: int

    def page(self, index: int) -> bytes:
        """The bytes of a page's picture."""
        return _read_pictures(self.file, self.group, self.within)[index]


@dataclass(frozen=True)
class _Row:
    """A document: its questions and OCR, which no item holds on to, and where its pictures are."""

    where: str
    source: str
    document: str
    questions: list[dict[str, Any]]
    ocr: tuple[str, ...]
    count: int
    pictures: _Pictures


def _asked(path: Path) -> list[bool]:
    """Whether each question of a file has answers; reads that column alone."""
    file = parquet(path)
    missing = [c for c in COLUMNS if c not in file.schema_arrow.names]
    if missing:
        raise DataError(f"{path}: no column {missing[0]!r}; columns are {', '.join(file.schema_arrow.names)}")
    cells = (cell for batch in file.iter_batches(64, columns=["Q&A"]) for cell in batch.to_pylist())
    return [bool(q.get("answers")) for cell in cells for q in _questions(cell["Q&A"], str(path))]


def _rows(files: Sequence[Path], check: bool) -> Iterator[_Row]:
    for path in files:
        file = parquet(path)
        columns = ["source", "doc_id", "Q&A", *(["doc_ocr"] if check and "doc_ocr" in file.schema_arrow.names else [])]
        for group in range(file.num_row_groups):
            counts = _page_counts(file, group)
            within = 0
            for batch in file.iter_batches(4, row_groups=[group], columns=columns):
                for values in batch.to_pylist():
                    yield _row(_Pictures(path, group, within), values, counts[within])
                    within += 1


def _row(pictures: _Pictures, values: dict[str, Any], count: int) -> _Row:
    where = f"{pictures.file.name}, row {pictures.within} of group {pictures.group}"
    return _Row(
        where=where,
        source=text_of(values, ("source",), where),
        document=text_of(values, ("doc_id",), where),
        questions=_questions(values.get("Q&A"), where),
        ocr=tuple(values.get("doc_ocr") or ()),
        count=count,
        pictures=pictures,
    )


def _page_counts(file: Any, group: int) -> list[int]:
    """How many pictures each row of a group has, from the small ``path`` leaf beside their bytes."""
    leaves = [file.schema.column(i).path for i in range(len(file.schema))]
    small = [leaf for leaf in leaves if leaf.startswith("doc_images.") and leaf.endswith(".path")]
    column = small or ["doc_images"]
    cells = (cell for batch in file.iter_batches(1, row_groups=[group], columns=column) for cell in batch.to_pylist())
    return [len(cell["doc_images"] or ()) for cell in cells]


@functools.lru_cache(maxsize=2)
def _read_pictures(path: Path, group: int, within: int) -> tuple[bytes, ...]:
    for number, batch in enumerate(parquet(path).iter_batches(1, row_groups=[group], columns=["doc_images"])):
        if number == within:
            cells = batch.to_pylist()[0]["doc_images"] or ()
            found = [cell.get("bytes") if isinstance(cell, dict) else cell for cell in cells]
            pages = tuple(cell for cell in found if isinstance(cell, bytes))
            if len(pages) != len(found):
                raise DataError(f"{path}, group {group}, row {within}: a page has no bytes")
            return pages
    raise DataError(f"{path} was shortened while it was read")


def _questions(value: Any, where: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise DataError(f"{where}: Q&A is broken JSON: {error}") from error
    found = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(q, dict) for q in found):
        raise DataError(f"{where}: Q&A must be a list or an object of questions, got {type(found).__name__}")
    return found


def _item(row: _Row, record: dict[str, Any], number: int, *, wording: str, which: str, whole: bool) -> Item:
    where = f"{row.where}, question {number + 1}"
    keys = ("rephrased_question", "question") if wording == "rephrased" else ("question", "rephrased_question")
    found = record.get("answers")
    if not isinstance(found, list) or not found or not all(isinstance(a, dict) for a in found):
        raise DataError(f"{where}: no answers")
    evidence: list[Place] = []
    for answer in found if which == "all" else found[:1]:
        evidence += _located(row, answer, where, whole)
    pictures = row.pictures
    return Item(
        id=f"boundingdocs-{row.source}-{row.document}-{number}",
        question=text_of(record, keys, where),
        answers=tuple(dict.fromkeys(v for a in found for v in texts(a.get("value"), where))),
        pages=tuple(
            page_bytes(functools.partial(pictures.page, i), f"{row.where}, page {i + 1}") for i in range(row.count)
        ),
        evidence=tuple(dict.fromkeys(evidence)),
        unit="thousandths",
        kind=row.source,
        document=row.document,
    )


def _located(row: _Row, answer: dict[str, Any], where: str, whole: bool) -> list[Place]:
    page = answer.get("page")
    if not isinstance(page, int) or not 1 <= page <= row.count:
        raise DataError(f"{where}: page must be 1 to {row.count}, got {page!r}")
    location = answer.get("location")
    if not isinstance(location, list) or not location:
        raise DataError(f"{where}: no location")
    boxes = [_box(entry, where) for entry in (location if isinstance(location[0], list) else [location])]
    if row.ocr:
        _check_words(row.ocr, page - 1, str(answer.get("value", "")), boxes, where)
    if whole:
        x0, y0, x1, y1 = zip(*boxes, strict=True)
        boxes = [(min(x0), min(y0), max(x1), max(y1))]
    return [(page - 1, box) for box in boxes]


def _box(entry: Any, where: str) -> Corners:
    width, height, x, y = numbers4(entry, where)
    if width <= 0 or height <= 0 or min(x, y) < -BEYOND or x + width > 1000 + BEYOND or y + height > 1000 + BEYOND:
        raise DataError(
            f"{where}: location {entry} is no [width, height, x, y] in thousandths of the page, (x, y) its top left "
            "corner; its unit cannot be told"
        )
    return max(0.0, x), max(0.0, y), min(1000.0, x + width), min(1000.0, y + height)


def _check_words(ocr: Sequence[str], page: int, value: str, boxes: Sequence[Corners], where: str) -> None:
    """That Textract's words of the answer lie in the boxes as read, not where the other reading has them."""
    words = _words(ocr[page]) if page < len(ocr) else []
    wanted = {w.casefold() for w in value.split()}
    spelled = [box for text, box in words if text.casefold() in wanted]
    if not spelled:
        return
    other = [(x0, y0 - (y1 - y0), x1, y0) for x0, y0, x1, y1 in boxes]
    here, there = overlap(spelled, boxes), overlap(spelled, other)
    if there > here:
        raise DataError(
            f"{where}: the words of {value[:40]!r} lie above the boxes read with (x, y) as the top left corner, where "
            "the other reading would have them; the unit cannot be told"
        )


@functools.lru_cache(maxsize=8)
def _words(text: str) -> list[tuple[str, Corners]]:
    """Textract's words with boxes in thousandths; none where the text is not its JSON."""
    try:
        content = json.loads(text)
    except ValueError:
        return []
    blocks = content.get("Blocks", []) if isinstance(content, dict) else content if isinstance(content, list) else []
    words = []
    for block in blocks:
        if not isinstance(block, dict) or block.get("BlockType") != "WORD":
            continue
        box = (block.get("Geometry") or {}).get("BoundingBox") or {}
        if all(isinstance(box.get(k), (int, float)) for k in ("Left", "Top", "Width", "Height")):
            x, y = 1000 * float(box["Left"]), 1000 * float(box["Top"])
            words.append(
                (str(block.get("Text", "")), (x, y, x + 1000 * float(box["Width"]), y + 1000 * float(box["Height"])))
            )
    return words


def _files(folder: Path, split: str) -> list[Path]:
    for place in (folder / "data", folder):
        found = sorted(place.glob(f"{split}-*.parquet")) if place.is_dir() else []
        if found:
            return found
    raise DataError(f"{folder}: no BoundingDocs files {split}-*.parquet, there or in its folder data")
