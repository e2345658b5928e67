"""V*Bench (Wu and Xie 2023): 191 photographs, small targets with boxes, the right option written first.

Layout: ``direct_attributes/`` and ``relative_position/``, in each a picture and a JSON of the same stem with
``target_object``, ``bbox`` (a list of ``[x, y, width, height]`` in pixels of the original), ``question``, ``options``.
"""

from __future__ import annotations

import functools
import json
import zlib
from pathlib import Path
from typing import Any

from backbone.contracts import Box
from backbone.errors import DataError
from backbone.images import read_image
from perception.benchmarks.items import Benchmark, Item, shuffled

KINDS = ("direct_attributes", "relative_position")
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG")
MAXIMUM_JSON = 1 << 20  # bytes


def load(path: Path, seed: int = 0) -> Benchmark:
    """All items under ``path``. Options are shuffled by ``seed`` and the item's name, independently of other items.

    Raises:
        DataError: ``path`` holds neither folder, or no usable item.
    """
    kinds = [kind for kind in KINDS if (path / kind).is_dir()]
    if not kinds:
        raise DataError(f"{path} is no V*Bench folder: expected {' and '.join(KINDS)} in it")
    items: list[Item] = []
    skipped: list[str] = []
    for kind in kinds:
        for annotation in sorted((path / kind).glob("*.json")):
            try:
                items.append(_item(annotation, kind, seed))
            except DataError as error:
                skipped.append(str(error))
    return Benchmark("vstar", "test", tuple(items), tuple(skipped))


def _item(annotation: Path, kind: str, seed: int) -> Item:
    record = _record(annotation)
    picture = next((p for s in PICTURES if (p := annotation.with_suffix(s)).is_file()), None)
    if picture is None:
        raise DataError(f"{annotation}: no picture of the same name beside it ({', '.join(PICTURES)})")
    name = f"{kind}/{annotation.stem}"
    options = [str(option) for option in record["options"]]
    if len(options) < 2:
        raise DataError(f"{annotation}: expected at least two options with the right one first, got {options}")
    order, answer = shuffled(options, 0, (seed, zlib.crc32(name.encode())))
    labels = [str(label) for label in record.get("target_object", [])]
    return Item(
        id=f"vstar-{name}",
        kind=kind,
        question=str(record["question"]),
        options=order,
        answer=answer,
        load=functools.partial(read_image, picture),
        boxes=_boxes(record.get("bbox", []), labels, annotation),
        seed=seed,
    )


def _record(annotation: Path) -> dict[str, Any]:
    if annotation.stat().st_size > MAXIMUM_JSON:
        raise DataError(
            f"{annotation}: {annotation.stat().st_size} bytes, more than the {MAXIMUM_JSON} of an annotation"
        )
    try:
        record = json.loads(annotation.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{annotation}: broken JSON: {error}") from error
    missing = [k for k in ("question", "options") if not isinstance(record, dict) or not record.get(k)]
    if missing or not isinstance(record["options"], list):
        raise DataError(
            f"{annotation}: needs a question and a list of options; missing or empty: {missing or 'options'}"
        )
    return dict(record)


def _boxes(numbers: Any, labels: list[str], annotation: Path) -> tuple[Box, ...]:
    """``[x, y, width, height]`` each, as corners; a start outside the picture is clipped at 0."""
    boxes: list[Box] = []
    for index, entry in enumerate(numbers):
        if not isinstance(entry, list) or len(entry) != 4 or not all(isinstance(v, (int, float)) for v in entry):
            raise DataError(f"{annotation}: bbox {index} must be [x, y, width, height] in pixels, got {entry!r}")
        x, y, width, height = entry
        if width <= 0 or height <= 0:
            raise DataError(f"{annotation}: bbox {index} is empty: {entry}")
        label = labels[index] if index < len(labels) else ""
        boxes.append(Box.clamped((x, y, x + width, y + height), float("inf"), float("inf"), label))
    return tuple(boxes)
