"""Tables: price lists, schedules, statistics, rosters; one or several a page, each with a title."""

from __future__ import annotations

from collections.abc import Callable

from docparse.generator import blocks
from docparse.generator import vocabulary as v
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fonts import height
from docparse.generator.tables import Column, table
from docparse.generator.templates.cells import note_table
from docparse.generator.templates.prose import write
from docparse.generator.values import pick, several

# printed name, kind of value, how it is asked for where that differs
_COLUMNS: dict[Split, dict[str, tuple[tuple[str, ...], ...]]] = {
    "train": {
        "product": (
            ("Price", "money"), ("Stock", "count", "number in stock"), ("Article no.", "id:@-####", "article number"),
            ("Weight", "weight"), ("Supplier", "company", "vendor"), ("Warranty", "days", "warranty period"),
            ("Origin", "country", "country of origin"), ("Discount", "percent"), ("Colour", "colour"),
            ("Last order", "date", "date of the last order"), ("Shelf", "id:@##", "shelf number"), ("Length", "length"),
            ("Barcode", "id:#############"), ("Min. order", "count", "minimum order"), ("Status", "choice"),
        ),
        "person": (
            ("Department", "department"), ("Phone", "phone", "phone number"), ("Joined", "date", "date of joining"),
            ("Position", "job", "job"), ("Office", "id:@###", "office number"), ("Salary", "round_money", "pay"),
            ("Days off", "count", "number of days off"), ("E-mail", "email", "e-mail address"), ("Town", "town"),
            ("Shift", "time", "start of the shift"), ("Personnel no.", "id:#####", "personnel number"),
            ("Born", "birthday", "date of birth"), ("Manager", "person", "superior"),
        ),
        "town": (
            ("Population", "big", "number of inhabitants"), ("Manager", "person", "branch manager"),
            ("Opened", "year", "year of opening"), ("Visitors", "big", "number of visitors"), ("Rent", "money"),
            ("Distance", "distance"), ("Code", "id:@@@"), ("Growth", "percent"), ("Opening time", "time"),
            ("Floor area", "area", "floor space"), ("Staff", "count", "number of employees"),
            ("Phone", "phone", "telephone number"),
        ),
    },
    "held_out": {
        "product": (
            ("List price", "money"), ("On hand", "count", "quantity on hand"),
            ("SKU", "id:##-###", "stock keeping number"),
            ("Gross weight", "weight"), ("Maker", "company", "manufacturer"), ("Guarantee", "days", "guarantee period"),
            ("Country", "country", "country it comes from"), ("Rebate", "percent"), ("Bin", "id:@##", "bin number"),
            ("Reordered", "date", "date of reordering"), ("Finish", "colour"),
        ),
        "person": (
            ("Division", "department"), ("Extension", "phone"), ("Hired", "date", "date of hire"), ("Role", "job"),
            ("Room", "id:@###", "room number"), ("Pay", "round_money", "wage"), ("Leave", "count", "days of leave"),
            ("Home town", "town"), ("Badge", "id:#####", "badge number"), ("Reports to", "person", "supervisor"),
        ),
        "town": (
            ("Inhabitants", "big", "population"), ("Head", "person", "head of the site"),
            ("Founded", "year", "year of foundation"),
            ("Guests", "big", "number of guests"), ("Lease", "money"), ("Route", "distance", "length of the route"),
            ("Change", "percent"), ("First bus", "time", "time of the first bus"), ("Site area", "area"),
        ),
    },
}  # fmt: skip
_NAMES = {
    "train": {"product": "Product", "person": "Name", "town": "Branch", "metric": "Indicator", "country": "Country"},
    "held_out": {
        "product": "Article",
        "person": "Employee",
        "town": "Location",
        "metric": "Figure",
        "country": "Region",
    },
}
_TITLES: dict[Split, dict[str, tuple[str, ...]]] = {
    "train": {
        "product": ("Price list {t}", "Inventory {t}", "Stock list {t}", "Product overview {t}"),
        "person": ("Staff list {t}", "Telephone directory {t}", "Roster {t}"),
        "town": ("Branches {t}", "Overview of locations {t}"),
        "metric": ("Key figures {t}", "Statistics {t}", "Results {t}"),
    },
    "held_out": {
        "product": ("Catalogue {t}", "Goods in store {t}"),
        "person": ("Personnel register {t}", "Team {t}"),
        "town": ("Sites {t}", "Places served {t}"),
        "metric": ("Comparison {t}", "Figures at a glance {t}"),
    },
}


NUMERIC = ("money", "count", "percent", "weight", "length", "distance", "area", "big", "round_money")


def periods(draft: Draft) -> list[str]:
    """Consecutive months, quarters or years."""
    form = draft.rng.random()
    if form < 0.4:
        start = draft.values.whole(0, 6)
        return [m[:3] if draft.split == "held_out" else m for m in v.MONTHS[start : start + draft.values.whole(3, 6)]]
    if form < 0.7:
        return ["Q1", "Q2", "Q3", "Q4"]
    start = draft.values.whole(1995, 2020)
    return [str(start + i) for i in range(draft.values.whole(3, 7))]


def matrix(draft: Draft, most: int) -> tuple[list[Column], list[list[str]]]:
    """A table of numbers: metrics or countries by period."""
    metrics = v.METRICS if draft.split == "train" else v.HELD_METRICS
    names = several(draft.rng, metrics if draft.chance(0.6) else v.COUNTRIES, draft.values.whole(3, most))
    columns = periods(draft)
    with_total = draft.chance(0.35) and columns[0] in ("Q1", *v.MONTHS)
    rows = []
    for name in names:
        numbers = [float(10 ** draft.rng.uniform(0.5, 4.5)) for _ in columns]
        shown = [draft.values.number(n, 0 if n > 50 else 1) for n in numbers]
        rows.append([name, *shown, *([draft.values.number(sum(numbers), 0)] if with_total else [])])
    kind = "metric" if names[0] in metrics else "country"
    header = [_NAMES[draft.split][kind], *columns, *(["Total"] if with_total else [])]
    return [Column(h, "left" if i == 0 else "right") for i, h in enumerate(header)], rows


def listing(draft: Draft, kind: str, most: int) -> tuple[list[Column], list[list[str]]]:
    """A table of things, people or towns with typed columns."""
    chosen = several(draft.rng, _COLUMNS[draft.split][kind], draft.values.whole(2, 5))
    names: list[str] = []
    count = draft.values.whole(4, most)
    while len(names) < count:
        name = draft.values.make(kind)
        if name not in names:
            names.append(name)
    rows = [[name, *(draft.values.make(column[1]) for column in chosen)] for name in names]
    columns = [Column(_NAMES[draft.split][kind])]
    columns += [Column(c[0], "right" if c[1] in NUMERIC else "left", c[2] if len(c) > 2 else "") for c in chosen]
    return columns, rows


def titled_table(draft: Draft, y: int, number: int, most: int, used: set[str]) -> int:
    """A numbered title and its table; rows that do not fit are left out; gives the y below."""
    kind = pick(draft.rng, ("product", "person", "town", "metric", "metric"))
    columns, rows = matrix(draft, most) if kind == "metric" else listing(draft, kind, most)
    form = pick(draft.rng, _TITLES[draft.split][kind])
    title = form.format(
        t=pick(draft.rng, (draft.values.town(), str(draft.values.whole(2005, 2026)), pick(draft.rng, v.DEPARTMENTS)))
    )
    if title in used:
        return y
    used.add(title)
    face = draft.look.face(bold=True)
    label = f"Table {number}: {title}" if draft.chance(0.6) else title
    below_title = draft.chance(0.2) and draft.split == "held_out"
    if not below_title:
        _, y = blocks.paragraph(draft, draft.margin, y, draft.width, label, face)
    scale = 0.85 if len(columns) > 5 else 1.0
    placed = table(draft, draft.margin, y, draft.width * (1.0 if len(columns) > 3 else 0.8), columns, rows, scale=scale)
    note_table(draft, columns, rows, placed, 0, title=f'the table "{title}"')
    y = placed.y + round(draft.look.size * 0.5)
    if below_title:
        _, y = blocks.paragraph(draft, draft.margin, y, draft.width, label, face)
    return y + draft.look.size


def _pages(draft: Draft, most: int, prose: bool) -> None:
    used: set[str] = set()
    taken: set[str] = set()
    number = 0
    least = height(draft.look.face()) * 12
    while not draft.full:
        y = draft.new_sheet()
        if draft.chance(0.7):
            y = blocks.heading(draft, draft.margin, y, pick(draft.rng, v.HEADINGS), 1.5)
        while y + least < draft.bottom:
            number += 1
            if prose:
                y = write(draft, draft.margin, y, draft.width, taken, draft.bottom - least, count=2)
            before = y
            if y + least < draft.bottom:
                y = titled_table(draft, y, number, most, used)
            if y == before or draft.chance(0.25):
                break


TEMPLATES: dict[Split, dict[str, Callable[[Draft], None]]] = {
    "train": {
        "long": lambda d: _pages(d, 40, prose=False),
        "several": lambda d: _pages(d, 9, prose=False),
        "explained": lambda d: _pages(d, 12, prose=True),
    },
    "held_out": {"register": lambda d: _pages(d, 30, prose=False), "annex": lambda d: _pages(d, 8, prose=True)},
}
