"""Paragraphs of running text whose facts are noted."""

from __future__ import annotations

from docparse.generator import blocks, sentences
from docparse.generator import vocabulary as v
from docparse.generator.document import Split
from docparse.generator.draft import Draft
from docparse.generator.fonts import Face
from docparse.generator.sheet import Span
from docparse.generator.values import pick

_ABOUT: dict[Split, tuple[str, ...]] = {
    "train": (
        "What is said about the {t}?",
        "Which paragraph deals with the {t}?",
        "Summarise the passage on the {t}.",
    ),
    "held_out": ("What does the text say on the {t}?", "Quote the passage on the {t}."),
}


def write(
    draft: Draft,
    x: float,
    y: float,
    width: float,
    taken: set[str],
    bottom: float,
    face: Face | None = None,
    count: int | None = None,
) -> int:
    """One paragraph at ``(x, y)`` if it fits above ``bottom``, with its facts; gives the y below it.

    Half of the paragraphs have a topic of their own, and can be asked for as a whole.
    """
    count = draft.values.whole(2, 6) if count is None else count
    facts = int(draft.rng.integers(0, min(3, count) + 1))
    written = sentences.passage(draft.values, taken, count, facts)
    topic = ""
    if draft.chance(0.5):
        topic = pick(draft.rng, v.TOPICS)
        if topic in taken or any(topic in phrase for phrase in taken):
            topic = ""
        else:
            taken.add(topic)
            written.insert(0, sentences.stated(draft.values, taken, topic))
    text = " ".join(s.text for s in written)
    while len(written) > 1 and y + blocks.text_height(draft, text, width, face) > bottom:
        written.pop()
        text = " ".join(s.text for s in written)
    if y + blocks.text_height(draft, text, width, face) > bottom:
        return round(y)
    span, below = blocks.paragraph(draft, x, y, width, text, face)
    at = span.first
    for sentence in written:
        if sentence.asks:
            place = Span(span.page, at + sentence.first, at + sentence.last)
            draft.fact(
                sentence.asks[0],
                sentence.asks,
                sentence.questions,
                blocks.answers(sentence.value),
                (place,),
                "sentence",
                sentence.value_kind,
            )
        at += len(sentence.text.split())
    if topic and len(written) > 1:
        about = tuple(form.format(t=topic) for form in _ABOUT[draft.split])
        draft.fact(f"paragraph on {topic}", (), about, (text,), (span,), "paragraph")
    return below
