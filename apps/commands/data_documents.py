"""``fovea data documents``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.progress import Progress

from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Command:
    """Write generated documents as files: pages as PNG, each document as a PDF with its text, questions with evidence.

    Every document is a pure function of its seed. The splits share neither fonts nor templates. The folder can be
    scored as the benchmark "generated".
    """

    split: Literal["train", "held_out"] = "held_out"  # fonts, templates and part of the wording apart
    n: int = 20  # documents
    seed: int = 0  # seed of the first document; the others follow
    kind: Literal["any", "invoice", "form", "letter", "table", "report", "slides", "manual"] = "any"  # of document
    pages: int = 0  # pages a document, 1 to 40 (default: drawn from 1 to 8, most often 1)
    scan: Literal["some", "all", "none"] = "some"  # which documents look scanned
    questions: int = 8  # at most, a document
    unanswerable: float = 0.1  # share of questions that the document does not answer
    sights: bool = False  # photographs, drawings, signatures, stamps, boxes to tick, and questions for them
    hops: int = 0  # at most so many further questions a document that need two looks
    pdf: bool = True  # write PDFs as well
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/documents")  # written to
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Generate and write."""
        from docparse.generator import make_document
        from docparse.generator.writing import write_documents

        if self.n < 1:
            raise ConfigError(f"--n must be at least 1 document, got {self.n}")
        check_folder(self.output)
        documents = (
            make_document(
                seed,
                self.split,
                pages=self.pages or None,
                kind=None if self.kind == "any" else self.kind,
                scan={"some": None, "all": True, "none": False}[self.scan],
                most_questions=self.questions,
                unanswerable=self.unanswerable,
                sights=self.sights,
                hops=self.hops,
            )
            for seed in range(self.seed, self.seed + self.n)
        )
        self.output.mkdir(parents=True, exist_ok=True)
        with Progress(console=output.console, transient=True) as bar:
            task = bar.add_task("drawing", total=self.n)
            counts = write_documents(documents, self.output, pdf=self.pdf, done=lambda: bar.advance(task))
        if not output.as_json:
            said = ", ".join(f"{count} {name}" for name, count in counts.items())
            output.console.print(f"{said} written to {escape(str(self.output))}")
        output.json({"output": str(self.output), **counts, "config": _plain(self)})
        return 0


def _plain(command: Command) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(command).items()}
