"""Tables: columns that fit, several manners of ruling, and the span of every cell and row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fonts import Face, height
from docparse.generator.sheet import Align, Colour, Span, text_width, wrapped
from docparse.generator.values import pick

RULINGS: dict[Split, tuple[str, ...]] = {
    "train": ("grid", "lines", "zebra", "plain"),
    "held_out": ("booktabs", "columns", "zebra"),
}


@dataclass(frozen=True)
class Column:
    """A column's printed name, how its cells stand, and what else it is asked for by."""

    name: str
    align: Align = "left"
    ask: str = ""


@dataclass(frozen=True)
class Placed:
    """Where a table's rows went: ``cells[r][c]`` and the y below. Rows that did not fit are missing."""

    cells: list[list[Span]]
    header: list[Span]
    y: int

    def row(self, index: int) -> Span:
        """The whole row."""
        return self.cells[index][0].joined(self.cells[index][-1])


@dataclass(frozen=True)
class _Frame:
    x: float
    widths: list[float]
    face: Face
    pad: int
    ruling: str


def table(
    draft: Draft,
    x: float,
    y: float,
    width: float,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    ruling: str = "",
    scale: float = 1.0,
) -> Placed:
    """Set as many rows as fit above the bottom. Text that is too wide wraps; the type shrinks before words overlap."""
    ruling = ruling or pick(draft.rng, RULINGS[draft.split])
    frame = _frame(draft, x, width, columns, rows, ruling, scale)
    top, first_mark = round(y), len(draft.sheet.marks)
    draft.sheet.new_block()
    bold = Face(frame.face.family, frame.face.size, bold=True)
    dark = ruling in ("zebra", "lines") and draft.look.label_bold
    header, y = _row(
        draft, frame, y, [c.name for c in columns], columns, bold, (255, 255, 255) if dark else draft.look.ink
    )
    if dark:
        draft.sheet.box_before(first_mark, (x, top, x + sum(frame.widths), y), draft.look.accent)
    under = y
    cells: list[list[Span]] = []
    edges = [top, y]
    for index, row in enumerate(rows):
        if y + _depth(frame, row) > draft.bottom:
            break
        mark = len(draft.sheet.marks)
        above = y
        spans, y = _row(draft, frame, y, row, columns, frame.face, draft.look.ink)
        if ruling == "zebra" and index % 2:
            draft.sheet.box_before(mark, (x, above, x + sum(frame.widths), y), (236, 238, 242))
        cells.append(spans)
        edges.append(y)
    _rule(draft, frame, top, under, edges)
    return Placed(cells, header, round(y))


def _frame(
    draft: Draft,
    x: float,
    width: float,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    ruling: str,
    scale: float,
) -> _Frame:
    size = scale
    while True:
        face = draft.look.face(size)
        bold = Face(face.family, face.size, bold=True)
        pad = max(2, round(face.size * (0.45 if ruling not in ("plain", "booktabs") else 0.6)))
        texts = [[c.name, *(row[i] for row in rows)] for i, c in enumerate(columns)]
        natural = [
            max(text_width(columns[i].name, bold), max((text_width(t, face) for t in column[1:]), default=0))
            for i, column in enumerate(texts)
        ]
        least = [
            max(
                max(text_width(w, bold) for w in column[0].split()),
                max((text_width(w, face) for t in column[1:] for w in t.split()), default=0),
            )
            for column in texts
        ]
        room = width - 2 * pad * len(columns)
        if sum(least) <= room or face.size <= 7:
            break
        size *= 0.9
    inner = _shared(natural, least, room)
    return _Frame(x, [w + 2 * pad for w in inner], face, pad, ruling)


def _shared(natural: list[float], least: list[float], room: float) -> list[float]:
    """Widths between the longest word and the whole text of each column that fill ``room``."""
    if sum(natural) <= room:
        spare = (room - sum(natural)) / len(natural)
        return [w + spare for w in natural]
    give = [n - m for n, m in zip(natural, least, strict=True)]
    total = sum(give) or 1.0
    over = sum(natural) - room
    return [n - over * g / total for n, g in zip(natural, give, strict=True)]


def _depth(frame: _Frame, row: Sequence[str]) -> int:
    lines = max(
        len(wrapped(text, frame.face, w - 2 * frame.pad + 0.5)) for text, w in zip(row, frame.widths, strict=True)
    )
    return round(max(1, lines) * height(frame.face) * 1.1) + 2 * frame.pad


def _row(
    draft: Draft, frame: _Frame, y: float, row: Sequence[str], columns: Sequence[Column], face: Face, colour: Colour
) -> tuple[list[Span], int]:
    spans: list[Span] = []
    left, below = frame.x, round(y) + _depth(frame, row)
    for text, column, width in zip(row, columns, frame.widths, strict=True):
        span, end = draft.sheet.text(
            left + frame.pad,
            y + frame.pad,
            text,
            face,
            colour,
            align=column.align,
            width=width - 2 * frame.pad + 0.5,
            leading=1.1,
            block=False,
        )
        spans.append(span)
        below = max(below, end + frame.pad)
        left += width
    return spans, below


def _rule(draft: Draft, frame: _Frame, top: int, under: int, edges: Sequence[int]) -> None:
    sheet, look = draft.sheet, draft.look
    right = frame.x + sum(frame.widths)
    if frame.ruling in ("grid", "lines", "columns"):
        for edge in edges if frame.ruling != "columns" else (top, under, edges[-1]):
            sheet.rule(frame.x, edge, right, edge, look.grey)
    if frame.ruling in ("grid", "columns"):
        x = frame.x
        for width in [0.0, *frame.widths]:
            x += width
            sheet.rule(x, top, x, edges[-1], look.grey)
    if frame.ruling == "booktabs":
        sheet.rule(frame.x, top, right, top, look.ink, 2)
        sheet.rule(frame.x, under, right, under, look.ink)
        sheet.rule(frame.x, edges[-1], right, edges[-1], look.ink, 2)
    if frame.ruling == "plain":
        sheet.rule(frame.x, under, right, under, look.grey, 1, 3)
