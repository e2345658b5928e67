"""Questions about the shipped sample pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from assets import SAMPLES
from backbone.errors import DataError


@dataclass(frozen=True)
class Example:
    """One example of the Search tab."""

    picture: Path
    question: str
    options: tuple[str, ...]


def search_examples(folder: Path = SAMPLES) -> tuple[Example, ...]:
    """Every question of every sample in ``folder``: a JSON file with ``image`` and ``questions`` beside its picture.

    Raises:
        DataError: a file of another layout, or one whose picture is missing.
    """
    return tuple(example for path in sorted(folder.glob("*.json")) for example in _read(path))


def _read(path: Path) -> list[Example]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        picture = path.parent / Path(record["image"]).name
        found = [Example(picture, item["question"], tuple(item["options"])) for item in record["questions"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: expected a sample with image and questions ({error!r}); make it again") from error
    if not picture.is_file():
        raise DataError(f"{path}: its picture {picture.name} is missing; make the sample again")
    return found
