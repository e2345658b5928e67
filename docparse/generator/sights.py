"""What is on a page without words, and what asks for it: photographs, drawings, signatures, stamps, boxes to tick."""

from __future__ import annotations

import math
from itertools import pairwise

from docparse.generator.document import Corners, Split
from docparse.generator.draft import Draft
from docparse.generator.fonts import height
from docparse.generator.sheet import AreaMark, Colour, PictureMark, Sheet, Span
from docparse.generator.values import pick

LINES = 12  # of text: the least room that a photograph or a drawing is given
_SUBJECTS: dict[Split, tuple[str, ...]] = {
    "train": (
        "the north entrance", "the old bridge", "the assembly line", "the pump room", "the harbour at night",
        "the new laboratory", "a loaded wagon", "the roof before repair", "the control cabinet", "the training centre",
        "the river in spring", "a worn bearing", "the archive", "the visitors' car park", "the test track",
    ),
    "held_out": (
        "the east wing", "the main square", "the welding shop", "the boiler house", "the coast in winter",
        "the reading room", "a damaged crate", "the tunnel after cleaning", "the switch board", "the sports hall",
        "the orchard", "a cracked valve", "the warehouse", "the bus stop", "the wind park",
    ),
}  # fmt: skip
_CAPTIONS: dict[Split, dict[str, tuple[str, ...]]] = {
    "train": {
        "photograph": ("Photo {n}: {s}", "Figure {n}: {s}", "Fig. {n}. View of {s}"),
        "drawing": ("Figure {n}: sketch of {s}", "Fig. {n}. Plan of {s}", "Drawing {n}: {s}"),
    },
    "held_out": {
        "photograph": ("Picture {n} - {s}", "Image {n}: {s}", "Figure {n}: {s} as seen from the road"),
        "drawing": ("Diagram {n}: {s}", "Figure {n} - outline of {s}"),
    },
}
_FIGURE_QUESTIONS: dict[Split, dict[str, tuple[str, ...]]] = {
    "train": {
        "photograph": ("Which photo shows {s}?", "Where is the picture of {s}?", "Which figure shows {s}?"),
        "drawing": ("Which drawing shows {s}?", "Where is the sketch of {s}?", "Which figure shows {s}?"),
    },
    "held_out": {
        "photograph": ("Find the photograph of {s}.", "Which image shows {s}?", "Where is {s} pictured?"),
        "drawing": ("Find the diagram of {s}.", "Which drawing depicts {s}?", "Show me the figure of {s}."),
    },
}
_MARK_QUESTIONS: dict[Split, dict[str, tuple[str, ...]]] = {
    "train": {
        "signature": ("Where is the signature?", "Find the signature."),
        "stamp": ("Where is the stamp?", "Find the stamp."),
        "box": ("Where is the box for {s}?", "Find the tick box of {s}."),
    },
    "held_out": {
        "signature": ("Show me the signature.", "Where was the handwritten signature placed?"),
        "stamp": ("Show me the seal.", "Where was it stamped?"),
        "box": ("Which box stands for {s}?", "Locate the check box for {s}."),
    },
}
_BLUE: tuple[Colour, ...] = ((20, 20, 110), (15, 15, 20), (30, 50, 160))
_STAMP_INKS: tuple[Colour, ...] = ((170, 20, 40), (30, 40, 150), (20, 110, 70))
_OFFICE: dict[Split, tuple[str, ...]] = {"train": ("Stamp", "Official stamp", "Company stamp"), "held_out": ("Seal",)}


def figure(draft: Draft, x: float, y: float, width: float, tall: float, number: int, taken: set[str]) -> int:
    """A photograph or a drawing with a caption that names it, in ``width`` x ``tall``; gives the y below."""
    look, sheet = draft.look, draft.sheet
    free = [s for s in _SUBJECTS[draft.split] if s not in taken]
    if not free:
        return round(y)
    subject = pick(draft.rng, free)
    taken.add(subject)
    kind = pick(draft.rng, ("photograph", "photograph", "drawing"))
    text = pick(draft.rng, _CAPTIONS[draft.split][kind]).format(n=number, s=subject)
    face, above = look.face(0.9, italic=draft.chance(0.5)), draft.chance(0.25)
    space = round(height(face) * 1.5)
    narrow = width * float(draft.rng.uniform(0.5, 1.0))
    left = x + (width - narrow) / 2
    if above:
        caption, _ = sheet.text(x, y, text, face, look.ink, width=width, align="center")
    frame = (left, y + (space if above else 0), left + narrow, y + tall - (0 if above else space))
    if kind == "photograph":
        sheet.marks.append(PictureMark(_whole(frame), int(draft.rng.integers(2**31))))
    else:
        _drawing(draft, frame)
    if not above:
        caption, _ = sheet.text(x, frame[3] + 3, text, face, look.ink, width=width, align="center")
    asked = tuple(form.format(s=subject) for form in _FIGURE_QUESTIONS[draft.split][kind])
    span = Span(sheet.page, caption.first, caption.last, (frame,))
    draft.fact(f"figure {subject}", (), asked, (text,), (span,), "picture")
    return round(y + tall + look.size)


def signature(draft: Draft, x: float, y: float, width: float) -> Corners:
    """A name written in strokes that are no words; gives the box of its ink."""
    colour, tall = pick(draft.rng, _BLUE), draft.look.size * float(draft.rng.uniform(1.6, 2.8))
    loops, phase = float(draft.rng.uniform(4, 8)), float(draft.rng.uniform(0, math.tau))
    length = min(width, tall * float(draft.rng.uniform(2.5, 4.5)))
    points = []
    for step in range(90):
        t = step / 89
        swing = math.sin(math.tau * loops * t + phase) * (1 - 0.6 * t) + 0.35 * math.sin(math.tau * 1.7 * t)
        back = math.sin(math.tau * loops * t) * tall * 0.22
        points.append((x + back + t * length, y + tall / 2 + swing * tall * 0.37))
    return _stroke(draft.sheet, points, colour)


def note_mark(draft: Draft, kind: str, box: Corners, label: Span, subject: str = "") -> None:
    """The fact of a mark: asked for by what it is, answered by the words of its label."""
    words = draft.sheets[label.page].words[label.first : label.last]
    asked = tuple(form.format(s=subject) for form in _MARK_QUESTIONS[draft.split][kind])
    # the region is the mark alone: the span holds no word
    span = Span(label.page, label.first, label.first, (box,))
    draft.fact(f"{kind} {subject}".strip(), (), asked, (" ".join(w.text for w in words),), (span,), kind)


def stamp(draft: Draft, x: float, y: float) -> int:
    """A stamp, round or square, under a small label; gives the y below."""
    look, sheet = draft.look, draft.sheet
    side = look.size * float(draft.rng.uniform(5, 8))
    if y + side + height(look.face()) > draft.bottom:
        return round(y)
    label, below = sheet.text(x, y, pick(draft.rng, _OFFICE[draft.split]), look.face(0.8), look.grey)
    top = below + look.size * 0.3
    colour = pick(draft.rng, _STAMP_INKS)
    box = (x, top, x + side, top + side)
    shape = "ellipse" if draft.chance(0.7) else "rectangle"
    for inset in (0.0, 0.14):
        near = side * inset
        points = ((box[0] + near, box[1] + near), (box[2] - near, box[3] - near))
        sheet.marks.append(AreaMark(shape, points, None, colour, 2))  # type: ignore[arg-type]
    _star(draft, (x + side / 2, top + side / 2), side * 0.26, colour)
    note_mark(draft, "stamp", box, label)
    return round(top + side + look.size)


def _drawing(draft: Draft, frame: Corners) -> None:
    """Outlined shapes joined by lines, without a word; they touch the frame's four sides."""
    x0, y0, x1, y1 = frame
    sheet, ink = draft.sheet, draft.look.ink
    count = draft.values.whole(3, 5)
    centres = []
    for index in range(count):
        side = (x1 - x0) / count
        tall = (y1 - y0) * (1.0 if index == 0 else float(draft.rng.uniform(0.35, 0.8)))
        top = y0 + float(draft.rng.uniform(0, 1)) * (y1 - y0 - tall)
        box = (x0 + index * side, top, x0 + (index + 0.72) * side if index < count - 1 else x1, top + tall)
        shape = pick(draft.rng, ("rectangle", "ellipse"))
        sheet.marks.append(AreaMark(shape, ((box[0], box[1]), (box[2], box[3])), None, ink, 2))  # type: ignore[arg-type]
        centres.append(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
    for start, end in pairwise(centres):
        sheet.rule(*start, *end, ink, 2)


def _stroke(sheet: Sheet, points: list[tuple[float, float]], colour: Colour) -> Corners:
    for start, end in pairwise(points):
        sheet.rule(*start, *end, colour, 2)
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return min(xs) - 1, min(ys) - 1, max(xs) + 1, max(ys) + 1


def _star(draft: Draft, centre: tuple[float, float], radius: float, colour: Colour) -> None:
    turn = float(draft.rng.uniform(0, math.tau))
    points = tuple(
        (
            centre[0] + radius * (1 if i % 2 else 0.45) * math.cos(turn + math.pi * i / 5),
            centre[1] + radius * (1 if i % 2 else 0.45) * math.sin(turn + math.pi * i / 5),
        )
        for i in range(10)
    )
    draft.sheet.marks.append(AreaMark("polygon", points, colour))


def _whole(box: Corners) -> Corners:
    x0, y0, x1, y1 = (float(round(v)) for v in box)
    return x0, y0, x1, y1
