"""Answers in a model's own words: close-ups of the evidence, with the words read there, go to a vision-language model.

The flow decides where to look and whether there is anything; the model sees nothing but these close-ups, so that what
it says stands on them. It may still say that they do not hold the answer.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from backbone.contracts import Box, Image, Ledger
from backbone.errors import ConfigError, DataError
from backbone.vlm import VLM, Generation, Message
from docparse.config import DocparseConfig
from docparse.contracts import NOT_HERE, DocumentAnswer, Looking
from docparse.documents import Page
from docparse.question import CANNOT_READ

# OUR CHOICE, all of them
MOST = 4  # close-ups: those that carry most
WIDE, TALL = 0.3, 0.08  # of the page's longer side: a close-up is at least so large, that labels are seen as well
AROUND = 0.02  # of the longer side: what is seen beyond the evidence
LONGEST = 160  # tokens of an answer
WORDS = 400  # of a close-up, as text
REFUSAL = "NOT IN DOCUMENT"
PROMPT = (
    "These are close-ups of a document, each with the words read there. Answer the question from them alone, as "
    "briefly as possible, with words and numbers as printed. If they do not hold the answer, reply with {refusal}.\n"
    "Question: {question}"
)


@dataclass(frozen=True)
class CloseUp:
    """What the model is shown: page from 0, the region in pixels of the page as shown, its pixels and its words."""

    page: int
    box: Box
    text: str
    image: Image = field(repr=False, compare=False)


def writer_of(config: DocparseConfig, vlm: VLM | None) -> Writer | None:
    """The writer of a configuration, None for extractive answers.

    Raises:
        ConfigError: generative answers without a model, or with nano, which cannot read.
    """
    if config.answerer == "extractive":
        return None
    if vlm is None:
        raise ConfigError(
            'docparse: answerer="generative" needs a vision-language model; give one as vlm=, such as '
            "VLM.load('Qwen/Qwen3-VL-4B-Instruct')"
        )
    if vlm.name == "nano":
        raise ConfigError(CANNOT_READ)
    return Writer(vlm)


class Writer:
    """A model that words the answers; holds no state between calls."""

    def __init__(self, vlm: VLM) -> None:
        """``vlm`` reads and writes."""
        self.vlm = vlm

    def rewrite(
        self,
        question: str,
        answer: DocumentAnswer,
        pages: Sequence[Page],
        document: Looking | None,
        cancel: threading.Event | None = None,
    ) -> DocumentAnswer:
        """The answer with the model's words and confidence, on the same evidence; ``answer`` must be one that is found.

        Where no close-up can be made (the document is closed, a page cannot be drawn) or the model says nothing, the
        document's own words stay and a note says why. Raises what the model raises, and `CancelledError`.
        """
        try:
            shown = close_ups(answer, pages, document)
        except DataError as error:
            return _noted(answer, f"no close-up of the evidence, so these are the document's own words: {error}")
        generation = self.vlm.generate(
            messages(question, shown), max_new_tokens=LONGEST, cancel=cancel, stage="writing"
        )
        return _answered(answer, generation)


def close_ups(answer: DocumentAnswer, pages: Sequence[Page], document: Looking | None) -> list[CloseUp]:
    """Close-ups of the heaviest evidence, in reading order of their pages.

    Raises:
        DataError: there is no document to look at, it is closed, or a page with evidence cannot be drawn.
    """
    if document is None:
        raise DataError("there are only words of this document; give the document itself to see its pages")
    chosen = sorted(answer.evidence, key=lambda e: -e.mass)[:MOST]
    made = []
    for evidence in sorted(chosen, key=lambda e: (e.page, e.box.y0, e.box.x0)):
        page = document.page(evidence.page)
        if page.image is None:
            raise DataError(f"page {evidence.page + 1} could not be drawn: {page.error or 'no picture'}")
        box = surroundings(evidence.box, page.width, page.height)
        x0, y0, x1, y1 = math.floor(box.x0), math.floor(box.y0), math.ceil(box.x1), math.ceil(box.y1)
        text = words_in(pages[evidence.page], box)
        made.append(CloseUp(evidence.page, box, text, np.ascontiguousarray(page.image[y0:y1, x0:x1])))
    return made


def surroundings(box: Box, width: int, height: int) -> Box:
    """The region to show for evidence on a page of ``width`` x ``height`` pixels: wider, never beyond the page."""
    side = max(width, height)
    sides = []
    for low, high, least, limit in ((box.x0, box.x1, WIDE, width), (box.y0, box.y1, TALL, height)):
        wanted = max(high - low + 2 * AROUND * side, least * side)
        start = (low + high - wanted) / 2
        start = max(0.0, min(start, limit - wanted))  # moved inside rather than cut
        sides.append((start, min(float(limit), start + wanted)))
    (x0, x1), (y0, y1) = sides
    return Box.clamped((x0, y0, x1, y1), width, height, "evidence", box.score)


def words_in(page: Page, box: Box) -> str:
    """The words of a page whose middle lies in a box, a line a line, at most `WORDS`."""
    lines: dict[int, list[str]] = {}
    count = 0
    for word in page.words:
        x, y = (word.box[0] + word.box[2]) / 2, (word.box[1] + word.box[3]) / 2
        if box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1 and count < WORDS:
            lines.setdefault(word.line, []).append(word.text)
            count += 1
    return "\n".join(" ".join(words) for words in lines.values())


def messages(question: str, shown: Sequence[CloseUp]) -> list[Message]:
    """One turn: every close-up behind its page's number and before its words, then the question."""
    content: list[dict[str, object]] = []
    for number, close_up in enumerate(shown, 1):
        content.append({"type": "text", "text": f"Close-up {number}, page {close_up.page + 1}:"})
        content.append({"type": "image", "image": close_up.image})
        if close_up.text:
            content.append({"type": "text", "text": f"Words read there:\n{close_up.text}"})
    content.append({"type": "text", "text": PROMPT.format(refusal=REFUSAL, question=question)})
    return [{"role": "user", "content": content}]


def _answered(answer: DocumentAnswer, generation: Generation) -> DocumentAnswer:
    ledger = answer.ledger + Ledger((generation.stage,))
    text = " ".join(generation.texts[0].split())
    if not text:
        return replace(_noted(answer, "the model said nothing, so these are the document's own words"), ledger=ledger)
    notes = answer.notes
    chosen = generation.log_probs[0] if generation.log_probs else ()
    if chosen:
        confidence = math.exp(sum(chosen) / len(chosen))
    else:
        confidence = answer.confidence
        notes = (*notes, "the model tells no probabilities: the confidence is that of the evidence")
    if not generation.finished[0]:
        notes = (*notes, f"the answer was cut off after {LONGEST} tokens")
    confidence = min(1.0, max(0.0, confidence))
    if text.upper().strip(" .!\"'*") == REFUSAL:
        return replace(
            answer, text=NOT_HERE, found=False, confidence=confidence, evidence=(), ledger=ledger, notes=notes
        )
    return replace(answer, text=text, confidence=confidence, ledger=ledger, notes=notes)


def _noted(answer: DocumentAnswer, note: str) -> DocumentAnswer:
    return replace(answer, notes=(*answer.notes, note))
