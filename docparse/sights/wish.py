"""Whether a question asks for something to be seen, and what it should look like."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from docparse.documents.page import Look
from docparse.fields.text import content_tokens, stem

Kind = Literal["figure", "signature", "stamp", "box"]

# OUR CHOICE: how well each look answers to what is asked for; the look of a piece of ink is a guess
LOOKS: dict[str, dict[Look, float]] = {
    "picture": {"photograph": 1.0, "drawing": 0.7, "stamp": 0.4, "signature": 0.1},
    "figure": {"photograph": 1.0, "drawing": 1.0, "stamp": 0.5, "signature": 0.3},
    "drawing": {"photograph": 0.6, "drawing": 1.0, "stamp": 0.5, "signature": 0.4},
    "signature": {"signature": 1.0, "drawing": 0.4, "stamp": 0.2},
    "stamp": {"stamp": 1.0, "drawing": 0.7, "signature": 0.3, "photograph": 0.3},
    "box": {"box": 1.0},
}
_NOUNS = {
    "picture": "photographs? photos? pictures? images?",
    "figure": "figures? fig illustrations? maps? logos?",
    "drawing": "charts? graphs? plots? diagrams? drawings? sketch(?:es)?",
    "signature": "signatures?",
    "stamp": "stamps? seals?",
    "box": "box(?:es)? checkbox(?:es)?",
}
_VERBS = {"picture": "pictured photographed", "figure": "depicted illustrated drawn", "stamp": "stamped"}


def _any_of(words: dict[str, str]) -> str:
    return "|".join(f"(?P<{kind}>{'|'.join(group.split())})" for kind, group in words.items())


_ASK = r"(?:please )?(?:(?:can|could) you )?(?:tell me |show me )?"
_SCOPE = re.compile(r"^(?:on|in|for|under|according to|as given in)\b[^,]{2,80}, ")
_PART = re.compile(
    r"(?:as given |according to |as stated )?(?:in|for|on|under|of) (?:the )?"
    r"(?:section|chapter|slide|part)\b(?! \d)[^,?.]*"
)
_CHOICE = re.compile(r"\bfor (?:the )?([\w-]+)")
_PARTS = frozenset(("section", "chapter", "slide", "part"))
_PAGE = re.compile(r"\b(?:on )?(?:page|sheet|slide) (\d{1,4})\b")
_PLAIN = r"(?:(?!(?:of|for|on|in|by|with|who)\b)\S+ )"  # no word behind which another thing begins
_WHERE = re.compile(
    rf"{_ASK}(?:where|find|show|locate|point to|point out|mark) {_PLAIN}{{0,5}}?(?:{_any_of(_NOUNS)})\b"
)
_WHICH = re.compile(rf"{_ASK}(?:which|what) (?:\S+ )?(?:{_any_of(_NOUNS)})\b")
_SHOWN = re.compile(rf"{_ASK}where .* (?:shown|seen|found|presented) (?:in|on) (?:an? |the )?(?:{_any_of(_NOUNS)})\b")
_DONE = re.compile(rf"{_ASK}where (?:is|are|was|were) .*\b(?:{_any_of(_VERBS)})\b")
# behind the thing: the end, or what tells which one; another noun ("signature date") is another thing
_AFTER = re.compile(
    r" (?:of|on|that|which|with|from|at|about|below|above|stands?|was|(?:is )?(?:placed|found|put|located)|show\w*|"
    r"depict\w*|present\w*|illustrat\w*|contain\w*)\b|$"
)
_FOR = re.compile(r" (?:for|in)\b")
_NUMBER_LIKE = ("figure", "figures")  # "the figure for 2019" is a number
# fmt: off
_TELLING = frozenset((
    "show", "shows", "shown", "showing", "depict", "depicts", "depicted", "present", "presents", "presented", "find",
    "locate", "located", "point", "mark", "see", "seen", "place", "placed", "put", "stand", "stands", "found",
    "contain", "contains", "handwritten", "tick", "check", "can", "did", "me",
))
# fmt: on


@dataclass(frozen=True)
class Wish:
    """Something to be seen: ``looks`` says how well each look would do, ``tokens`` what else is known of it."""

    kind: Kind
    looks: dict[Look, float]
    tokens: tuple[str, ...]  # normalised words of the question, without the thing itself and what only asks
    noun: str
    page: int | None = None  # from 0, where the question names one
    scope: tuple[str, ...] = ()  # words of the heading it stands under, where the question names one


def wish_of(question: str) -> Wish | None:
    """What a question wants to see, None if it wants words.

    It is one of seeing if it begins by asking where, which or to be shown, and names a figure, a picture, a drawing, a
    signature, a stamp or a box right there: "Where is the signature?", not "What is the date of the signature?".
    """
    text = " ".join(re.sub(r"[^\w\s',-]", " ", question.lower()).split())
    page = _PAGE.search(text)
    text = _SCOPE.sub("", text).replace(",", "")
    text = " ".join(re.sub(r"\b(?:check|tick) box", "checkbox", _PAGE.sub("", text)).split())
    found = _WHERE.match(text) or _SHOWN.match(text) or _WHICH.match(text) or _DONE.match(text)
    if found is None:
        return None
    name = next(kind for kind, words in found.groupdict().items() if words)
    noun, after = found.group(name), text[found.end() :]
    if not (_AFTER.match(after) or (noun not in _NUMBER_LIKE and _FOR.match(after))):
        return None
    kind: Kind = name if name in ("signature", "stamp", "box") else "figure"  # type: ignore[assignment]
    apart = {noun, stem(noun), *(("tick", "check", "box", "checkbox") if kind == "box" else ())}
    whole = _PAGE.sub("", " ".join(question.lower().split()))
    part = _PART.search(whole)
    told = whole.replace(part.group(), " ") if part else whole
    scope = tuple(t for t in content_tokens(part.group()) if t not in _PARTS and t != "given") if part else ()
    kept = [token for token in content_tokens(told) if token not in _TELLING and not {token, stem(token)} & apart]
    choice = _CHOICE.search(told)
    if kind == "box" and not kept and choice:  # "A" is a choice here, though it says nothing elsewhere
        kept = [choice.group(1)]
    return Wish(kind, LOOKS[name], tuple(kept), noun, int(page.group(1)) - 1 if page else None, scope)
