"""``fovea data sample-document``: the document that the demo asks about."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.markup import escape

from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import DataError

if TYPE_CHECKING:
    from docparse.generator.document import GeneratedDocument

MAX_BYTES = 200_000


@dataclass(frozen=True, kw_only=True)
class Command:
    """Write the sample document: a held-out generated PDF with its text, and its questions as JSON lines beside it.

    A line has the question, its answers (none where the document does not hold them) and the evidence: pages from 0,
    boxes in pixels of a page of the stated size.
    """

    seed: int = 5  # which document of the held-out split
    name: str = "document"  # of the files
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("assets/samples")  # written to
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Generate and write."""
        check_folder(self.output)
        from docparse.generator import make_document
        from docparse.generator.pdf import write_pdf

        document = make_document(self.seed, "held_out", scan=False)
        self.output.mkdir(parents=True, exist_ok=True)
        path, partial = self.output / f"{self.name}.pdf", self.output / f".{self.name}.part"
        write_pdf(document.pages, partial)
        size = partial.stat().st_size
        if size > MAX_BYTES:
            partial.unlink()
            raise DataError(f"document {self.seed} needs {size} bytes, more than {MAX_BYTES}; take another seed")
        partial.replace(path)
        lines = [json.dumps(entry, ensure_ascii=False) for entry in _questions(document, path.name)]
        (self.output / f"{self.name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        record = {"document": str(path), "bytes": size, "pages": len(document.pages), "questions": len(lines)}
        if not output.as_json:
            output.console.print(
                f"{escape(str(path))}: {len(document.pages)} pages, {size} bytes, {len(lines)} questions"
            )
        output.json({**record, "seed": self.seed, "template": document.template, "fonts": list(document.fonts)})
        return 0


def _questions(document: GeneratedDocument, name: str) -> list[dict[str, Any]]:
    sizes = [[page.width, page.height] for page in document.pages]
    return [
        {
            "document": name,
            "question": question.text,
            "answers": list(question.answers),
            "kind": question.kind,
            "evidence": [{"page": page, "box": [round(v, 2) for v in box]} for page, box in question.evidence],
            "sizes": sizes,
        }
        for question in document.questions
    ]
