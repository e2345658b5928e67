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


@dataclass(frozen=True)
class Offer:
    """What is to be chosen from and how; a temperature above 0 needs a generator."""

    choices: Sequence[str]
    temperature: float = 0.0
    generator: np.random.Generator | None = None

    def __post_init__(self) -> None:
        if self.temperature > 0 and self.generator is None:
            raise ConfigError("choose: drawing at a temperature needs a generator")


@dataclass
class Chooser:
    """The choices as token tries; made once for a model and reused for every step."""

    vlm: LocalVLM
    _tries: dict[tuple[str, ...], Trie] = field(default_factory=dict)

    def log_probs(self, prefix: Prefix, choices: Sequence[str]) -> dict[str, float]:
        """Log-probability among ``choices`` of every one that shares its first token with no other."""
        return self.log_probs_many([prefix], [choices])[0]

    def log_probs_many(self, prefixes: Sequence[Prefix], choices: Sequence[Sequence[str]]) -> list[dict[str, float]]:
        """`log_probs` of several prefixes, each with its own choices."""
        found = []
        for logits, offered in zip(self._logits(prefixes, [()] * len(prefixes)), choices, strict=True):
            trie = self._trie(offered)
            shares = _log_shares(logits, list(trie))
            found.append({_only(trie[token]): share for token, share in shares.items() if _only(trie[token])})
        return found

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
        return self.choose_many([prefix], [Offer(choices, temperature, generator)], stage)[0]

    def choose_many(self, prefixes: Sequence[Prefix], offers: Sequence[Offer], stage: str = "choose") -> list[Choice]:
        """`choose` for several prefixes: those that branch at the same depth share a pass."""
        started = time.perf_counter()
        walks = [_Walk(self._trie(offer.choices), offer) for offer in offers]
        while branching := [i for i, walk in enumerate(walks) if walk.branches()]:
            logits = self._logits([prefixes[i] for i in branching], [walks[i].path for i in branching])
            for i, row in zip(branching, logits, strict=True):
                walks[i].take(row)
        share = 1000 * (time.perf_counter() - started) / max(len(walks), 1)
        return [walk.choice(prefix.length, stage, share) for walk, prefix in zip(walks, prefixes, strict=True)]

    def _trie(self, choices: Sequence[str]) -> Trie:
        key = tuple(choices)
        if key not in self._tries:
            trie = choice_trie(self.vlm.tokenizer, key)
            _check_prefix_free(trie)
            self._tries[key] = trie
        return self._tries[key]

    def _logits(self, prefixes: Sequence[Prefix], paths: Sequence[Sequence[int]]) -> FloatVector:
        """Logits (B, V) after every prefix and the tokens of its path, which leave the prefix as it is."""
        return self.vlm.next_logits_many(prefixes, paths).double().cpu().numpy()


@dataclass
class _Walk:
    """The way of one choice down its trie."""

    node: Trie
    offer: Offer
    path: list[int] = field(default_factory=list)
    known: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    passes: int = 0

    def branches(self) -> bool:
        """Go on to where the next token is open; False at the end."""
        while END not in self.node and len(self.node) == 1:
            self._go(next(iter(self.node)))
        return END not in self.node

    def take(self, logits: FloatVector) -> None:
        """Take a token by the logits (V,) of the place that was reached."""
        self.passes += bool(self.path)
        shares = _log_shares(logits, list(self.node))
        self.known |= {_only(self.node[t]): self.total + s for t, s in shares.items() if _only(self.node[t])}
        token = _pick(shares, self.offer.temperature, self.offer.generator)
        self.total += shares[token]
        self._go(token)

    def _go(self, token: int) -> None:
        self.path.append(token)
        self.node = self.node[token]

    def choice(self, length: int, stage: str, milliseconds: float) -> Choice:
        """What was reached after a prefix of ``length`` tokens."""
        text, count = str(self.node[END]), len(self.path)
        spent = Stage(stage, 0, 0, length, count, self.passes, milliseconds, milliseconds)
        return Choice(text, {**self.known, text: self.total}, count, spent)


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
