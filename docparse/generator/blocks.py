"""What templates are built of: headings, running text, addresses, labels with values in many arrangements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fields import Field
from docparse.generator.fonts import Face, height
from docparse.generator.sheet import Align, Span, text_width, wrapped
from docparse.generator.values import pick

ARRANGEMENTS: dict[Split, tuple[str, ...]] = {
    "train": ("inline", "columns", "stacked", "grid", "dotted", "spread"),
    "held_out": ("right", "caption", "columns", "dashed"),
}


def heading(
    draft: Draft, x: float, y: float, text: str, scale: float = 1.35, width: float | None = None, align: Align = "left"
) -> int:
    """A heading in the document's manner: coloured, underlined, or on a bar; gives the y below it."""
    look, sheet = draft.look, draft.sheet
    face = look.face(scale, bold=True, head=True)
    width = draft.width if width is None else width
    _, below = sheet.text(x, y, text, face, look.accent, align=align, width=width)
    if draft.split == "train" and look.label_bold:
        sheet.rule(x, below + 1, x + width, below + 1, look.accent, 1)
    if draft.split == "held_out" and look.label_grey:
        sheet.box((x, below + 1, x + width * 0.15, below + 4), fill=look.accent)
    return below + round(look.size * 0.5)


def paragraph(
    draft: Draft, x: float, y: float, width: float, text: str, face: Face | None = None, align: Align = "left"
) -> tuple[Span, int]:
    """Running text; gives its span and the y below it with half a line of air."""
    face = face or draft.look.face()
    leading = draft.look.leading * 1.05
    span, below = draft.sheet.text(x, y, text, face, draft.look.ink, width=width, leading=leading, align=align)
    return span, below + round(height(face) * 0.5)


def text_height(draft: Draft, text: str, width: float, face: Face | None = None) -> int:
    """How many pixels `paragraph` would take, a little more rather than less."""
    face = face or draft.look.face()
    lines = int(text_width(text, face) / (width * 0.9)) + 1
    return round(lines * height(face) * draft.look.leading * 1.05 + height(face) * 0.5)


def address(
    draft: Draft,
    x: float,
    y: float,
    lines: Sequence[str],
    label: str = "",
    width: float | None = None,
    align: Align = "left",
) -> tuple[Span, int]:
    """A block of lines under an optional label; the span is of the lines alone."""
    look, sheet = draft.look, draft.sheet
    face = look.face()
    if label:
        _, y = sheet.text(x, y, label, look.face(0.85, bold=True), look.label_colour, width=width, align=align)
        y += round(look.size * 0.1)
    return sheet.text(x, y, "\n".join(lines), face, look.ink, width=width, align=align, leading=look.leading)


def key_values(
    draft: Draft,
    x: float,
    y: float,
    width: float,
    fields: Sequence[Field],
    arrangement: str = "",
    face: Face | None = None,
) -> int:
    """Labels with their values, a fact each, in one arrangement; stops at the bottom; gives the y below."""
    arrangement = arrangement or pick(draft.rng, ARRANGEMENTS[draft.split])
    return _ARRANGED[arrangement](draft, x, y, width, fields, face or draft.look.face())


def note_field(draft: Draft, field: Field, span: Span) -> None:
    """The fact of a field whose value was set at ``span``."""
    draft.fact(field.key, field.asks, field.questions, answers(field.value), (span,), "value", field.kind)


def answers(value: str) -> tuple[str, ...]:
    """The value as printed, and without its currency if it has one."""
    flat = " ".join(value.split())
    bare = flat
    for sign in ("€", "$", "£", "EUR", "USD", "CHF", "SEK", "%"):
        bare = bare.replace(sign, "").strip()
    return (flat,) if bare == flat or not bare else (flat, bare)


def _step(draft: Draft, face: Face) -> int:
    return round(height(face) * draft.look.leading)


def _label(draft: Draft, field: Field) -> str:
    return (
        field.label if field.label.endswith((".", "#")) and draft.look.colon != ":" else field.label + draft.look.colon
    )


def _inline(draft: Draft, x: float, y: float, width: float, fields: Sequence[Field], face: Face) -> int:
    """``Label: value`` on one line."""
    look = draft.look
    for field in fields:
        if y + height(face) > draft.bottom:
            break
        label = _label(draft, field)
        draft.sheet.text(x, y, label, look.label, look.label_colour)
        gap = text_width(label, look.label) + look.size * 0.5
        span, below = draft.sheet.text(x + gap, y, field.value, face, look.ink, width=max(width - gap, 40), block=False)
        note_field(draft, field, span)
        y = max(y + _step(draft, face), below)
    return round(y)


def _columns(
    draft: Draft,
    x: float,
    y: float,
    width: float,
    fields: Sequence[Field],
    face: Face,
    right: bool = False,
    ruled: bool = False,
) -> int:
    """A column of labels, a column of values."""
    look, sheet = draft.look, draft.sheet
    widest = max(text_width(_label(draft, f), look.label) for f in fields)
    column = min(widest + look.size, width * 0.6)
    pad = round(look.size * 0.35) if ruled else 0
    top = y
    for field in fields:
        if y + height(face) + 2 * pad > draft.bottom:
            break
        _, label_below = sheet.text(
            x + pad,
            y + pad,
            _label(draft, field),
            look.label,
            look.label_colour,
            width=column - look.size * 0.7,
            align="right" if right else "left",
        )
        span, below = sheet.text(
            x + column + pad, y + pad, field.value, face, look.ink, width=max(width - column - 2 * pad, 40), block=False
        )
        note_field(draft, field, span)
        y = max(y + _step(draft, face), below, label_below) + 2 * pad
        if ruled:
            sheet.rule(x, y, x + width, y, look.grey)
    if ruled and y > top:
        sheet.box((x, top, x + width, y), outline=look.grey)
        sheet.rule(x + column, top, x + column, y, look.grey)
    return round(y)


def _stacked(draft: Draft, x: float, y: float, width: float, fields: Sequence[Field], face: Face) -> int:
    """The label small above its value, in one to four columns."""
    return _cells(draft, x, y, width, fields, face, boxed=False)


def _cells(draft: Draft, x: float, y: float, width: float, fields: Sequence[Field], face: Face, boxed: bool) -> int:
    look, sheet = draft.look, draft.sheet
    small = look.face(0.75, bold=look.label_bold and not boxed)
    across = max(1, min(int(draft.rng.integers(1, 5)), int(width // (look.size * 11)), len(fields)))
    longest = max(_widest_word(f.value, face) for f in fields)  # a word that is wider than its cell would overlap
    across = max(1, min(across, int(width // (longest + look.size * 1.5))))
    cell = width / across
    pad = round(look.size * 0.35)
    for start in range(0, len(fields), across):
        row = fields[start : start + across]
        tall = max(len(wrapped(f.value, face, cell - 3 * pad)) for f in row)
        deep = round(height(small) * 1.05 + tall * height(face) * 1.15) + 2 * pad
        if y + deep > draft.bottom:
            break
        for index, field in enumerate(row):
            left = x + index * cell
            if boxed:
                sheet.box((left, y, left + cell, y + deep), outline=look.ink)
            inset = pad if boxed else 0
            _, below = sheet.text(left + inset, y + pad * 0.5, field.label, small, look.label_colour)
            span, _ = sheet.text(left + inset, below, field.value, face, look.ink, width=cell - 3 * pad, block=False)
            note_field(draft, field, span)
        y += deep
    return round(y + look.size * 0.3)


def _widest_word(text: str, face: Face) -> float:
    """The width of the widest word."""
    return max((text_width(word, face) for word in text.split()), default=0.0)


def _dotted(draft: Draft, x: float, y: float, width: float, fields: Sequence[Field], face: Face, dash: int = 2) -> int:
    """A label, and the value above a broken line to the right edge."""
    look, sheet = draft.look, draft.sheet
    widest = max(text_width(_label(draft, f), look.label) for f in fields) + look.size * 0.6
    aligned = draft.chance(0.5)
    for field in fields:
        if y + height(face) * 1.6 > draft.bottom:
            break
        label = _label(draft, field)
        sheet.text(x, y, label, look.label, look.label_colour)
        left = x + (widest if aligned else text_width(label, look.label) + look.size * 0.6)
        span, below = sheet.text(
            left + look.size * 0.3, y, field.value, face, look.ink, width=max(x + width - left, 40), block=False
        )
        sheet.rule(left, below + 1, x + width, below + 1, look.grey, 1, dash)
        note_field(draft, field, span)
        y = below + round(height(face) * 0.5)
    return round(y)


def _spread(draft: Draft, x: float, y: float, width: float, fields: Sequence[Field], face: Face) -> int:
    """Two columns of labels and values, filled row by row."""
    if width < draft.look.size * 38:
        return _columns(draft, x, y, width, fields, face)
    half = width / 2 - draft.look.size
    left, right = list(fields[0::2]), list(fields[1::2])
    below = _columns(draft, x, y, half, left, face)
    return max(below, _columns(draft, x + width / 2, y, half, right, face) if right else below)


_ARRANGED: dict[str, Callable[[Draft, float, float, float, Sequence[Field], Face], int]] = {
    "inline": _inline,
    "columns": _columns,
    "right": lambda d, x, y, w, f, face: _columns(d, x, y, w, f, face, right=True),
    "grid": lambda d, x, y, w, f, face: _columns(d, x, y, w, f, face, ruled=True),
    "stacked": _stacked,
    "caption": lambda d, x, y, w, f, face: _cells(d, x, y, w, f, face, boxed=True),
    "dotted": _dotted,
    "dashed": lambda d, x, y, w, f, face: _dotted(d, x, y, w, f, face, dash=0),
    "spread": _spread,
}
