"""Running text with facts in it: sentences whose value can be asked for, and sentences that only fill."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backbone.errors import DataError
from docparse.generator import vocabulary as v
from docparse.generator.sentence_words import FILLING, STATED
from docparse.generator.values import Values, pick

_SLOTS = re.compile(r"\{(topic|company|town|person)\}")
_VALUE = re.compile(r"\[([\w:@#-]+)\]")


@dataclass(frozen=True)
class Sentence:
    """Text; where a value can be asked for (`asks`), words ``first`` to ``last`` - 1 of it are the value."""

    text: str
    first: int = 0
    last: int = 0
    asks: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    value: str = ""
    value_kind: str = ""
    topic: str = ""


def filler(values: Values) -> Sentence:
    """A sentence that says nothing anyone asks for."""
    rng = values.rng
    nouns = rng.permutation(len(v.NOUNS))[:3].tolist()
    text = pick(rng, FILLING[values.split]).format(
        q=pick(rng, v.QUALITIES),
        n=v.NOUNS[nouns[0]],
        n2=v.NOUNS[nouns[1]],
        n3=v.NOUNS[nouns[2]],
        verb=pick(rng, v.VERBS),
        adverb=pick(rng, v.ADVERBS),
    )
    return Sentence(re.sub(r"\b([Aa]) ([aeiou])", r"\1n \2", text))


def stated(values: Values, taken: set[str], topic: str | None = None) -> Sentence:
    """A sentence with a value; what it is asked for by is not in ``taken``, where it is added."""
    templates = STATED[values.split].strip().splitlines()
    while True:
        template = pick(values.rng, templates)
        if topic is not None and "{topic}" not in template:
            continue
        slots = {
            kind: values.make(kind) for kind in dict.fromkeys(_SLOTS.findall(template))
        }  # in order: a set's differs between runs
        if topic is not None:
            slots["topic"] = topic
        sentence, ask, question = (_filled(part.strip(), slots) for part in template.split(" | "))
        asks, questions = (tuple(part.strip() for part in text.split(";")) for text in (ask, question))
        if asks[0] in taken:
            topic = None
            continue
        taken.add(asks[0])
        found = _VALUE.search(sentence)
        if found is None:
            raise DataError(f"sentence template has no [value]: {template}")
        value = values.make(found.group(1))
        before, count = len(sentence[: found.start()].split()), len(value.split())
        return Sentence(
            sentence.replace(found.group(0), value),
            before,
            before + count,
            asks,
            questions,
            value,
            found.group(1),
            slots.get("topic", ""),
        )


def _filled(text: str, slots: dict[str, str]) -> str:
    return _SLOTS.sub(lambda match: slots[match.group(1)], text)


def passage(values: Values, taken: set[str], count: int, facts: int) -> list[Sentence]:
    """``count`` sentences, ``facts`` of them with a value, in random order."""
    sentences = [stated(values, taken) if i < facts else filler(values) for i in range(count)]
    return [sentences[i] for i in values.rng.permutation(count).tolist()]
