"""A document being written: its look, its sheets, and the facts that questions can be asked about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from numpy.random import Generator

from docparse.generator.document import Split
from docparse.generator.fonts import Face, Family, families
from docparse.generator.sheet import BLACK, Colour, Sheet, Span
from docparse.generator.values import Values, pick

if TYPE_CHECKING:
    from docparse.generator.tables import Column

PAPERS = {"a4": (210.0, 297.0), "letter": (215.9, 279.4), "wide": (254.0, 142.9), "slide": (254.0, 190.5)}  # mm
ACCENTS: dict[Split, tuple[Colour, ...]] = {
    "train": ((20, 60, 120), (150, 20, 30), (0, 90, 70), (60, 60, 60), (0, 0, 0), (90, 40, 110), (0, 110, 150)),
    "held_out": ((190, 90, 0), (30, 30, 90), (0, 70, 20), (110, 60, 40), (0, 0, 0), (170, 20, 90)),
}


@dataclass(frozen=True)
class Fact:
    """Something a question can be about.

    ``asks`` are noun phrases for it, ``questions`` whole questions; a phrase that several facts share needs a scope:
    the ``section`` it stands in, or its page. ``answers`` begin with the text as printed.
    """

    key: str
    asks: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    spans: tuple[Span, ...]
    kind: str
    value_kind: str = ""
    section: str = ""
    row: str = ""  # of a cell: its row's label and its column's
    column: str = ""


@dataclass(frozen=True)
class NotedTable:
    """A table with its rows in the order they are printed; column ``name_at`` names the row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[Span, ...], ...]
    name_at: int
    skip: tuple[str, ...]  # columns that answer nothing


@dataclass(frozen=True)
class Look:
    """The faces, colours and measures of one document."""

    body: Family
    head: Family
    size: int  # of body text, em in pixels
    accent: Colour
    ink: Colour
    grey: Colour
    label_bold: bool
    label_grey: bool
    colon: str
    leading: float

    def face(self, scale: float = 1.0, *, bold: bool = False, italic: bool = False, head: bool = False) -> Face:
        """A face at ``scale`` times the body's size, at least 7 pixels."""
        return Face(self.head if head else self.body, max(7, round(self.size * scale)), bold, italic)

    @property
    def label(self) -> Face:
        """The face of labels."""
        return self.face(bold=self.label_bold)

    @property
    def label_colour(self) -> Colour:
        """The colour of labels."""
        return self.grey if self.label_grey else self.ink


@dataclass
class Draft:
    """Sheets and facts so far. Lengths are pixels; ``margin`` is left and right, ``bottom`` the last usable y."""

    rng: Generator
    split: Split
    values: Values
    look: Look
    dpi: float
    paper: tuple[float, float]  # mm
    margin: int
    target: int  # pages wanted
    footer: str
    sheets: list[Sheet] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    tables: list[NotedTable] = field(default_factory=list)
    section: str = ""
    sights: bool = False  # whether photographs, drawings, signatures and stamps are set, and asked for

    @property
    def sheet(self) -> Sheet:
        """The sheet being written on."""
        return self.sheets[-1]

    @property
    def width(self) -> int:
        """Between the margins."""
        return self.sheet.width - 2 * self.margin

    @property
    def bottom(self) -> int:
        """The y at which the content must end."""
        return self.sheet.height - round(self.margin * 1.1)

    @property
    def full(self) -> bool:
        """Whether all wanted pages are there."""
        return len(self.sheets) >= self.target

    def mm(self, millimetres: float) -> int:
        """Millimetres as whole pixels."""
        return round(millimetres * self.dpi / 25.4)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def new_sheet(self) -> int:
        """Begin a sheet and give the y at which its content starts."""
        width, height = (round(side * self.dpi / 25.4) for side in self.paper)
        self.sheets.append(Sheet(len(self.sheets), width, height, self.dpi))
        return round(self.margin * 0.9)

    def fact(
        self,
        key: str,
        asks: tuple[str, ...],
        questions: tuple[str, ...],
        answers: tuple[str, ...],
        spans: tuple[Span, ...],
        kind: str,
        value_kind: str = "",
        row: str = "",
        column: str = "",
    ) -> None:
        """Note a fact of the present section."""
        self.facts.append(Fact(key, asks, questions, answers, spans, kind, value_kind, self.section, row, column))

    def finish(self) -> None:
        """Set the footer of every sheet: page numbers and a repeated line, which answer nothing."""
        if not self.footer:
            return
        face = self.look.face(0.75)
        for sheet in self.sheets:
            text = self.footer.format(page=sheet.page + 1, pages=len(self.sheets))
            y = sheet.height - round(self.margin * 0.75)
            sheet.text(self.margin, y, text, face, self.look.grey, align="center", width=self.width)


FOOTERS: dict[Split, tuple[str, ...]] = {
    "train": ("Page {page} of {pages}", "{page}", "- {page} -", "{page}/{pages}", "", "Page {page}"),
    "held_out": ("{page} | {pages}", "p. {page}", "Sheet {page} of {pages}", ""),
}


def new_draft(rng: Generator, split: Split, kind: str, target: int, sights: bool = False) -> Draft:
    """A draft with a look, a paper and formats drawn for a kind of document."""
    slides = kind == "slides"
    dpi = float(rng.uniform(80, 110) if slides else rng.uniform(96, 150))
    name = pick(rng, ("wide", "wide", "slide")) if slides else pick(rng, ("a4", "a4", "letter"))
    paper = PAPERS[name]
    if kind == "table" and rng.random() < 0.3:
        paper = (paper[1], paper[0])
    points = float(rng.uniform(13, 18) if slides else rng.uniform(7.5, 11.5))
    roles = (
        ("sans", "serif", "mono") if kind in ("invoice", "form", "table") and rng.random() < 0.25 else ("sans", "serif")
    )
    body = pick(rng, families(split, *roles))
    head = body if rng.random() < 0.65 else pick(rng, families(split, "sans", "serif"))
    ink = int(rng.integers(0, 60)) if rng.random() < 0.5 else 0
    grey = int(rng.integers(70, 130))
    look = Look(
        body=body,
        head=head,
        size=max(9, round(points * dpi / 72)),
        accent=pick(rng, ACCENTS[split]),
        ink=(ink, ink, ink) if ink else BLACK,
        grey=(grey, grey, grey),
        label_bold=bool(rng.random() < 0.4),
        label_grey=bool(rng.random() < 0.3),
        colon=pick(rng, (":", ":", "", " :")) if split == "train" else pick(rng, (":", "", ".")),
        leading=float(rng.uniform(1.0, 1.35)),
    )
    margin = round(float(rng.uniform(12, 25)) * dpi / 25.4)
    footer = pick(rng, FOOTERS[split])
    return Draft(rng, split, Values.drawn(rng, split), look, dpi, paper, margin, target, footer, sights=sights)


def scaled(look: Look, factor: float) -> Look:
    """The same look with another size of body text, at least 8 pixels."""
    return replace(look, size=max(8, round(look.size * factor)))
