"""Questions about the shipped sample document."""

from __future__ import annotations

import json
from pathlib import Path

from assets import SAMPLES
from backbone.errors import DataError

SAMPLE = SAMPLES / "document.jsonl"
SHOWN = 4


def document_examples(path: Path = SAMPLE) -> list[list[str]]:
    """Rows of document and question: the sample's first questions, the last of them one that it does not answer.

    Raises:
        DataError: the file is broken, or its document is missing.
    """
    if not path.is_file():
        return []
    try:
        entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        rows = [(str(path.parent / Path(e["document"]).name), e["question"], bool(e["answers"])) for e in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: expected lines with document, question and answers ({error!r}); make it again"
        ) from error
    for file in {row[0] for row in rows}:
        if not Path(file).is_file():
            raise DataError(f"{path}: its document {Path(file).name} is missing; make the sample again")
    chosen = [row for row in rows if row[2]][: SHOWN - 1] + [row for row in rows if not row[2]][:1]
    return [[file, question] for file, question, _ in chosen]
