"""One of a few strings, with the model's own probabilities, in as few passes as their tokens branch.

Equal to ``VLM.generate(choices=...)``: at every branch the next token is taken among those allowed. But a token that
has no alternative costs no pass, and the probabilities at a branch are given, not only those of what was taken. The
five actions branch at their first token, and the two turns once more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backbone.contracts import Stage
from backbone.decoding import END, Trie, choice_trie
from backbone.errors import ConfigError
from backbone.local import LocalVLM
from backbone.vlm import Prefix

FloatVector = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Choice:
    """The chosen string, and for the strings whose share is known its natural log among all that were allowed."""

    text: str
    log_probs: Mapping[str, float]
    tokens: int  # of the chosen string
    stage: Stage


@dataclass
class Chooser:
    """The choices as token tries; made once for a model and reused for every step."""

    vlm: LocalVLM
    _tries: dict[tuple[str, ...], Trie] = field(default_factory=dict)

    def log_probs(self, prefix: Prefix, choices: Sequence[str]) -> dict[str, float]:
        """Log-probability among ``choices`` of every one that shares its first token with no other."""
        trie = self._trie(choices)
        shares = _log_shares(self._root(prefix), list(trie))
        return {_only(trie[token]): float(share) for token, share in shares.items() if _only(trie[token])}

    def choose(
        self,
        prefix: Prefix,
        choices: Sequence[str],
        *,
        temperature: float = 0.0,
        generator: np.random.Generator | None = None,
        stage: str = "choose",
    ) -> Choice:
        """Greedy at ``temperature`` 0; else drawn with ``generator``, one uniform number a branch.

        Raises:
            ConfigError: one choice is the beginning of another, or a temperature without a generator.
        """
        if temperature > 0 and generator is None:
            raise ConfigError("choose: drawing at a temperature needs a generator")
        started = time.perf_counter()
        node, passes, total = self._trie(choices), 0, 0.0
        path: list[int] = []
        known: dict[str, float] = {}
        logits: FloatVector | None = None
        while END not in node:
            tokens = list(node)
            if len(tokens) > 1:
                if path:
                    logits, passes = self._after(prefix, path), passes + 1
                else:
                    logits = self._root(prefix)
                shares = _log_shares(logits, tokens)
                known |= {_only(node[t]): total + float(s) for t, s in shares.items() if _only(node[t])}
                token = _pick(shares, temperature, generator)
                total += float(shares[token])
            else:
                token = tokens[0]
            path.append(token)
            node = node[token]
        text = str(node[END])
        known[text] = total
        milliseconds = 1000 * (time.perf_counter() - started)
        return Choice(
            text, known, len(path), Stage(stage, 0, 0, prefix.length, len(path), passes, milliseconds, milliseconds)
        )

    def _trie(self, choices: Sequence[str]) -> Trie:
        key = tuple(choices)
        if key not in self._tries:
            trie = choice_trie(self.vlm.tokenizer, key)
            _check_prefix_free(trie)
            self._tries[key] = trie
        return self._tries[key]

    def _root(self, prefix: Prefix) -> FloatVector:
        return self.vlm.next_logits(prefix).double().cpu().numpy()

    def _after(self, prefix: Prefix, path: Sequence[int]) -> FloatVector:
        """Logits (V,) after the prefix and the tokens of ``path``, which leave the prefix as it is."""
        import torch

        with torch.no_grad():
            ids = torch.tensor(path, device=self.vlm.network.device)
            embeddings = self.vlm.model.get_input_embeddings()(ids)  # (Q, D)
            mask = torch.ones(len(path), prefix.length + len(path), dtype=torch.bool).tril(prefix.length)
            hidden = self.vlm.run(prefix, embeddings, mask)[-1]
            return self.vlm.network.logits(hidden.to(self.vlm.network.dtype)).double().cpu().numpy()


def _only(node: Trie) -> str:
    """The one string below a node, or nothing if there are several."""
    while END not in node:
        if len(node) > 1:
            return ""
        node = next(iter(node.values()))
    return str(node[END])


def _check_prefix_free(node: Trie) -> None:
    if END in node and len(node) > 1:
        raise ConfigError(f"the choice {node[END]!r} is the beginning of another one; make them different")
    for token, child in node.items():
        if token != END:
            _check_prefix_free(child)


def _log_shares(logits: FloatVector, tokens: Sequence[int]) -> dict[int, float]:
    values = logits[list(tokens)]
    top = values.max()
    return dict(zip(tokens, (values - top - np.log(np.exp(values - top).sum())).tolist(), strict=True))


def _pick(shares: Mapping[int, float], temperature: float, generator: np.random.Generator | None) -> int:
    tokens, values = list(shares), np.array(list(shares.values()))
    if temperature == 0 or generator is None:
        best = values == values.max()
        return min(t for t, top in zip(tokens, best, strict=True) if top)  # as argmax over the vocabulary would
    weights = np.exp((values - values.max()) / temperature)
    return tokens[int(np.searchsorted(weights.cumsum(), generator.random() * weights.sum(), side="right"))]
