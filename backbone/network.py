"""One form for the model families: vision tower, rotary positions, passes over a key/value state, next-token logits.

Positions are always given explicitly, computed per prefix: transformers keeps ``rope_deltas`` on the module, where they
leak from one call into the next.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from backbone.errors import DataError, ModelError
from backbone.prefix import Features
from backbone.ragged import History, KeyValues, Row, ragged_attention, ragged_layers

GROWTH = 128  # tokens added to a decoding buffer at a time


class _PastLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values to continue from; appending makes new tensors, so the given ones stay as they are."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True


class _GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A copy of past keys and values for R rows with room to append in place: a decoding step copies no history."""

    def __init__(self, keys: Tensor, values: Tensor, rows: int, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = keys.shape[2]
        self.dtype, self.device = keys.dtype, keys.device
        self._buffers = [_padded(t.expand(rows, -1, -1, -1), room) for t in (keys, values)]
        self.is_initialized = True

    def get_seq_length(self, *_: Any) -> int:
        return self.length

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        begin, end = self.length, self.length + key_states.shape[2]
        if end > self._buffers[0].shape[2]:
            self._buffers = [_padded(t[:, :, :begin], max(GROWTH, begin)) for t in self._buffers]
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, begin:end] = states
        self.length = end
        keys, values = (buffer[:, :, :end] for buffer in self._buffers)
        return keys, values

    def select(self, rows: Tensor) -> None:
        self._buffers = [buffer[rows] for buffer in self._buffers]


def _padded(states: Tensor, room: int) -> Tensor:
    rows, heads, length, width = states.shape
    buffer = states.new_zeros(rows, heads, length + room, width)
    buffer[:, :, :length] = states
    return buffer


class Network:
    """A transformers Qwen-VL model seen as functions over states."""

    def __init__(self, model: Any) -> None:
        """``model`` is a ``Qwen*VLForConditionalGeneration`` in evaluation mode."""
        self.model = model
        self.text = model.model.language_model
        self.head = model.lm_head
        self.image_id = int(model.config.image_token_id)
        self.layers: int = model.config.text_config.num_hidden_layers
        self.width: int = model.config.text_config.hidden_size
        # transformers renamed the argument; older ones would swallow the new name and keep no state.
        names = inspect.signature(type(self.text).forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.text.embed_tokens.weight.device  # type: ignore[no-any-return]

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        return self.text.embed_tokens.weight.dtype  # type: ignore[no-any-return]

    def weights_version(self) -> int:
        """Changes whenever a weight is written in place, as an optimizer step or a loaded state does."""
        return sum(p._version for p in self.model.parameters())

    def fingerprint(self) -> str:
        """A hash of every parameter's shape and first values, in bfloat16, so that formats agree; without adapters."""
        digest = hashlib.blake2b(digest_size=8)
        for name, parameter in self.model.named_parameters():
            if "lora_" not in name:
                first = parameter.detach().reshape(-1)[:64].to(torch.bfloat16).float().cpu()
                digest.update(repr(tuple(parameter.shape)).encode() + first.numpy().tobytes())
        return digest.hexdigest()

    def see(self, pixel_values: Tensor, grids: Tensor) -> list[Features]:
        """Run the vision tower once over the patches of N pictures; one `Features` each."""
        pixels = pixel_values.to(self.device, self.dtype)
        out = self.model.model.get_image_features(pixels, grids.to(self.device), return_dict=True)
        deep = getattr(out, "deepstack_features", None) or []
        return [Features(f, tuple(level[i] for level in deep)) for i, f in enumerate(out.pooler_output)]

    def positions(self, ids: NDArray[np.int64], grids: Sequence[tuple[int, int, int]]) -> Tensor:
        """Rotary positions int64 (3, T): time, row and column of every token of one conversation."""
        tokens = torch.from_numpy(ids)[None]
        grid = torch.tensor(grids) if grids else None
        kinds = (tokens == self.image_id).int()
        positions, _ = self.model.model.get_rope_index(tokens, mm_token_type_ids=kinds, image_grid_thw=grid)
        return positions[:, 0]  # type: ignore[no-any-return]

    def embed(self, ids: Tensor, features: Sequence[Features]) -> tuple[Tensor, dict[str, Any]]:
        """Token embeddings (B, T, D) with picture features in place, and what a pass needs besides (deepstack)."""
        embeddings = self.text.embed_tokens(ids)
        visual = ids == self.image_id
        have, want = sum(len(f.merged) for f in features), int(visual.sum())
        if have != want:
            raise DataError(
                f"image features and image tokens do not match: {have} features, {want} tokens in the prompt"
            )
        if not features:
            return embeddings, {}
        embeddings = embeddings.clone()
        embeddings[visual] = torch.cat([f.merged for f in features]).to(embeddings.dtype)
        if not features[0].deepstack:
            return embeddings, {}
        deep = [torch.cat(level) for level in zip(*(f.deepstack for f in features), strict=True)]
        return embeddings, {"visual_pos_masks": visual, "deepstack_visual_embeds": deep}

    def forward(
        self,
        embeddings: Tensor,
        positions: Tensor,
        past: KeyValues = (),
        mask: Tensor | None = None,
        extra: dict[str, Any] | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """One causal pass after ``past``: embeddings (B, T, D), positions (3, B, T) -> hidden (B, T, D), all states.

        ``mask`` is (B, past + T) for padding, or additive (B, 1, T, past + T) to replace the causal one.
        """
        layers: list[Any] = [_PastLayer(k, v) for k, v in past]
        layers = layers or [DynamicLayer() for _ in range(self.layers)]  # type: ignore[no-untyped-call]
        cache = Cache(layers=layers)
        out = self.call(embeddings, positions, cache, mask, extra)
        return out, tuple((layer.keys, layer.values) for layer in layers)

    @property
    def ragged(self) -> bool:
        """Whether passes over several histories are possible: with attention ``sdpa``, whose place they take."""
        return bool(self.text.config._attn_implementation == "sdpa")

    def forward_rows(
        self, embeddings: Tensor, positions: Tensor, rows: Sequence[Row], extra: dict[str, Any] | None = None
    ) -> Tensor:
        """One causal pass over new tokens of several conversations, side by side, each after its own history.

        Embeddings (1, N, D) and positions (3, 1, N) of all rows one after the other -> hidden (N, D). The histories
        hold the new tokens' keys and values afterwards.
        """
        config = self.text.config
        cache = Cache(layers=ragged_layers(rows, config, self.dtype, self.device))
        with ragged_attention(config):
            return self.call(embeddings, positions, cache, None, extra)[0]

    def call(
        self,
        embeddings: Tensor,
        positions: Tensor,
        cache: Cache,
        mask: Tensor | None,
        extra: dict[str, Any] | None = None,
    ) -> Tensor:
        """The language model on a transformers cache, which it extends; hidden states (B, T, D) after the norm."""
        out = self.text(
            inputs_embeds=embeddings,
            position_ids=positions.to(self.device),
            attention_mask=mask,
            use_cache=True,
            **{self._cache_name: cache},
            **(extra or {}),
        )
        return out.last_hidden_state  # type: ignore[no-any-return]

    def layer_inputs(
        self, embeddings: Tensor, positions: Tensor, layers: Sequence[int], extra: dict[str, Any]
    ) -> Tensor:
        """What each named layer reads, (N, B, T, D); number ``self.layers`` is the output after the final norm."""
        seen: dict[int, Tensor] = {}
        hooks = [
            self.text.layers[i].register_forward_pre_hook(_recorder(seen, i)) for i in set(layers) if i < self.layers
        ]
        try:
            seen[self.layers], _ = self.forward(embeddings, positions, extra=extra)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.stack([seen[i] for i in layers])

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits float32 (..., V)."""
        return self.head(hidden).float()  # type: ignore[no-any-return]

    def attention_mask(self, allowed: Tensor) -> Tensor:
        """Additive mask (B, 1, Q, K) from booleans (B, Q, K), for attention forms that take one."""
        if self.model.config._attn_implementation not in ("sdpa", "eager"):
            raise ModelError("custom attention masks need attention 'sdpa' or 'eager'; load the model with one of them")
        if not allowed.any(-1).all():
            raise DataError("attention mask: a query may attend to nothing; every row needs at least one True")
        mask = torch.zeros(allowed.shape, dtype=self.dtype, device=self.device)
        return mask.masked_fill_(~allowed.to(self.device), torch.finfo(self.dtype).min)[:, None]


def _recorder(seen: dict[int, Tensor], index: int) -> Any:
    def record(_: Any, args: tuple[Tensor, ...]) -> None:
        seen[index] = args[0]

    return record


class Decoder:
    """Rows that continue states token by token, each at its own position."""

    def __init__(
        self, network: Network, past: KeyValues, positions: Tensor, mask: Tensor | None = None, room: int = GROWTH
    ) -> None:
        """``past`` has one row, or as many as ``positions`` (R,); ``mask`` (R, T) marks what is not padding."""
        self._network = network
        self._layers = [_GrowingLayer(k, v, len(positions), min(room, GROWTH)) for k, v in past]
        self._cache = Cache(layers=list(self._layers))
        self._positions = positions.to(network.device).view(1, -1, 1)
        self._mask = mask

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token (R,) to every row; logits float32 (R, V) of what follows."""
        if self._mask is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], 1)
        embeddings = self._network.text.embed_tokens(tokens[:, None].to(self._network.device))
        positions = self._positions.expand(3, -1, -1)
        hidden = self._network.call(embeddings, positions, self._cache, self._mask)
        self._positions = self._positions + 1
        return self._network.logits(hidden[:, -1])

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows, so that finished ones cost nothing."""
        index = torch.tensor(rows, device=self._network.device)
        for layer in self._layers:
            layer.select(index)
        self._positions = self._positions[:, index]
        self._mask = None if self._mask is None else self._mask[index]


class RowsDecoder:
    """Conversations of any lengths continued token by token, one row each, in the room behind their histories."""

    def __init__(
        self, network: Network, histories: Sequence[tuple[History, int]], positions: Tensor, limit: int
    ) -> None:
        """``histories`` with how many of their tokens are meant; ``positions`` (R,) are those of the next tokens.

        At most ``limit`` tokens are appended; `release` gives their room back.
        """
        self._network, self._limit = network, limit
        self._rows = [Row(history.continued(length, limit), length, 0) for history, length in histories]
        self._claimed = tuple(self._rows)
        self._positions = positions.to(network.device)

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token (R,) to every row; logits float32 (R, V) of what follows."""
        network = self._network
        self._rows = [Row(row.history, row.begin + row.count, 1) for row in self._rows]
        embeddings = network.text.embed_tokens(tokens[None].to(network.device))
        hidden = network.forward_rows(embeddings, self._positions.expand(3, 1, -1), self._rows)
        self._positions = self._positions + 1
        return network.logits(hidden)

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        self._rows = [self._rows[i] for i in rows]
        self._positions = self._positions[list(rows)]

    def release(self) -> None:
        """The last call: the histories are as they were."""
        for row in reversed(self._claimed):
            row.history.release(row.begin, row.begin + self._limit)
