"""Bar, line and pie charts with their numbers printed, and the span of the whole figure with its caption."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from docparse.generator.draft import Draft
from docparse.generator.fonts import Face, height
from docparse.generator.sheet import AreaMark, Colour, Span, text_width, union
from docparse.generator.values import pick

PALETTE: tuple[Colour, ...] = (
    (68, 114, 196),
    (237, 125, 49),
    (112, 173, 71),
    (165, 60, 120),
    (255, 192, 0),
    (90, 155, 213),
    (120, 120, 120),
)


@dataclass(frozen=True)
class Series:
    """What a chart shows: a caption, and a value for each category."""

    caption: str
    categories: tuple[str, ...]
    values: tuple[float, ...]
    unit: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart that was set: the whole with its caption, the caption alone, and each printed value."""

    whole: Span
    caption: Span
    values: tuple[Span, ...]
    y: int


def chart(
    draft: Draft, x: float, y: float, width: float, tall: float, series: Series, caption_above: bool = False
) -> Figure:
    """Draw one at ``(x, y)`` with all its text inside ``width`` x ``tall`` pixels."""
    look, sheet = draft.look, draft.sheet
    face, small = look.face(0.9, italic=not caption_above, bold=caption_above), look.face(0.75)
    first = len(sheet.words)
    caption_space = round(height(face) * 1.4)
    caption = None
    top, bottom = y, y + tall - caption_space
    if caption_above:
        caption, top = sheet.text(x, y, series.caption, face, look.ink, width=width, align="center")
        bottom = y + tall
    frame = (x, float(top), x + width, float(bottom))
    if draft.chance(0.4):
        sheet.box(frame, outline=look.grey)
    sheet.new_block()
    kind = pick(draft.rng, ("bars", "bars", "line", "pie", "rows"))
    drawer = {"bars": _bars, "line": _line, "pie": _pie, "rows": _rows}[kind]
    values = drawer(draft, frame, series, small)
    below = round(bottom)
    if caption is None:
        caption, below = sheet.text(x, bottom + 2, series.caption, face, look.ink, width=width, align="center")
    whole = Span(sheet.page, first, len(sheet.words), (union([frame]),))
    return Figure(whole, caption, tuple(values), below)


def _printed(series: Series, draft: Draft, value: float) -> str:
    return draft.values.number(value, 0 if value >= 20 else 1) + (f" {series.unit}" if series.unit else "")


def _bars(draft: Draft, frame: tuple[float, float, float, float], series: Series, face: Face) -> list[Span]:
    x0, y0, x1, y1 = _inset(frame, face)
    base = y1 - height(face) * 1.2
    highest = max(series.values)
    step = (x1 - x0) / len(series.values)
    colour = pick(draft.rng, PALETTE)
    draft.sheet.rule(x0, base, x1, base, draft.look.grey)
    spans = []
    for index, (name, value) in enumerate(zip(series.categories, series.values, strict=True)):
        left = x0 + index * step
        top = base - (base - y0 - height(face) * 1.3) * value / highest
        draft.sheet.box((left + step * 0.2, top, left + step * 0.8, base), fill=colour)
        label = _printed(series, draft, value)
        span, _ = draft.sheet.text(
            left + step / 2, top - height(face) * 1.1, label, face, draft.look.ink, align="center", block=False
        )
        spans.append(span)
        _name(draft, left, base + 2, step, name, face)
    return spans


def _line(draft: Draft, frame: tuple[float, float, float, float], series: Series, face: Face) -> list[Span]:
    x0, y0, x1, y1 = _inset(frame, face)
    base = y1 - height(face) * 1.2
    low, high = min(series.values) * 0.8, max(series.values)
    step = (x1 - x0) / len(series.values)
    colour = pick(draft.rng, PALETTE)
    room = base - y0 - height(face) * 1.6
    points = [
        (x0 + (i + 0.5) * step, base - 4 - room * (v - low) / (high - low + 1e-9)) for i, v in enumerate(series.values)
    ]
    for start, end in itertools.pairwise(points):
        draft.sheet.rule(*start, *end, colour, 2)
    draft.sheet.rule(x0, base, x1, base, draft.look.grey)
    spans = []
    for (px, py), name, value in zip(points, series.categories, series.values, strict=True):
        draft.sheet.box((px - 2, py - 2, px + 2, py + 2), fill=colour)
        span, _ = draft.sheet.text(
            px,
            py - height(face) * 1.25,
            _printed(series, draft, value),
            face,
            draft.look.ink,
            align="center",
            block=False,
        )
        spans.append(span)
        _name(draft, px - step / 2, base + 2, step, name, face)
    return spans


def _pie(draft: Draft, frame: tuple[float, float, float, float], series: Series, face: Face) -> list[Span]:
    """A pie with a legend to its right; the values stand in the legend."""
    x0, y0, x1, y1 = _inset(frame, face)
    size = min(y1 - y0, (x1 - x0) * 0.45)
    total, angle = sum(series.values), -90.0
    corners = ((round(x0), round(y0)), (round(x0 + size), round(y0 + size)))
    left, y = x0 + size + draft.look.size, y0 + 2.0
    step = min(height(face) * 1.4, (y1 - y0) / len(series.values))
    spans = []
    for index, (name, value) in enumerate(zip(series.categories, series.values, strict=True)):
        colour = PALETTE[index % len(PALETTE)]
        end = angle + 360 * value / total
        draft.sheet.marks.append(AreaMark("slice", corners, colour, (255, 255, 255), 1, (angle, end)))
        angle = end
        draft.sheet.box((left, y + 3, left + 8, y + 11), fill=colour)
        draft.sheet.text(left + 13, y, name, face, draft.look.ink, block=False)
        span, _ = draft.sheet.text(
            left + 13 + text_width(name, face) + draft.look.size * 0.6,
            y,
            _printed(series, draft, value),
            face,
            draft.look.ink,
            block=False,
        )
        spans.append(span)
        y += step
    return spans


def _rows(draft: Draft, frame: tuple[float, float, float, float], series: Series, face: Face) -> list[Span]:
    """Bars that lie, with names before and values behind them."""
    x0, y0, x1, y1 = _inset(frame, face)
    step = (y1 - y0) / len(series.values)
    name_width = max(text_width(n, face) for n in series.categories) + 6
    value_width = max(text_width(_printed(series, draft, v), face) for v in series.values) + 8
    room = max(x1 - x0 - name_width - value_width, 10)
    colour, highest = pick(draft.rng, PALETTE), max(series.values)
    spans = []
    for index, (name, value) in enumerate(zip(series.categories, series.values, strict=True)):
        y = y0 + index * step
        middle = y + step / 2 - height(face) / 2
        draft.sheet.text(x0, middle, name, face, draft.look.ink, block=False)
        end = x0 + name_width + room * value / highest
        draft.sheet.box((x0 + name_width, y + step * 0.2, end, y + step * 0.8), fill=colour)
        span, _ = draft.sheet.text(end + 4, middle, _printed(series, draft, value), face, draft.look.ink, block=False)
        spans.append(span)
    return spans


def _name(draft: Draft, left: float, y: float, step: float, name: str, face: Face) -> None:
    """A category under its bar, cut to what fits so that neighbours never run into each other."""
    while len(name) > 3 and text_width(name, face) > step * 0.98:
        name = name[:-1].rstrip()
    draft.sheet.text(left + step / 2, y, name, face, draft.look.ink, align="center", block=False)


def _inset(frame: tuple[float, float, float, float], face: Face) -> tuple[float, float, float, float]:
    pad = face.size * 0.8
    return frame[0] + pad, frame[1] + pad, frame[2] - pad, frame[3] - pad * 0.6


def drawn_series(draft: Draft, number: int, categories: Sequence[str], metric: str) -> Series:
    """Random values for the categories under a numbered caption."""
    high = float(10 ** draft.rng.uniform(1.3, 3.5))
    values = tuple(float(max(1.0, high * draft.rng.uniform(0.2, 1.0))) for _ in categories)
    values = tuple(round(v) if v >= 20 else round(v, 1) for v in values)
    form = pick(
        draft.rng,
        ("Figure {n}: {m} by {k}", "Fig. {n}. {m}, {k}")
        if draft.split == "train"
        else ("Chart {n} - {m} per {k}", "Figure {n}: {m} ({k})"),
    )
    kinds = {"January": "month", "Q1": "quarter"}
    kind = next((k for start, k in kinds.items() if categories[0].startswith(start)), "")
    kind = kind or ("year" if categories[0].isdigit() else "group")
    unit = pick(draft.rng, ("", "", "%", "k", "t")) if math.isfinite(high) else ""
    return Series(form.format(n=number, m=metric, k=kind), tuple(categories), values, unit)
