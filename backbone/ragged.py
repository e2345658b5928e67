"""Several conversations in one pass of the language model: their new tokens side by side, each with its own history.

Everything but attention treats tokens one by one, so that rows of different lengths need neither padding nor masks
against it; attention takes the rows in turn. A history has room to grow, so that a turn copies nothing of what came
before, and key/value heads that several query heads share are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import DynamicLayer

KeyValues = tuple[tuple[Tensor, Tensor], ...]  # per layer, keys and values (1, heads, T, head width)

ATTENTION = "fovea_ragged"  # what the model's config calls the attention of this module while a pass runs
SPARE = 256  # tokens of room, at least, in a history that grew once; a quarter of its length in a longer one


class History:
    """Keys and values of one conversation in buffers with room; what belongs to a state is never written again.

    Several states may share a history: each knows how many leading tokens are its own. Whoever continues the longest
    one writes behind it; whoever continues a shorter one gets a copy.
    """

    def __init__(self, key_values: KeyValues = ()) -> None:
        """``key_values`` of a pass that was made elsewhere; they are taken over."""
        self._buffers = list(key_values)
        self.length = key_values[0][0].shape[2] if key_values else 0

    @property
    def bytes(self) -> int:
        """Memory held, with the room."""
        return sum(t.numel() * t.element_size() for pair in self._buffers for t in pair)

    def first(self, length: int) -> KeyValues:
        """Keys and values of the first ``length`` tokens, as views."""
        return tuple((k[:, :, :length], v[:, :, :length]) for k, v in self._buffers)

    def continued(self, begin: int, count: int) -> History:
        """A history whose tokens from ``begin`` on are the caller's to write: this one, or a copy of its beginning."""
        end = begin + count
        if begin == self.length and self._buffers and end <= self._buffers[0][0].shape[2]:
            self.length = end
            return self
        other = History()
        other.length = end
        if begin:  # what branches off seldom goes on; what grew once will do so again
            room = end + max(SPARE, end // 4) if begin == self.length else end
            other._buffers = [(_roomy(k, begin, room), _roomy(v, begin, room)) for k, v in self._buffers]
        return other

    def release(self, begin: int, end: int) -> None:
        """Give back the tokens from ``begin`` to ``end``, which no state needs, if they are the last ones."""
        if self.length == end:
            self.length = begin

    def write(self, layer: int, begin: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put one layer's (1, heads, N, width) at ``begin``; all of that layer up to their end."""
        if layer == len(self._buffers):  # a first pass: no room before it is known that more will come
            self._buffers.append((_copied(keys), _copied(values)))
            return self._buffers[layer]
        end = begin + keys.shape[2]
        kept, held = self._buffers[layer]
        kept[:, :, begin:end] = keys
        held[:, :, begin:end] = values
        return kept[:, :, :end], held[:, :, :end]


def _copied(states: Tensor) -> Tensor:
    return states.clone(memory_format=torch.contiguous_format)


def _roomy(states: Tensor, length: int, room: int) -> Tensor:
    rows, heads, _, width = states.shape
    buffer = states.new_zeros(rows, heads, room, width)
    buffer[:, :, :length] = states[:, :, :length]
    return buffer


@dataclass(frozen=True)
class Row:
    """One conversation's part of a pass: ``count`` new tokens, which begin at ``begin`` of its history."""

    history: History
    begin: int
    count: int


@dataclass(frozen=True)
class _Segment:
    """What attention needs of a row in one layer: which queries, all keys and values, and who may look where."""

    queries: slice
    keys: Tensor
    values: Tensor
    mask: Tensor | None


class _RaggedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's histories in the place of transformers' cache; hands attention segments instead of tensors."""

    def __init__(self, layer: int, rows: Sequence[Row], masks: Sequence[Tensor | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._layer, self._rows, self._masks = layer, rows, masks
        self.is_initialized = True

    def get_seq_length(self, *_: Any) -> int:
        return 0  # positions are always given

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> Any:
        segments, at = [], 0
        for row, mask in zip(self._rows, self._masks, strict=True):
            queries = slice(at, at := at + row.count)
            new = key_states[:, :, queries], value_states[:, :, queries]
            segments.append(_Segment(queries, *row.history.write(self._layer, row.begin, *new), mask))
        return segments, None


def ragged_layers(rows: Sequence[Row], config: Any, dtype: torch.dtype, device: torch.device) -> list[Any]:
    """Cache layers for a pass over ``rows`` by a text model with ``config``."""
    groups = config.num_attention_heads // config.num_key_value_heads
    masks = [_mask(row, groups, dtype, device) for row in rows]
    return [_RaggedLayer(layer, rows, masks) for layer in range(config.num_hidden_layers)]


def _mask(row: Row, groups: int, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """Additive mask (groups * N, T) of new tokens after others; None where causality says it all."""
    if row.begin == 0 or row.count == 1:
        return None
    hidden = torch.ones(row.count, row.begin + row.count, dtype=torch.bool, device=device).triu(row.begin + 1)
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
    return mask.repeat(groups, 1)


@contextmanager
def ragged_attention(config: Any) -> Iterator[None]:
    """Let a text model with ``config`` attend row by row."""
    usual = config._attn_implementation
    config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = usual


def _attention(
    module: Any, query: Tensor, key: Any, value: None, attention_mask: None, scaling: float | None = None, **__: Any
) -> tuple[Tensor, None]:
    """Queries (1, heads, N, width) and the segments that `_RaggedLayer` made of keys and values; (1, N, heads, width).

    Query heads of one key/value head are laid one after the other, as further queries of that head.
    """
    groups, parts = module.num_key_value_groups, []
    for segment in key:
        own = query[:, :, segment.queries]
        heads, count, width = own.shape[1:]
        if segment.mask is None and count > 1:
            out = scaled_dot_product_attention(
                own, segment.keys, segment.values, is_causal=True, scale=scaling, enable_gqa=groups > 1
            )
        else:
            folded = own.reshape(1, heads // groups, groups * count, width)
            out = scaled_dot_product_attention(
                folded, segment.keys, segment.values, attn_mask=segment.mask, scale=scaling
            ).view(1, heads, count, -1)
        parts.append(out.transpose(1, 2))
    return torch.cat(parts, 1), None


AttentionInterface.register(ATTENTION, _attention)
