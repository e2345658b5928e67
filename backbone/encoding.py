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
from backbone.ragged import History, Row


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


@dataclass(frozen=True)
class _Task:
    """A prompt to encode after the first ``begin`` tokens of a state."""

    prompt: Prompt
    state: PrefixState | None
    begin: int

    @property
    def old_features(self) -> tuple[Features, ...]:
        """Of the pictures before ``begin``, which are those of the state."""
        count = sum(start < self.begin for start in self.prompt.starts)
        return self.state.features[:count] if self.state is not None else ()

    @property
    def new_pictures(self) -> tuple[Picture, ...]:
        """The pictures from ``begin`` on."""
        return self.prompt.pictures[len(self.old_features) :]

    @property
    def left_features(self) -> tuple[tuple[Picture, Features], ...]:
        """The pictures that the state had further on: one may have moved."""
        if self.state is None:
            return ()
        count = len(self.old_features)
        return tuple(zip(self.state.pictures[count:], self.state.features[count:], strict=True))

    def row(self) -> Row:
        """Its part of a pass."""
        count = len(self.prompt.ids) - self.begin
        history = self.state.history if self.state is not None else History()
        return Row(history.continued(self.begin, count), self.begin, count)


class Encoder:
    """A network with its chat format and its prefix cache."""

    def __init__(self, network: Network, chat: Chat, cache: PrefixCache) -> None:
        """All three belong to one model."""
        self._network, self._chat, self._cache = network, chat, cache

    def encode(
        self, prompt: Prompt, adapter: str | None, weights: int, base: PrefixState | None = None
    ) -> tuple[PrefixState, Cost]:
        """`encode_many` of one prompt."""
        return self.encode_many([prompt], adapter, weights, [base])[0]

    def encode_many(
        self, prompts: Sequence[Prompt], adapter: str | None, weights: int, bases: Sequence[PrefixState | None]
    ) -> list[tuple[PrefixState, Cost]]:
        """The states of prompts under ``adapter``, which is active; they are put in the cache.

        All new pictures pass the vision tower together, and all new tokens the language model. ``weights`` is the
        version of the weights; ``bases`` are states to continue from if they fit at least as well as any cached one.
        """
        found = [self._known(p, adapter, weights, base) for p, base in zip(prompts, bases, strict=True)]
        new = [i for i, (_, begin) in enumerate(found) if begin < len(prompts[i].ids)]
        made = iter(self._compute([_Task(prompts[i], *found[i]) for i in new], adapter, weights))
        results = []
        for i, (state, begin) in enumerate(found):
            if i in new:
                encoded = next(made)
                self._cache.add(encoded)
                visual = visual_after(encoded.pictures, encoded.starts, begin)
                results.append((encoded, Cost(visual, len(encoded.ids) - begin, begin, 1)))
            elif state is not None:
                results.append((state, Cost(reused=begin)))
        return results

    def _known(
        self, prompt: Prompt, adapter: str | None, weights: int, base: PrefixState | None
    ) -> tuple[PrefixState | None, int]:
        """The state to continue from and how many of its tokens stand for the prompt's."""
        if base is not None and (length := common_length(base, prompt)) == len(base.ids):
            # The usual turn of a conversation: only this very prompt, encoded before, would spare more worth a search.
            exact = self._cache.exact(prompt, adapter, weights)
            return (base, length) if exact is None else (exact, len(prompt.ids))
        state, begin = self._cache.find(prompt, adapter, weights)
        return (base, length) if base is not None and length >= begin else (state, begin)

    def _compute(self, tasks: Sequence[_Task], adapter: str | None, weights: int) -> list[PrefixState]:
        if not tasks:
            return []
        known = {picture: features for t in tasks for picture, features in t.left_features}
        new = self.features([p for t in tasks for p in t.new_pictures], adapter, weights, known)
        positions = [self._positions(t.prompt, t.state, t.begin) for t in tasks]
        hidden, histories = self._passes(tasks, positions, new)
        states, used = [], 0
        for task, where, last, history in zip(tasks, positions, hidden, histories, strict=True):
            own = new[used : used + len(task.new_pictures)]
            used += len(own)
            states.append(
                PrefixState(
                    ids=task.prompt.ids,
                    pictures=tuple(p if p.image is None else replace(p, image=None) for p in task.prompt.pictures),
                    starts=task.prompt.starts,
                    features=(*task.old_features, *own),
                    messages=without_pixels(task.prompt.messages),
                    adapter=adapter,
                    owner=self,
                    weights=weights,
                    positions=where,
                    next_position=int(where.max()) + 1,
                    history=history,
                    last_hidden=last,
                )
            )
        return states

    def _passes(
        self, tasks: Sequence[_Task], positions: Sequence[Tensor], features: Sequence[Features]
    ) -> tuple[list[Tensor], list[History]]:
        """The last hidden state (D,) and the history of every task: in one pass where the network can do that."""
        network = self._network
        ids = np.concatenate([t.prompt.ids[t.begin :] for t in tasks])
        embeddings, extra = network.embed(self.tokens(ids), features)
        if network.ragged:
            rows = [t.row() for t in tasks]
            where = torch.cat([p[:, t.begin :] for t, p in zip(tasks, positions, strict=True)], 1)
            hidden = network.forward_rows(embeddings, where[:, None], rows, extra)
            ends = np.cumsum([row.count for row in rows])
            return [hidden[end - 1].clone() for end in ends], [row.history for row in rows]
        if len(tasks) > 1:
            used = np.cumsum([0, *(len(t.new_pictures) for t in tasks)])
            parts = [
                self._passes([t], [p], features[used[i] : used[i + 1]])
                for i, (t, p) in enumerate(zip(tasks, positions, strict=True))
            ]
            return [part[0][0] for part in parts], [part[1][0] for part in parts]
        task, where = tasks[0], positions[0]
        past = task.state.history.first(task.begin) if task.state is not None else ()
        hidden, key_values = network.forward(embeddings, where[:, None, task.begin :], past, extra=extra)
        return [hidden[0, -1].clone()], [History(key_values)]

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

    def layer_inputs(
        self,
        ids: NDArray[np.int64],
        pictures: Sequence[Picture],
        features: Sequence[Features],
        layers: Sequence[int],
    ) -> Tensor:
        """What each named layer reads, float32 (len(layers), T, D), in one pass over a conversation from its start."""
        embeddings, extra = self._network.embed(self.tokens(ids), features)
        positions = self._network.positions(ids, [p.grid for p in pictures])[:, None]
        return self._network.layer_inputs(embeddings, positions, layers, extra)[:, 0].float()

    def tokens(self, ids: NDArray[np.int64]) -> Tensor:
        """Ids (1, T) on the network's device."""
        return torch.from_numpy(np.ascontiguousarray(ids))[None].to(self._network.device)
