"""``fovea data records``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.markup import escape
from rich.progress import Progress

from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import CancelledError, ConfigError

if TYPE_CHECKING:
    from docparse.data import GeneratedConfig


@dataclass(frozen=True, kw_only=True)
class Command:
    """Make what the reader of documents is trained and scored on: generated documents with their fields, a file each.

    Every record is a pure function of its seed, split, --pages, --hops and --sights, so several of these commands may
    fill one folder with different seeds, and the same command goes on where it was stopped. Records that are there are
    kept, however they were made: give other settings another folder.
    """

    split: Literal["train", "held_out"] = "train"  # fonts, templates and part of the wording apart
    n: int = 2000  # documents
    seed: int = 0  # seed of the first document; the others follow
    pages: tuple[int, int] | None = None  # fewest and most pages, 1 to 40 (default: drawn, 1 to 8, most often 1)
    hops: int = 0  # at most so many further questions a document that need two looks
    sights: bool = False  # documents with photographs, drawings, signatures, stamps, boxes, and questions for them
    patches: Annotated[str | None, tyro.conf.arg(metavar="MODEL")] = None  # also what this backbone sees of the pages
    longest: int = 1024  # with --patches: pixels of a page's longer side
    layer: int = -1  # with --patches: of the backbone, whose hidden states are taken
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/records")  # written to
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Make the records that are missing."""
        if self.n < 1 or self.seed < 0:
            raise ConfigError(f"--n must be at least 1 and --seed at least 0, got {self.n} and {self.seed}")
        check_folder(self.output)
        if self.patches is not None and "://" in self.patches:
            raise ConfigError(f"--patches {self.patches}: a server gives no hidden states; name local weights")
        from docparse.data import GeneratedConfig, make_records
        from docparse.documents import TextEmbedder

        config = GeneratedConfig(self.output, self.split, self.seed, self.n, self.sights, self.pages, self.hops)
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
        if self.patches is not None:
            self._look(config, output)
        fresh = len([*self.output.glob(f"{self.split}-*.npz")]) - before
        if not output.as_json:
            output.console.print(f"{done} records in {escape(str(self.output))}, {fresh} of them new")
        output.json({"records": done, "new": fresh, "config": {**asdict(self), "output": str(self.output)}})
        return 0

    def _look(self, config: GeneratedConfig, output: Output) -> None:
        """The patch fields of the records."""
        from docparse.fields.patches import PatchConfig, PatchSeer
        from docparse.patch_data import make_patches

        seer = PatchSeer.load(PatchConfig(str(self.patches), self.longest, self.layer))
        done = 0
        shown = output.console.is_terminal and not output.as_json
        with Progress(console=output.console, transient=True, disable=not shown) as bar:
            task = bar.add_task("looking at pages", total=self.n)
            try:
                for _ in make_patches(config, seer):
                    done += 1
                    bar.advance(task)
            except KeyboardInterrupt as stop:
                said = f"patches of {done} of {self.n} records are there; the same command goes on"
                raise CancelledError(said) from stop
