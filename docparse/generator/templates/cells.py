"""The facts of a table: cells by row and column, whole rows, and which row holds a value."""

from __future__ import annotations

from collections.abc import Sequence

from docparse.generator.document import Split
from docparse.generator.draft import Draft, NotedTable
from docparse.generator.tables import Column, Placed
from docparse.generator.values import several

_ROW: dict[Split, tuple[str, ...]] = {
    "train": ("What does the table say about {r}?", "Give the whole row of {r}.", "Read the line of {r}."),
    "held_out": ("Quote the row for {r}.", "What is listed in the line of {r}?"),
}
_BACK: dict[Split, tuple[str, ...]] = {
    "train": ("Which row has the {c} {x}?", "What has {x} as its {c}?"),
    "held_out": ("Against which entry is the {c} {x} listed?", "What entry has the {c} {x}?"),
}
MOST_ROWS = 14  # of a table become facts; the others are there to be told apart


def note_table(
    draft: Draft,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    placed: Placed,
    name_at: int,
    skip: Sequence[str] = (),
    title: str = "",
) -> None:
    """Facts on some of the rows that were placed; column ``name_at`` names the row, ``skip`` columns answer nothing."""
    before, draft.section = draft.section, title or draft.section
    wanted = [i for i, c in enumerate(columns) if i != name_at and c.name not in skip]
    cells = tuple(map(tuple, placed.cells))
    draft.tables.append(NotedTable(tuple(columns), tuple(map(tuple, rows))[: len(cells)], cells, name_at, tuple(skip)))
    for index in several(draft.rng, range(len(placed.cells)), MOST_ROWS):
        name = rows[index][name_at]
        spans = placed.cells[index]
        for at in wanted:
            if spans[at].first == spans[at].last:
                continue
            column, value = columns[at].name, rows[index][at]
            other = columns[at].ask
            asks = tuple(f"{c.lower()} of {name.lower()}" for c in (column, other) if c)
            asked_for = other if other and draft.chance(0.6) else column
            draft.fact(asks[0], asks, (), (value,), (spans[at],), "cell", "cell", name, asked_for)
        questions = tuple(form.format(r=name) for form in _ROW[draft.split])
        texts = [text for text in rows[index] if text]
        draft.fact(
            f"row {name.lower()}", (), questions, (" ".join(texts), ", ".join(texts)), (placed.row(index),), "row"
        )
        for at in several(draft.rng, wanted, 1):
            value = rows[index][at]
            if value and sum(row[at] == value for row in rows) == 1 and draft.chance(0.4):
                back = tuple(
                    form.format(c=(columns[at].ask or columns[at].name).lower(), x=value) for form in _BACK[draft.split]
                )
                key = f"{columns[at].name.lower()} {value.lower()}"
                draft.fact(key, (), back, (name,), (spans[name_at],), "cell", "name")
    draft.section = before
