"""Encoded prefixes: their state, where two of them agree, and a cache of them bounded in bytes.

Placeholder tokens are equal for all images, so agreement is decided on tokens *and* picture hashes, and a match never
ends inside the tokens of an image.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from backbone.chat import Picture, Prompt
from backbone.ragged import History, KeyValues
from backbone.vlm import Message


@dataclass(frozen=True)
class Features:
    """What the vision tower made of one picture: features (N, D), and those added to early layers (Qwen3-VL)."""

    merged: Tensor
    deepstack: tuple[Tensor, ...] = ()

    @property
    def bytes(self) -> int:
        """Memory held."""
        return sum(t.numel() * t.element_size() for t in (self.merged, *self.deepstack))


@dataclass(frozen=True)
class PrefixState:
    """An encoded conversation. Nothing of it is ever written again: continuing it adds behind it, or makes a copy."""

    ids: NDArray[np.int64]  # (T,)
    pictures: tuple[Picture, ...]
    starts: tuple[int, ...]
    features: tuple[Features, ...]
    messages: tuple[Message, ...] = field(repr=False)
    adapter: str | None
    owner: object = field(repr=False, compare=False)  # the engine that made it
    weights: int  # version of the weights that made it
    positions: Tensor = field(repr=False, compare=False)  # int64 (3, T) rotary
    next_position: int  # rotary position of the next text token
    history: History = field(repr=False, compare=False)  # its first T tokens are this state's
    last_hidden: Tensor = field(repr=False)  # (D,) after the final norm, at the last token

    @property
    def key_values(self) -> KeyValues:
        """Views of its keys and values."""
        return self.history.first(len(self.ids))

    @property
    def bytes(self) -> int:
        """Memory held; a history that several states share is counted with each of them."""
        return self.history.bytes + sum(f.bytes for f in self.features)

    def key(self) -> str:
        """Content hash of tokens, pictures with their processor settings, adapter and weights."""
        return key_of(self, self.adapter, self.weights)


def key_of(prompt: Prompt | PrefixState, adapter: str | None, weights: int) -> str:
    """`PrefixState.key` of the state that encoding ``prompt`` gives."""
    digest = hashlib.blake2b(prompt.ids.tobytes(), digest_size=20)
    digest.update(repr((adapter, weights, [p.digest for p in prompt.pictures], prompt.starts)).encode())
    return digest.hexdigest()


def common_length(state: PrefixState, prompt: Prompt) -> int:
    """How many leading tokens of ``prompt`` the state can stand for; never ends inside an image."""
    limit = min(len(state.ids), len(prompt.ids))
    differs = np.flatnonzero(state.ids[:limit] != prompt.ids[:limit])
    length = int(differs[0]) if len(differs) else limit
    if length < len(state.ids) and length == len(prompt.ids):
        length -= 1  # the state knows the next-token distribution of its own last token only
    for i, (picture, start) in enumerate(zip(prompt.pictures, prompt.starts, strict=True)):
        if start >= length:
            break
        if i >= len(state.pictures) or state.pictures[i] != picture or state.starts[i] != start:
            return start
        if start + picture.tokens > length:
            return start
    return length


class PrefixCache:
    """Least recently used states, at most ``limit`` bytes of them; what several of them share is counted once."""

    def __init__(self, limit: int) -> None:
        """``limit`` 0 keeps nothing."""
        self._limit = limit
        self._states: OrderedDict[str, PrefixState] = OrderedDict()
        self._held: dict[Any, tuple[History | Features, int]] = {}  # with how often states need it
        self._loose: OrderedDict[Any, Features] = OrderedDict()  # features without a state
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    def find(self, prompt: Prompt, adapter: str | None, weights: int) -> tuple[PrefixState | None, int]:
        """The state that shares the longest beginning with ``prompt`` under the same adapter and weights."""
        best, longest = "", 0
        for key, state in self._states.items():
            if state.adapter == adapter and state.weights == weights:
                length = common_length(state, prompt)
                # Equally long: the state that ends there, so that nothing needs to be computed at all.
                if length > longest or (length == longest > 0 and length == len(state.ids)):
                    best, longest = key, length
        if not longest:
            return None, 0
        self._states.move_to_end(best)
        return self._states[best], longest

    def exact(self, prompt: Prompt, adapter: str | None, weights: int) -> PrefixState | None:
        """The state of this very prompt, if it is held."""
        key = key_of(prompt, adapter, weights)
        if key in self._states:
            self._states.move_to_end(key)
        return self._states.get(key)

    def features(self, picture: Picture, adapter: str | None, weights: int) -> Features | None:
        """What the vision tower made of this very picture before, if it is still held."""
        name = (picture.digest, adapter, weights)
        found, _ = self._held.get(name, (self._loose.get(name), 0))
        return found if isinstance(found, Features) else None

    def keep(self, picture: Picture, adapter: str | None, weights: int, features: Features) -> None:
        """Hold features that belong to no state, the most recent ones within a quarter of the limit beside it."""
        name = (picture.digest, adapter, weights)
        self._loose[name] = features
        self._loose.move_to_end(name)
        while sum(f.bytes for f in self._loose.values()) > self._limit // 4:
            self._loose.popitem(last=False)

    def add(self, state: PrefixState) -> None:
        """Keep a state, dropping the least recently used ones; one larger than the limit is not kept."""
        key = state.key()
        if state.bytes > self._limit or key in self._states:
            return
        self._states[key] = state
        for name, part in _parts(state):
            held, uses = self._held.get(name, (part, 0))
            self._held[name] = held, uses + 1
            self.bytes += 0 if uses else held.bytes
        while self.bytes > self._limit:
            self._drop(self._states.popitem(last=False)[1])

    def _drop(self, state: PrefixState) -> None:
        for name, _ in _parts(state):
            held, uses = self._held.pop(name)
            if uses > 1:
                self._held[name] = held, uses - 1
            else:
                self.bytes -= held.bytes

    def clear(self) -> None:
        """Forget everything."""
        self._states.clear()
        self._held.clear()
        self._loose.clear()
        self.bytes = 0


def _parts(state: PrefixState) -> Iterator[tuple[Any, History | Features]]:
    yield state.history, state.history
    for picture, features in zip(state.pictures, state.features, strict=True):
        yield (picture.digest, state.adapter, state.weights), features


def visual_after(pictures: Sequence[Picture], starts: Sequence[int], begin: int) -> int:
    """Visual tokens at or after token ``begin``, which is no position inside an image."""
    return sum(p.tokens for p, s in zip(pictures, starts, strict=True) if s >= begin)
