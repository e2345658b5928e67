"""Training records: generated documents with their fields computed once, one file each, read back by index.

A record is a pure function of its seed and split, so a folder of them can be made in parts, stopped, and gone on with.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from backbone.errors import DataError
from docparse.fields.matching import WordFields, word_fields
from docparse.fields.text import normal
from docparse.fields.words import DocumentWords, Embedder, arranged, read_words

if TYPE_CHECKING:
    from docparse.fields.patches import PatchField
    from docparse.generator import GeneratedDocument

FloatArray = NDArray[np.float32]
Indices = NDArray[np.int64]
VERSION = 3
ARRAYS = (
    "boxes", "page", "line", "segment", "block", "heading", "left", "right", "above", "below", "over", "sizes",
    "fixed", "which", "vectors",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Truth:
    """What is known of a question's answer: evidence boxes in page units, the answer's words, the accepted answers."""

    boxes: FloatArray  # (m, 4)
    pages: Indices  # (m,)
    evidence_words: NDArray[np.bool_]  # (n,) words whose centre lies in the evidence
    answer_words: NDArray[np.bool_]  # (n,)
    answers: tuple[str, ...]
    kind: str
    via_boxes: FloatArray = field(default_factory=lambda: np.zeros((0, 4), np.float32))  # what a first look finds
    via_pages: Indices = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class Example:
    """One question on one document, ready for the network; ``truth.answers`` is empty if it has no answer there."""

    words: DocumentWords
    fields: WordFields
    truth: Truth
    question: str
    name: str
    patches: PatchField | None = None  # what the pages look like to the question, for a reader that sees them


def make_truth(
    words: DocumentWords, evidence: Sequence[tuple[int, tuple[float, float, float, float]]], answers: Sequence[str],
    kind: str, sides: Sequence[float],
) -> Truth:  # fmt: skip
    """Labels of a question.

    Args:
        words: of the document.
        evidence: (page, box in pixels of that page) pairs; none if the document has no answer.
        answers: accepted answers.
        kind: what the evidence is, for reports.
        sides: longer side of every page in pixels.
    """
    boxes = np.array([[v / sides[page] for v in box] for page, box in evidence], np.float32).reshape(-1, 4)
    pages = np.array([page for page, _ in evidence], np.int64)
    centres = (words.boxes[:, :2] + words.boxes[:, 2:]) / 2
    within = np.zeros(len(words), bool)
    for page, (x0, y0, x1, y1) in zip(pages.tolist(), boxes.tolist(), strict=True):
        x, y = centres[:, 0], centres[:, 1]
        within |= (words.page == page) & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
    return Truth(boxes, pages, within, answer_words(words.texts, within, answers), tuple(answers), kind)


def answer_words(texts: Sequence[str], within: NDArray[np.bool_], answers: Sequence[str]) -> NDArray[np.bool_]:
    """Which of the evidence's words spell an answer; all of them if no run of theirs does."""
    indices = np.flatnonzero(within).tolist()
    spelled = ["".join(normal(texts[i]).split()) for i in indices]
    wanted = {"".join("".join(normal(part) for part in answer.split()).split()) for answer in answers}
    out = np.zeros(len(texts), bool)
    for start in range(len(indices)):
        run = ""
        for end in range(start, len(indices)):
            run += spelled[end]
            if run in wanted:
                out[indices[start : end + 1]] = True
                return out
    out[indices] = True
    return out


def save_document(path: Path, words: DocumentWords, questions: Sequence[tuple[str, WordFields, Truth]]) -> None:
    """Write a document with its questions, atomically; floats as float16."""
    arrays: dict[str, Any] = {name: _small(getattr(words, name)) for name in ARRAYS}
    about: list[dict[str, Any]] = []
    for index, (text, fields, truth) in enumerate(questions):
        arrays |= {
            f"{index}/matched": _small(fields.matched),
            f"{index}/question": _small(fields.question),
            f"{index}/boxes": truth.boxes,
            f"{index}/pages": truth.pages,
            f"{index}/evidence_words": truth.evidence_words,
            f"{index}/answer_words": truth.answer_words,
        }
        if len(truth.via_boxes):
            arrays |= {f"{index}/via_boxes": truth.via_boxes, f"{index}/via_pages": truth.via_pages}
        about.append({"question": text, "answers": list(truth.answers), "kind": truth.kind})
    about_all = {"version": VERSION, "texts": words.texts, "unique": words.unique, "questions": about}
    arrays["about"] = np.frombuffer(json.dumps(about_all).encode(), np.uint8)
    partial = path.with_name(f".{path.name}.{os.getpid()}.npz")
    np.savez(partial, **arrays)
    os.replace(partial, path)


def load_document(path: Path) -> list[Example]:
    """All questions of a record. Raises `DataError` for a file that is not one, or of another version."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays["about"].tobytes().decode())
        if about["version"] != VERSION:
            raise DataError(f"{path} is a record of version {about['version']}, expected {VERSION}; make it anew")
        words = _words(arrays, about)
        return [
            Example(words, _fields(arrays, i), _truth(arrays, i, q), q["question"], f"{path.stem}/{i}")
            for i, q in enumerate(about["questions"])
        ]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is no training record of documents: {error}; delete it and make it anew") from error


def _words(arrays: dict[str, Any], about: dict[str, Any]) -> DocumentWords:
    values = {name: _large(arrays[name]) for name in ARRAYS}
    return DocumentWords(texts=tuple(about["texts"]), unique=tuple(about["unique"]), **values)


def _fields(arrays: dict[str, Any], index: int) -> WordFields:
    return WordFields(_large(arrays[f"{index}/matched"]), _large(arrays[f"{index}/question"]))


def _truth(arrays: dict[str, Any], index: int, about: dict[str, Any]) -> Truth:
    truth = Truth(
        boxes=arrays[f"{index}/boxes"],
        pages=arrays[f"{index}/pages"],
        evidence_words=arrays[f"{index}/evidence_words"],
        answer_words=arrays[f"{index}/answer_words"],
        answers=tuple(about["answers"]),
        kind=about["kind"],
    )
    if f"{index}/via_boxes" not in arrays:
        return truth
    return replace(truth, via_boxes=arrays[f"{index}/via_boxes"], via_pages=arrays[f"{index}/via_pages"])


def _small(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float16) if values.dtype == np.float32 else values.astype(np.int32)


def _large(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float32) if values.dtype == np.float16 else values.astype(np.int64)


def _via(via: Sequence[tuple[int, tuple[float, float, float, float]]], sides: Sequence[float]) -> dict[str, Any]:
    boxes = np.array([[v / sides[page] for v in box] for page, box in via], np.float32)
    return {"via_boxes": boxes, "via_pages": np.array([page for page, _ in via], np.int64)}


@dataclass(frozen=True)
class GeneratedConfig:
    """Generated documents to make records of."""

    output: Path
    split: Literal["train", "held_out"] = "train"
    first: int = 0  # seed of the first document
    documents: int = 2000
    sights: bool = False  # with photographs, drawings, signatures, stamps and boxes to tick, and questions for them
    pages: int | tuple[int, int] | None = None  # of each; None: as `docparse.generator.make_document` draws them
    hops: int = 0  # at most so many further questions that need two looks


def record_paths(config: GeneratedConfig) -> Iterator[tuple[int, Path]]:
    """Seed and record of each document, whether it is there or not."""
    name = f"{config.split}-sights" if config.sights else config.split
    for seed in range(config.first, config.first + config.documents):
        yield seed, config.output / f"{name}-{seed:07d}.npz"


def make_generated(config: GeneratedConfig, seed: int, *, render: bool) -> GeneratedDocument:
    """The document of a seed, with or without pictures."""
    from docparse.generator import make_document

    return make_document(seed, config.split, render=render, sights=config.sights, pages=config.pages, hops=config.hops)


def make_records(config: GeneratedConfig, embedder: Embedder) -> Iterator[Path]:
    """Make the records that are missing, in order; yields each path, also of those that were there."""
    config.output.mkdir(parents=True, exist_ok=True)
    for seed, path in record_paths(config):
        if not path.is_file():
            document = make_generated(config, seed, render=False)
            words = read_words([arranged(page) for page in document.pages], embedder)
            sides = [max(page.width, page.height) for page in document.pages]
            questions = []
            for q in document.questions:
                truth = make_truth(words, q.evidence, q.answers, q.kind, sides)
                if q.via:
                    truth = replace(truth, **_via(q.via, sides))
                questions.append((q.text, word_fields(words, q.text, embedder), truth))
            save_document(path, words, questions)
        yield path
