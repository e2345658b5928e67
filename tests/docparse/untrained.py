"""A reader whose weights were drawn, not trained: what it says is arbitrary, how it says it is not."""

from __future__ import annotations

from pathlib import Path

import torch

from docparse.config import DocparseConfig
from docparse.data import Example, make_truth
from docparse.documents import Page, TextEmbedder
from docparse.fields.matching import word_fields
from docparse.fields.words import read_words
from docparse.model import EvidenceNetwork
from docparse.pipeline import DocumentReader
from docparse.train import make_network
from docparse.weights import save_reader

EMBEDDER = TextEmbedder()


def untrained_network(found: bool = True, config: DocparseConfig | None = None, seed: int = 0) -> EvidenceNetwork:
    """``found``: whether it says of every question that the answer is there."""
    words = read_words([Page.make_example()], EMBEDDER)
    fields = word_fields(words, "What is the total?", EMBEDDER)
    truth = make_truth(words, [], [], "unanswerable", [120.0])
    torch.manual_seed(seed)
    network = make_network(config or DocparseConfig(), Example(words, fields, truth, "What is the total?", "example"))
    with torch.no_grad():
        network.settled[-1].bias.fill_(20.0 if found else -20.0)
    return network.eval()


def untrained_reader(found: bool = True, config: DocparseConfig | None = None) -> DocumentReader:
    config = config or DocparseConfig()
    return DocumentReader(untrained_network(found, config), config, EMBEDDER)


def untrained_folder(folder: Path, found: bool = True) -> Path:
    """The same as files."""
    save_reader(untrained_network(found), DocparseConfig(), folder)
    return folder
