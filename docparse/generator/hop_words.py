"""Wordings and columns of questions that need two looks, by split."""

from __future__ import annotations

from dataclasses import dataclass

from docparse.generator.document import Split


@dataclass(frozen=True)
class Link:
    """Things of a kind (column ``name``) belong to groups (column ``group``), of which ``columns`` are known."""

    name: str
    kind: str
    group: str
    group_kind: str
    columns: tuple[tuple[str, str], ...]


LINKS: dict[Split, tuple[Link, ...]] = {
    "train": (
        Link("Name", "person", "Department", "department",
            (("Floor", "count"), ("Phone", "phone"), ("Budget", "round_money"), ("Cost centre", "id:@-####"),
             ("Opening time", "time"), ("Head", "person"))),
        Link("Product", "product", "Supplier", "company",
            (("Town", "town"), ("Delivery time", "days"), ("Discount", "percent"), ("Contact", "person"),
             ("Minimum order", "money"), ("Customer no.", "id:#####"))),
        Link("Project", "product", "Branch", "town",
            (("Manager", "person"), ("Rent", "money"), ("Opened", "year"), ("Code", "id:@@@"), ("Staff", "count"))),
    ),
    "held_out": (
        Link("Employee", "person", "Site", "town",
            (("Lease", "money"), ("Founded", "year"), ("Supervisor", "person"), ("Telephone", "phone"),
             ("Area", "area"))),
        Link("Article", "product", "Maker", "company",
            (("Country", "country"), ("Rebate", "percent"), ("Agent", "person"), ("Guarantee", "days"),
             ("Account no.", "id:##-###"))),
        Link("Clerk", "person", "Division", "department",
            (("Extension", "phone"), ("Spending", "round_money"), ("Room", "id:@###"), ("Director", "person"))),
    ),
}  # fmt: skip
TITLES: dict[Split, tuple[str, ...]] = {
    "train": ("Assignment", "Overview by {g}", "List of entries", "Details of each {g}", "Register"),
    "held_out": ("Who belongs where", "Particulars by {g}", "Directory", "Data on each {g}"),
}
LINK: dict[Split, tuple[str, ...]] = {
    "train": (
        "What is the {c} of the {g} of {r}?", "Find the {g} of {r} and give its {c}.",
        "Which {c} does the {g} of {r} have?", "{r}: what is the {c} of the {g}?",
        "Give the {c} for the {g} that {r} belongs to.",
    ),
    "held_out": (
        "Look up the {g} of {r}: what is its {c}?", "What {c} is stated for the {g} of {r}?",
        "For the {g} {r} is assigned to, what is the {c}?",
    ),
}  # fmt: skip
SIDES: dict[Split, tuple[tuple[str, ...], tuple[str, ...]]] = {  # below and above
    "train": (("below", "under", "after"), ("above", "over", "before")),
    "held_out": (("below", "beneath"), ("above", "preceding")),
}
ROW: dict[Split, tuple[tuple[str, ...], tuple[str, ...]]] = {  # one row away, two rows away
    "train": (
        ("What is the {c} in the row {d} {r}?", "Which {c} stands one row {d} {r}?", "{c}, one row {d} {r}?"),
        ("What is the {c} two rows {d} {r}?", "Which {c} stands two rows {d} {r}?", "{c}, two rows {d} {r}?"),
    ),
    "held_out": (
        ("What {c} is listed in the line {d} {r}?", "One line {d} {r}, what is the {c}?"),
        ("What {c} is listed two lines {d} {r}?", "Two lines {d} {r}, what is the {c}?"),
    ),
}
RECORD: dict[Split, tuple[str, ...]] = {
    "train": (
        "What is the {a} where the {b} is {x}?", "Give the {a} that goes with the {b} {x}.",
        "{b} {x}: what is the {a}?",
    ),
    "held_out": (
        "Where the {b} reads {x}, what is the {a}?", "What {a} belongs to the {b} {x}?",
    ),
}  # fmt: skip
