"""Words as an OCR engine would have read them: some characters taken for others, some words run together or lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from backbone.errors import ConfigError
from docparse.generator.document import GeneratedDocument, Word

# What is taken for what; of several, each is as likely.
_CONFUSED = {
    "0": "OoQ", "O": "0Q", "o": "0c", "1": "lI7", "l": "1I|", "I": "l1|", "5": "S", "S": "5", "8": "B", "B": "8",
    "6": "b", "2": "Z", "Z": "2", "g": "9q", "9": "g", "c": "e", "e": "c", "u": "v", "v": "u", "h": "b", "n": "h",
    "t": "f", "f": "t", ".": ",", ",": ".", ":": ";", "-": "~", "ä": "a", "ö": "o", "ü": "u", "é": "e", "€": "E",
    "£": "E", "°": "o",
}  # fmt: skip
_PAIRS = {"rn": "m", "m": "rn", "cl": "d", "vv": "w", "w": "vv", "nn": "m", "ii": "u"}


def misread(document: GeneratedDocument, rate: float, seed: int = 0) -> GeneratedDocument:
    """The document with its words misread: each with probability ``rate``; pictures, questions and boxes stay.

    Of the misread words nine in ten have one character or pair taken for another; the rest are joined to the next word
    of their line, or lost. The same document, rate and seed give the same reading.

    Raises:
        ConfigError: a rate outside 0 to 1.
    """
    if not 0 <= rate <= 1:
        raise ConfigError(f"the rate of misread words must lie in 0 to 1, got {rate}")
    rng = np.random.default_rng((seed, document.seed, int(rate * 1000)))
    return replace(document, pages=tuple(replace(p, words=_read(rng, p.words, rate)) for p in document.pages))


def _read(rng: Generator, words: tuple[Word, ...], rate: float) -> tuple[Word, ...]:
    out: list[Word] = []
    joined = False
    for index, word in enumerate(words):
        if joined:
            joined = False
            continue
        if rng.random() >= rate:
            out.append(word)
            continue
        fate = rng.random()
        after = words[index + 1] if index + 1 < len(words) else None
        if fate < 0.9:
            out.append(word._replace(text=_confused(rng, word.text)))
        elif fate < 0.97 and after is not None and after.line == word.line:
            out.append(_together(word, after))
            joined = True
    return tuple(out)


def _confused(rng: Generator, text: str) -> str:
    """One character or pair taken for another; a text without any that is confusable loses or doubles a character."""
    places = [(i, old, new) for old, new in _PAIRS.items() for i in _starts(text, old)]
    places += [(i, c, new) for i, c in enumerate(text) for new in _CONFUSED.get(c, "")]
    if places:
        start, old, new = places[int(rng.integers(len(places)))]
        return text[:start] + new + text[start + len(old) :]
    at = int(rng.integers(len(text)))
    return text[:at] + text[at + 1 :] if len(text) > 1 and rng.random() < 0.5 else text[:at] + text[at] + text[at:]


def _starts(text: str, part: str) -> list[int]:
    return [i for i in range(len(text) - len(part) + 1) if text.startswith(part, i)]


def _together(a: Word, b: Word) -> Word:
    box = (min(a.box[0], b.box[0]), min(a.box[1], b.box[1]), max(a.box[2], b.box[2]), max(a.box[3], b.box[3]))
    return a._replace(text=a.text + b.text, box=box)
