"""Answers worded by a vision-language model from close-ups of the evidence: what it is shown and what becomes of it."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backbone.boxes import BoxConvention
from backbone.contracts import Box, Stage
from backbone.errors import CancelledError, ConfigError
from backbone.pixels import Pixels
from backbone.remote import RemoteVLM
from backbone.vlm import VLM, Generation, Messages, Prefix
from docparse.config import DocparseConfig
from docparse.documents import Page, open_document
from docparse.generative import AROUND, MOST, REFUSAL, TALL, WIDE, close_ups, surroundings, words_in
from docparse.pipeline import NOT_HERE, DocumentReader
from tests.backbone.chat_server import serving
from tests.docparse.making_documents import pdf, write
from tests.docparse.untrained import EMBEDDER, untrained_folder, untrained_network

QUESTION = "What is the total amount?"


class Scribe(VLM):
    """Says what it is told to; keeps what it was shown."""

    def __init__(
        self, says: str = "12 dollars", log_probs: Sequence[float] = (-0.1, -0.3), finished: bool = True
    ) -> None:
        self.name, self.family = "scribe", "qwen3_vl"
        self.pixels, self.boxes = Pixels(32 * 32, 1 << 20, 32), BoxConvention.for_family("qwen3_vl")
        self.says, self.log_probs, self.finished = says, tuple(log_probs), finished
        self.shown: list[Messages] = []

    def generate(self, prompt: Messages | Prefix, **options: Any) -> Generation:
        cancel = options.get("cancel")
        if cancel is not None and cancel.is_set():
            raise CancelledError("generation stopped")
        assert not isinstance(prompt, Prefix)
        self.shown.append(prompt)
        stage = Stage(options["stage"], 4, 10, generated_tokens=2)
        probs = (self.log_probs,) if self.log_probs else ()
        return Generation((self.says,), ((1, 2),), probs, (self.finished,), stage)

    def generate_batch(self, prompts: Sequence[Messages], **options: Any) -> list[Generation]:
        return [self.generate(prompt, **options) for prompt in prompts]


def two_lines(canvas: Any) -> None:
    write(canvas, "Invoice number 4711", 40, 250)
    write(canvas, "Total amount $12.50", 40, 200)


def reader_with(vlm: VLM, found: bool = True) -> DocumentReader:
    config = DocparseConfig(answerer="generative")
    return DocumentReader(untrained_network(found, config), config, EMBEDDER, vlm)


def ask(vlm: VLM, found: bool = True, **options: Any) -> Any:
    with open_document(pdf(two_lines, pages=2)) as document:
        return reader_with(vlm, found).session(document).ask(QUESTION, **options)


def extractive() -> Any:
    config = DocparseConfig()
    with open_document(pdf(two_lines, pages=2)) as document:
        return DocumentReader(untrained_network(True, config), config, EMBEDDER).session(document).ask(QUESTION)


def images_of(messages: Messages) -> list[np.ndarray[Any, Any]]:
    return [part["image"] for part in messages[0]["content"] if part["type"] == "image"]


def text_of(messages: Messages) -> str:
    return "\n".join(part["text"] for part in messages[0]["content"] if part["type"] == "text")


def test_the_model_sees_the_evidence_with_its_words_and_words_the_answer() -> None:
    scribe, plain = Scribe(), extractive()
    answer = ask(scribe)
    assert (answer.text, answer.found) == ("12 dollars", True)
    assert answer.confidence == pytest.approx(math.exp(-0.2))
    assert answer.evidence == plain.evidence
    assert answer.ledger.stages[-1].name == "writing"
    (messages,) = scribe.shown
    images = images_of(messages)
    assert len(images) == min(MOST, len(plain.evidence))
    assert all(image.dtype == np.uint8 and image.min() < 100 for image in images)  # there is ink in them
    text = text_of(messages)
    assert QUESTION in text
    heaviest = max(plain.evidence, key=lambda e: e.mass)
    assert f"page {heaviest.page + 1}:" in text
    assert heaviest.text.split()[0] in text


def test_pixels_of_a_close_up_are_those_of_the_page() -> None:
    with open_document(pdf(two_lines)) as document:
        session = reader_with(Scribe()).session(document)
        answer = replace(session.ask(QUESTION), found=True)
        (first, *_) = close_ups(answer, session.pages, document)
        page = document.page(first.page)
    assert page.image is not None
    x0, y0 = math.floor(first.box.x0), math.floor(first.box.y0)
    height, width = first.image.shape[:2]
    np.testing.assert_array_equal(first.image, page.image[y0 : y0 + height, x0 : x0 + width])


def test_what_did_not_settle_is_never_shown() -> None:
    scribe = Scribe()
    answer = ask(scribe, found=False)
    assert (answer.text, answer.found, answer.evidence) == (NOT_HERE, False, ())
    assert scribe.shown == []


@pytest.mark.parametrize("says", [REFUSAL, "Not in document.", f' "{REFUSAL}" '])
def test_the_model_may_say_that_it_is_not_there(says: str) -> None:
    answer = ask(Scribe(says))
    assert (answer.text, answer.found, answer.evidence) == (NOT_HERE, False, ())
    assert answer.confidence == pytest.approx(math.exp(-0.2))


def test_nothing_said_leaves_the_documents_own_words_and_says_so() -> None:
    answer, plain = ask(Scribe("  \n")), extractive()
    assert (answer.text, answer.confidence) == (plain.text, plain.confidence)
    assert any("said nothing" in note for note in answer.notes)
    assert answer.ledger.stages[-1].name == "writing"  # it cost all the same


def test_without_probabilities_the_evidences_confidence_stands_and_a_cut_is_told() -> None:
    answer, plain = ask(Scribe(log_probs=(), finished=False)), extractive()
    assert answer.text == "12 dollars"
    assert answer.confidence == plain.confidence
    assert any("tells no probabilities" in note for note in answer.notes)
    assert any("cut off" in note for note in answer.notes)


def test_a_closed_document_leaves_its_own_words_and_says_so() -> None:
    scribe = Scribe()
    with open_document(pdf(two_lines, pages=2)) as document:
        session = reader_with(scribe).session(document)
    answer = session.ask(QUESTION)
    assert answer.text == extractive().text
    assert any("closed" in note for note in answer.notes)
    assert scribe.shown == []


def test_cancelling_reaches_the_model() -> None:
    stop = threading.Event()

    class Late(Scribe):
        def generate(self, prompt: Messages | Prefix, **options: Any) -> Generation:
            stop.set()
            return super().generate(prompt, **options)

    with pytest.raises(CancelledError):
        ask(Late(), cancel=stop)


def test_a_reader_says_early_that_its_model_is_missing_or_cannot_read(tmp_path: Path) -> None:
    config = DocparseConfig(answerer="generative")
    with pytest.raises(ConfigError, match="needs a vision-language model"):
        DocumentReader(untrained_network(True, config), config, EMBEDDER)
    nano = Scribe()
    nano.name = "nano"
    with pytest.raises(ConfigError, match="nano cannot read"):
        DocumentReader.load(untrained_folder(tmp_path), nano)
    assert DocumentReader.load(tmp_path).writer is None
    assert DocumentReader.load(tmp_path, Scribe()).config.answerer == "generative"
    with pytest.raises(ConfigError, match="extractive or generative, got 'oracle'"):
        DocparseConfig(answerer="oracle")  # type: ignore[arg-type]


@pytest.mark.parametrize("box", [(0, 0, 1, 1), (799, 999, 800, 1000), (0, 400, 800, 401), (100, 100, 700, 900)])
def test_surroundings_hold_the_evidence_inside_the_page(box: tuple[float, float, float, float]) -> None:
    found = surroundings(Box(*map(float, box)), 800, 1000)
    assert found.coverage(Box(*map(float, box))) == pytest.approx(1)
    assert 0 <= found.x0 < found.x1 <= 800
    assert 0 <= found.y0 < found.y1 <= 1000
    assert found.width >= min(WIDE * 1000, 800) - 1e-6
    assert found.height >= TALL * 1000 - 1e-6
    assert found.height >= min(1000, box[3] - box[1] + 2 * AROUND * 1000) - 1e-6


def test_words_of_a_region_keep_their_lines() -> None:
    page = Page.make_example()
    assert words_in(page, Box(0, 0, 120, 60)) == "Total: $12.50"
    assert words_in(page, Box(0, 0, 45, 60)) == "Total:"
    assert words_in(page, Box(0, 40, 45, 60)) == ""


def test_a_served_model_writes_and_its_probabilities_are_the_confidence() -> None:
    with serving(reply="twelve fifty") as server, RemoteVLM(server.url, pixels=Pixels(32 * 32, 1 << 20, 32)) as vlm:
        answer = ask(vlm)
        assert answer.text == "twelve fifty"
        assert answer.found
        assert 0 < answer.confidence < 1
        assert len(server.images) == min(MOST, len(answer.evidence))
        assert server.images[0].min() < 100
        assert answer.ledger.stages[-1].generated_tokens > 0
