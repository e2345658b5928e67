"""``fovea data ministar``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.progress import track

from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import ConfigError

if TYPE_CHECKING:
    from perception.benchmarks.items import Item

JPEG_QUALITY = 95


@dataclass(frozen=True, kw_only=True)
class Command:
    """Write mini-V* as files: a JPEG for each item, and items.jsonl with question, options, answer and boxes.

    Scenes are collages of real photographs with tiny badges; every item is a pure function of its seed.
    """

    split: Literal["train", "held_out"] = "held_out"  # disjoint seeds and photographs
    count: int = 20  # items
    seed: int = 0  # how many seeds of the split to skip
    sizes: tuple[int, ...] = ()  # longer sides in pixels, in turn (default: 1024 2048 4096 8192)
    photographs: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # more background photographs
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/ministar")  # written to
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Generate and write."""
        from perception.benchmarks.ministar import SIZES, benchmark

        if self.photographs is not None and not self.photographs.is_dir():
            raise ConfigError(f"{self.photographs} is not a folder; give a folder of photographs or leave it out")
        made = benchmark(self.count, self.split, sizes=self.sizes or SIZES, offset=self.seed, folder=self.photographs)
        check_folder(self.output)
        records = [
            _write(self.output, item) for item in track(made.items, "drawing", console=output.console, transient=True)
        ]
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (self.output / "items.jsonl").write_text(lines, "utf-8")
        if not output.as_json:
            output.console.print(f"{len(records)} items written to {escape(str(self.output))}")
        output.json({"output": str(self.output), "split": self.split, "items": len(records), "config": _plain(self)})
        return 0


def _write(folder: Path, item: Item) -> dict[str, Any]:
    from PIL import Image

    picture = item.load().resized(None)
    name = f"{item.id}.jpg"
    Image.fromarray(picture).save(folder / name, quality=JPEG_QUALITY)
    boxes = [asdict(box) for box in item.boxes]
    asked = {"question": item.question, "options": list(item.options), "answer": item.answer}
    size = [picture.shape[1], picture.shape[0]]
    return {"id": item.id, "image": name, "size": size, "kind": item.kind, **asked, "boxes": boxes, "seed": item.seed}


def _plain(command: Command) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(command).items()}
