"""``fovea data records``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.markup import escape
from rich.progress import Progress

from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import CancelledError, ConfigError


@dataclass(frozen=True, kw_only=True)
class Command:
    """Make what the reader of documents is trained and scored on: generated documents with their fields, a file each.

    Every record is a pure function of its seed and split, so several of these commands may fill one folder with
    different seeds, and the same command goes on where it was stopped.
    """

    split: Literal["train", "held_out"] = "train"  # fonts, templates and part of the wording apart
    n: int = 2000  # documents
    seed: int = 0  # seed of the first document; the others follow
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/records")  # written to
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Make the records that are missing."""
        if self.n < 1 or self.seed < 0:
            raise ConfigError(f"--n must be at least 1 and --seed at least 0, got {self.n} and {self.seed}")
        check_folder(self.output)
        from docparse.data import GeneratedConfig, make_records
        from docparse.documents import TextEmbedder

        config = GeneratedConfig(self.output, self.split, self.seed, self.n)
        before = len([*self.output.glob(f"{self.split}-*.npz")])
        done = 0
        shown = output.console.is_terminal and not output.as_json
        with Progress(console=output.console, transient=True, disable=not shown) as bar:
            task = bar.add_task("making records", total=self.n)
            try:
                for _ in make_records(config, TextEmbedder()):
                    done += 1
                    bar.advance(task)
            except KeyboardInterrupt as stop:
                raise CancelledError(f"{done} of {self.n} records are there; the same command goes on") from stop
        fresh = len([*self.output.glob(f"{self.split}-*.npz")]) - before
        if not output.as_json:
            output.console.print(f"{done} records in {escape(str(self.output))}, {fresh} of them new")
        output.json({"records": done, "new": fresh, "config": {**asdict(self), "output": str(self.output)}})
        return 0
