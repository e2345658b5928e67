"""From a PDF's characters to words: joined by spaces and geometry, in any reading direction."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from docparse.documents.geometry import Affine, map_boxes

JUMP = 0.5  # of the characters' height along the line: a new word though there is no space
OFFSET = 0.6  # across the line: a new word on another line
SOFT_HYPHEN, LINE_HYPHEN = 0xAD, 0x02  # pdfium reports a hyphen at a line's end as 0x02
INVISIBLE = frozenset((0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, 0xFFFE))
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
MEANINGLESS = frozenset(("Co", "Cn", "Cc", "Cs"))


@dataclass(frozen=True, eq=False)
class Characters:
    """The n characters of a page as pdfium gives them, in its order.

    ``codes`` are code points, ``tight`` (n, 4) the boxes of their ink and ``loose`` (n, 4) those of their font's
    height, both (left, bottom, right, top) in points, ``angles`` (n,) their clockwise direction in degrees on the
    unturned page.
    """

    codes: Sequence[int]
    tight: NDArray[np.float64]
    loose: NDArray[np.float64]
    angles: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RawWords:
    """Words before they are arranged.

    Texts, boxes (n, 4) in shown pixels, directions (n,), confidences (n,); ``strings`` (n,) numbers the words that are
    known to follow each other on one line, -1 where nothing is known.
    """

    texts: list[str]
    boxes: NDArray[np.float64]
    directions: NDArray[np.int64]
    confidences: NDArray[np.float64]
    strings: NDArray[np.int64]

    @classmethod
    def none(cls) -> RawWords:
        """No words."""
        return cls([], np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))

    def chosen(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> RawWords:
        """Those that a mask or indices choose."""
        indices = np.arange(len(self.texts))[which]
        texts = [self.texts[i] for i in indices.tolist()]
        return RawWords(
            texts, self.boxes[indices], self.directions[indices], self.confidences[indices], self.strings[indices]
        )

    def scaled(self, across: float, along: float) -> RawWords:
        """The same on a picture of another size."""
        return replace(self, boxes=self.boxes * np.array([across, along, across, along]))

    def with_more(self, other: RawWords) -> RawWords:
        """These and the other ones."""
        return RawWords(
            self.texts + other.texts,
            np.concatenate([self.boxes, other.boxes]),
            np.concatenate([self.directions, other.directions]),
            np.concatenate([self.confidences, other.confidences]),
            np.concatenate([self.strings, other.strings]),
        )


def meaningless_share(codes: Sequence[int]) -> float:
    """The share of characters without a meaning: private use, unassigned, control, the replacement character."""
    counted = bad = 0
    for code, times in Counter(codes).items():
        if code in (LINE_HYPHEN, 0xFFFE) or chr(code).isspace():
            continue
        counted += times
        bad += times * (code == 0xFFFD or unicodedata.category(chr(code)) in MEANINGLESS)
    return bad / counted if counted else 0.0


def to_words(characters: Characters, to_shown: Affine, turn: int, width: int, height: int) -> RawWords:
    """Words of a page of ``width`` x ``height`` shown pixels; what lies outside it is left out, boxes are cut to it.

    ``to_shown`` maps points to shown pixels, ``turn`` is the page's clockwise /Rotate in degrees.
    """
    kept, breaks = _visible(characters.codes)
    if not kept:
        return RawWords.none()
    tight, loose = map_boxes(to_shown, characters.tight[kept]), map_boxes(to_shown, characters.loose[kept])
    flat = (tight[:, 2:] - tight[:, :2]).min(1) < 1e-3  # no ink of its own: some fonts state no glyph boxes
    tight = np.where(flat[:, None], loose, tight)
    angles = (characters.angles[kept] + turn) % 360
    directions = (np.round(angles / 90) % 4 * 90).astype(np.int64)
    begins = np.array(breaks) | _apart(loose, angles, directions)
    begins[0] = True
    starts = np.flatnonzero(begins)
    boxes = np.concatenate([np.minimum.reduceat(tight[:, :2], starts), np.maximum.reduceat(tight[:, 2:], starts)], 1)
    codes = [characters.codes[i] for i in kept]
    ends = [*starts[1:].tolist(), len(kept)]
    texts = [_text(codes[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
    found = RawWords(texts, _with_area(boxes), directions[starts], np.ones(len(texts)), np.full(len(texts), -1))
    return on_page(found, width, height)


def on_page(words: RawWords, width: int, height: int) -> RawWords:
    """The words of which at least half lies on the page, cut to it; those without text are left out."""
    boxes = words.boxes
    cut = np.clip(boxes, 0.0, np.array([width, height, width, height], np.float64))
    area, left = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1), np.prod(cut[:, 2:] - cut[:, :2], axis=1)
    shown = (left > 0) & (left >= 0.5 * area) & np.array([bool(text) for text in words.texts], bool)
    return replace(words, boxes=cut).chosen(shown)


def _visible(codes: Sequence[int]) -> tuple[list[int], list[bool]]:
    """The indices of the characters to keep, and for each whether white space stands before it."""
    kept: list[int] = []
    breaks: list[bool] = []
    space = True
    for index, code in enumerate(codes):
        if code > 0x20 and code < 0x7F:
            kept.append(index)
            breaks.append(space)
            space = False
        elif code in INVISIBLE or code == 0:
            continue
        elif code != LINE_HYPHEN and (chr(code).isspace() or unicodedata.category(chr(code)) == "Cc"):
            space = True
        else:
            kept.append(index)
            breaks.append(space)
            space = False
    return kept, breaks


def _apart(loose: NDArray[np.float64], angles: NDArray[np.float64], directions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each character (n,) stands apart from the one before it."""
    upright = np.isin(directions, (0, 180))
    along = np.where(upright[:, None], loose[:, [0, 2]], loose[:, [1, 3]])
    across = np.where(upright[:, None], loose[:, [1, 3]], loose[:, [0, 2]])
    size = np.maximum(across[:, 1] - across[:, 0], 1e-6)
    least = np.minimum(size[1:], size[:-1])
    gap = np.maximum(along[1:, 0] - along[:-1, 1], along[:-1, 0] - along[1:, 1])  # either way: some scripts run back
    offset = np.abs(across[1:].mean(1) - across[:-1].mean(1))
    slanted = np.abs((angles - directions + 180) % 360 - 180) > 10  # upright boxes say little about slanted text
    loosened = np.where(slanted[1:], 3.0, 1.0)
    turned = np.abs((angles[1:] - angles[:-1] + 180) % 360 - 180) > 10
    apart = (gap > JUMP * least * loosened) | (offset > OFFSET * np.maximum(size[1:], size[:-1]) * loosened) | turned
    return np.concatenate([[True], apart])


def _text(codes: list[int]) -> str:
    """The text of a word: ligatures spelled out, hyphens as shown, soft hyphens only where they are."""
    if max(codes) < 0x7F and min(codes) > 0x20:
        return bytes(codes).decode("ascii")
    last = len(codes) - 1
    parts = []
    for index, code in enumerate(codes):
        if code == LINE_HYPHEN or (code == SOFT_HYPHEN and index == last):
            parts.append("-")
        elif code != SOFT_HYPHEN:
            parts.append(LIGATURES.get(code) or chr(code))
    text = "".join(parts)
    if any(0xD800 <= code < 0xE000 for code in codes):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _with_area(boxes: NDArray[np.float64], least: float = 0.5) -> NDArray[np.float64]:
    """Boxes at least half a pixel wide and high, grown about their centres."""
    centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, np.maximum((boxes[:, 2:] - boxes[:, :2]) / 2, least / 2)
    return np.concatenate([centre - half, centre + half], axis=1)
