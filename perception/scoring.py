"""Which option a free-text answer chose. Never guesses: what names no option, or several, is no answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from backbone.errors import DataError

LETTERS = "ABCDEFGHIJ"
_TAGGED = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.IGNORECASE | re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.IGNORECASE | re.DOTALL)
_BOXED = re.compile(r"\\boxed\{\s*(?:\\text\{)?([^{}]*)\}")
_LETTER = r"\s*[:=]?\s*[*\"'`(\[]*([A-J])(?![\w'])"
_IS = r"(?:\s+(?:is|would\s+be|should\s+be|must\s+be))?"
# "The answer is (B)", "Answer: B", "correct option is **B**", "I choose B"
_STATED = re.compile(rf"(?i:answer|(?:correct|right|best)\s+(?:option|choice)|choose|select|pick)(?i:{_IS}){_LETTER}")
_NAMED = re.compile(rf"(?<!not )(?i:option|choice)(?i:{_IS}){_LETTER}")
_BARE = re.compile(r"^[\s*\"'`(\[]*([A-Ja-j])[\s*\"'`)\].:,;!]*$")
# "B. red circle", "(B) red", "**B)** red", but not "(A) or (B)"
_LEADING = re.compile(r"^[\s*\"'`]*(?:[(\[]([A-J])[)\]]|([A-J])[.):])(?!\w)(?!\W*(?:or|and)\W+[A-J]\b)")
_BRACKETED = re.compile(r"[(\[]([A-Ja-j])[)\]]")
_LONE = re.compile(r"(?<![\w'])([A-J])(?![\w'])")
_ARTICLES = frozenset({"a", "an", "the"})


def extract_letter(text: str, count: int) -> int | None:
    """The index of the lettered option that ``text`` states, among ``count`` options; None if it states none.

    In order: a bare letter, a stated answer ("the answer is B", the last one counts), a leading "B." or "(B)", the
    only "option B", the only bracketed letter, the only lone capital. "A" before a lower-case word is the article.
    """
    letters = LETTERS[:count]
    text = final_part(text)
    if (bare := _BARE.match(text)) and bare.group(1).upper() in letters:
        return letters.index(bare.group(1).upper())
    stated = [m for m in _STATED.finditer(text) if m.group(1) in letters and not is_article(text, m.end(), m.group(1))]
    if stated:
        return letters.index(stated[-1].group(1))
    if (leading := _LEADING.match(text)) and (leading.group(1) or leading.group(2)) in letters:
        return letters.index(leading.group(1) or leading.group(2))
    for pattern in (_NAMED, _BRACKETED, _LONE):
        found = {
            m.group(1).upper()
            for m in pattern.finditer(text)
            if m.group(1).upper() in letters and not (pattern is _LONE and is_article(text, m.end(), m.group(1)))
        }
        if len(found) == 1:
            return letters.index(found.pop())
        if found:
            return None
    return None


def match_text(text: str, options: Sequence[str]) -> int | None:
    """The index of the option that ``text`` equals, or the only one it contains as whole words.

    Case, accents, punctuation, articles and spaces do not count. An option that is part of another contained option
    ("circle" in "red circle") gives way to it.
    """
    answer = normalised(final_part(text))
    plain = [normalised(option) for option in options]
    equal = [i for i, option in enumerate(plain) if option == answer and option]
    if equal:
        return equal[0] if len(equal) == 1 else None
    contained = [i for i, option in enumerate(plain) if option and f" {option} " in f" {answer} "]
    largest = [i for i in contained if not any(i != j and f" {plain[i]} " in f" {plain[j]} " for j in contained)]
    return largest[0] if len(largest) == 1 else None


def choose(text: str, options: Sequence[str]) -> int | None:
    """The option that ``text`` chose: its letter, else its text.

    The prompt asks for a letter, so a letter wins where it could be both (options that are letters themselves).
    """
    if len(options) > len(LETTERS):
        raise DataError(f"at most {len(LETTERS)} options have letters, got {len(options)}")
    letter = extract_letter(text, len(options))
    return letter if letter is not None else match_text(text, options)


def normalised(text: str) -> str:
    """Lower case, without accents, punctuation, articles and surplus spaces; numbers keep sign and decimal point."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    folded = "".join(c for c in folded if not unicodedata.combining(c))
    words = re.findall(r"-?\d+(?:[.,]\d+)*%?|\w+", folded)
    kept = [word for word in words if word not in _ARTICLES]
    return " ".join(kept or words)


def final_part(text: str) -> str:
    """What follows the thought, inside the last answer tag or box."""
    text = _THOUGHT.sub(" ", text).strip()
    for pattern in (_TAGGED, _BOXED):
        found = pattern.findall(text)
        if found and found[-1].strip():
            return str(found[-1]).strip()
    return text


def is_article(text: str, end: int, letter: str) -> bool:
    """Whether a capital "A" or "I" is a word of a sentence: a lower-case word follows it."""
    return letter in "AI" and re.match(r"\s+[a-z]", text[end:]) is not None
