"""Small documents and a small reader for the tests of the reader's parts."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from docparse.config import DocparseConfig
from docparse.data import Example, make_truth
from docparse.evidence import ask_words
from docparse.fields.matching import word_fields
from docparse.fields.words import DocumentWords, FloatArray, read_words
from docparse.model import EvidenceNetwork, NetworkConfig


class LettersEmbedder:
    """A stand-in for a text model: equal texts are equal, others almost orthogonal."""

    def embed(self, texts: Sequence[str]) -> FloatArray:
        rows = [np.random.default_rng(list(hashlib.sha256(t.encode()).digest())).normal(size=32) for t in texts]
        array = np.array(rows, np.float32).reshape(-1, 32)
        return array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-9)


@dataclass(frozen=True)
class PlainWord:
    text: str
    box: tuple[float, float, float, float]
    line: int
    block: int


@dataclass(frozen=True)
class PlainPage:
    width: int
    height: int
    words: tuple[PlainWord, ...]


def page_of(*rows: str, width: int = 800, height: int = 1000, top: int = 50) -> PlainPage:
    """A page from lines of text; ``|`` moves to the next of four columns."""
    words, number = [], 0
    for line, row in enumerate(rows):
        y = top + 40 * line
        for column, cell in enumerate(row.split("|")):
            x = 40.0 + 190 * column
            for text in cell.split():
                words.append(PlainWord(text, (x, y, x + 9 * len(text), y + 16), line, number))
                x += 9 * len(text) + 6
    return PlainPage(width, height, tuple(words))


INVOICE = page_of(
    "Invoice", "Number: 4711", "Date: 3 May 2024", "Item | Price | Tax", "Pump | 120.50 | 24.10", "Hose | 18.00 | 3.60"
)


@functools.lru_cache(maxsize=8)
def invoice() -> DocumentWords:
    return read_words([INVOICE], LettersEmbedder())


def example(question: str, answer: str, pages: Sequence[PlainPage] = (INVOICE,)) -> Example:
    """A question whose evidence is the words that spell ``answer`` (none: not in the document)."""
    words = read_words(pages, LettersEmbedder())
    wanted = answer.split()
    evidence = []
    for i in range(len(words.texts) - len(wanted) + 1):
        if wanted and list(words.texts[i : i + len(wanted)]) == wanted:
            page = int(words.page[i])
            side = max(pages[page].width, pages[page].height)
            box = words.boxes[i : i + len(wanted)] * side
            evidence.append((page, (*box[:, :2].min(0).tolist(), *box[:, 2:].max(0).tolist())))
            break
    sides = [max(p.width, p.height) for p in pages]
    truth = make_truth(words, evidence, (answer,) if evidence else (), "value", sides)
    return Example(words, word_fields(words, question, LettersEmbedder()), truth, question, question)


def small_config(**changes: object) -> DocparseConfig:
    return DocparseConfig(network=NetworkConfig(width=16, word_vector=8, question_vector=8, dropout=0.0), **changes)  # type: ignore[arg-type]


def small_network(example: Example, config: DocparseConfig, seed: int = 0) -> EvidenceNetwork:
    torch.manual_seed(seed)
    asked = ask_words(example.words, example.fields).words
    network = EvidenceNetwork(config.network, asked.fields.shape[1], asked.vectors.shape[1], asked.question.shape[1])
    return network.eval()
