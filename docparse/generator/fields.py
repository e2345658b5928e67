"""Fields of documents: how they are labelled on paper, how people ask for them, and what stands there.

Two sources: a table of known fields, and labels composed of a modifier and a noun, of which there are thousands. Some
labels and ways of asking occur in the held-out split alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from docparse.generator.document import Split
from docparse.generator.field_words import HELD_WORDS, KNOWN_FIELDS, MODIFIER_SYNONYMS, NOUNS
from docparse.generator.values import Values, pick, several


@dataclass(frozen=True)
class Field:
    """``label`` as printed; ``asks`` are noun phrases for it, ``questions`` whole questions; ``value`` as printed."""

    key: str
    label: str
    asks: tuple[str, ...]
    questions: tuple[str, ...]
    value: str
    kind: str = ""


@dataclass(frozen=True)
class Known:
    """A field of the table, with the wordings of one split."""

    key: str
    kind: str
    labels: tuple[str, ...]
    asks: tuple[str, ...]
    questions: tuple[str, ...]

    def filled(self, values: Values, value: str | None = None) -> Field:
        """With one label and a value."""
        label = pick(values.rng, self.labels)
        return Field(
            self.key, label, self.asks, self.questions, values.make(self.kind) if value is None else value, self.kind
        )


def _split(text: str, split: Split, separator: str = ";") -> tuple[str, ...]:
    """The wordings of a split from ``shared; train / held-out``: held-out has its own and the first shared one."""
    parts = [tuple(p.strip() for p in half.split(separator) if p.strip()) for half in [*text.split(" / "), ""][:2]]
    if split == "train" or not parts[1]:
        return parts[0]
    return (*parts[1], *parts[0][:1])


def _parsed(group: str, split: Split) -> dict[str, Known]:
    out = {}
    for line in KNOWN_FIELDS[group].strip().splitlines():
        key, kind, labels, asks, questions = (part.strip() for part in f"{line} ".split(" | "))
        out[key] = Known(
            key, kind, _split(labels, split), _split(asks, split), _split(questions.removeprefix("/"), split)
        )
    return out


KNOWN: dict[Split, dict[str, dict[str, Known]]] = {
    split: {group: _parsed(group, split) for group in KNOWN_FIELDS} for split in ("train", "held_out")
}


def composed(values: Values, taken: set[str]) -> Field:
    """A field whose label is a modifier and a noun; its key is the label, and never one of ``taken``.

    Some words occur in the held-out split alone, where about half of the labels have one of them.
    """
    rng = values.rng
    while True:
        kind = pick(rng, tuple(NOUNS))
        nouns, modifiers = NOUNS[kind]
        entry, _, own = pick(rng, nouns).partition("@")
        noun, synonym = entry.split("=")
        modifier = pick(rng, modifiers)
        held = noun in HELD_WORDS or modifier in HELD_WORDS
        if (values.split == "train" and held) or (values.split == "held_out" and not held and rng.random() < 0.8):
            continue
        label = f"{modifier} {noun}"
        if label not in taken and modifier not in noun:
            break
    asks = [label, f"{modifier} {synonym}"]
    if modifier in MODIFIER_SYNONYMS:
        asks += [f"{MODIFIER_SYNONYMS[modifier]} {noun}"]
    return Field(label, label.capitalize(), tuple(asks), (), values.make(own or kind), own or kind)


def chosen(values: Values, group: str, count: int, exclude: tuple[str, ...] = ()) -> list[Field]:
    """``count`` different fields of a group of the table, filled."""
    known = [k for key, k in KNOWN[values.split][group].items() if key not in exclude]
    return [k.filled(values) for k in several(values.rng, known, count)]


def shuffled(rng: Generator, fields: list[Field]) -> list[Field]:
    """The fields in random order."""
    return [fields[i] for i in rng.permutation(len(fields)).tolist()]
