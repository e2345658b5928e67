"""``fovea ask IMAGE QUESTION``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.markup import escape

from apps.commands.common import ModelOptions, SearchOptions, check_folder
from apps.output import Output
from apps.printing import ledger_table, print_notes, regions_table
from backbone.errors import EmptyAnswerError

SILENT = "the model gave an empty answer"

if TYPE_CHECKING:
    from backbone.images import SourceImage
    from perception.answer import PerceptionAnswer, PerceptionEvent


@dataclass(frozen=True, kw_only=True)
class Command(SearchOptions, ModelOptions):
    """Answer a question about a picture, and show where the model looked and what that cost.

    The picture may be a JPEG, PNG, WebP, TIFF, GIF or BMP of up to 200 megapixels. Exit code 3: the model gave an empty
    answer; everything else is printed and written as usual.
    """

    image: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="IMAGE")]  # the picture
    question: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="QUESTION")]  # what to find out
    options: tuple[str, ...] = ()  # answers to choose from, at least two
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # write overlay.png, close-ups and answer.json
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Read, load, answer, print and write; raises `EmptyAnswerError` after that if the model said nothing."""
        self.check()  # a wrong setting fails before anything slow
        config = self.config(self.model)
        from backbone.images import read_image
        from perception.pipeline import Searcher
        from perception.request import check_question

        check_question(self.question, self.options)

        picture = read_image(self.image)
        check_folder(self.output)
        with output.console.status(f"loading {escape(self.model)}") as status:
            vlm = self.load()
            config = self.attach(vlm, config)
            answer = Searcher(vlm, config).ask(
                picture,
                self.question,
                self.options,
                seed=self.seed,
                on_event=_show(status.update) if not self.json else None,
            )
        record = self._record(picture, answer, asdict(config))
        if self.output is not None:
            _write(self.output, picture, answer, record)
        self._print(output, answer, record["notes"])
        output.json(record)
        if not answer.text.strip():
            raise EmptyAnswerError(f"{SILENT}; ask in other words, or take another model with --model")
        return 0

    def _record(self, picture: SourceImage, answer: PerceptionAnswer, config: dict[str, Any]) -> dict[str, Any]:
        asked = {"image": str(self.image), "size": list(picture.size), "question": self.question}
        result = {**asked, "options": list(self.options), **answer.to_dict()}
        if answer.choice is not None:
            result["option"] = self.options[answer.choice]  # ``answer`` is its letter
        silent = () if answer.text.strip() else (SILENT,)
        result["notes"] = [*picture.notes, *answer.notes, *silent]
        return {**result, "model": self.model, "seed": self.seed, "config": config}

    def _print(self, output: Output, answer: PerceptionAnswer, notes: list[str]) -> None:
        if output.as_json:
            return
        chosen = f"{answer.text}. {self.options[answer.choice]}" if answer.choice is not None else answer.text
        output.console.print(f"[bold]{escape(chosen)}[/bold]")
        if answer.regions:
            output.console.print(regions_table(answer.regions))
        output.console.print(ledger_table(answer.ledger))
        print_notes(output.console, notes)
        if self.output is not None:
            output.console.print(
                f"written: {escape(str(self.output / 'overlay.png'))}, close-ups and answer.json beside it"
            )


def _show(update: Callable[[str], None]) -> Callable[[PerceptionEvent], None]:
    def on_event(event: PerceptionEvent) -> None:
        update(event.kind + (f" at {len(event.boxes)} regions" if event.boxes else ""))

    return on_event


def _write(folder: Path, picture: SourceImage, answer: PerceptionAnswer, record: dict[str, Any]) -> None:
    from PIL import Image

    from perception.drawing import crop_strip, overlay

    folder.mkdir(parents=True, exist_ok=True)
    proposals = [box for boxes in answer.rollouts for box in boxes]
    Image.fromarray(overlay(picture, answer.regions, proposals)).save(folder / "overlay.png")
    if answer.crops:
        Image.fromarray(crop_strip(answer.crops)).save(folder / "close-ups.png")
    for number, crop in enumerate(answer.crops, 1):
        Image.fromarray(crop.image).save(folder / f"close-up-{number}.png")
    (folder / "answer.json").write_text(
        json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8"
    )
