"""What the generator gives: pages with exact words, and questions whose answer and evidence are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from backbone.contracts import Image
from backbone.errors import DataError

Split = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "held_out")
Corners: TypeAlias = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels of the page, x right, y down


class Word(NamedTuple):
    """A word as printed; ``box`` bounds its ink. ``line`` and ``block`` count from 0 on the page, in reading order."""

    text: str
    box: Corners
    line: int
    block: int


class Region(NamedTuple):
    """A piece of evidence: page from 0, and a box in pixels of that page."""

    page: int
    box: Corners


@dataclass(frozen=True)
class Question:
    """A question on a document. Without answers and evidence it cannot be answered from the document.

    ``kind`` is what the evidence is: ``value`` (a field's value), ``cell``, ``row`` (of a table), ``address`` (a block
    of lines), ``sentence`` (a phrase inside running text), ``paragraph``, ``figure``, ``two`` (two regions, on one page
    or two), what has no words (``picture``, ``signature``, ``stamp``, ``box``), what takes two looks (``link``,
    ``row_near``, ``record``, see `docparse.generator.hops`) or ``unanswerable``. ``note`` says what nearby could be
    mistaken for the evidence; ``via`` is what the first of two looks should find.
    """

    text: str
    answers: tuple[str, ...]
    evidence: tuple[Region, ...]
    kind: str
    note: str = ""
    via: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise DataError(f"a question of kind {self.kind!r} is empty")
        if bool(self.answers) != bool(self.evidence) or bool(self.answers) == (self.kind == "unanswerable"):
            raise DataError(
                f"question {self.text!r} of kind {self.kind!r}: answers and evidence go together, and only an "
                f"unanswerable one has neither; got {len(self.answers)} and {len(self.evidence)}"
            )


@dataclass(frozen=True, eq=False)
class GeneratedPage:
    """One page. ``image`` is uint8 (height, width, 3) RGB, or None where only words were asked for."""

    width: int
    height: int
    dpi: float
    words: tuple[Word, ...]
    angle: float = 0.0  # degrees the scan is turned clockwise; boxes are those of the turned page
    image: Image | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class GeneratedDocument:
    """A document of one kind, laid out by one template; a pure function of ``seed`` and ``split``."""

    seed: int
    split: Split
    kind: str
    template: str
    fonts: tuple[str, ...]
    pages: tuple[GeneratedPage, ...]
    questions: tuple[Question, ...]
