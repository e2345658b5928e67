"""Embeddings of short texts by a small pretrained table of word pieces, which the package ``wordllama`` carries.

A text is the mean of its pieces' vectors: their lengths say how much a piece means ("the" is short, "invoice" long).
The table's own mean is taken off first and text is read in small letters, without which all texts look somewhat
alike. Nothing is downloaded, and none of the package's code runs: only its two data files are read.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import FloatArray
from backbone.errors import ConfigError, DataError, ModelError

PACKAGE = "wordllama"
WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TABLE = "embedding.weight"
SPECIAL_PIECES = 259  # control marks and single bytes, which are no part of the mean
MAX_CHARACTERS = 20_000  # of one text; what follows is not read


@dataclass(frozen=True, eq=False)
class _Model:
    table: FloatArray  # (pieces, dimensions), centred
    tokenizer: Any


class TextEmbedder:
    """Texts to unit vectors; loads at the first use, remembers the texts it saw, may be shared between threads."""

    dimensions = 256

    def __init__(self, *, remembered: int = 50_000) -> None:
        """``remembered`` texts are kept at most (1 kB each). Raises `ConfigError` for less than 1."""
        if remembered < 1:
            raise ConfigError(f"the embedder must remember at least 1 text, got {remembered}")
        self._remembered = remembered
        self._known: dict[str, FloatArray] = {}
        self._model: _Model | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows float32 (n, 256), so that a dot product is a cosine; a row of zeros for a text without any piece.

        Raises:
            ConfigError: the extra ``documents`` is not installed.
            ModelError: the installed table has another form.
        """
        if isinstance(texts, str):
            raise DataError("embed takes a list of texts, got one text; give [text]")
        with self._lock:
            fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
            made = dict(zip(fresh, self._embed(fresh), strict=True)) if fresh else {}
            rows = [made[text] if text in made else self._known[text] for text in texts]
            self._keep(made)
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), np.float32)

    def _keep(self, made: dict[str, FloatArray]) -> None:
        self._known.update(made)
        for text in [*self._known][: max(0, len(self._known) - self._remembered)]:  # the oldest go first
            del self._known[text]

    def _embed(self, texts: list[str]) -> FloatArray:
        self._model = self._model or _load()
        lowered = [text[:MAX_CHARACTERS].lower() for text in texts]
        pieces = [encoding.ids for encoding in self._model.tokenizer.encode_batch(lowered, add_special_tokens=False)]
        counts = np.array([len(ids) for ids in pieces], np.int64)
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        filled = np.flatnonzero(counts)
        if len(filled):
            flat = np.concatenate([np.asarray(pieces[i], np.int64) for i in filled.tolist()])
            starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
            rows[filled] = np.add.reduceat(self._model.table[flat], starts, axis=0)
        lengths: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.maximum(lengths, 1e-12), np.float32)


def _load() -> _Model:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"text embeddings need the package {PACKAGE}: pip install -e '.[documents]'")
    folder = Path(next(iter(spec.submodule_search_locations)))
    for name in (WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise ModelError(f"{folder} has no {name}; install the version of {PACKAGE} in constraints.txt")
    tensors = load_file(folder / WEIGHTS)
    table = tensors.get(TABLE)
    if table is None or table.ndim != 2 or table.shape[1] != TextEmbedder.dimensions:
        found = {name: value.shape for name, value in tensors.items()}
        raise ModelError(f"{WEIGHTS} holds {found}, expected {TABLE} of (pieces, {TextEmbedder.dimensions})")
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if tokenizer.get_vocab_size() > len(table):
        raise ModelError(f"{TOKENIZER} has {tokenizer.get_vocab_size()} pieces, the table {len(table)}")
    values = table.astype(np.float32)
    return _Model(values - values[SPECIAL_PIECES:].mean(0), tokenizer)
