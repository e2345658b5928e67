"""Letters: sender, recipient, reference lines, a subject, running text with facts in it, a signature, an annex."""

from __future__ import annotations

from collections.abc import Callable

from docparse.generator import blocks, sights
from docparse.generator import vocabulary as v
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fields import KNOWN, chosen
from docparse.generator.fonts import Face, families, height
from docparse.generator.sheet import Align
from docparse.generator.templates.prose import write
from docparse.generator.values import pick

_SALUTES: dict[Split, tuple[str, ...]] = {
    "train": ("Dear {p},", "Dear Sir or Madam,", "Dear Dr. {s},", "Hello {p},"),
    "held_out": ("To whom it may concern,", "Good day {p},", "Dear colleagues,"),
}
_CLOSES: dict[Split, tuple[str, ...]] = {
    "train": ("Yours sincerely,", "Kind regards,", "Best regards,", "Yours faithfully,"),
    "held_out": ("With kind regards", "Respectfully yours", "Sincerely"),
}


def _sender(draft: Draft, x: float, y: float, width: float, align: Align) -> int:
    lines = draft.values.address(draft.values.company())
    face = draft.look.face(1.4, bold=True, head=True)
    name, below = draft.sheet.text(x, y, lines[0], face, draft.look.accent, width=width, align=align)
    draft.fact(
        "sender",
        ("sender", "company that sent the letter"),
        ("Who sent the letter?", "Which company wrote this letter?"),
        (lines[0],),
        (name,),
        "value",
        "company",
    )
    span, below = draft.sheet.text(
        x, below, "\n".join(lines[1:]), draft.look.face(0.85), draft.look.grey, width=width, align=align
    )
    answer = ", ".join(lines[1:])
    draft.fact(
        "sender_address",
        ("address of the sender", "sender's address"),
        ("Where does the letter come from?",),
        (answer, " ".join(lines[1:])),
        (span,),
        "address",
        "address",
    )
    return below


def _recipient(draft: Draft, x: float, y: float, width: float) -> int:
    lines = draft.values.address()
    span, below = blocks.address(draft, x, y, lines, width=width)
    draft.fact(
        "recipient",
        ("recipient's address", "address of the recipient"),
        ("Who is the letter addressed to?",),
        (", ".join(lines), " ".join(lines)),
        (span,),
        "address",
        "address",
    )
    return below


def _references(draft: Draft, x: float, y: float, width: float, arrangement: str) -> int:
    fields = chosen(draft.values, "letter", draft.values.whole(1, 6), ("letter_date",))
    at = int(draft.rng.integers(len(fields) + 1))
    fields.insert(at, KNOWN[draft.split]["letter"]["letter_date"].filled(draft.values))
    return blocks.key_values(draft, x, y, width, fields, arrangement)


def _subject(draft: Draft, y: int) -> int:
    subject = pick(draft.rng, v.SUBJECTS)
    text = subject[0].upper() + subject[1:]
    if draft.chance(0.5):
        text = f"{text} {draft.values.code('@#-####')}"
    prefix = pick(draft.rng, ("", "", "Subject: ", "Re: ") if draft.split == "train" else ("", "Concerning: "))
    words = len(prefix.split())
    span, below = blocks.paragraph(draft, draft.margin, y, draft.width, prefix + text, draft.look.face(bold=True))
    span = type(span)(span.page, span.first + words, span.last)
    draft.fact(
        "subject",
        ("subject of the letter", "subject line"),
        ("What is the letter about?", "What does the letter concern?"),
        (text,),
        (span,),
        "value",
        "subject",
    )
    return below + round(draft.look.size * 0.5)


def _body(draft: Draft, y: int) -> int:
    """Salutation, paragraphs over the wanted pages, closing, signature with name and position."""
    look = draft.look
    salute = pick(draft.rng, _SALUTES[draft.split]).format(p=draft.values.person(), s=draft.values.surname())
    _, y = blocks.paragraph(draft, draft.margin, y, draft.width, salute)
    taken: set[str] = set()
    room = height(look.face()) * 9
    budget = draft.values.whole(2, 5)
    while True:
        while budget and y + room < draft.bottom:
            y = write(draft, draft.margin, y, draft.width, taken, draft.bottom - room)
            budget -= 1
        if draft.full:
            break
        y = draft.new_sheet()
        budget = draft.values.whole(3, 8)
    return _close(draft, y)


def _close(draft: Draft, y: int) -> int:
    look, sheet = draft.look, draft.sheet
    hand = Face(pick(draft.rng, families(draft.split, "hand")), round(look.size * 1.6))
    if y + height(look.face()) * 5 + height(hand) > draft.bottom:
        return y
    x = draft.margin + (draft.width * 0.55 if draft.chance(0.25) else 0)
    _, y = sheet.text(x, y, pick(draft.rng, _CLOSES[draft.split]), look.face(), look.ink)
    name, job = draft.values.person(), pick(draft.rng, v.JOBS)
    ink = None
    if draft.sights:
        ink = sights.signature(draft, x + look.size, y + look.size * 0.3, draft.width * 0.35)
        y = round(ink[3])
    else:
        _, y = sheet.text(x + look.size, y + look.size * 0.3, name.split()[-1], hand, (20, 20, 110))
    span, y = sheet.text(x, y + look.size * 0.3, name, look.face(), look.ink)
    if ink:
        sights.note_mark(draft, "signature", ink, span)
    draft.fact(
        "signer",
        ("name of the person who signed", "signer"),
        ("Who signed the letter?", "Who wrote the letter?"),
        (name,),
        (span,),
        "value",
        "person",
    )
    span, y = sheet.text(x, y, job[0].upper() + job[1:], look.face(), look.ink, block=False)
    draft.fact(
        "position",
        ("position of the person who signed", "job of the signer"),
        ("In what function was the letter signed?",),
        (job[0].upper() + job[1:],),
        (span,),
        "value",
        "job",
    )
    if draft.sights and draft.chance(0.5):
        y = sights.stamp(draft, x, y + look.size)
    return y


def _block(draft: Draft) -> None:
    """Everything at the left; references as a short list."""
    y = _sender(draft, draft.margin, draft.new_sheet(), draft.width, pick(draft.rng, ("left", "right")))
    y = _recipient(draft, draft.margin, y + draft.look.size * 2, draft.width * 0.5)
    y = _references(
        draft, draft.margin, y + draft.look.size * 1.5, draft.width * 0.6, pick(draft.rng, ("inline", "columns"))
    )
    _body(draft, _subject(draft, y + draft.look.size))


def _beside(draft: Draft) -> None:
    """Recipient left, references in a column at the right."""
    y = _sender(draft, draft.margin, draft.new_sheet(), draft.width, "left") + draft.look.size * 2
    left = _recipient(draft, draft.margin, y, draft.width * 0.5)
    right = _references(
        draft, draft.margin + draft.width * 0.58, y, draft.width * 0.42, pick(draft.rng, ("inline", "columns"))
    )
    _body(draft, _subject(draft, max(left, right) + draft.look.size * 2))


def _line(draft: Draft) -> None:
    """References in a row of stacked cells across the page."""
    y = _sender(draft, draft.margin, draft.new_sheet(), draft.width, "center") + draft.look.size
    draft.sheet.rule(draft.margin, y, draft.margin + draft.width, y, draft.look.accent, 2)
    y = _recipient(draft, draft.margin, y + draft.look.size, draft.width * 0.5)
    y = _references(draft, draft.margin, y + draft.look.size * 1.5, draft.width, "stacked")
    _body(draft, _subject(draft, y + draft.look.size))


def _held_frame(draft: Draft) -> None:
    """References boxed at the top, sender below the recipient."""
    y = _references(draft, draft.margin, draft.new_sheet(), draft.width, "caption")
    left = _recipient(draft, draft.margin, y + draft.look.size, draft.width * 0.48)
    right = _sender(draft, draft.margin + draft.width * 0.52, y + draft.look.size, draft.width * 0.48, "right")
    _body(draft, _subject(draft, max(left, right) + draft.look.size * 2))


def _held_foot(draft: Draft) -> None:
    """Recipient first, the subject before the references."""
    y = _recipient(draft, draft.margin, draft.new_sheet() + draft.look.size * 2, draft.width * 0.5)
    y = _subject(draft, y + draft.look.size * 2)
    y = _references(draft, draft.margin, y, draft.width * 0.7, "right")
    y = _sender(draft, draft.margin, y + draft.look.size, draft.width, "left")
    _body(draft, y + draft.look.size)


TEMPLATES: dict[Split, dict[str, Callable[[Draft], None]]] = {
    "train": {"block": _block, "beside": _beside, "line": _line},
    "held_out": {"frame": _held_frame, "foot": _held_foot},
}
