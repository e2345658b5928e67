"""``fovea data sample``: the picture that the demo asks about."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.markup import escape

from apps.commands.common import check_folder
from apps.output import Output
from backbone.errors import DataError

if TYPE_CHECKING:
    from backbone.contracts import Image as Pixels

LONGEST = 4096
MAX_BYTES = 1_500_000
# Only photographs that anybody may redistribute.
LICENCES = {
    "coffee.png": "CC0, photograph by Rachel Michetti, from scikit-image",
    "gravel.png": "CC0, CC0Textures Gravel04, from scikit-image",
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """Write the sample picture: a held-out mini-V* scene of freely licensed photographs, 4096 pixels long.

    Beside it goes a JSON file of the same name with its questions, answers, boxes and the photographs' licences.
    """

    seed: int = 65  # which scene of the held-out split
    name: str = "collage"  # of the files
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("assets/samples")  # written to
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Draw the scene and write it."""
        from perception.benchmarks.ministar import SEEDS, questions, scene

        check_folder(self.output)
        number = SEEDS["held_out"].start + self.seed
        drawn = scene(number, "held_out", LONGEST)
        photographs = sorted({tile.photograph.name for tile in drawn.tiles})
        closed = [name for name in photographs if name not in LICENCES]
        if closed:
            raise DataError(f"scene {self.seed} shows {', '.join(closed)}, which may not be shipped; take another seed")
        data, quality = _compressed(drawn.array)
        record = {
            "image": f"{self.name}.jpg",
            "size": list(drawn.size),
            "scene": number,
            "questions": [
                {"question": q.text, "options": q.options, "answer": q.options[q.answer], "badges": q.targets}
                for q in questions(drawn).values()
            ],
            "badges": [{**asdict(badge.box), "symbol": badge.symbol} for badge in drawn.badges],
            "photographs": {name: LICENCES[name] for name in photographs},
        }
        (self.output / f"{self.name}.jpg").write_bytes(data)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (self.output / f"{self.name}.json").write_text(text, "utf-8")
        if not output.as_json:
            place = escape(str(self.output / f"{self.name}.jpg"))
            output.console.print(f"{place}: {drawn.size[0]} x {drawn.size[1]}, {len(data)} bytes, quality {quality}")
        output.json(record)
        return 0


def _compressed(picture: Pixels) -> tuple[bytes, int]:
    """The JPEG of the best quality that stays within `MAX_BYTES`."""
    from PIL import Image

    for quality in (92, 88, 84, 80, 75, 70, 60):
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= MAX_BYTES:
            return buffer.getvalue(), quality
    raise DataError(f"the scene needs more than {MAX_BYTES} bytes even at quality 60; take another seed")
