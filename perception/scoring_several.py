"""Which options a free-text answer chose where several may be right. As with one: no guessing.

The published scoring of XLRS-Bench counts every letter A to E that occurs in an answer, also inside of words where no
brackets are; here letters count only where they are stated, so "A and C, not B" is no answer instead of three.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perception.scoring import LETTERS, final_part, is_article, normalised

_LETTER = r"[*\"'`(\[]*[A-J](?![\w'])[*\"'`)\].:]*"
_BETWEEN = r"(?:\s*[,;/&+]\s*(?:and\s+|or\s+)?|\s+and\s+|\s+)"
_RUN = re.compile(rf"(?<![\w'])({_LETTER}(?:{_BETWEEN}{_LETTER})*)")
_STATED = re.compile(
    r"(?i:answers?|(?:correct|right|best)\s+(?:options?|choices?)|choose|select|pick)(?:\(s\))?"
    rf"(?i:\s+(?:is\(are\)|is|are|would\s+be|should\s+be|must\s+be))?\s*[:=]?\s*{_RUN.pattern}"
)
_JOINED = re.compile(r"[\s*\"'`(\[]*([A-J]{2,})[\s*\"'`)\].]*")
_MARKED = re.compile(r"(?:and\s+)?[-*\s]*(?:[(\[]([A-J])[)\]]|([A-J])[.):])")
_PARTS = re.compile(r"[\n,;]|\band\b")
_LINES = re.compile(r"[\n;]")


def choose_several(text: str, options: Sequence[str]) -> tuple[int, ...]:
    """The indices of the options that ``text`` names, ascending and without repetition; empty if it states none.

    In order: nothing but letters ("A, C and D", "ACD"), stated answers (the last counts), a list of marked options
    ("(A) Pond, (C) Road"), the only row of letters in a sentence, nothing but the options' own texts.
    """
    text = final_part(text).strip()
    letters = LETTERS[: len(options)]
    if (joined := _JOINED.fullmatch(text)) and len(set(joined[1])) == len(joined[1]):
        return _indices(joined[1], letters)
    if _RUN.fullmatch(text):
        return _indices(text, letters)
    if stated := [m for m in _STATED.finditer(text) if not _one_word(m[1], text, m.end())]:
        return _indices(stated[-1][1], letters)
    plain = [normalised(option) for option in options]
    parts, lines = _parts(_PARTS, text), _parts(_LINES, text)  # an option may have commas of its own
    marks = [m[1] or m[2] for part in parts if (m := _MARKED.match(part))]
    if marks and len(marks) == len(parts):
        return _indices("".join(marks), letters)
    marks = [
        letter for line in lines for letter, option in zip(letters, plain, strict=True) if _is(line, letter, option)
    ]
    if marks and len(marks) == len(lines):
        return _indices("".join(marks), letters)
    rows = [m[1] for m in _RUN.finditer(text) if not _one_word(m[1], text, m.end())]
    if rows:
        return _indices(rows[0], letters) if len(rows) == 1 else ()
    for named in (parts, lines):
        if {normalised(part) for part in named} <= set(plain):
            return tuple(sorted({plain.index(normalised(part)) for part in named}))
    return ()


def _parts(division: re.Pattern[str], text: str) -> list[str]:
    return [part.strip() for part in division.split(text) if part.strip(" .\t")]


def _is(line: str, letter: str, option: str) -> bool:
    """Whether a line is an option with its mark and all of its text."""
    mark = _MARKED.match(line)
    return mark is not None and letter in (mark[1], mark[2]) and normalised(line[mark.end() :]) == option


def _indices(found: str, letters: str) -> tuple[int, ...]:
    """The places of capital letters; none at all if one of them marks no option."""
    named = set(re.findall(r"[A-J]", found))
    return tuple(sorted(letters.index(n) for n in named)) if named <= set(letters) else ()


def _one_word(run: str, text: str, end: int) -> bool:
    """Whether a row of letters is the article "A" or the word "I" of a sentence."""
    return len(run) == 1 and is_article(text, end, run)
