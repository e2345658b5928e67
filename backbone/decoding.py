"""Turning next-token logits into texts: sampling with a generator per sample, stop strings, and constrained choices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from backbone.errors import CancelledError, ConfigError

Trie = dict[int, Any]  # token id -> the tries below it; END marks a complete choice
END = -1
REPLACEMENT = "\ufffd"  # what an incomplete UTF-8 sequence decodes to


class Stepper(Protocol):
    """Rows that are continued token by token."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to each row (R,); logits (R, V) of what follows."""

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""


@dataclass(frozen=True)
class Rules:
    """How to continue. ``ends`` are the token ids that end a text; they never become part of it."""

    ends: frozenset[int]
    temperature: float = 0.0
    max_new_tokens: int = 128
    stop: tuple[str, ...] = ()
    choices: tuple[str, ...] | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature must be finite and not negative, got {self.temperature}")
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p must lie above 0 and at most at 1, got {self.top_p}")
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        if any(not s for s in self.stop):
            raise ConfigError("stop strings must not be empty")
        if self.choices is not None:
            if not self.choices or "" in self.choices or len(set(self.choices)) != len(self.choices):
                raise ConfigError(f"choices must be different, non-empty strings, at least one, got {self.choices!r}")
            if self.stop:
                raise ConfigError("stop strings and choices contradict each other; give one of them")


@dataclass
class Sample:
    """One continuation as it grows."""

    generator: np.random.Generator
    node: Trie | None
    stream: TextStream
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    sampled: int = 0  # with the stop token
    finished: bool = False
    text: str = ""


@dataclass(frozen=True)
class Decoded:
    """All samples, how many steps followed the first logits, and when the first token was known."""

    samples: tuple[Sample, ...]
    steps: int
    first_token: float  # time.perf_counter()


class TextStream:
    """Text of a growing token list: cut at the first stop string, handed out as soon as it cannot change any more."""

    def __init__(self, tokenizer: Any, stop: tuple[str, ...], emit: Callable[[str], None] | None) -> None:
        """``emit`` receives the pieces in order."""
        self._tokenizer, self._stop, self._emit = tokenizer, stop, emit
        self._ids: list[int] = []
        self._begin = self._read = 0  # decode from here; what was already read of it ends there
        self._sent = 0
        self.text = ""
        self.stopped = False

    def push(self, token: int) -> bool:
        """Add a token; True when a stop string is complete."""
        self._ids.append(token)
        before = self._decode(self._ids[self._begin : self._read])
        now = self._decode(self._ids[self._begin :])
        if now.endswith(REPLACEMENT):  # maybe the first bytes of a character
            return False
        self._begin, self._read = self._read, len(self._ids)
        return self._grow(now[len(before) :])

    def end(self) -> str:
        """No more tokens: hand out the rest and return the whole text."""
        if not self.stopped:
            before = self._decode(self._ids[self._begin : self._read])
            self._grow(self._decode(self._ids[self._begin :])[len(before) :])
            self._send(len(self.text))
        return self.text

    def _grow(self, piece: str) -> bool:
        seek = max(0, len(self.text) - max((len(s) for s in self._stop), default=1) + 1)
        self.text += piece
        found = [at for at in (self.text.find(s, seek) for s in self._stop) if at >= 0]
        if found:
            self.text, self.stopped = self.text[: min(found)], True
            self._send(len(self.text))
        else:
            self._send(len(self.text) - self._held())
        return self.stopped

    def _held(self) -> int:
        """Length of the longest end of the text that may become a stop string."""
        longest = max((len(s) for s in self._stop), default=1) - 1
        ends = range(min(longest, len(self.text)), 0, -1)
        return next((n for n in ends if any(s.startswith(self.text[-n:]) for s in self._stop)), 0)

    def _send(self, end: int) -> None:
        if self._emit is not None and end > self._sent:
            self._emit(self.text[self._sent : end])
        self._sent = max(self._sent, end)

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)) if ids else ""


def choice_trie(tokenizer: Any, choices: Sequence[str]) -> Trie:
    """The token sequences of all choices as a trie; raises `ConfigError` if two of them are the same tokens."""
    root: Trie = {}
    for choice in choices:
        node = root
        for token in tokenizer(choice, add_special_tokens=False)["input_ids"]:
            node = node.setdefault(int(token), {})
        if END in node:
            raise ConfigError(f"choices {choice!r} and {node[END]!r} have the same tokens; make them different")
        node[END] = choice
    return root


def depth(trie: Trie) -> int:
    """Tokens of the longest choice."""
    return max((1 + depth(child) for token, child in trie.items() if token != END), default=0)


def decode(
    make_stepper: Callable[[], Stepper],
    logits: Tensor,
    seeds: Sequence[tuple[int, ...]],
    rules: Rules,
    tokenizer: Any,
    cancel: threading.Event | None = None,
    on_text: Callable[[int, str], None] | None = None,
) -> Decoded:
    """Continue R rows from their next-token ``logits`` (R, V).

    Args:
        make_stepper: called when a first step is needed, so that single-token answers copy no state.
        logits: one row per sample.
        seeds: one per sample; sample ``i`` draws from its own generator, whatever the other rows are.
        rules: temperature, top_p, ends, limits, choices.
        tokenizer: for stop strings, streaming, choices and texts.
        cancel: checked before every step; raises `CancelledError`.
        on_text: receives ``(sample, piece)``.
    """
    trie = None if rules.choices is None else choice_trie(tokenizer, rules.choices)
    if trie is not None and depth(trie) > rules.max_new_tokens:
        raise ConfigError(f"the longest choice has {depth(trie)} tokens, max_new_tokens is {rules.max_new_tokens}")
    samples = [_sample(i, seed, trie, rules, tokenizer, on_text) for i, seed in enumerate(seeds)]
    active, stepper, steps, first_token = list(samples), None, 0, 0.0
    while True:
        tokens = _choose(active, logits, rules)
        first_token = first_token or time.perf_counter()
        live = [i for i, (s, t) in enumerate(zip(active, tokens, strict=True)) if not _accept(s, t, rules, on_text)]
        if not live:
            break
        if cancel is not None and cancel.is_set():
            raise CancelledError(f"generation was cancelled after {steps + 1} tokens; they were discarded")
        stepper = stepper or make_stepper()
        if len(live) < len(active):
            stepper.keep(live)
            active, tokens = [active[i] for i in live], [tokens[i] for i in live]
        logits = stepper.step(torch.tensor(tokens))
        steps += 1
    for sample in samples:
        _close(sample, rules, tokenizer)
    return Decoded(tuple(samples), steps, first_token)


def _sample(i: int, seed: tuple[int, ...], trie: Trie | None, rules: Rules, tokenizer: Any, on_text: Any) -> Sample:
    emit = None if on_text is None else (lambda piece: on_text(i, piece))
    return Sample(np.random.default_rng(seed), trie, TextStream(tokenizer, rules.stop, emit))


def _choose(active: list[Sample], logits: Tensor, rules: Rules) -> list[int]:
    """One token per row; its log-probability under the unchanged model is noted in the sample."""
    log_probs = torch.log_softmax(logits.float(), -1)  # (R, V)
    scores = log_probs
    if active[0].node is not None:
        scores = torch.full_like(log_probs, -torch.inf)
        for row, sample in enumerate(active):
            allowed = _allowed(sample.node or {}, rules)
            scores[row, allowed] = log_probs[row, allowed]
    if rules.temperature == 0.0:
        tokens = scores.argmax(-1)
    else:
        # One uniform number per sample against its cumulative distribution: no noise tensor of vocabulary size.
        scaled = nucleus(scores.double() / rules.temperature, rules.top_p)
        mass = torch.softmax(scaled, -1).cumsum(-1)
        uniform = torch.tensor([[s.generator.random()] for s in active], dtype=torch.float64, device=mass.device)
        tokens = torch.searchsorted(mass, uniform * mass[:, -1:], right=True)[:, 0].clamp_(max=mass.shape[1] - 1)
    for sample, value in zip(active, log_probs.gather(1, tokens[:, None])[:, 0].tolist(), strict=True):
        sample.log_probs.append(value)
    chosen: list[int] = tokens.tolist()
    return chosen


def nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Scores (R, V) with minus infinity wherever likelier tokens have the probability ``top_p`` already.

    The likeliest token always stays. The rule is that of transformers' ``TopPLogitsWarper``, applied as there after the
    temperature; rows do not depend on each other.
    """
    if top_p >= 1.0:
        return scores
    ordered, places = torch.sort(scores, dim=-1, stable=True)  # stable: the same whatever the number of rows
    rare = torch.softmax(ordered, -1).cumsum(-1) <= 1.0 - top_p
    rare[:, -1] = False
    return scores.masked_fill(rare.scatter(-1, places, rare), -torch.inf)


def _allowed(node: Trie, rules: Rules) -> list[int]:
    tokens = [t for t in node if t != END]
    return tokens + sorted(rules.ends) if END in node else tokens


def _accept(sample: Sample, token: int, rules: Rules, on_text: Any) -> bool:
    """Append the token; True when the sample needs no further step."""
    sample.sampled += 1
    if token in rules.ends:
        sample.log_probs.pop()
        sample.finished = True
        return True
    sample.ids.append(token)
    if sample.node is not None:
        sample.node = sample.node[token]
        sample.finished = set(sample.node) == {END}
    if (rules.stop or on_text is not None) and sample.stream.push(token):
        sample.finished = True
    return sample.finished or len(sample.ids) >= rules.max_new_tokens


def _close(sample: Sample, rules: Rules, tokenizer: Any) -> None:
    """Settle the text, and drop the tokens that only spelt a stop string."""
    if not (rules.stop or sample.stream._emit):
        sample.text = str(tokenizer.decode(sample.ids, skip_special_tokens=True)) if sample.ids else ""
    else:
        sample.text = sample.stream.end()
    if sample.node is not None:
        sample.text = sample.node[END]
    while sample.stream.stopped and sample.ids:
        if len(str(tokenizer.decode(sample.ids[:-1], skip_special_tokens=True))) < len(sample.text):
            break
        sample.ids.pop()
        sample.log_probs.pop()
