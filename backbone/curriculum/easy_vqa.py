"""The public easy-VQA set: its training split as a curriculum source, its test split as an outside check."""

from __future__ import annotations

import functools
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.random import Generator

from backbone.contracts import Image
from backbone.curriculum.sample import Sample, ask, source
from backbone.errors import DataError

SIDE = 192  # its pictures are 64 x 64; shown enlarged
QUESTIONS_PER_IMAGE = 8


@dataclass(frozen=True)
class EasyQuestion:
    """One question of the set; ``image`` is the number of its picture."""

    question: str
    answer: str
    image: int


def folder() -> Path:
    """Where the installed package keeps its data."""
    spec = importlib.util.find_spec("easy_vqa")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("the easy-vqa package is not installed; run: pip install easy-vqa==1.0")
    return Path(spec.submodule_search_locations[0]) / "data"


@functools.lru_cache(maxsize=2)
def questions(split: Literal["train", "test"]) -> tuple[EasyQuestion, ...]:
    """All questions of a split."""
    rows = json.loads((folder() / split / "questions.json").read_text())
    return tuple(EasyQuestion(str(q), str(a), int(i)) for q, a, i in rows)


@functools.lru_cache(maxsize=2)
def by_image(split: Literal["train", "test"]) -> dict[int, tuple[EasyQuestion, ...]]:
    """Questions of a split grouped by picture."""
    groups: dict[int, list[EasyQuestion]] = {}
    for q in questions(split):
        groups.setdefault(q.image, []).append(q)
    return {i: tuple(qs) for i, qs in groups.items()}


def picture(split: Literal["train", "test"], number: int, side: int = SIDE) -> Image:
    """One picture as RGB, enlarged to ``side`` x ``side``."""
    path = folder() / split / "images" / f"{number}.png"
    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if bgr is None:
        raise DataError(f"{path} cannot be read; reinstall easy-vqa==1.0")
    return np.ascontiguousarray(cv2.resize(bgr, (side, side), interpolation=cv2.INTER_CUBIC)[..., ::-1])


@source("easy_vqa", weight=1.0)
def easy_vqa(rng: Generator, size: tuple[int, int]) -> Sample:
    """One training picture with up to eight of its questions; ``size`` is not used, pictures are 192 x 192."""
    groups = by_image("train")
    number = list(groups)[int(rng.integers(len(groups)))]
    image = picture("train", number)
    picked = [groups[number][i] for i in rng.permutation(len(groups[number]))[:QUESTIONS_PER_IMAGE]]
    return Sample(image, tuple(ask(image, q.question, q.answer) for q in picked))
