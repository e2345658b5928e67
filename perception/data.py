"""Training records for one circuit at a time, mined by rejection: SPARC's recipe without hand-made rewards.

A teacher (another model, the same one at a higher regime, or given boxes) proposes regions. They become a target only
if they help: stage 2 answers rightly with close-ups of them, and wrongly without any at the lowest regime. A part of
the questions that need no close-up is kept as well, so that easy questions stay easy.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import cv2
import numpy as np

from backbone.contracts import Box, Image
from backbone.errors import DataError
from backbone.images import read_image
from backbone.vlm import VLM, Message
from perception import prompts
from perception.benchmarks.items import Item
from perception.config import PerceptionConfig
from perception.crops import choose_regions, cut
from perception.pipeline import Searcher
from perception.views import View, global_view

Circuit = Literal["perception", "reasoning"]
MAX_TARGET_BOXES = 4  # OUR CHOICE: a target lists at most so many boxes
EASY_FRACTION = 0.3  # OUR CHOICE: part of the easy questions that is kept


@dataclass(frozen=True)
class Record:
    """One prompt of one circuit with what it should reply; ``images`` in the order of the prompt's image parts."""

    id: str
    circuit: Circuit
    prompt: tuple[str, ...]  # text between the images: images[0], prompt[0], images[1], prompt[1], ...
    target: str
    images: tuple[Image, ...] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.circuit not in get_args(Circuit):
            raise DataError(f"record {self.id}: circuit must be one of {get_args(Circuit)}, got {self.circuit!r}")
        if len(self.prompt) != len(self.images) or not self.images or not self.target:
            raise DataError(
                f"record {self.id}: needs a target and one text after each image, got {len(self.images)} images, "
                f"{len(self.prompt)} texts, target {self.target!r}"
            )

    def messages(self) -> list[Message]:
        """The prompt as the model gets it."""
        content: list[Message] = []
        for image, text in zip(self.images, self.prompt, strict=True):
            content += [{"type": "image", "image": image}, {"type": "text", "text": text}]
        return [{"role": "user", "content": content}]


@dataclass
class Mining:
    """What mining came to, counted while it runs: ``hard`` and ``easy`` are kept, the rest is why items were not."""

    counts: Counter[str] = field(default_factory=Counter)


def mine(
    student: VLM,
    items: Iterable[Item],
    config: PerceptionConfig,
    *,
    teacher: Searcher | None = None,
    easy_fraction: float = EASY_FRACTION,
    seed: int = 0,
    mining: Mining | None = None,
) -> Iterator[tuple[Item, tuple[Box, ...]]]:
    """Items with regions that are worth learning, lazily.

    Args:
        student: Whose stage 2 decides; its stage 1 is what will be trained.
        items: Questions with known answers.
        config: Regime and crop rules of the training; the lowest regime trains best (STATED).
        teacher: Proposes the regions; None takes the items' own boxes.
        easy_fraction: Part kept of the items that the student answers without close-ups. Which ones depends on
            ``seed`` and the item alone, not on order.
        seed: Of sampling and of the choice of easy items.
        mining: Gets the counts.
    """
    counts = (mining or Mining()).counts
    judge = Searcher(student, replace(config, method="sparc", perception_adapter=None))
    for item in items:
        image = item.load()
        boxes = item.boxes if teacher is None else teacher.search(image, item.question, seed=seed).fused
        if not boxes:
            counts["no boxes"] += 1
            continue
        boxes = tuple(boxes[:MAX_TARGET_BOXES])
        if judge.answer_from(image, item.question, item.options, boxes, seed=seed).choice != item.answer:
            counts["wrong with close-ups"] += 1
            continue
        if judge.answer_from(image, item.question, item.options, (), seed=seed).choice != item.answer:
            counts["hard"] += 1
        elif _draw(item.id, seed) < easy_fraction:
            counts["easy"] += 1
        else:
            counts["easy, left out"] += 1
            continue
        yield item, boxes


def perception_record(vlm: VLM, item: Item, boxes: Sequence[Box], config: PerceptionConfig) -> Record:
    """Stage 1: the small image and the question, with the canonical list of boxes as target."""
    view = global_view(item.load(), vlm, config.longest)
    pairs = [(view.encode(box, vlm), _plain(box.label)) for box in boxes[:MAX_TARGET_BOXES]]
    (message,) = prompts.perception_messages(view.image, item.question)
    return _record(item.id, "perception", message, prompts.boxes_json(pairs))


def reasoning_record(vlm: VLM, item: Item, boxes: Sequence[Box], config: PerceptionConfig) -> Record:
    """Stage 2: the small image, close-ups of ``boxes`` and the question, with the right letter as target."""
    image = item.load()
    view: View = global_view(image, vlm, config.longest)
    regions, _ = choose_regions(boxes, image.size, config)
    crops = cut(image, regions, view, vlm, config)
    question = prompts.multiple_choice(item.question, item.options)
    (message,) = prompts.reasoning_messages(view.image, [(crop.tag, crop.image) for crop in crops], question)
    return _record(item.id, "reasoning", message, prompts.LETTERS[item.answer])


def write_records(records: Iterable[Record], folder: Path) -> int:
    """Write ``records.jsonl`` and one PNG an image; returns how many. The folder must not hold records already."""
    path = folder / "records.jsonl"
    if path.exists():
        raise DataError(f"{path} exists; choose another folder or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8") as lines:
        for count, record in enumerate(records, 1):
            names = [f"{count - 1:06d}_{i}.png" for i in range(len(record.images))]
            for name, image in zip(names, record.images, strict=True):
                if not cv2.imwrite(str(folder / name), np.ascontiguousarray(image[..., ::-1])):
                    raise DataError(f"{folder / name}: could not be written")
            line = {"id": record.id, "circuit": record.circuit, "prompt": record.prompt, "target": record.target}
            lines.write(json.dumps({**line, "images": names}, ensure_ascii=False) + "\n")
    return count


def read_records(folder: Path) -> list[Record]:
    """Read what `write_records` wrote; raises `DataError` naming file and line of what is broken."""
    path = folder / "records.jsonl"
    if not path.is_file():
        raise DataError(f"{path}: no such file; write records with perception.data.write_records")
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            raw: dict[str, Any] = json.loads(line)
            names = [Path(str(name)).name for name in raw["images"]]
            images = tuple(read_image(folder / name).array for name in names)
            records.append(Record(raw["id"], raw["circuit"], tuple(raw["prompt"]), raw["target"], images))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} line {number}: {error}") from error
    return records


def _record(name: str, circuit: Circuit, message: Message, target: str) -> Record:
    images = tuple(part["image"] for part in message["content"] if part["type"] == "image")
    texts = tuple(part["text"] for part in message["content"] if part["type"] == "text")
    return Record(name, circuit, texts, target, images)


def _draw(name: str, seed: int) -> float:
    """A number from 0 to 1 that depends on the item's name and the seed alone."""
    return float(np.random.default_rng([seed, *name.encode()]).random())


def _plain(label: str) -> str:
    return " ".join(label.replace('"', " ").replace("\\", " ").split())
