"""From conversations to tensors: every reply of a conversation is learned in one pass over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from backbone.chat import Chat, Picture
from backbone.errors import DataError, ModelError
from backbone.local import LocalVLM
from navigation.examples import Example
from navigation.feature_store import FeatureStore

IGNORE = -100
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Row:
    """One conversation as tokens; ``labels[i]`` is token ``i`` if it is to be written by the model, else `IGNORE`."""

    ids: Ints  # (T,)
    positions: Tensor  # (3, T)
    labels: Ints  # (T,)
    pictures: tuple[Picture, ...]


class Encoder:
    """Tokens exactly as the agent makes them: same template, same processor, same pixel limits."""

    def __init__(self, vlm: LocalVLM, longest: int) -> None:
        """``longest`` tokens a conversation may have."""
        self._network, self._chat, self.longest = vlm.network, Chat(vlm.processor, vlm.pixels), longest
        tokenizer = vlm.tokenizer
        self._header = list(tokenizer("<|im_start|>assistant\n", add_special_tokens=False)["input_ids"])
        self._end = int(tokenizer.convert_tokens_to_ids("<|im_end|>"))
        self.pad = int(tokenizer.convert_tokens_to_ids("<|endoftext|>"))

    def row(self, example: Example) -> Row:
        """The tokens of an example.

        Raises:
            DataError: it is longer than ``longest``.
        """
        prompt = self._chat.render(self._chat.prepare(example.messages), generation_prompt=False)
        if len(prompt.ids) > self.longest:
            raise DataError(f"{example.id}: {len(prompt.ids)} tokens, at most {self.longest} are allowed")
        labels = np.full(len(prompt.ids), IGNORE, np.int64)
        spans = self.replies(prompt.ids)
        if len(spans) != len(example.learn):
            raise ModelError(
                f"{example.id}: the chat template shows {len(spans)} replies where there are {len(example.learn)}; "
                "it drops or adds turns, so this model cannot be trained on whole conversations"
            )
        for (begin, end), wanted in zip(spans, example.learn, strict=True):
            if wanted:
                labels[begin:end] = prompt.ids[begin:end]
        positions = self._network.positions(prompt.ids, [p.grid for p in prompt.pictures])
        return Row(prompt.ids, positions, labels, prompt.pictures)

    def replies(self, ids: Ints) -> list[tuple[int, int]]:
        """Where each reply begins and ends, its end token included."""
        width = len(self._header)
        starts = np.flatnonzero(ids[: len(ids) - width + 1] == self._header[0])
        found = [int(s) + width for s in starts if ids[s : s + width].tolist() == self._header]
        ends = np.flatnonzero(ids == self._end)
        return [(begin, int(ends[np.searchsorted(ends, begin)]) + 1) for begin in found]

    def batch(self, rows: Sequence[Row], *, patches: bool = True) -> dict[str, Any]:
        """Rows padded on the right; under a causal mask nothing sees the padding, so no mask is needed.

        Without ``patches`` it holds the pictures themselves, for a `FeatureStore`.
        """
        length = max(len(r.ids) for r in rows)
        ids = np.full((len(rows), length), self.pad, np.int64)
        labels = np.full((len(rows), length), IGNORE, np.int64)
        positions = torch.zeros((3, len(rows), length), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)], labels[i, : len(row.ids)] = row.ids, row.labels
            positions[:, i, : len(row.ids)] = row.positions
        tokens = {"ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels), "positions": positions}
        pictures = [p for r in rows for p in r.pictures]
        if not patches:
            return {**tokens, "pictures": pictures}
        made, grids = self._chat.patches(pictures)
        return {**tokens, "patches": made, "grids": grids}


def loss(
    vlm: LocalVLM, adapter: str | None, model: nn.Module, batch: dict[str, Any], store: FeatureStore | None = None
) -> Any:
    """Mean cross-entropy over the tokens to be learned, and the share of them that is right.

    With a ``store`` the batch is one without patches, and the tower learns nothing.
    """
    network = vlm.network
    following = torch.nn.functional.pad(batch["labels"][:, 1:], (0, 1), value=IGNORE)  # (B, T)
    wanted = following != IGNORE
    with vlm.adapters.active(adapter):
        see = network.see
        features = store.features(batch["pictures"]) if store is not None else see(batch["patches"], batch["grids"])
        embeddings, extra = network.embed(batch["ids"], features)
        hidden = network.text(
            inputs_embeds=embeddings,
            position_ids=batch["positions"],
            attention_mask=None,
            use_cache=False,
            **extra,
        ).last_hidden_state  # (B, T, D)
        logits = network.head(hidden[wanted]).float()  # (N, V)
    value = nn.functional.cross_entropy(logits, following[wanted])
    right = (logits.argmax(-1) == following[wanted]).float().mean()
    return value, {"token_accuracy": right}
