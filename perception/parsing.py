"""Regions out of imperfect model output: the first JSON list of boxes or points in whatever stands around it.

Never raises. What was repaired or dropped is said in notes, so that an answer can state it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import json_repair

MAX_TEXT = 8_000  # characters looked at; a reply is a few hundred
MAX_STARTS = 32  # places where JSON may begin that are tried
MAX_DEPTH = 12  # brackets inside brackets; a list of boxes needs 4
MAX_LABEL = 60
MAX_REGIONS = 100
_LIMIT = 1e9  # larger "coordinates" are noise

_START = re.compile(r"[\[{](?=\s*[\[{(\"'“\w-])")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PAIRS = re.compile(r"\(\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*\)\s*,?\s*\(\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*\)")
_SPECIAL = re.compile(r"<\|[^|<>]*\|>")
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_KEYS = ("bbox_2d", "bbox2d", "bbox", "box_2d", "box", "bounding_box", "point_2d", "point2d", "point")
_LABELS = ("label", "name", "object", "description", "text")
_CORNERS = (("x0", "y0", "x1", "y1"), ("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("x", "y"))


@dataclass(frozen=True)
class Region:
    """A box (4 numbers) or a point (2), in the numbers the model's family writes."""

    numbers: tuple[float, ...]
    label: str = ""

    @property
    def is_point(self) -> bool:
        """Whether this is a point."""
        return len(self.numbers) == 2


@dataclass(frozen=True)
class Parsed:
    """The regions found, and what had to be repaired or dropped to find them."""

    regions: tuple[Region, ...] = ()
    notes: tuple[str, ...] = ()


def parse_regions(text: str) -> Parsed:
    """All regions of the first JSON value in ``text`` that holds any, or of several such values in a row."""
    notes: list[str] = []
    text = _THINKING.sub("", text)
    if len(text) > MAX_TEXT:
        notes.append(f"looked at the first {MAX_TEXT} of {len(text)} characters")
        text = text[:MAX_TEXT]
    if not text.strip():
        return Parsed((), (*notes, "empty reply"))
    regions = _from_json(text, notes) or _from_pairs(text, notes)
    if not regions and not notes:
        notes.append(
            "reply lists no regions" if re.fullmatch(r"\W*\[\s*\]\W*", text) else "no JSON regions in the reply"
        )
    if len(regions) > MAX_REGIONS:
        notes.append(f"kept {MAX_REGIONS} of {len(regions)} regions")
    return Parsed(tuple(regions[:MAX_REGIONS]), tuple(dict.fromkeys(notes)))


def first_object(text: str) -> dict[str, Any] | None:
    """The first JSON object in ``text``, repaired where needed; None if there is none. Never raises."""
    for start in _starts(text[:MAX_TEXT]):
        value, _, _ = _value(text[:MAX_TEXT], start)
        if isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict)), None)
        if isinstance(value, dict) and value:
            return value
    return None


def _from_json(text: str, notes: list[str]) -> list[Region]:
    found: list[Region] = []
    position = 0
    for start in _starts(text):
        if start < position:
            continue
        value, end, repaired = _value(text, start)
        dropped: list[str] = []
        regions = list(_regions(value, dropped, repaired and _cut_inside_numbers(text)))
        if not regions:
            notes += dropped
            position = end if dropped and not repaired else position
            continue
        if repaired:
            notes.append("repaired JSON that was not well formed")
        notes += dropped
        found += regions
        if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
            break  # a list of regions is the whole reply; what follows is prose or a repetition
        position = end
    return found


def _starts(text: str) -> list[int]:
    return [match.start() for match, _ in zip(_START.finditer(text), range(MAX_STARTS), strict=False)]


def _value(text: str, start: int) -> tuple[Any, int, bool]:
    """``(value, end, repaired)`` of the JSON value at ``start``; the value is None if nothing can be read."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
        return value, end, False
    except (ValueError, RecursionError):
        pass
    closed = _balanced_end(text, start)
    if closed is None:
        return None, start + 1, True
    try:
        return json_repair.loads(text[start:closed]), closed, True
    except (ValueError, RecursionError):
        return None, start + 1, True


def _balanced_end(text: str, start: int) -> int | None:
    """Where the bracket at ``start`` is closed, or the text's end; None if too deeply nested to be meant."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in "[{(") - (text[index] in "]})")
        if depth == 0:
            return index + 1
        if depth > MAX_DEPTH:
            return None
    return len(text)


def _cut_inside_numbers(text: str) -> bool:
    """Whether the text ends inside a list of numbers, so that its last number may lack digits."""
    tail = text.rstrip()
    return tail.rfind("[") > tail.rfind("]") and bool(re.fullmatch(r"[\s\d.,+\-]+", tail[tail.rfind("[") + 1 :]))


def _regions(value: Any, notes: list[str], cut: bool) -> Iterator[Region]:
    """Regions of a decoded value: a list of objects, one object, bare numbers, or lists of bare numbers."""
    items = list(_items(value))
    for index, (raw, label) in enumerate(items):
        if cut and index == len(items) - 1:
            notes.append("dropped the last region: the reply was cut off inside it")
            continue
        for numbers in _number_lists(raw):
            region = _checked(numbers, label, notes)
            if region is not None:
                yield region


def _items(value: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(value, dict):
        label = next((_clean(value[key]) for key in _LABELS if isinstance(value.get(key), str)), "")
        key = next((key for key in _KEYS if key in value), None)
        if key is not None:
            yield value[key], label
        elif any(all(name in value for name in names) for names in _CORNERS):
            yield value, label
        else:  # {"objects": [...]} or {"dog": [1, 2, 3, 4]}
            for name, inner in value.items():
                if isinstance(inner, (list, dict)):
                    yield from ((raw, found or _clean(str(name))) for raw, found in _items(inner))
    elif isinstance(value, list):
        if value and all(_number(item) is not None or isinstance(item, str) for item in value):
            yield value, ""
        else:
            for item in value:
                yield from _items(item)


def _number_lists(raw: Any) -> Iterator[list[Any]]:
    """Lists of 2 or 4 raw numbers in what stands under a box key."""
    if isinstance(raw, str):
        yield list(_NUMBER.findall(raw))
    elif isinstance(raw, dict):
        names = next((names for names in _CORNERS if all(name in raw for name in names)), ())
        yield [raw[name] for name in names]
    elif isinstance(raw, list) and raw and all(isinstance(item, list) for item in raw):
        if len(raw) == 2 and all(len(item) == 2 for item in raw):
            yield [*raw[0], *raw[1]]  # [[x0, y0], [x1, y1]]
        else:
            yield from raw
    elif isinstance(raw, list):
        yield raw


def _checked(numbers: list[Any], label: str, notes: list[str]) -> Region | None:
    values = [_number(item) for item in numbers]
    known = [value for value in values if value is not None]
    if len(values) not in (2, 4):
        notes.append(f"dropped a region of {len(values)} numbers; a box has 4, a point 2")
        return None
    if len(known) != len(values) or not all(math.isfinite(v) and abs(v) < _LIMIT for v in known):
        notes.append("dropped a region with values that are no usable numbers")
        return None
    if any(isinstance(item, str) for item in numbers):
        notes.append("read numbers written as text")
    if len(known) == 4 and (known[0] > known[2] or known[1] > known[3]):
        notes.append("swapped reversed corners")
        known = [min(known[0], known[2]), min(known[1], known[3]), max(known[0], known[2]), max(known[1], known[3])]
    return Region(tuple(known), label)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return None


def _clean(label: str) -> str:
    """One line without quotes, brackets or the tokenizer's special tokens, as it will stand in the next prompt."""
    label = _SPECIAL.sub(" ", label)
    return " ".join(re.sub(r"[\"'\[\]{}<>|\\]", " ", label).split())[:MAX_LABEL].strip()


def _from_pairs(text: str, notes: list[str]) -> list[Region]:
    """Qwen2-VL's own writing: ``label(x0,y0),(x1,y1)``."""
    regions = []
    for match in _PAIRS.finditer(text):
        label = text[: match.start()].rsplit("\n", 1)[-1].rsplit(")", 1)[-1]
        dropped: list[str] = []
        region = _checked(list(match.groups()), _clean(label), dropped)
        notes += [note for note in dropped if note != "read numbers written as text"]
        if region is not None:
            regions.append(region)
    if regions:
        notes.append("read boxes written as (x0,y0),(x1,y1)")
    return regions
