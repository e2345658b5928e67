"""The numbers of an invoice: items, sums that look alike, and how they are set."""

from __future__ import annotations

from dataclasses import dataclass

from docparse.generator import blocks
from docparse.generator import vocabulary as v
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fields import Field
from docparse.generator.fonts import height
from docparse.generator.sheet import text_width
from docparse.generator.tables import Column, table
from docparse.generator.templates.cells import note_table
from docparse.generator.values import pick

_SUMS: dict[Split, dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = {
    "train": {
        "subtotal": (("Subtotal", "Net total", "Sum"), ("subtotal", "net amount"), ("What is the sum before tax?",)),
        "discount": (("Discount", "Rebate"), ("discount", "rebate amount"), ("How much discount was given?",)),
        "shipping_cost": (("Shipping", "Freight"), ("shipping cost", "freight charge"), ("What does shipping cost?",)),
        "tax": (("VAT {r} %", "Tax ({r}%)"), ("VAT amount", "amount of tax"), ("How much tax is charged?",)),
        "total": (("Total", "Grand total", "Total amount"), ("total amount", "grand total"),
            ("What is the total of the invoice?",)),
        "paid": (("Paid", "Amount paid"), ("amount already paid",), ("How much has been paid already?",)),
        "due": (("Amount due", "Balance due"), ("amount due", "balance due"), ("How much is still due?",)),
    },
    "held_out": {
        "subtotal": (("Net", "Goods value"), ("net sum", "subtotal"), ("What do the goods cost without tax?",)),
        "discount": (("Less discount",), ("deducted discount", "discount"), ("What was deducted as a discount?",)),
        "shipping_cost": (("Carriage", "Postage"), ("cost of carriage", "shipping cost"),
            ("How much is the postage?",)),
        "tax": (("plus {r} % VAT", "Sales tax {r} %"), ("sum of the tax", "VAT amount"),
            ("What does the tax come to?",)),
        "total": (("Invoice total", "Total payable"), ("invoice total", "total amount"),
            ("What does the invoice come to in all?",)),
        "paid": (("Down payment",), ("down payment",), ("How much was paid in advance?",)),
        "due": (("Remaining", "Please pay"), ("remaining sum", "amount due"), ("What sum remains to be paid?",)),
    },
}  # fmt: skip


@dataclass
class Bill:
    """The numbers of one invoice."""

    rows: list[list[str]]
    columns: list[Column]
    sums: list[Field]

    @property
    def name_at(self) -> int:
        """Which column names the goods."""
        return next(i for i, c in enumerate(self.columns) if c.name in ("Description", "Goods"))


def bill_of(draft: Draft, count: int) -> Bill:
    """An invoice of ``count`` different goods, with or without article numbers, units and positions."""
    values = draft.values
    names: list[str] = []
    while len(names) < count:
        name = values.product()
        if name not in names:
            names.append(name)
    with_code, with_unit, with_pos = draft.chance(0.5), draft.chance(0.4), draft.chance(0.5)
    columns = [Column("Description" if draft.split == "train" else "Goods")]
    if with_code:
        columns.insert(0, Column("Article" if draft.split == "train" else "Item no."))
    if with_pos:
        columns.insert(0, Column("Pos.", "right"))
    columns.append(Column("Qty" if draft.split == "train" else "Quantity", "right"))
    if with_unit:
        columns.append(Column("Unit"))
    columns += [
        Column("Unit price" if draft.split == "train" else "Price each", "right"),
        Column("Amount" if draft.split == "train" else "Value", "right"),
    ]
    rows, subtotal = [], 0.0
    for index, name in enumerate(names):
        quantity, price = values.whole(1, 60), round(float(10 ** draft.rng.uniform(0, 3)), 2)
        subtotal += quantity * price
        row = [name, str(quantity), values.number(price, 2), values.number(quantity * price, 2)]
        if with_unit:
            row.insert(2, pick(draft.rng, v.UNITS))
        if with_code:
            row.insert(0, values.code("@-####"))
        rows.append([str(index + 1), *row] if with_pos else row)
    return Bill(rows, columns, _sums(draft, subtotal))


def _sums(draft: Draft, subtotal: float) -> list[Field]:
    rate = pick(draft.rng, (5, 7, 8, 10, 19, 20, 21, 25))
    discount = round(subtotal * 0.05, 2) if draft.chance(0.35) else 0.0
    shipping = float(draft.values.whole(4, 80)) if draft.chance(0.45) else 0.0
    net = subtotal - discount + shipping
    tax = round(net * rate / 100, 2)
    paid = round((net + tax) * 0.3, 2) if draft.chance(0.3) else 0.0
    amounts = {
        "subtotal": subtotal,
        "discount": discount,
        "shipping_cost": shipping,
        "tax": tax,
        "total": net + tax,
        "paid": paid,
        "due": net + tax - paid if paid else 0.0,
    }
    out = []
    for key, amount in amounts.items():
        if amount:
            labels, asks, questions = _SUMS[draft.split][key]
            label = pick(draft.rng, labels).format(r=rate)
            out.append(Field(key, label, asks, questions, draft.values.money(amount), "money"))
    return out


def place_sums(draft: Draft, y: float, sums: list[Field]) -> int:
    """The sums at the right, labels left of the amounts, the last ones bold."""
    look, sheet = draft.look, draft.sheet
    face, bold = look.face(), look.face(1.05, bold=True)
    amount_width = max(text_width(f.value, bold) for f in sums) + look.size
    label_width = max(text_width(f.label, bold) for f in sums) + look.size
    right = sheet.width - draft.margin
    left = right - amount_width - label_width
    sheet.new_block()
    for field in sums:
        strong = bold if field.key in ("total", "due") else face
        if field.key == "total":
            sheet.rule(left, y, right, y, look.ink)
            y += 2
        sheet.text(left, y, field.label, strong, look.ink, block=False)
        span, below = sheet.text(
            right - amount_width, y, field.value, strong, look.ink, width=amount_width, align="right", block=False
        )
        blocks.note_field(draft, field, span)
        y = below + round(look.size * 0.25)
    return round(y + look.size * 0.6)


def place_items(draft: Draft, y: int, bill: Bill) -> int:
    """The item table, over as many sheets as it takes; gives the y below it."""
    rows = list(bill.rows)
    ruling = ""
    y = room(draft, y, 3)  # a table's head does not stand alone, or beyond the sheet
    while rows:
        placed = table(draft, draft.margin, y, draft.width, bill.columns, rows, ruling)
        note_table(draft, bill.columns, rows, placed, bill.name_at, skip=("Pos.", "Unit"))
        rows = rows[len(placed.cells) :]
        y = placed.y + draft.look.size
        if rows:
            y = draft.new_sheet()
    return y


def room(draft: Draft, y: int, lines: float) -> int:
    """The same y, or that of a new sheet where fewer than this many lines remain."""
    return y if y + lines * height(draft.look.face()) * draft.look.leading < draft.bottom else draft.new_sheet()
