"""From rendered prompts to encoded states, computing only what neither a given state nor the cache holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backbone.chat import Chat, Picture, Prompt, without_pixels
from backbone.errors import ModelError
from backbone.network import Decoder, Network
from backbone.prefix import Features, PrefixCache, PrefixState, common_length, visual_after


@dataclass(frozen=True)
class Cost:
    """What encoding a prompt newly cost, in tokens and passes of the language model."""

    visual: int = 0
    prompt: int = 0
    reused: int = 0
    passes: int = 0


@dataclass(frozen=True)
class Encoded:
    """A batch of prompts, left-padded: next-token logits (B, V) and what continuing each ``n`` times needs."""

    logits: Tensor
    make_decoder: Callable[[], Decoder]


class Encoder:
    """A network with its chat format and its prefix cache."""

    def __init__(self, network: Network, chat: Chat, cache: PrefixCache) -> None:
        """All three belong to one model."""
        self._network, self._chat, self._cache = network, chat, cache

    def encode(
        self, prompt: Prompt, adapter: str | None, weights: int, base: PrefixState | None = None
    ) -> tuple[PrefixState, Cost]:
        """The state of a prompt under ``adapter``, which is active; it is put in the cache.

        ``weights`` is the version of the weights; ``base`` a state to continue from if it fits at least as well as any
        cached one.
        """
        state, begin = self._cache.find(prompt, adapter, weights)
        if base is not None and (length := common_length(base, prompt)) >= begin:
            state, begin = base, length
        if state is not None and begin == len(prompt.ids):
            return state, Cost(reused=begin)
        known = dict(zip(state.pictures, state.features, strict=True)) if state is not None else {}
        features = self.features(prompt.pictures, adapter, weights, known)
        new = [f for f, start in zip(features, prompt.starts, strict=True) if start >= begin]
        positions = self._positions(prompt, state, begin)
        embeddings, extra = self._network.embed(self.tokens(prompt.ids[begin:]), new)
        past = tuple((k[:, :, :begin], v[:, :, :begin]) for k, v in state.key_values) if state is not None else ()
        hidden, key_values = self._network.forward(embeddings, positions[:, None, begin:], past, extra=extra)
        encoded = PrefixState(
            ids=prompt.ids,
            pictures=tuple(replace(p, image=None) for p in prompt.pictures),
            starts=prompt.starts,
            features=tuple(features),
            messages=without_pixels(prompt.messages),
            adapter=adapter,
            owner=self,
            weights=weights,
            positions=positions,
            next_position=int(positions.max()) + 1,
            key_values=key_values,
            last_hidden=hidden[0, -1].clone(),
        )
        self._cache.add(encoded)
        visual = visual_after(prompt.pictures, prompt.starts, begin)
        return encoded, Cost(visual, len(prompt.ids) - begin, begin, 1)

    def _positions(self, prompt: Prompt, state: PrefixState | None, begin: int) -> Tensor:
        """Rotary positions (3, T); those of a long beginning are taken over, for counting them takes time as well.

        What follows starts one after the highest so far, as it does within a conversation: ``begin`` is in no image.
        """
        grids = [p.grid for p, start in zip(prompt.pictures, prompt.starts, strict=True) if start >= begin]
        if state is None or not begin:
            return self._network.positions(prompt.ids, grids)
        known = state.positions[:, :begin]
        return torch.cat([known, self._network.positions(prompt.ids[begin:], grids) + known.max() + 1], 1)

    def encode_batch(self, prompts: Sequence[Prompt], n: int, adapter: str | None, weights: int, pad: int) -> Encoded:
        """Encode prompts of any lengths in one left-padded pass, without the cache; ``n`` rows each continue them."""
        longest = max(len(p.ids) for p in prompts)
        ids = np.full((len(prompts), longest), pad, np.int64)
        mask = torch.zeros(len(prompts), longest, dtype=torch.long)
        positions = torch.zeros(3, len(prompts), longest, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            begin = longest - len(prompt.ids)
            ids[row, begin:], mask[row, begin:] = prompt.ids, 1
            positions[:, row, begin:] = self._network.positions(prompt.ids, [x.grid for x in prompt.pictures])
        features = self.features([x for p in prompts for x in p.pictures], adapter, weights)
        mask = mask.to(self._network.device)
        embeddings, extra = self._network.embed(torch.from_numpy(ids).to(self._network.device), features)
        hidden, states = self._network.forward(embeddings, positions, mask=mask, extra=extra)
        following = (positions.amax((0, 2)) + 1).repeat_interleave(n)

        def make_decoder() -> Decoder:
            rows = tuple((k.repeat_interleave(n, 0), v.repeat_interleave(n, 0)) for k, v in states)
            return Decoder(self._network, rows, following, mask.repeat_interleave(n, 0))

        return Encoded(self._network.logits(hidden[:, -1]).repeat_interleave(n, 0), make_decoder)

    def features(
        self,
        pictures: Sequence[Picture],
        adapter: str | None,
        weights: int,
        known: dict[Picture, Features] | None = None,
    ) -> list[Features]:
        """Features of all pictures in order; the vision tower sees each unknown one once."""
        found = dict(known or {})
        for picture in pictures:
            if picture not in found and (held := self._cache.features(picture, adapter, weights)) is not None:
                found[picture] = held
        unknown = list(dict.fromkeys(p for p in pictures if p not in found))
        if unknown:
            seen = self._network.see(*self._chat.patches(unknown))
            for picture, features in zip(unknown, seen, strict=True):
                if len(features.merged) != picture.tokens:
                    raise ModelError(
                        f"image features and image tokens do not match: the vision tower gave {len(features.merged)} "
                        f"features where the prompt has {picture.tokens} tokens for grid {picture.grid}"
                    )
            found.update(zip(unknown, seen, strict=True))
        return [found[p] for p in pictures]

    def tokens(self, ids: NDArray[np.int64]) -> Tensor:
        """Ids (1, T) on the network's device."""
        return torch.from_numpy(np.ascontiguousarray(ids))[None].to(self._network.device)
