"""Words and questions as text: tokens that carry a question's meaning, and the kinds of things a word can be."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

# question words and glue: they say what kind of answer is wanted, not where it stands
# fmt: off
GLUE = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "being", "by", "can", "could", "did", "do", "does", "for",
    "from", "give", "given", "had", "has", "have", "how", "i", "in", "into", "is", "it", "its", "many", "me",
    "much", "of", "on", "or", "our", "please", "say", "shown", "so", "stand", "stands", "state", "stated", "tell",
    "than", "that", "the", "their", "them", "then", "there", "these", "this", "those", "to", "us", "was", "we",
    "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you",
    "your", "s", "t",
))
MONTHS = frozenset((
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
))
# fmt: on
ASKING = ("what", "which", "who", "whose", "when", "where", "how much", "how many", "how", "why", "is", "list")
_PIECES = re.compile(r"[^\W_]+(?:[.,:/'’-][^\W_]+)*", re.UNICODE)
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\d{1,3}(?:[.,' ]?\d{3})*(?:[.,]\d+)?%?\)?$|[-+]?\d+(?:[.,]\d+)?%?$")
_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}$")
_TIME = re.compile(r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:am|pm)?$", re.IGNORECASE)
_MAIL = re.compile(r"[^@\s]+@[^@\s]+\.\w+$")
_LINK = re.compile(r"(?:https?://|www\.)\S+$|[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|de|eu|uk|io|gov|edu)(?:/\S*)?$")
_CODE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w/.-]{3,}$")

KINDS = (
    "number", "decimal", "currency", "percent", "date", "time", "year", "month", "mail", "link", "code", "digits",
    "capital", "upper", "colon", "comma", "stop", "bullet", "bracket", "short", "length", "glue",
)  # fmt: skip


def normal(text: str) -> str:
    """Lower case without marks at its ends: how words are compared."""
    return text.lower().strip(" \t.,:;!?()[]{}\"'`’‘“”«»*•·–—-_|")


def stem(word: str) -> str:
    """A crude stem of a normalised word, so that ``payments`` meets ``payment`` and ``issued`` meets ``issue``."""
    if len(word) <= 4 or any(c.isdigit() for c in word):
        return word
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def content_tokens(question: str) -> list[str]:
    """The question's words that may stand in the document, normalised; all of its words if none is more than glue."""
    words = [normal(piece) for piece in _PIECES.findall(question)]
    words = list(dict.fromkeys(w for w in words if w))
    return [w for w in words if w not in GLUE] or words


def asking(question: str) -> FloatArray:
    """Which of `ASKING` the question begins with or contains: (len(ASKING),) of 0 and 1."""
    text = " " + re.sub(r"\s+", " ", question.lower()) + " "
    return np.array([f" {word} " in text for word in ASKING], np.float32)


@lru_cache(maxsize=100_000)
def kinds(word: str) -> tuple[float, ...]:
    """What a word looks like: one number for each of `KINDS`."""
    bare = word.strip("()[]{}:;,.\"'")
    plain = normal(word)
    digits = sum(c.isdigit() for c in word)
    letters = sum(c.isalpha() for c in word)
    is_number = bool(_NUMBER.match(bare))
    return (
        float(is_number),
        float(is_number and bool(re.search(r"[.,]\d{1,2}$", bare.rstrip("%")))),
        float(bool(re.search(r"[$€£¥]", word)) or plain in ("eur", "usd", "gbp", "chf")),
        float("%" in word),
        float(bool(_DATE.match(bare))),
        float(bool(_TIME.match(bare)) and not _DATE.match(bare)),
        float(bool(re.fullmatch(r"(?:19|20)\d{2}", bare))),
        float(plain in MONTHS),
        float(bool(_MAIL.match(bare))),
        float(bool(_LINK.match(bare.lower()))),
        float(bool(_CODE.match(bare)) and not _LINK.match(bare.lower()) and not _MAIL.match(bare)),
        digits / max(len(word), 1),
        float(word[:1].isupper()),
        float(letters >= 2 and word.upper() == word),
        float(word.endswith(":")),
        float(word.endswith(",")),
        float(word.endswith((".", "!", "?"))),
        float(plain == "" or word in ("•", "-", "–", "*", "·")),
        float(word[:1] in "([" or word[-1:] in ")]"),
        float(len(word) <= 2),
        min(len(word), 20) / 20,
        float(plain in GLUE),
    )
