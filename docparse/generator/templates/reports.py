"""Reports: sections of running text in one or two columns, tables, figures, the same key figures in each."""

from __future__ import annotations

from collections.abc import Callable

from docparse.generator import blocks, sights
from docparse.generator import vocabulary as v
from docparse.generator.charts import chart, drawn_series
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fields import composed
from docparse.generator.fonts import height
from docparse.generator.sheet import Align
from docparse.generator.templates.figures import note_figure
from docparse.generator.templates.prose import write
from docparse.generator.templates.tabular import periods, titled_table
from docparse.generator.values import pick, several

_TITLES: dict[Split, tuple[str, ...]] = {
    "train": ("Annual Report {y}", "Report on the {t}", "Status Report: {t}", "Study of the {t}", "{d} Review {y}"),
    "held_out": ("White Paper: {t}", "{d} Bulletin {y}", "Assessment of the {t}", "Minutes and Figures {y}"),
}


def _title(draft: Draft, y: int, alone: bool) -> int:
    """Title, author and date; the author and the date can be asked for."""
    title = pick(draft.rng, _TITLES[draft.split]).format(
        y=draft.values.whole(2008, 2026), t=pick(draft.rng, v.TOPICS), d=pick(draft.rng, v.DEPARTMENTS)
    )
    face = draft.look.face(2.0, bold=True, head=True)
    y = y + (draft.sheet.height // 4 if alone else 0)
    align: Align = "center" if draft.chance(0.5) else "left"
    span, y = draft.sheet.text(draft.margin, y, title, face, draft.look.accent, width=draft.width, align=align)
    draft.fact(
        "title",
        ("title of the report", "report's title"),
        ("What is the report called?",),
        (title,),
        (span,),
        "value",
        "title",
    )
    y += draft.look.size
    author, date = draft.values.person(), draft.values.date()
    by = pick(draft.rng, ("", "by ", "Author: ") if draft.split == "train" else ("Prepared by ", "written by "))
    for key, prefix, text, asks, question, kind in (
        ("author", by, author, ("author of the report", "writer of the report"), "Who wrote the report?", "person"),
        ("report_date", "", date, ("date of the report",), "When was the report written?", "date"),
    ):
        span, y = draft.sheet.text(
            draft.margin, y, prefix + text, draft.look.face(), draft.look.grey, width=draft.width, align=align
        )
        span = type(span)(span.page, span.first + len(prefix.split()), span.last)
        draft.fact(key, asks, (question,), (text,), (span,), "value", kind)
    return y + 2 * draft.look.size


def _section(draft: Draft, y: int, x: float, width: float, number: int, name: str) -> int:
    numbered = f"{number}. {name}" if draft.look.label_bold else name
    draft.section = f'the section "{name}"' if draft.chance(0.5) else f"the chapter on {name}"
    return blocks.heading(draft, x, y, numbered, 1.2, width)


def _report(draft: Draft, columns: int, cover: float) -> None:
    """Sections one after the other, in ``columns`` columns a page."""
    y = draft.new_sheet()
    alone = draft.target > 2 and draft.chance(cover)
    y = _title(draft, y, alone)
    if alone:
        y = draft.new_sheet()
    names = several(draft.rng, v.HEADINGS, 99)
    keys = [composed(draft.values, set()) for _ in range(draft.values.whole(2, 4))]
    state = _State(draft, columns, y)
    number = 0
    while names and not state.done:
        number += 1
        name = names.pop()
        if not state.room(11):
            continue
        state.y = _section(draft, state.y, state.x, state.width, number, name)
        if draft.chance(0.35):
            fields = [type(f)(f.key, f.label, f.asks, f.questions, draft.values.make(f.kind), f.kind) for f in keys]
            state.y = (
                blocks.key_values(draft, state.x, state.y, state.width, fields, pick(draft.rng, ("inline", "columns")))
                + 4
            )
        state.prose()
        for _ in range(draft.values.whole(0, 3)):
            if state.room(6):
                state.piece()
    draft.section = ""


class _State:
    """Where the next piece goes: a column of a page, then the next column, then the next page."""

    def __init__(self, draft: Draft, columns: int, y: int) -> None:
        self.draft, self.columns, self.y, self.top = draft, columns, y, y
        self.column = 0
        self.done = False
        self.taken: set[str] = set()
        self.used: set[str] = set()
        self.seen: set[str] = set()
        self.figures = 0
        self.tables = 0

    @property
    def width(self) -> float:
        gap = self.draft.look.size * 2
        return (self.draft.width - gap * (self.columns - 1)) / self.columns

    @property
    def x(self) -> float:
        return self.draft.margin + self.column * (self.width + self.draft.look.size * 2)

    def room(self, lines: float) -> bool:
        """Whether so many lines fit here; moves on to the next column or page if not. False when all is full."""
        if self.y + lines * height(self.draft.look.face()) * self.draft.look.leading < self.draft.bottom:
            return True
        if self.column + 1 < self.columns:
            self.column, self.y = self.column + 1, self.top
            return self.room(lines) if self.y + lines * self.draft.look.size < self.draft.bottom else False
        if self.draft.full:
            self.done = True
            return False
        self.y = self.top = self.draft.new_sheet()
        self.column = 0
        return True

    def piece(self) -> None:
        """A paragraph, a figure, a picture where those are wanted, or (in one column) a table."""
        draft, at = self.draft, float(self.draft.rng.random())
        if draft.sights and draft.chance(0.4) and self.room(sights.LINES):
            self.figures += 1
            tall = min(draft.bottom - self.y, self.width * float(draft.rng.uniform(0.35, 0.7)))
            self.y = sights.figure(draft, self.x, self.y, self.width, tall, self.figures, self.seen)
        elif at < 0.14 and self.room(14):
            self.figures += 1
            categories = (
                periods(draft) if draft.chance(0.6) else several(draft.rng, v.COUNTRIES, draft.values.whole(3, 5))
            )
            metric = pick(draft.rng, v.METRICS if draft.split == "train" else v.HELD_METRICS)
            series = drawn_series(draft, self.figures, categories, metric)
            tall = min(draft.bottom - self.y, self.width * float(draft.rng.uniform(0.35, 0.6)) + 40)
            figure = chart(draft, self.x, self.y, self.width, tall, series)
            note_figure(draft, series, figure)
            self.y = figure.y + draft.look.size
        elif at < 0.24 and self.columns == 1 and self.room(14):
            self.tables += 1
            self.y = titled_table(draft, self.y, self.tables, 8, self.used)
        else:
            self.prose()

    def prose(self) -> None:
        """A paragraph."""
        self.y = write(self.draft, self.x, self.y, self.width, self.taken, self.draft.bottom)


TEMPLATES: dict[Split, dict[str, Callable[[Draft], None]]] = {
    "train": {
        "one_column": lambda d: _report(d, 1, 0.3),
        "two_columns": lambda d: _report(d, 2, 0.3),
    },
    "held_out": {"bulletin": lambda d: _report(d, 1, 0.0), "paper": lambda d: _report(d, 2, 0.6)},
}
