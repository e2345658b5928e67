"""Questions that need two looks: what the first one finds says where the second has to look.

Three kinds. ``link``: two tables share names, "the phone number of the department of X" is read in the second one, in a
row that the question does not name. ``row``: "the price two rows below Y". ``record``: "the total where the order
number is 4711", in one of several invoices or sections. `Question.via` is what the first look should find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from numpy.random import Generator

from docparse.generator import blocks
from docparse.generator import vocabulary as v
from docparse.generator.document import Question
from docparse.generator.draft import Draft, Fact
from docparse.generator.hop_words import LINK, LINKS, RECORD, ROW, SIDES, TITLES, Link
from docparse.generator.questions import regions
from docparse.generator.sheet import Span
from docparse.generator.tables import Column, table
from docparse.generator.templates.cells import note_table
from docparse.generator.values import pick, several

FARTHEST = 2  # rows between the one that is named and the one that is asked for
SAME_SHEET = 0.7  # of the pairs of tables


@dataclass(frozen=True)
class LinkedTables:
    """Two tables on a draft: the row of each name, with the linked name in it, and the row of each linked name."""

    link: Link
    names: dict[str, tuple[str, Span]]  # name -> the linked name and its span in the first table
    rows: dict[str, dict[str, tuple[str, Span]]]  # linked name -> column of the second table -> value and span


def linked_tables(draft: Draft) -> LinkedTables:
    """Two more tables, on one new sheet or two: things with what they belong to, and what is known of that."""
    values, rng = draft.values, draft.rng
    link = pick(rng, LINKS[draft.split])
    groups = _distinct(lambda: _made(draft, link.group_kind), values.whole(4, 8))
    names = _distinct(lambda: values.make(link.kind), values.whole(5, 12))
    known = several(rng, link.columns, values.whole(2, 4))
    alike = [known[0]] if draft.chance(0.5) else []  # the first table has a column of the same name: a trap
    first = [Column(link.name), Column(link.group), *(Column(name) for name, _ in alike)]
    first_rows = [[n, pick(rng, groups), *(values.make(kind) for _, kind in alike)] for n in names]
    second = [Column(link.group), *(Column(name) for name, _ in known)]
    second_rows = [[g, *(values.make(kind) for _, kind in known)] for g in groups]
    titles = [form.format(g=link.group.lower()) for form in several(rng, TITLES[draft.split], 2)]
    parts = [(first, first_rows, titles[0]), (second, second_rows, titles[1])]
    order = (0, 1) if draft.chance(0.5) else (1, 0)
    same = draft.chance(SAME_SHEET)
    placed: dict[int, list[list[Span]]] = {}
    y = 0.0
    for number, at in enumerate(order):
        if number == 0 or not same or y > draft.sheet.height * 0.55:
            y = draft.new_sheet()
        columns, rows, title = parts[at]
        y = blocks.heading(draft, draft.margin, y, title, 1.2)
        done = table(draft, draft.margin, y, draft.width * float(rng.uniform(0.7, 1.0)), columns, rows)
        note_table(draft, columns, rows, done, 0, title=f'the table "{title}"')
        placed[at] = done.cells
        y = done.y + draft.look.size * 2
    return LinkedTables(
        link,
        {row[0]: (row[1], cells[1]) for row, cells in zip(first_rows, placed[0], strict=False)},
        {
            row[0]: {c.name: (text, span) for c, text, span in list(zip(second, row, cells, strict=True))[1:]}
            for row, cells in zip(second_rows, placed[1], strict=False)
        },
    )


def hop_questions(draft: Draft, linked: LinkedTables | None, rng: Generator, count: int) -> tuple[Question, ...]:
    """At most ``count`` different questions, of the kinds that the document allows in turn."""
    made: dict[str, Question] = {}
    makers: list[Callable[[], Question | None]] = [lambda: _row(draft, rng), lambda: _record(draft, rng)]
    if linked is not None:
        makers += [lambda: _link(draft, linked, rng)] * 2
    for turn in range(count * 4):
        if len(made) >= count:
            break
        question = makers[turn % len(makers)]()
        if question is not None:
            made.setdefault(question.text, question)
    return tuple(made.values())


def _link(draft: Draft, linked: LinkedTables, rng: Generator) -> Question | None:
    name = pick(rng, tuple(linked.names))
    group, via = linked.names[name]
    row = linked.rows.get(group)
    if not row:
        return None
    column = pick(rng, tuple(row))
    value, span = row[column]
    form = pick(rng, LINK[draft.split])
    text = form.format(c=column.lower(), g=linked.link.group.lower(), r=name)
    return _question(draft, text, value, span, via, "link", f"{len(linked.rows) - 1} other rows")


def _row(draft: Draft, rng: Generator) -> Question | None:
    tables = [t for t in draft.tables if len(t.cells) >= 4]
    if not tables:
        return None
    found = pick(rng, tables)
    start, away = int(rng.integers(len(found.cells))), int(rng.integers(1, FARTHEST + 1))
    below = bool(rng.random() < 0.5)
    at = start + (away if below else -away)
    name = found.rows[start][found.name_at]
    printed = Counter(row[t.name_at] for t in draft.tables for row in t.rows)
    wanted = [i for i, c in enumerate(found.columns) if i != found.name_at and c.name not in found.skip]
    if not 0 <= at < len(found.cells) or not name or printed[name] > 1 or not wanted:
        return None
    column = pick(rng, wanted)
    value, span = found.rows[at][column], found.cells[at][column]
    if not value or span.first == span.last:
        return None
    side = pick(rng, SIDES[draft.split][0 if below else 1])
    text = pick(rng, ROW[draft.split][away - 1]).format(
        c=found.columns[column].ask or found.columns[column].name.lower(), r=name, d=side
    )
    text = text[0].upper() + text[1:]
    return _question(draft, text, value, span, found.cells[start][found.name_at], "row_near", f"{away} rows away")


def _record(draft: Draft, rng: Generator) -> Question | None:
    facts = [f for f in draft.facts if f.kind == "value" and f.asks]
    named = Counter(name.lower() for f in facts for name in f.asks)
    alike = [f for f in facts if f.section and any(named[a.lower()] > 1 for a in f.asks)]
    if not alike:
        return None
    fact = pick(rng, alike)
    values = Counter(f.answers[0] for f in facts)
    others = [f for f in facts if f.section == fact.section and f.key != fact.key and values[f.answers[0]] == 1]
    name = pick(rng, [a for a in fact.asks if named[a.lower()] > 1])
    if not others or sum(_named(f, name) and f.section == fact.section for f in facts) > 1:
        return None
    other = pick(rng, others)
    form = pick(rng, RECORD[draft.split])
    text = form.format(a=name, b=pick(rng, other.asks), x=other.answers[0])
    rivals = f"{named[name.lower()] - 1} others of that name"
    return _question(draft, text, fact.answers[0], fact.spans[0], other.spans[0], "record", rivals)


def _named(fact: Fact, name: str) -> bool:
    return name.lower() in {ask.lower() for ask in fact.asks}


def _question(draft: Draft, text: str, value: str, span: Span, via: Span, kind: str, note: str) -> Question:
    evidence, way = (tuple(regions(draft.sheets, s, by_line=False)) for s in (span, via))
    return Question(text, (value,), evidence, kind, note, way)


def _made(draft: Draft, kind: str) -> str:
    return pick(draft.rng, v.DEPARTMENTS) if kind == "department" else draft.values.make(kind)


def _distinct(make: Callable[[], str], count: int) -> list[str]:
    out: list[str] = []
    for _ in range(count * 20):
        if len(out) == count:
            break
        value = make()
        if value not in out:
            out.append(value)
    return out
