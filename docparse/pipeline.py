"""Questions about documents: pages to words, fields and flow, regions, an answer with the place it stands at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from backbone.contracts import Box, Evidence, Ledger, Stage
from backbone.errors import CancelledError, ConfigError, DataError
from backbone.vlm import VLM
from docparse.answer import Reading, spell
from docparse.config import DocparseConfig, Fields
from docparse.contracts import NOT_HERE, DocumentAnswer, Looking, StepView
from docparse.documents import Document, Page, Sights
from docparse.evidence import Outcome, ask, mass_of_words, run_evidence, start_level
from docparse.fields.matching import WordFields, word_fields
from docparse.fields.patches import PatchField, PatchSeer, PatchSession
from docparse.fields.words import DocumentWords, Embedder, read_words
from docparse.generative import writer_of
from docparse.looking import look_at_pages
from docparse.model import EvidenceNetwork
from docparse.question import check_question
from docparse.regions import FoundRegion
from docparse.seeing import SEEN, read_outcome
from docparse.sights.law import SightLaw, Thing, pages_to_see, sight_law, things_of
from docparse.sights.wish import Wish, wish_of
from docparse.weights import load_reader

__all__ = [
    "NOT_HERE",
    "NOT_LOOKED",
    "DocumentAnswer",
    "DocumentReader",
    "DocumentSession",
    "Looking",
    "OnPage",
    "StepView",
]

NOT_LOOKED = "pictures were not looked at: there are only words of this document"
OnPage = Callable[[int, int], None]  # pages read, pages in all


class DocumentReader:
    """Weights and settings; shareable. `session` gives what belongs to one document."""

    def __init__(
        self,
        network: EvidenceNetwork,
        config: DocparseConfig,
        embedder: Embedder | None = None,
        vlm: VLM | None = None,
        seer: PatchSeer | None = None,
    ) -> None:
        """``embedder`` None: the text model of `docparse.documents.embedding`. ``vlm`` writes generative answers.

        ``seer`` looks at pages for weights that were trained on patches.

        Raises:
            ConfigError: the answerer is generative and there is no ``vlm``, or one that cannot read; the weights were
                trained on patches and there is no ``seer``, or one with other settings.
        """
        self.network, self.config = network.eval(), config
        if (seer.config if seer is not None else None) != config.patches:
            raise ConfigError(
                f"docparse: weights trained on {config.fields} need a seer of {config.patches}, got "
                f"{seer.config if seer is not None else None}; use DocumentReader.load"
            )
        self.seer = seer
        self.writer = writer_of(config, vlm)
        if embedder is None:
            from docparse.documents.embedding import TextEmbedder

            embedder = TextEmbedder()
        self.embedder = embedder

    @classmethod
    def load(cls, folder: Path | None = None, vlm: VLM | None = None, fields: Fields | None = None) -> DocumentReader:
        """The shipped reader, or that of a folder; with a ``vlm`` its answers are generative.

        A reader that was trained on patches brings its backbone, which is the ``vlm`` if that has the same name.

        Raises:
            ModelError: the folder holds no reader, or its backbone has other weights than it was trained on.
            ConfigError: the ``vlm`` cannot read, or the weights were trained on other ``fields`` than these.
            UnsupportedError: the backbone gives no hidden states.
        """
        if folder is None:
            from assets import DOCPARSE

            folder = DOCPARSE
        network, config = load_reader(folder)
        if fields is not None and fields != config.fields:
            raise ConfigError(
                f"{folder}: these weights were trained on {config.fields}, not on {fields}; train some with: fovea "
                f"train docparse --fields {fields}"
            )
        seer = None
        if (patches := config.patches) is not None:
            same = vlm is not None and vlm.name == patches.backbone
            seer = PatchSeer(vlm, patches) if vlm is not None and same else PatchSeer.load(patches)
        return cls(network, replace(config, answerer="generative") if vlm is not None else config, vlm=vlm, seer=seer)

    def session(
        self, document: Document, *, on_page: OnPage | None = None, cancel: threading.Event | None = None
    ) -> DocumentSession:
        """Read the document's words, once for all questions; ``on_page`` tells the progress.

        Raises:
            CancelledError: ``cancel`` was set.
            DataError: not a single page could be read; the message gives the first page's error.
        """
        started = time.perf_counter()
        pages: list[Page] = []
        for index in range(len(document)):
            if cancel is not None and cancel.is_set():
                raise CancelledError(f"cancelled after {index} of {len(document)} pages")
            pages.append(document.page(index, picture=False))
            if on_page is not None:
                on_page(index + 1, len(document))
        if pages and all(page.error for page in pages):
            raise DataError(f"{document.name}: no page could be read; page 1: {pages[0].error}")
        if not self.config.network.words:
            pages = [replace(page, words=()) for page in pages]
        words = read_words(pages, self.embedder)
        stage = Stage("pages", milliseconds=1000 * (time.perf_counter() - started))
        return DocumentSession(self, pages, words, stage, (*document.notes, *_page_notes(pages)), document)


@dataclass(frozen=True, eq=False)
class DocumentSession:
    """One document, read; its questions do not see each other.

    ``document`` is looked at anew for what has no words: while it is open, a question can ask for figures, signatures,
    stamps and boxes to tick. Closed, or None, only its words answer, and a note says so.
    """

    reader: DocumentReader
    pages: list[Page]
    words: DocumentWords
    reading: Stage
    notes: tuple[str, ...]
    document: Looking | None = None

    def ask(self, question: str, *, cancel: threading.Event | None = None) -> DocumentAnswer:
        """Answer one question.

        A reader of patches alone answers with an empty text, unless it has a model that writes.

        Raises:
            DataError: of a reader of patches alone: the document is closed, or no page of it could be looked at.
            ConfigError: the question is empty, has no words, or is longer than `docparse.question.MAX_QUESTION`.
            CancelledError: ``cancel`` was set before the answer was there.
        """
        check_question(question)
        stages = [self.reading]
        wish = wish_of(question) if self.reader.config.sights else None
        if not len(self.words) and self.reader.config.network.words:
            return self._without_words(question, wish, stages)
        with _timed(stages, "fields"):
            fields = word_fields(self.words, question, self.reader.embedder)
        _check(cancel)
        patches, notes = self._patches(question, fields, stages, cancel)
        config = start_level(self.words, self.reader.config)
        with _timed(stages, "flow", config.flow.steps), torch.inference_mode():
            asked = ask(self.words, fields, config, patches)
            outcome = run_evidence(self.reader.network, config, [asked])[0]
        _check(cancel)
        with _timed(stages, "answer"):
            mass = mass_of_words(outcome.word_mass)
            reading = read_outcome(self.words, outcome, config, asked.patches)
        if wish is not None:
            with _timed(stages, "sights"):
                law, seen = self._see(wish, mass, cancel)
            notes = (*notes, *seen)
            if law.convinced:
                steps = self._steps(outcome)
                shown = self._shown(law, steps, Ledger(tuple(stages)), self._all_notes(outcome, notes))
                return self._written(question, shown, cancel)
        return self._written(question, self._answer(reading, outcome, Ledger(tuple(stages)), notes), cancel)

    @cached_property
    def _looks(self) -> PatchSession | None:
        """What the pages look like, kept by question."""
        return self.reader.seer.session() if self.reader.seer is not None else None

    def _patches(
        self, question: str, fields: WordFields, stages: list[Stage], cancel: threading.Event | None
    ) -> tuple[PatchField | None, tuple[str, ...]]:
        """The patch fields of a question, None for a reader of words, and notes on pages that were not looked at."""
        if self._looks is None:
            return None, ()
        covered = fields.matched[:, -2] if len(self.words) else np.zeros(0)
        field, notes, stage = look_at_pages(
            self._looks, question, self.pages, self.document, (self.words.page, covered), cancel
        )
        stages.append(stage)
        return field, notes

    def _written(self, question: str, answer: DocumentAnswer, cancel: threading.Event | None) -> DocumentAnswer:
        """The answer in the words of the model that looks at the evidence, where there is one and evidence to see."""
        writer = self.reader.writer
        if writer is None or not answer.found:
            return answer
        return writer.rewrite(question, answer, self.pages, self.document, cancel)

    def _without_words(self, question: str, wish: Wish | None, stages: list[Stage]) -> DocumentAnswer:
        notes = (*self.notes, "the document has no words: nothing was printed on it that could be read")
        if wish is not None:
            with _timed(stages, "sights"):
                law, seen = self._see(wish, np.zeros(0), None)
            notes = (*notes, *seen)
            if law.convinced:
                return self._written(question, self._shown(law, (), Ledger(tuple(stages)), notes), None)
        return DocumentAnswer(NOT_HERE, False, 0.0, (), (), Ledger(tuple(stages)), notes)

    def _see(
        self, wish: Wish, mass: NDArray[np.float64], cancel: threading.Event | None
    ) -> tuple[SightLaw, tuple[str, ...]]:
        """The law over things without words, from the pages looked at, and notes on those that could not be."""
        seen: dict[int, Sights] = {}
        notes: list[str] = []
        if self.document is None:
            return sight_law(self.words, (), wish, mass, self.reader.embedder), (NOT_LOOKED,)
        for index in pages_to_see(self.words, wish, mass, self.reader.embedder):
            _check(cancel)
            page = self.pages[index]
            if page.error:
                continue
            try:
                seen[index] = self.document.sights(index).scaled(1 / max(page.width, page.height))
            except DataError as error:
                notes.append(f"page {index + 1} was not looked at for pictures: {error}")
        things = things_of(self.words, seen, wish)
        return sight_law(self.words, things, wish, mass, self.reader.embedder), tuple(notes[:3])

    def _shown(
        self, law: SightLaw, steps: tuple[StepView, ...], ledger: Ledger, notes: tuple[str, ...]
    ) -> DocumentAnswer:
        """The answer of a question that asks for something to be seen: the thing, and the words that name it."""
        settings = self.reader.config.regions
        chosen = [
            i for i in np.argsort(-law.law, kind="stable").tolist() if law.law[i] >= settings.least * law.law.max()
        ]
        chosen = chosen[: settings.most]
        evidence = tuple(self._thing(law.things[i], float(law.law[i])) for i in chosen)
        text = ", ".join(
            dict.fromkeys(
                e.text or f"{law.things[i].look} without a caption" for i, e in zip(chosen, evidence, strict=True)
            )
        )
        things = law.things
        boxes = np.array([thing.box * self._side(thing.page) for thing in things])
        step = StepView("pictures", np.array([t.page for t in things]), boxes, law.law, True, 0.0, 0.0)
        confidence = min(1.0, float(law.scores.max())) * min(1.0, float(law.law[chosen].sum()))
        return DocumentAnswer(text, True, confidence, evidence, (*steps, step), ledger, notes)

    def _thing(self, thing: Thing, mass: float) -> Evidence:
        page = self.pages[thing.page]
        corners = thing.box * self._side(thing.page)
        box = Box.clamped(corners.tolist(), page.width, page.height, "evidence", mass)
        words = [self.words.texts[i] for i in thing.words.caption.tolist()]
        return Evidence(thing.page, box, mass, spell(words, range(len(words))))

    def _side(self, page: int) -> int:
        """Pixels to a page unit."""
        return max(self.pages[page].width, self.pages[page].height)

    def _answer(self, reading: Reading, outcome: Outcome, ledger: Ledger, more: tuple[str, ...]) -> DocumentAnswer:
        evidence = tuple(self._evidence(region) for region in reading.regions)
        steps, notes = self._steps(outcome), self._all_notes(outcome, more)
        text = reading.text if reading.text is not None else NOT_HERE
        if not text and self.reader.writer is None:
            notes = (*notes, SEEN)
        confidence = reading.confidence if reading.text is not None else 1 - reading.settled
        return DocumentAnswer(text, reading.text is not None, confidence, evidence, steps, ledger, notes)

    def _evidence(self, region: FoundRegion) -> Evidence:
        page = self.pages[region.page]
        x0, y0, x1, y1 = (v * max(page.width, page.height) for v in region.box)
        text = " ".join(self.words.texts[i] for i in region.members.tolist())
        return Evidence(
            region.page, Box(x0, y0, x1, y1, "evidence", min(1.0, region.mass)), min(1.0, region.mass), text
        )

    def _steps(self, outcome: Outcome) -> tuple[StepView, ...]:
        return tuple(self._step(outcome, k) for k in range(len(outcome.flow.steps)))

    def _all_notes(self, outcome: Outcome, more: tuple[str, ...]) -> tuple[str, ...]:
        notes = (*self.notes, *more)
        if not outcome.flow.converged:
            worst = max(step.residual for step in outcome.flow.steps)
            notes = (*notes, f"a step of the flow did not converge (residual {worst:.1e})")
        return notes

    def _step(self, outcome: Outcome, k: int) -> StepView:
        step = outcome.flow.steps[k]
        pages = step.support.pages.numpy()
        sides = np.array([max(page.width, page.height) for page in self.pages], np.float64)
        boxes = step.support.boxes.double().numpy() * sides[pages][:, None]
        on_words = bool((step.support.words >= 0).any())
        name = "words" if on_words else f"{step.support.grid.cells} cells a side"
        mass = step.rho.double().numpy()
        return StepView(name, pages, boxes, mass, step.converged, step.residual, step.dropped)


@contextmanager
def _timed(stages: list[Stage], name: str, passes: int = 0) -> Iterator[None]:
    started = time.perf_counter()
    yield
    stages.append(Stage(name, forward_passes=passes, milliseconds=1000 * (time.perf_counter() - started)))


def _check(cancel: threading.Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise CancelledError("cancelled before the answer was there")


def _page_notes(pages: list[Page]) -> list[str]:
    notes = [f"page {page.index + 1}: {page.error}" for page in pages if page.error]
    notes += [f"page {page.index + 1}: {note}" for page in pages for note in page.notes]
    read = [page.index + 1 for page in pages if page.source == "ocr"]
    if read:
        notes.append(f"text of {len(read)} of {len(pages)} pages was read by OCR")
    return notes
