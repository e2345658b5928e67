"""Generated documents as files, in the layout that `docparse.benchmarks.generated` states and reads back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from docparse.benchmarks.generated import QUESTIONS, WORDS
from docparse.generator.document import GeneratedDocument
from docparse.generator.pdf import write_pdf


def write_documents(
    documents: Iterable[GeneratedDocument], folder: Path, *, pdf: bool = True, done: Callable[[], None] = lambda: None
) -> dict[str, int]:
    """Write pages as PNG, documents as PDF, questions and words as JSON lines; ``done`` is called after each document.

    Gives how many documents, pages and questions were written. Raises `DataError` for pages without a picture.
    """
    for name in ("pages", *(["documents"] if pdf else [])):
        (folder / name).mkdir(parents=True, exist_ok=True)
    counts = {"documents": 0, "pages": 0, "questions": 0}
    with (
        (folder / QUESTIONS).open("w", encoding="utf-8") as asked,
        (folder / WORDS).open("w", encoding="utf-8") as words,
    ):
        for document in documents:
            name = f"{document.split}-{document.seed}"
            if pdf:
                write_pdf(document.pages, folder / "documents" / f"{name}.pdf")
            pages = _write_pages(document, name, folder)
            for number, page in enumerate(document.pages):
                record = {
                    "document": name,
                    "page": number,
                    "words": [_word(w.text, w.box, w.line, w.block) for w in page.words],
                }
                words.write(json.dumps(record, ensure_ascii=False) + "\n")
            for record in _questions(document, name, pages, f"documents/{name}.pdf" if pdf else None):
                asked.write(json.dumps(record, ensure_ascii=False) + "\n")
            counts["documents"] += 1
            counts["pages"] += len(document.pages)
            counts["questions"] += len(document.questions)
            done()
    return counts


def _write_pages(document: GeneratedDocument, name: str, folder: Path) -> list[dict[str, Any]]:
    out = []
    for number, page in enumerate(document.pages, 1):
        path = f"pages/{name}-{number}.png"
        if page.image is not None:
            Pillow.fromarray(page.image).save(folder / path, dpi=(page.dpi, page.dpi))
        out.append({"image": path, "width": page.width, "height": page.height, "dpi": round(page.dpi, 3)})
    return out


def _questions(
    document: GeneratedDocument, name: str, pages: list[dict[str, Any]], pdf: str | None
) -> list[dict[str, Any]]:
    whole = {
        "document": name,
        "split": document.split,
        "seed": document.seed,
        "document_kind": document.kind,
        "template": document.template,
        "pages": pages,
        "pdf": pdf,
    }
    return [
        {
            "id": f"generated-{name}-{number}",
            "question": question.text,
            "answers": list(question.answers),
            "kind": question.kind,
            "note": question.note,
            "evidence": [{"page": page, "box": _rounded(box)} for page, box in question.evidence],
            **whole,
        }
        for number, question in enumerate(document.questions)
    ]


def _word(text: str, box: tuple[float, float, float, float], line: int, block: int) -> list[Any]:
    return [text, *_rounded(box), line, block]


def _rounded(box: tuple[float, float, float, float]) -> list[float]:
    return [round(v, 2) for v in box]
