"""Forms: sections of labelled values, the same labels for several people, tick boxes, and values written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from docparse.generator import blocks, sights
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fields import Field, chosen, composed, shuffled
from docparse.generator.fonts import Face, families, height
from docparse.generator.sheet import text_width
from docparse.generator.values import pick, several

_TITLES: dict[Split, tuple[str, ...]] = {
    "train": ("Application Form", "Registration Form", "Claim Form", "Membership Application", "Request for Leave",
              "Patient Information", "Vehicle Registration", "Rental Application", "Insurance Application",
              "Expense Claim", "Change of Address", "Visitor Pass", "Accident Report", "Permit Application"),
    "held_out": ("Enrolment Sheet", "Notice of Damage", "Declaration", "Personal Data Sheet", "Grant Request",
                 "Tenancy Questionnaire", "Notification of Move", "Travel Request"),
}  # fmt: skip
_PEOPLE: dict[Split, tuple[tuple[str, ...], ...]] = {
    "train": (("Applicant", "Co-applicant"), ("Buyer", "Seller"), ("Employee", "Employer"), ("Patient", "Guardian"),
              ("Owner", "Driver"), ("Tenant", "Landlord"), ("Student", "Parent"), ("First witness", "Second witness")),
    "held_out": (("Claimant", "Other party"), ("Lessee", "Lessor"), ("Traveller", "Escort"), ("Holder", "Beneficiary")),
}  # fmt: skip
_SECTIONS: dict[Split, tuple[str, ...]] = {
    "train": (
        "Personal details", "Contact", "Work", "Request", "Declaration", "Payment", "Vehicle", "Details of the stay",
        "Office use only", "Insurance", "Education", "Property", "Equipment", "Medical", "Delivery", "Accommodation",
        "Membership", "Emergency", "Bank details", "Project", "Measurements", "Transport", "Approval",
    ),
    "held_out": (
        "Particulars", "How to reach you", "Occupation and income", "Subject", "For official use", "Object", "Costs",
        "Journey", "Further data", "Previous applications", "Household", "Storage", "Loan", "Inspection",
        "Travel costs", "Consent", "Handover",
    ),
}  # fmt: skip
_NOTES: dict[Split, tuple[str, ...]] = {
    "train": ("Please fill in block letters.", "Fields marked * are required.", "Return the form within 14 days.",
              "False statements may lead to refusal.", "Attach copies of all documents."),
    "held_out": ("Write legibly and do not fold.", "Hand in at the counter.", "Incomplete sheets are sent back."),
}  # fmt: skip


def _section(draft: Draft, y: int, title: str, numbered: str) -> int:
    """A section's heading: plain, or white on a bar."""
    look, sheet = draft.look, draft.sheet
    text = f"{numbered}{title}"
    if draft.split == "train" and not look.label_grey:
        face = look.face(1.05, bold=True, head=True)
        sheet.box((draft.margin, y, draft.margin + draft.width, y + height(face) * 1.2), fill=look.accent)
        sheet.text(draft.margin + look.size * 0.4, y + height(face) * 0.1, text, face, (255, 255, 255))
        return round(y + height(face) * 1.2 + look.size * 0.5)
    return blocks.heading(draft, draft.margin, y, text, 1.15)


def _fields(draft: Draft, count: int) -> list[Field]:
    known = chosen(draft.values, "form", max(1, round(count * 0.6)))
    taken = {f.key for f in known}
    out = list(known)
    while len(out) < count:
        field = composed(draft.values, taken)
        taken.add(field.key)
        out.append(field)
    return shuffled(draft.rng, out)


def _ticks(draft: Draft, y: int) -> int:
    """A question with boxes to tick, one of them crossed; the evidence is the ticked choice's text."""
    look, sheet = draft.look, draft.sheet
    label = pick(draft.rng, ("Type of request", "Kind of stay", "Category", "Preferred contact", "Size", "Language"))
    choices = {
        "Type of request": ("new", "renewal", "change", "cancellation"),
        "Kind of stay": ("private", "business", "study"),
        "Category": ("A", "B", "C", "D"),
        "Preferred contact": ("letter", "phone", "e-mail"),
        "Size": ("small", "medium", "large"),
        "Language": ("English", "French", "German", "Spanish"),
    }[label]
    face = look.face()
    if y + height(face) * 1.5 > draft.bottom:
        return y
    sheet.text(draft.margin, y, label + look.colon, look.label, look.label_colour)
    x = draft.margin + text_width(label + look.colon, look.label) + look.size
    ticked = int(draft.rng.integers(len(choices)))
    side = round(look.size * 0.8)
    for index, choice in enumerate(choices):
        if x + side * 1.5 + text_width(choice, face) > draft.margin + draft.width:
            break
        top = y + (height(face) - side) / 2
        sheet.box((x, top, x + side, top + side), outline=look.ink)
        if index == ticked:
            sheet.rule(x + 2, top + 2, x + side - 2, top + side - 2, look.ink, 2)
            sheet.rule(x + 2, top + side - 2, x + side - 2, top + 2, look.ink, 2)
        span, _ = sheet.text(x + side * 1.5, y, choice, face, look.ink, block=False)
        if draft.sights:
            sights.note_mark(draft, "box", (x, top, x + side, top + side), span, choice)
        if index == ticked:
            asks = (label.lower(), f"ticked {label.lower()}")
            draft.fact(
                label.lower(), asks, (f"Which {label.lower()} is ticked?",), (choice,), (span,), "value", "choice"
            )
        x += side * 2.5 + text_width(choice, face)
    return round(y + height(face) * 1.6)


def _signature(draft: Draft, y: int) -> int:
    """Place and date, and a name above a line."""
    look, sheet = draft.look, draft.sheet
    hand = Face(pick(draft.rng, families(draft.split, "hand")), round(look.size * 1.4))
    if y + height(hand) * 2.2 > draft.bottom:
        return y
    left, right = draft.margin, draft.margin + draft.width * 0.55
    line = y + height(hand) * 1.1
    for x, text, label, key, ask in (
        (left, draft.values.date(), "Place, date", "signature_date", "date of signature"),
        (right, draft.values.person(), "Signature", "signature", "name of the person who signed"),
    ):
        drawn = draft.sights and key == "signature"
        if drawn:
            ink = sights.signature(draft, x + look.size, line - height(hand), draft.width * 0.35)
        else:
            span, _ = sheet.text(x + look.size, y, text, hand, (20, 20, 110))
        sheet.rule(x, line, x + draft.width * 0.4, line, look.ink)
        below, _ = sheet.text(x, line + 2, label, look.face(0.75), look.grey, block=False)
        if drawn:
            sights.note_mark(draft, "signature", ink, below)
            continue
        kind = "date" if key.endswith("date") else "person"
        question = "When was it signed?" if kind == "date" else "Who signed the form?"
        draft.fact(key, (ask,), (question,), (text,), (span,), "value", kind)
    y = round(line + height(hand))
    return sights.stamp(draft, right, y) if draft.sights and draft.chance(0.5) else y


def _form(draft: Draft, arrangement: Callable[[Draft], str], paired: float) -> None:
    """Sections of fields until the wanted pages are full."""
    y = draft.new_sheet()
    title = pick(draft.rng, _TITLES[draft.split])
    y = blocks.heading(draft, draft.margin, y, title, 1.7, align=pick(draft.rng, ("left", "center")))
    if draft.chance(0.6):
        _, y = blocks.paragraph(
            draft, draft.margin, y, draft.width, pick(draft.rng, _NOTES[draft.split]), draft.look.face(0.85)
        )
    written = (
        Face(pick(draft.rng, families(draft.split, "hand")), round(draft.look.size * 1.15))
        if draft.chance(0.25)
        else None
    )
    style = arrangement(draft)
    names = several(draft.rng, _SECTIONS[draft.split], 99)
    numbered = draft.chance(0.4)
    pairs = several(draft.rng, _PEOPLE[draft.split], 99)
    people: list[str] = []
    template: list[Field] = []
    number = 0
    while names:
        number += 1
        if not people and pairs and draft.chance(paired):
            people = list(pairs.pop())
            template = _fields(draft, draft.values.whole(3, 8))
        name = people.pop(0) if people else names.pop()
        fields = [_again(draft, f) for f in template] if template else _fields(draft, draft.values.whole(2, 9))
        if not people:
            template = []
        needed = height(draft.look.face()) * (len(fields) * 1.6 + 3)
        if y + min(needed, draft.sheet.height * 0.35) > draft.bottom:
            if draft.full:
                break
            y = draft.new_sheet()
        draft.section = f'the section "{name}"' if draft.chance(0.5) else f"section {name}"
        y = _section(draft, y, name, f"{number}. " if numbered else "")
        y = blocks.key_values(draft, draft.margin, y, draft.width, fields, style, written) + round(
            draft.look.size * 0.8
        )
        if draft.chance(0.25):
            y = _ticks(draft, y)
        if draft.full and len(draft.sheets) == 1 and draft.chance(0.12):
            break
    draft.section = ""
    _signature(draft, y + draft.look.size)


def _again(draft: Draft, field: Field) -> Field:
    """The same field with another value."""
    kind = field.kind or "count"
    return replace(field, value=draft.values.make(kind))


def _style(*names: str) -> Callable[[Draft], str]:
    return lambda draft: pick(draft.rng, names)


TEMPLATES: dict[Split, dict[str, Callable[[Draft], None]]] = {
    "train": {
        "sections": lambda d: _form(d, _style("columns", "dotted", "spread"), 0.35),
        "ruled": lambda d: _form(d, _style("grid"), 0.25),
        "stacked": lambda d: _form(d, _style("stacked", "inline"), 0.35),
    },
    "held_out": {
        "captions": lambda d: _form(d, _style("caption"), 0.35),
        "lines": lambda d: _form(d, _style("dashed", "right"), 0.35),
    },
}
