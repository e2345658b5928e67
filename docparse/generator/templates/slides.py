"""Slides: a title on each, bullets with facts, charts with captions, short tables, big numbers."""

from __future__ import annotations

from collections.abc import Callable

from docparse.generator import blocks, sentences, sights
from docparse.generator import vocabulary as v
from docparse.generator.charts import chart, drawn_series
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fields import composed
from docparse.generator.fonts import height
from docparse.generator.sheet import Span
from docparse.generator.tables import table
from docparse.generator.templates.cells import note_table
from docparse.generator.templates.figures import note_figure
from docparse.generator.templates.tabular import matrix, periods
from docparse.generator.values import pick, several


def _head(draft: Draft, title: str, style: str) -> int:
    """A new slide with its title; gives the y below."""
    y = draft.new_sheet()
    look, sheet = draft.look, draft.sheet
    face = look.face(1.7, bold=True, head=True)
    draft.section = f'the slide "{title}"'
    if style == "bar":
        deep = height(face) * 1.5
        sheet.box((0, 0, sheet.width, deep), fill=look.accent)
        sheet.text(draft.margin, height(face) * 0.25, title, face, (255, 255, 255), width=draft.width)
        return round(deep + look.size)
    if style == "dark":
        sheet.background = (24, 30, 44)
    colour = (240, 240, 240) if style == "dark" else look.accent
    align = "center" if style == "centre" else "left"
    _, below = sheet.text(
        draft.margin, y, title, face, colour, width=draft.width, align="center" if align == "center" else "left"
    )
    if style == "rule":
        sheet.rule(draft.margin, below + 2, draft.margin + draft.width, below + 2, look.accent, 2)
    return below + look.size


def _bullets(draft: Draft, x: float, y: float, width: float, taken: set[str]) -> int:
    """Points, each a sentence, some with facts."""
    look, sheet = draft.look, draft.sheet
    sign = pick(draft.rng, ("•", "–", "") if draft.split == "train" else ("›", "-"))
    for _ in range(draft.values.whole(2, 6)):
        said = sentences.stated(draft.values, taken) if draft.chance(0.7) else sentences.filler(draft.values)
        text = f"{sign} {said.text}" if sign else said.text
        if y + blocks.text_height(draft, text, width) > draft.bottom:
            break
        span, y = sheet.text(x, y, text, look.face(), look.ink, width=width)
        at = span.first + (1 if sign else 0)
        if said.asks:
            place = Span(span.page, at + said.first, at + said.last)
            draft.fact(
                said.asks[0],
                said.asks,
                said.questions,
                blocks.answers(said.value),
                (place,),
                "sentence",
                said.value_kind,
            )
        y += round(look.size * 0.6)
    return round(y)


def _figure(draft: Draft, x: float, y: float, width: float, number: int, seen: set[str]) -> None:
    if draft.sights and draft.chance(0.6):
        sights.figure(draft, x, y, width, draft.bottom - y, number, seen)
        return
    categories = periods(draft) if draft.chance(0.6) else several(draft.rng, v.COUNTRIES, draft.values.whole(3, 6))
    metric = pick(draft.rng, v.METRICS if draft.split == "train" else v.HELD_METRICS)
    series = drawn_series(draft, number, categories, metric)
    figure = chart(draft, x, y, width, draft.bottom - y, series, caption_above=draft.chance(0.5))
    note_figure(draft, series, figure)


def _numbers(draft: Draft, y: int) -> None:
    """Two to four big numbers with a label below each."""
    look, sheet = draft.look, draft.sheet
    count = draft.values.whole(2, 4)
    big, small = look.face(2.0, bold=True, head=True), look.face(0.9)
    taken: set[str] = set()
    for index in range(count):
        field = composed(draft.values, taken)
        taken.add(field.key)
        x, width = draft.margin + draft.width * index / count, draft.width / count - look.size
        span, below = sheet.text(x, y + look.size, field.value, big, look.accent, width=width)
        sheet.text(x, below, field.label, small, look.ink, width=width, block=False)
        blocks.note_field(draft, field, span)


def _cover(draft: Draft) -> None:
    topic = pick(draft.rng, v.TOPICS)
    y = _head(draft, topic[0].upper() + topic[1:], "plain")
    draft.section = ""
    y += draft.sheet.height // 5
    speaker, date = draft.values.person(), draft.values.date()
    for key, text, asks, question, kind in (
        ("speaker", speaker, ("speaker", "presenter"), "Who gives the presentation?", "person"),
        ("talk_date", date, ("date of the presentation",), "When is the presentation held?", "date"),
    ):
        span, y = draft.sheet.text(draft.margin, y, text, draft.look.face(), draft.look.ink)
        draft.fact(key, asks, (question,), (text,), (span,), "value", kind)


def _deck(draft: Draft, styles: tuple[str, ...], picture_left: bool) -> None:
    """Slides of one style until the wanted pages are full."""
    style = pick(draft.rng, styles)
    if draft.target > 2:
        _cover(draft)
    taken: set[str] = set()
    seen: set[str] = set()
    names = several(draft.rng, v.HEADINGS, 99)
    number = 0
    while not draft.full and names:
        y = _head(draft, names.pop(), style)
        form = float(draft.rng.random())
        half = draft.width / 2 - draft.look.size
        number += 1
        if form < 0.3:
            _bullets(draft, draft.margin, y, draft.width, taken)
        elif form < 0.55:
            left, right = draft.margin, draft.margin + draft.width / 2
            text_x, picture_x = (right, left) if picture_left else (left, right)
            _bullets(draft, text_x, y, half, taken)
            _figure(draft, picture_x, y, half, number, seen)
        elif form < 0.72:
            _figure(draft, draft.margin, y, draft.width, number, seen)
        elif form < 0.9:
            columns, rows = matrix(draft, 7)
            placed = table(draft, draft.margin, y, draft.width, columns, rows, scale=0.85)
            note_table(draft, columns, rows, placed, 0)
        else:
            _numbers(draft, y)
    draft.section = ""


TEMPLATES: dict[Split, dict[str, Callable[[Draft], None]]] = {
    "train": {
        "bar": lambda d: _deck(d, ("bar",), picture_left=False),
        "rule": lambda d: _deck(d, ("rule", "plain"), picture_left=False),
    },
    "held_out": {"centre": lambda d: _deck(d, ("centre",), picture_left=True)},
}
