"""A page being laid out: words with exact boxes, and what to draw, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from docparse.generator.document import Corners, Word
from docparse.generator.fonts import Face, height, measure

Align = Literal["left", "right", "center"]
Colour: TypeAlias = tuple[int, int, int]
BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)


class TextMark(NamedTuple):
    """A word with its pen at ``(x, y)``, the top left of its line box."""

    x: int
    y: int
    text: str
    face: Face
    colour: Colour


class LineMark(NamedTuple):
    """A straight line; ``dash`` is the length of dashes and gaps in pixels, 0 for a whole line."""

    start: tuple[float, float]
    end: tuple[float, float]
    colour: Colour
    width: int = 1
    dash: int = 0


class AreaMark(NamedTuple):
    """A rectangle, ellipse, pie slice (``angles`` in degrees) or polygon, filled or outlined."""

    shape: Literal["rectangle", "ellipse", "slice", "polygon"]
    points: tuple[tuple[float, float], ...]
    fill: Colour | None = None
    outline: Colour | None = None
    width: int = 1
    angles: tuple[float, float] = (0.0, 0.0)


class PictureMark(NamedTuple):
    """A photograph of nothing in particular, drawn from ``seed`` into ``box``."""

    box: Corners
    seed: int


Mark: TypeAlias = TextMark | LineMark | AreaMark | PictureMark


@dataclass(frozen=True)
class Span:
    """Words ``first`` to ``last`` - 1 of a page, and the rectangles of graphics that belong to them."""

    page: int
    first: int
    last: int
    areas: tuple[Corners, ...] = ()

    def joined(self, other: Span) -> Span:
        """Both and all words between them; they must lie on one page."""
        return Span(self.page, min(self.first, other.first), max(self.last, other.last), self.areas + other.areas)


@dataclass
class Sheet:
    """A page of ``width`` x ``height`` pixels under construction. Everything is placed at whole pixels."""

    page: int
    width: int
    height: int
    dpi: float
    marks: list[Mark] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    line: int = -1
    block: int = -1
    background: Colour = WHITE

    def mm(self, millimetres: float) -> int:
        """Millimetres as whole pixels."""
        return round(millimetres * self.dpi / 25.4)

    def new_block(self) -> None:
        """The words that follow belong to a new block."""
        self.block += 1

    def text(
        self,
        x: float,
        y: float,
        text: str,
        face: Face,
        colour: Colour = BLACK,
        *,
        align: Align = "left",
        width: float | None = None,
        leading: float = 1.15,
        block: bool = True,
    ) -> tuple[Span, int]:
        """Set ``text``, wrapped at ``width`` pixels if given, with its top at ``y``; newlines break lines.

        ``x`` is the left edge; with a ``width``, other alignments are within it, without, they are about ``x``.
        Gives the span of the words and the y below the last line.
        """
        if block:
            self.new_block()
        first = len(self.words)
        step = round(height(face) * leading)
        top = round(y)
        for line in wrapped(text, face, width):
            self._set_line(x, top, line, face, colour, align, width)
            top += step
        return Span(self.page, first, len(self.words)), top

    def _set_line(
        self, x: float, y: int, line: Sequence[str], face: Face, colour: Colour, align: Align, width: float | None
    ) -> None:
        self.line += 1
        space = measure(face, " ")[0]
        measures = [measure(face, word) for word in line]
        total = sum(m[0] for m in measures) + space * (len(line) - 1)
        slack = (width if width is not None else 0) - total
        pen = x + (slack if align == "right" else slack / 2 if align == "center" else 0)
        for word, (advance, ink) in zip(line, measures, strict=True):
            left = round(pen)
            box = (float(left + ink[0]), float(y + ink[1]), float(left + ink[2]), float(y + ink[3]))
            self.words.append(Word(word, box, self.line, max(self.block, 0)))
            self.marks.append(TextMark(left, y, word, face, colour))
            pen += advance + space

    def rule(
        self, x0: float, y0: float, x1: float, y1: float, colour: Colour = BLACK, width: int = 1, dash: int = 0
    ) -> None:
        """A line from one point to another."""
        self.marks.append(LineMark((round(x0), round(y0)), (round(x1), round(y1)), colour, width, dash))

    def box(self, corners: Corners, fill: Colour | None = None, outline: Colour | None = None, width: int = 1) -> None:
        """A rectangle."""
        x0, y0, x1, y1 = (round(v) for v in corners)
        self.marks.append(AreaMark("rectangle", ((x0, y0), (x1, y1)), fill, outline, width))

    def box_before(self, index: int, corners: Corners, fill: Colour) -> None:
        """A filled rectangle under everything drawn since mark ``index``."""
        x0, y0, x1, y1 = (round(v) for v in corners)
        self.marks.insert(index, AreaMark("rectangle", ((x0, y0), (x1, y1)), fill))

    def bounds(self, span: Span) -> Corners:
        """The box around a span's words and areas, before the scan turns the page."""
        return union([w.box for w in self.words[span.first : span.last]] + list(span.areas))


def wrapped(text: str, face: Face, width: float | None) -> list[list[str]]:
    """Lines of words no wider than ``width`` pixels where a break allows it; empty lines vanish."""
    space = measure(face, " ")[0]
    lines: list[list[str]] = []
    for part in text.split("\n"):
        line: list[str] = []
        used = 0.0
        for word in part.split():
            advance = measure(face, word)[0]
            if line and width is not None and used + space + advance > width:
                lines.append(line)
                line, used = [], 0.0
            used += advance + (space if line else 0)
            line.append(word)
        if line:
            lines.append(line)
    return lines


def text_width(text: str, face: Face) -> float:
    """How wide one line of text is, in pixels."""
    words = text.split()
    return sum(measure(face, w)[0] for w in words) + measure(face, " ")[0] * max(0, len(words) - 1)


def union(boxes: Sequence[Corners]) -> Corners:
    """The box around boxes, of which there is at least one."""
    xs0, ys0, xs1, ys1 = zip(*boxes, strict=True)
    return min(xs0), min(ys0), max(xs1), max(ys1)
