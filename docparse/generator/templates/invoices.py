"""Invoices and receipts: parties, reference data, items, sums that look alike, and how to pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from docparse.generator import blocks
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fields import KNOWN, Field, chosen, composed, shuffled
from docparse.generator.fonts import height
from docparse.generator.sheet import Align
from docparse.generator.tables import Column, table
from docparse.generator.templates.bills import bill_of, place_items, place_sums, room
from docparse.generator.templates.cells import note_table
from docparse.generator.values import pick, several

_RECIPIENT: dict[Split, tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...]] = {
    "train": (
        ("billing", "Bill to", ("billing address", "address of the customer"), ("Who is the invoice addressed to?",)),
        ("shipping", "Ship to", ("delivery address", "shipping address"), ("Where are the goods delivered to?",)),
    ),
    "held_out": (
        ("billing", "Invoiced to", ("invoice address", "billing address"), ("To whom is the invoice made out?",)),
        ("shipping", "Consignee", ("address of the consignee", "delivery address"), ("Where do the goods go?",)),
    ),
}
_TITLES: dict[Split, tuple[str, ...]] = {
    "train": ("INVOICE", "Invoice", "Tax Invoice", "Sales Invoice", "Proforma Invoice", "Statement"),
    "held_out": ("Bill", "Commercial Invoice", "Fee Note", "Invoice / Facture"),
}


def _closing(draft: Draft, y: int, pay: list[Field]) -> int:
    y = room(draft, y, len(pay) + 3)
    y = blocks.key_values(draft, draft.margin, y, draft.width * float(draft.rng.uniform(0.5, 1.0)), pay)
    y += draft.look.size
    text = " ".join(
        pick(
            draft.rng,
            (
                "Thank you for your order.",
                "Goods remain our property until paid in full.",
                "Please quote the number above with your payment.",
                "Complaints within eight days, please.",
                "This document was made by machine and is valid without signature.",
            ),
        )
        for _ in range(2)
    )
    if y + blocks.text_height(draft, text, draft.width) < draft.bottom:
        _, y = blocks.paragraph(draft, draft.margin, y, draft.width, text, draft.look.face(0.85))
    return y


def _recipients(draft: Draft, y: int, across: bool) -> int:
    """One or two addresses with labels, side by side or one below the other."""
    both = _RECIPIENT[draft.split] if draft.chance(0.6) else _RECIPIENT[draft.split][:1]
    below = y
    for index, (key, label, asks, questions) in enumerate(both):
        lines = draft.values.address()
        x = draft.margin + (draft.width * 0.5 * index if across else 0)
        span, end = blocks.address(draft, x, y if across else below, lines, label, width=draft.width * 0.45)
        draft.fact(key, asks, questions, (", ".join(lines), " ".join(lines)), (span,), "address", "address")
        below = max(below, end + draft.look.size)
    return below


def _sender(draft: Draft, x: float, y: int, width: float, align: Align = "left") -> int:
    lines = draft.values.address(draft.values.company())
    face = draft.look.face(1.5, bold=True, head=True)
    name, below = draft.sheet.text(x, y, lines[0], face, draft.look.accent, width=width, align=align)
    asks = ("name of the seller", "seller", "company that issued the invoice")
    draft.fact(
        "seller",
        asks,
        ("Who issued the invoice?", "Which company sent the invoice?"),
        (lines[0],),
        (name,),
        "value",
        "company",
    )
    span, below = draft.sheet.text(
        x, below, "\n".join(lines[1:]), draft.look.face(0.9), draft.look.grey, width=width, align=align
    )
    answer = ", ".join(lines[1:])
    draft.fact(
        "seller_address",
        ("address of the seller", "seller's address"),
        ("Where is the seller located?",),
        (answer, " ".join(lines[1:])),
        (span,),
        "address",
        "address",
    )
    return below + draft.look.size


def _fields(draft: Draft, low: int, high: int) -> tuple[list[Field], list[Field]]:
    """Reference data and payment data of an invoice, with a few composed fields among them."""
    pay_keys = ("terms", "method", "iban", "bank", "bic")
    known = KNOWN[draft.split]["invoice"]
    head = chosen(draft.values, "invoice", draft.values.whole(low, high), ("invoice_number", *pay_keys))
    head.append(known["invoice_number"].filled(draft.values))
    taken: set[str] = set()
    for _ in range(draft.values.whole(0, 3)):
        field = composed(draft.values, taken)
        taken.add(field.key)
        head.append(field)
    pay = [known[key].filled(draft.values) for key in several(draft.rng, pay_keys, draft.values.whole(1, 5))]
    return shuffled(draft.rng, head), pay


def _bundle(draft: Draft, page: Callable[[Draft, int], int]) -> None:
    """One invoice over several sheets, or several invoices one after the other."""
    many = draft.target > 1 and draft.chance(0.6)
    while not draft.full:
        y = draft.new_sheet()
        if many:
            start = len(draft.facts)
            page(draft, y)
            _name_section(draft, start)
        else:
            page(draft, y)


def _name_section(draft: Draft, start: int) -> None:
    """Scope the facts of one invoice of several by its number, where that is printed."""
    number = next((f.answers[0] for f in draft.facts[start:] if f.key == "invoice_number"), "")
    if number:
        draft.facts[start:] = [
            f if f.key == "invoice_number" else replace(f, section=f"invoice {number}") for f in draft.facts[start:]
        ]


def _count(draft: Draft) -> int:
    rest = draft.target - len(draft.sheets)
    return draft.values.whole(2, 12) if rest < 1 else draft.values.whole(25, 30 + 22 * rest)


def _classic(draft: Draft, y: int) -> int:
    """Sender left, title and reference data right, addresses, items, sums, payment."""
    head, pay = _fields(draft, 3, 7)
    half = draft.width * 0.48
    left = _sender(draft, draft.margin, y, half)
    x = draft.margin + draft.width * 0.52
    right = blocks.heading(draft, x, y, pick(draft.rng, _TITLES[draft.split]), 1.8, half)
    right = blocks.key_values(draft, x, right, half, head, pick(draft.rng, ("inline", "columns", "grid")))
    y = _recipients(draft, max(left, right) + draft.look.size, across=draft.chance(0.6))
    y = place_items(draft, y, bill := bill_of(draft, _count(draft)))
    return _closing(draft, place_sums(draft, room(draft, y, 2 + len(bill.sums) * 1.5), bill.sums), pay)


def _banner(draft: Draft, y: int) -> int:
    """A coloured bar with the title, reference data in a row of stacked cells."""
    sheet, look = draft.sheet, draft.look
    face = look.face(2.0, bold=True, head=True)
    deep = height(face) + 2 * look.size
    sheet.box((0, 0, sheet.width, deep), fill=look.accent)
    sheet.text(draft.margin, look.size, pick(draft.rng, _TITLES[draft.split]), face, (255, 255, 255))
    head, pay = _fields(draft, 4, 8)
    y = _sender(draft, draft.margin, deep + look.size, draft.width)
    y = _recipients(draft, y, across=True)
    y = blocks.key_values(draft, draft.margin, y, draft.width, head, "stacked") + look.size
    y = place_items(draft, y, bill := bill_of(draft, _count(draft)))
    return _closing(draft, place_sums(draft, room(draft, y, 2 + len(bill.sums) * 1.5), bill.sums), pay)


def _receipt(draft: Draft, y: int) -> int:
    """A till receipt: narrow, centred, a name and an amount on each line."""
    look, sheet = draft.look, draft.sheet
    width = min(draft.width, round(look.size * 26))
    left = (sheet.width - width) / 2
    y = _sender(draft, left, y, width, "center")
    head, pay = _fields(draft, 2, 4)
    y = blocks.key_values(draft, left, y, width, head, "inline") + look.size
    bill = bill_of(draft, draft.values.whole(2, 14))
    sheet.rule(left, y, left + width, y, look.ink, 1, 3)
    y += look.size
    name_at = bill.name_at
    columns, rows = [Column("Item"), Column("Amount", "right")], [[row[name_at], row[-1]] for row in bill.rows]
    placed = table(draft, left, y, width, columns, rows, "plain")
    note_table(draft, columns, rows, placed, 0)
    y = placed.y + look.size
    for field in bill.sums:
        strong = look.face(1.0, bold=field.key in ("total", "due"))
        sheet.text(left, y, field.label, strong, look.ink)
        span, y = sheet.text(left, y, field.value, strong, look.ink, width=width, align="right", block=False)
        blocks.note_field(draft, field, span)
    return blocks.key_values(draft, left, y + look.size, width, pay[:2], "inline")


def _sidebar(draft: Draft, y: int) -> int:
    """Reference data in a shaded column at the left, the rest beside it."""
    sheet, look = draft.sheet, draft.look
    head, pay = _fields(draft, 4, 8)
    wide = round(draft.width * 0.3)
    sheet.box((0, 0, draft.margin + wide, sheet.height), fill=(238, 240, 244))
    blocks.heading(draft, draft.margin, y, pick(draft.rng, _TITLES[draft.split]), 1.5, wide - look.size)
    side = blocks.key_values(draft, draft.margin, y + look.size * 4, wide - look.size, head, "stacked")
    blocks.key_values(draft, draft.margin, side + look.size, wide - look.size, pay, "stacked")
    return _beside(draft, y, draft.margin + wide + look.size)


def _beside(draft: Draft, y: int, x: float) -> int:
    """Sender, customer, items and sums between ``x`` and the right margin."""
    width = draft.sheet.width - draft.margin - x
    y = _sender(draft, x, y, width)
    key, label, asks, questions = _RECIPIENT[draft.split][0]
    lines = draft.values.address()
    span, y = blocks.address(draft, x, y, lines, label, width=width)
    draft.fact(key, asks, questions, (", ".join(lines), " ".join(lines)), (span,), "address", "address")
    bill = bill_of(draft, draft.values.whole(2, 12))
    placed = table(draft, x, y + draft.look.size, width, bill.columns, bill.rows)
    name_at = bill.name_at
    note_table(draft, bill.columns, bill.rows, placed, name_at, skip=("Pos.", "Unit"))
    return place_sums(draft, placed.y + draft.look.size, bill.sums)


def _centred(draft: Draft, y: int) -> int:
    """Title and sender centred, boxed captions, addresses after the reference data, payment before the items."""
    y = _sender(draft, draft.margin, y, draft.width, "center")
    y = blocks.heading(draft, draft.margin, y, pick(draft.rng, _TITLES[draft.split]), 1.6, align="center")
    head, pay = _fields(draft, 4, 9)
    y = blocks.key_values(draft, draft.margin, y, draft.width, head, "caption") + draft.look.size
    y = _recipients(draft, y, across=draft.chance(0.5))
    y = blocks.key_values(draft, draft.margin, y, draft.width * 0.7, pay, "right") + draft.look.size
    y = place_items(draft, y, bill := bill_of(draft, _count(draft)))
    return place_sums(draft, room(draft, y, 2 + len(bill.sums) * 1.5), bill.sums)


def _split(draft: Draft, y: int) -> int:
    """Customer left, sender right below the title, reference data at the foot beside nothing else."""
    y = blocks.heading(draft, draft.margin, y, pick(draft.rng, _TITLES[draft.split]), 2.0)
    left = _recipients(draft, y, across=False)
    right = _sender(draft, draft.margin + draft.width * 0.55, y, draft.width * 0.45, "right")
    y = place_items(draft, max(left, right) + draft.look.size, bill := bill_of(draft, _count(draft)))
    y = place_sums(draft, room(draft, y, 2 + len(bill.sums) * 1.5), bill.sums)
    head, pay = _fields(draft, 3, 7)
    y = room(draft, y, len(head) * 1.6 + 2)
    y = blocks.key_values(draft, draft.margin, y, draft.width * 0.8, head, pick(draft.rng, ("right", "dashed")))
    return _closing(draft, y + draft.look.size, pay)


TEMPLATES: dict[Split, dict[str, Callable[[Draft], None]]] = {
    "train": {
        "classic": lambda d: _bundle(d, _classic),
        "banner": lambda d: _bundle(d, _banner),
        "receipt": lambda d: _bundle(d, _receipt),
        "sidebar": lambda d: _bundle(d, _sidebar),
    },
    "held_out": {"centred": lambda d: _bundle(d, _centred), "split": lambda d: _bundle(d, _split)},
}
