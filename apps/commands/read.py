"""``fovea read DOCUMENT QUESTION``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.progress import Progress

from apps.commands.common import ModelOptions, check_folder, preset_name, token_from
from apps.output import Output
from apps.printing import evidence_table, ledger_table, print_notes
from backbone.errors import ConfigError
from docparse.documents import Limits, open_document
from docparse.question import CANNOT_READ, check_question

if TYPE_CHECKING:
    from docparse.documents import Document
    from docparse.pipeline import DocumentAnswer, DocumentReader, DocumentSession, OnPage

DRAWN_PAGES = 3  # of a strip


@dataclass(frozen=True, kw_only=True)
class Command:
    """Answer a question about a document, and show the page, the box and the words that the answer stands on.

    The document may be a PDF, a PNG, JPEG, WebP, GIF, BMP or a TIFF of several pages; scans are read by OCR. That the
    document does not hold the answer is a result like another: exit code 0, and "found": false in JSON.
    """

    document: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DOCUMENT")]  # PDF or picture
    question: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="QUESTION")]  # what to find out
    pages: int = Limits.pages  # read at most so many, from the first
    page_seconds: float = Limits.page_seconds  # longest time for one page; it then counts as unreadable
    no_ocr: bool = False  # leave scanned pages unread
    password: str | None = None  # of an encrypted PDF; other users of the machine can see it, so rather:
    password_env: str | None = None  # the environment variable that holds the password
    model: str | None = None  # writes the answer from close-ups: a hub id, a directory, or http://host:port/v1#model
    device: str = "auto"  # of that model: auto, cpu, cuda, cuda:1, ...
    weights: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # a reader that training left
    fields: Literal["words", "patches", "both"] | None = None  # insist on weights trained so; patches alone: no OCR
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # write answer.json, page-N.png, flow.png
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Open, read the pages, answer, print and write."""
        check_question(self.question)
        check_folder(self.output)
        password = self._password()
        _check_weights(self.weights)
        ocr = not self.no_ocr and _reads(self.weights)
        limits = Limits(pages=self.pages, page_seconds=self.page_seconds, ocr=ocr)
        options = self._model_options()
        with open_document(self.document, limits, password=password) as document:  # its errors come before torch loads
            with output.console.status("loading the reader"):
                from docparse.pipeline import DocumentReader

                reader = DocumentReader.load(self.weights, options.load() if options else None, self.fields)
            with _progress(output) as on_page:
                session = reader.session(document, on_page=on_page)
            answer = session.ask(self.question)
            record = self._record(document, session, answer, reader)
            if self.output is not None:
                record["files"] = _write(self.output, document, answer, record)
        self._print(output, record, answer)
        output.json(record)
        return 0

    def _model_options(self) -> ModelOptions | None:
        """The model that writes, found wanting before anything slow; None for the document's own words."""
        if self.model is None:
            return None
        options = ModelOptions(model=self.model, device=self.device)
        options.check()
        if preset_name(self.model) == "nano":
            raise ConfigError(f"--model {self.model}: {CANNOT_READ}")
        return options

    def _password(self) -> str | None:
        if self.password is not None and self.password_env is not None:
            raise ConfigError("--password and --password-env exclude each other; give one")
        return self.password if self.password_env is None else token_from(self.password_env, "--password-env")

    def _record(
        self, document: Document, session: DocumentSession, answer: DocumentAnswer, reader: DocumentReader
    ) -> dict[str, Any]:
        plain = answer.to_dict()
        for entry in plain["evidence"]:
            entry["points"] = _points(session, entry["page"], entry["box"])
        return {
            "document": str(self.document),
            "pages": {"in_document": document.page_count, "read": len(document), "failed": len(document.errors)},
            "question": self.question,
            **plain,
            "config": {
                "reader": asdict(reader.config),
                "limits": asdict(document.limits),
                "weights": str(self.weights or "shipped"),
                "model": self.model,
            },
        }

    def _print(self, output: Output, record: dict[str, Any], answer: DocumentAnswer) -> None:
        if output.as_json:
            return
        console = output.console
        console.print(f"[bold]{escape(answer.text)}[/bold]")
        console.print(f"confidence {answer.confidence:.2f}")
        if record["evidence"]:
            console.print(evidence_table(record["evidence"]))
        console.print(ledger_table(answer.ledger))
        print_notes(console, answer.notes)
        if self.output is not None:
            console.print(f"written to {escape(str(self.output))}: {', '.join(record['files'])}")


def _check_weights(folder: Path | None) -> None:
    if folder is not None and not (folder / "config.json").is_file():
        raise ConfigError(f"--weights {folder}: holds no config.json; give a folder that `fovea train docparse` left")


def _reads(folder: Path | None) -> bool:
    """Whether the weights look at words at all; what cannot be told here is told when they are loaded."""
    try:
        return folder is None or bool(json.loads((folder / "config.json").read_text())["config"]["network"]["words"])
    except (ValueError, KeyError, TypeError):
        return True


def _points(session: DocumentSession, page: int, box: list[float]) -> list[float] | None:
    """(left, bottom, right, top) in PDF points, or None for a picture."""
    shown = session.pages[page - 1]
    if shown.to_points is None:
        return None
    x0, y0, x1, y1 = box
    return [round(value, 2) for value in shown.points((x0, y0, x1, y1))]


@contextmanager
def _progress(output: Output) -> Iterator[OnPage]:
    """A bar over the pages, on a terminal."""
    shown = output.console.is_terminal and not output.as_json
    with Progress(console=output.console, transient=True, disable=not shown) as bar:
        task = bar.add_task("reading pages", total=None)

        def on_page(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=f"page {done} of {total}")

        yield on_page


def _write(folder: Path, document: Document, answer: DocumentAnswer, record: dict[str, Any]) -> list[str]:
    """Write pictures and JSON; the names of the files."""
    from PIL import Image

    from docparse.drawing import evidence_picture, flow_strip, heaviest_pages

    folder.mkdir(parents=True, exist_ok=True)
    marked: dict[int, list[tuple[int, tuple[float, float, float, float]]]] = {}
    for number, entry in enumerate(answer.evidence, 1):
        marked.setdefault(entry.page, []).append((number, entry.box.corners))
    heavy = heaviest_pages(answer.steps[-1], DRAWN_PAGES) if answer.steps else []
    pictures = {}
    for page in sorted({*marked, *heavy}):
        image = document.page(page).image
        if image is not None:
            pictures[page] = image
    files = []
    for page in sorted(marked.keys() & pictures.keys()):
        numbers, boxes = zip(*marked[page], strict=True)
        files.append(f"page-{page + 1}.png")
        Image.fromarray(evidence_picture(pictures[page], boxes, numbers)).save(folder / files[-1])
    if drawn := {page: pictures[page] for page in heavy if page in pictures}:
        files.append("flow.png")
        Image.fromarray(flow_strip(drawn, answer.steps, marked)).save(folder / files[-1])
    if missing := marked.keys() - pictures.keys():
        record["notes"].append(f"page {min(missing) + 1} could not be drawn: {document.page(min(missing)).error}")
    files = ["answer.json", *files]
    text = json.dumps({**record, "files": files}, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "answer.json").write_text(text + "\n", "utf-8")
    return files
