"""Encoded prefixes: their state, where two of them agree, and a cache of them bounded in bytes.

Placeholder tokens are equal for all images, so agreement is decided on tokens *and* picture hashes, and a match never
ends inside the tokens of an image.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from backbone.chat import Picture, Prompt
from backbone.vlm import Message

KeyValues = tuple[tuple[Tensor, Tensor], ...]  # per layer, keys and values (1, heads, T, head width)


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
    """An encoded conversation. Nothing in it is ever written to: continuing it makes new tensors."""

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
    key_values: KeyValues = field(repr=False)
    last_hidden: Tensor = field(repr=False)  # (D,) after the final norm, at the last token

    @property
    def bytes(self) -> int:
        """Memory held."""
        own = sum(t.numel() * t.element_size() for pair in self.key_values for t in pair)
        return own + sum(f.bytes for f in self.features)

    def key(self) -> str:
        """Content hash of tokens, pictures with their processor settings, adapter and weights."""
        digest = hashlib.blake2b(self.ids.tobytes(), digest_size=20)
        digest.update(repr((self.adapter, self.weights, [p.digest for p in self.pictures], self.starts)).encode())
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
    """Least recently used states, at most ``limit`` bytes of them."""

    def __init__(self, limit: int) -> None:
        """``limit`` 0 keeps nothing."""
        self._limit = limit
        self._states: OrderedDict[str, PrefixState] = OrderedDict()
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

    def features(self, picture: Picture, adapter: str | None, weights: int) -> Features | None:
        """What the vision tower made of this very picture before, if it is still held."""
        for state in reversed(self._states.values()):
            if state.adapter == adapter and state.weights == weights and picture in state.pictures:
                return state.features[state.pictures.index(picture)]
        return None

    def add(self, state: PrefixState) -> None:
        """Keep a state, dropping the least recently used ones; one larger than the limit is not kept."""
        key = state.key()
        if state.bytes > self._limit or key in self._states:
            return
        self._states[key] = state
        self.bytes += state.bytes
        while self.bytes > self._limit:
            self.bytes -= self._states.popitem(last=False)[1].bytes

    def clear(self) -> None:
        """Forget everything."""
        self._states.clear()
        self.bytes = 0


def visual_after(pictures: Sequence[Picture], starts: Sequence[int], begin: int) -> int:
    """Visual tokens at or after token ``begin``, which is no position inside an image."""
    return sum(p.tokens for p, s in zip(pictures, starts, strict=True) if s >= begin)
