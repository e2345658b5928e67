"""Manuals: contents with page numbers, numbered sections, options and their meaning, steps, boxed warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from docparse.generator import blocks
from docparse.generator import vocabulary as v
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fonts import Face, families, height
from docparse.generator.sheet import Span, text_width
from docparse.generator.templates.prose import write
from docparse.generator.values import pick, several

_TITLES: dict[Split, tuple[str, ...]] = {
    "train": ("{p} User Manual", "{p} Reference", "Guide to the {p}", "{p}: Installation and Use", "Operating the {p}"),
    "held_out": ("{p} Handbook", "Working with the {p}", "{p} Instructions"),
}
_WARNINGS: dict[Split, tuple[str, ...]] = {
    "train": ("Warning", "Note", "Caution", "Important"),
    "held_out": ("Attention", "Remark", "Danger"),
}
_ACTS = (
    "print", "open", "close", "reset", "count", "sort", "copy", "move", "clean", "check", "test", "fill", "lock",
    "mark",
    "merge", "split", "list", "show", "hide", "store", "load", "send", "scale", "turn", "mix", "heat", "cool", "weigh",
    "sign", "log", "trim", "join", "drop", "keep", "skip", "repeat", "limit", "align", "invert", "measure",
)  # fmt: skip
_THINGS = (
    "line", "page", "file", "table", "column", "row", "key", "value", "header", "image", "signal", "motor", "valve",
    "lamp",
    "sensor", "filter", "drawer", "cover", "cable", "button", "wheel", "label", "record", "field", "frame", "channel",
    "group", "index", "path", "unit", "clock", "counter", "buffer", "message", "report", "address", "folder", "display",
)  # fmt: skip
_ADVERBS: dict[Split, tuple[str, ...]] = {
    "train": ("before each start", "at the end", "without asking", "once a day", "in reverse order",
        "from the second on",
              "in the current group", "until stopped", "after a pause", "while the cover is closed"),
    "held_out": ("when the day ends", "as soon as possible", "for the chosen group", "with every change",
        "at half speed"),
}  # fmt: skip
_MEANS: dict[Split, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "train": (
        ("What does {o} do?", "What is {o} for?", "What is the meaning of {o}?", "Explain {o}."),
        ("Which option serves to {m}?", "How does one {m}?", "What must be set to {m}?"),
        ("What is the default of {o}?", "Which value does {o} have by default?"),
    ),
    "held_out": (
        ("What happens with {o}?", "What effect does {o} have?", "What is {o} for?"),
        ("With what can one {m}?", "Name the option that makes it {m}."),
        ("Which value does {o} take if nothing is given?", "What is the preset of {o}?"),
    ),
}
_STEP: dict[Split, tuple[str, ...]] = {
    "train": ("What is step {n} of {t}?", "What has to be done in step {n} of {t}?"),
    "held_out": ("What comes as number {n} in {t}?", "Quote step {n} of {t}."),
}
_WARN: dict[Split, tuple[str, ...]] = {
    "train": ("What does the {w} in {s} say?", "Read the {w} in {s}."),
    "held_out": ("Of what does the {w} in {s} speak?", "Quote the {w} of {s}."),
}
_BEGIN: dict[Split, tuple[str, ...]] = {
    "train": ("On which page does {t} begin?", "Which page number is given for {t}?"),
    "held_out": ("Where in the manual does {t} start?", "At what page is {t} listed?"),
}


@dataclass
class _Manual:
    """Where the manual is, and what is used up."""

    y: int
    taken: set[str]
    numbered: bool
    mono: Face
    style: str
    part: int = 0


def _phrase(draft: Draft) -> tuple[str, str]:
    """An act as a bare verb phrase and as it is printed: "sort the rows at the end", "Sorts the rows at the end"."""
    act, thing = pick(draft.rng, _ACTS), pick(draft.rng, _THINGS)
    article = pick(draft.rng, ("the", "each", "every", "the last"))
    rest = f"{article} {pick(draft.rng, v.QUALITIES)} {thing} {pick(draft.rng, _ADVERBS[draft.split])}"
    third = f"{act}es" if act.endswith(("s", "x", "sh", "ch")) else f"{act[:-1]}ies" if act == "copy" else f"{act}s"
    return f"{act} {rest}", f"{third.capitalize()} {rest}"


def _room(draft: Draft, manual: _Manual, lines: float) -> bool:
    """Whether so many lines fit, on a new sheet if need be."""
    if manual.y + lines * height(draft.look.face()) * draft.look.leading < draft.bottom:
        return True
    if draft.full:
        return False
    manual.y = draft.new_sheet()
    return True


def _option_name(draft: Draft, used: set[str]) -> str:
    forms = (
        ("--{a}-{b}", "-{c}", "{A}_{B}", "{a}({b})") if draft.split == "train" else ("/{a}{b}", "{a}.{b}", "--{a}-{b}")
    )
    form = pick(draft.rng, forms)
    while True:
        a, b = pick(draft.rng, _ACTS), pick(draft.rng, _THINGS)
        name = form.format(a=a, b=b, A=a.upper(), B=b.upper(), c=a[:1])
        if name not in used:
            used.add(name)
            return name
        form = forms[0] if form == "-{c}" else form


def _options(draft: Draft, manual: _Manual) -> None:
    """A list of options: names in a column, beside or above what they mean, some with a default."""
    look, sheet = draft.look, draft.sheet
    count = draft.values.whole(3, 9)
    names = [_option_name(draft, manual.taken) for _ in range(count)]
    column = max(text_width(n, manual.mono) for n in names) + look.size * 1.5
    beside = manual.style == "beside" and column < draft.width * 0.4
    means, back, preset = _MEANS[draft.split]
    for name in names:
        act, printed = _phrase(draft)
        default = (
            draft.values.make(pick(draft.rng, ("count", "time", "percent", "length"))) if draft.chance(0.35) else ""
        )
        text = f"{printed}." + (f" The default is {default}" + " here." if default else "")
        x = draft.margin + (column if beside else look.size * 2)
        if manual.y + blocks.text_height(draft, text, draft.margin + draft.width - x) * 2 > draft.bottom:
            break
        term, below = sheet.text(draft.margin, manual.y, name, manual.mono, look.ink)
        top = manual.y if beside else below
        span, end = sheet.text(x, top, text, look.face(), look.ink, width=draft.margin + draft.width - x, block=False)
        words = len(printed.split())
        meaning = Span(span.page, span.first, span.first + words)
        asked = tuple(form.format(o=name) for form in means)
        draft.fact(f"option {name}", (), asked, (printed, f"{printed}."), (meaning,), "sentence", "meaning")
        asked = tuple(form.format(m=act) for form in back)
        draft.fact(f"option to {act}", (), asked, (name,), (term,), "value", "option")
        if default:
            at = span.first + words + 3
            value = Span(span.page, at, at + len(default.split()))
            asked = tuple(form.format(o=name) for form in preset)
            draft.fact(
                f"default {name}",
                (f"default of {name}",),
                asked,
                blocks.answers(default),
                (value,),
                "sentence",
                "default",
            )
        manual.y = max(end, below) + round(look.size * 0.4)
    manual.y += round(look.size * 0.5)


def _steps(draft: Draft, manual: _Manual, task: str) -> None:
    """Numbered steps; each can be asked for by its number."""
    look, sheet = draft.look, draft.sheet
    for number in range(1, draft.values.whole(3, 7) + 1):
        act, _ = _phrase(draft)
        text = f"{act[0].upper()}{act[1:]}."
        if manual.y + blocks.text_height(draft, text, draft.width - look.size * 3) > draft.bottom:
            break
        sheet.text(draft.margin + look.size, manual.y, f"{number}.", look.face(bold=look.label_bold), look.ink)
        span, manual.y = sheet.text(
            draft.margin + look.size * 3,
            manual.y,
            text,
            look.face(),
            look.ink,
            width=draft.width - look.size * 3,
            block=False,
        )
        asked = tuple(form.format(n=number, t=task) for form in _STEP[draft.split])
        draft.fact(f"step {number} of {task}", (), asked, (text, text.rstrip(".")), (span,), "sentence", "step")
        manual.y += round(look.size * 0.3)
    manual.y += round(look.size * 0.5)


def _warning(draft: Draft, manual: _Manual, section: str) -> None:
    """A boxed text under a word of warning; the evidence is the text."""
    look, sheet = draft.look, draft.sheet
    word = pick(draft.rng, _WARNINGS[draft.split])
    text = " ".join(f"{p[0].upper()}{p[1:]}." for p in (f"never {_phrase(draft)[0]}", f"always {_phrase(draft)[0]}"))
    pad = look.size
    deep = blocks.text_height(draft, text, draft.width - 2 * pad) + height(look.face()) * 2
    if manual.y + deep + pad > draft.bottom:
        return
    mark = len(sheet.marks)
    top = manual.y
    _, y = sheet.text(draft.margin + pad, top + pad * 0.6, word, look.face(bold=True), look.accent)
    span, y = sheet.text(draft.margin + pad, y, text, look.face(), look.ink, width=draft.width - 2 * pad, block=False)
    corners = (draft.margin, top, draft.margin + draft.width, y + pad * 0.6)
    if look.label_grey:
        sheet.box_before(mark, corners, (240, 240, 232))
    else:
        sheet.box(corners, outline=look.accent)
    asked = tuple(form.format(w=word.lower(), s=section) for form in _WARN[draft.split])
    draft.fact(f"{word.lower()} in {section}", (), asked, (text,), (span,), "paragraph")
    manual.y = round(y + pad * 1.4)


def _contents(draft: Draft, manual: _Manual, names: Sequence[str]) -> None:
    """A list of chapters with dotted lines to page numbers; each number can be asked for."""
    look, sheet = draft.look, draft.sheet
    manual.y = blocks.heading(draft, draft.margin, manual.y, pick(draft.rng, ("Contents", "Table of contents")), 1.3)
    page = draft.values.whole(1, 5)
    for number, name in enumerate(names, 1):
        if manual.y + height(look.face()) * 1.4 > draft.bottom:
            break
        title = f"{number} {name}" if manual.numbered else name
        sheet.text(draft.margin, manual.y, title, look.face(), look.ink)
        left = draft.margin + text_width(title, look.face()) + look.size * 0.6
        right = draft.margin + draft.width - look.size * 2.4
        base = manual.y + height(look.face()) * 0.75
        if draft.split == "train" and left < right:
            sheet.rule(left, base, right, base, look.grey, 1, 2)
        span, below = sheet.text(
            draft.margin, manual.y, str(page), look.face(), look.ink, align="right", width=draft.width, block=False
        )
        asked = tuple(form.format(t=f'"{name}"') for form in _BEGIN[draft.split])
        draft.fact(f"page of {name}", (f"page number of {name}",), asked, (str(page),), (span,), "value", "page")
        manual.y = below + round(look.size * 0.3)
        page += draft.values.whole(1, 14)
    manual.y += look.size


def _cover(draft: Draft, manual: _Manual, product: str) -> None:
    """Title, version and date."""
    title = pick(draft.rng, _TITLES[draft.split]).format(p=product)
    manual.y = blocks.heading(draft, draft.margin, manual.y, title, 1.9)
    version = f"{draft.values.whole(0, 9)}.{draft.values.whole(0, 20)}.{draft.values.whole(0, 9)}"
    for key, prefix, text, asks, question, kind in (
        ("version", pick(draft.rng, ("Version ", "Release ")), version, ("version of the manual", "version number"),
         "Which version is described?", "version"),
        ("manual_date", "", draft.values.date(), ("date of the manual", "date of the edition"),
            "When was the manual issued?", "date"),
        ("maker", "", draft.values.company(), ("maker", "publisher of the manual"), "Who makes the product?",
            "company"),
    ):  # fmt: skip
        span, manual.y = draft.sheet.text(draft.margin, manual.y, prefix + text, draft.look.face(), draft.look.grey)
        span = Span(span.page, span.first + len(prefix.split()), span.last)
        draft.fact(key, asks, (question,), (text,), (span,), "value", kind)
    manual.y += draft.look.size


def _manual(draft: Draft, style: str, contents: float) -> None:
    """Sections of text, options, steps and warnings until the wanted pages are full."""
    mono = families(draft.split, "mono")
    face = Face(pick(draft.rng, mono), draft.look.size) if draft.chance(0.6) else draft.look.face(bold=True)
    manual = _Manual(draft.new_sheet(), set(), draft.chance(0.7), face, style)
    _cover(draft, manual, f"{pick(draft.rng, v.ADJECTIVES).capitalize()} {pick(draft.rng, v.PRODUCTS)}")
    names = several(draft.rng, v.HEADINGS, 24)
    if draft.chance(contents):
        _contents(draft, manual, names[: draft.values.whole(5, 14)])
    for number, name in enumerate(names, 1):
        if not _room(draft, manual, 9):
            break
        section = f'the section "{name}"' if not manual.numbered or draft.chance(0.5) else f"section {number}"
        draft.section = section
        title = f"{number} {name}" if manual.numbered else name
        manual.y = blocks.heading(draft, draft.margin, manual.y, title, 1.25)
        manual.y = write(
            draft, draft.margin, manual.y, draft.width, manual.taken, draft.bottom, count=draft.values.whole(1, 3)
        )
        kind = float(draft.rng.random())
        if kind < 0.45 and _room(draft, manual, 6):
            _options(draft, manual)
        elif kind < 0.75 and _room(draft, manual, 6):
            _steps(draft, manual, section)
        if draft.chance(0.3):
            _warning(draft, manual, section)
    draft.section = ""


TEMPLATES: dict[Split, dict[str, Callable[[Draft], None]]] = {
    "train": {
        "options": lambda d: _manual(d, "beside", 0.3),
        "entries": lambda d: _manual(d, "above", 0.5),
    },
    "held_out": {"handbook": lambda d: _manual(d, "above" if d.look.label_bold else "beside", 0.4)},
}
