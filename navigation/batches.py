"""From conversations to tensors: every reply of a conversation is learned in one pass over it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from backbone.chat import Chat, Picture
from backbone.errors import DataError, ModelError
from backbone.fused import CrossEntropy
from backbone.learned_tokens import states_at
from backbone.local import LocalVLM
from backbone.prefix import Features
from backbone.vlm import Message
from navigation.examples import Example
from navigation.feature_store import FeatureStore
from navigation.guidance import NOWHERE, Focus, Mention, Mentions, looking
from navigation.sight_heads import SightHeads

IGNORE = -100
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Row:
    """One conversation as tokens; ``labels[i]`` is token ``i`` if it is to be written by the model, else `IGNORE`."""

    ids: Ints  # (T,)
    positions: Tensor  # (3, T)
    labels: Ints  # (T,)
    pictures: tuple[Picture, ...]
    starts: tuple[int, ...] = ()  # first visual token of every picture
    mentions: tuple[Mention, ...] = ()  # where an `Encoder` was told to look for them


class Encoder:
    """Tokens exactly as the agent makes them: same template, same processor, same pixel limits."""

    def __init__(self, vlm: LocalVLM, longest: int, mentions: Mentions | None = None) -> None:
        """``longest`` tokens a conversation may have; ``mentions`` finds what its replies rest on."""
        self._mentions = mentions
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
        learned = [span for span, wanted in zip(spans, example.learn, strict=True) if wanted]
        find = self._mentions
        found = find.of(prompt.ids, learned, prompt.starts, task_of(example.messages)) if find is not None else ()
        return Row(prompt.ids, positions, labels, prompt.pictures, prompt.starts, tuple(found))

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
            told = {"starts": [r.starts for r in rows], "mentions": [r.mentions for r in rows]}
            return {**tokens, "pictures": pictures, **told}
        made, grids = self._chat.patches(pictures)
        return {**tokens, "patches": made, "grids": grids}


@dataclass(frozen=True, eq=False)
class Guide:
    """What tells heads where to look: classifiers of the tower's tokens, the heads, and the weight of their loss."""

    classifiers: SightHeads
    heads: tuple[tuple[int, int], ...]
    weight: float
    followers: tuple[tuple[int, int], ...] = ()  # heads that are to look at the plan that an action carries out

    def focus(self, batch: dict[str, Any], features: Sequence[Features]) -> Focus:
        """Where to look in a batch without patches, whose pictures have ``features``."""
        counts = [len(s) for s in batch["starts"]]
        with torch.no_grad():
            told = self.classifiers(torch.cat([f.merged for f in features]).float())["kind"].argmax(-1)
        each = torch.split(told, [len(f.merged) for f in features])
        ends = np.cumsum(counts).tolist()
        kinds = [each[end - count : end] for end, count in zip(ends, counts, strict=True)]
        return Focus.of(_mentions(batch, False), batch["starts"], kinds, batch["ids"].shape[1])

    def plans(self, batch: dict[str, Any]) -> Focus:
        """Where the plans are written that actions carry out."""
        return Focus.of(_mentions(batch, True), batch["starts"], (), batch["ids"].shape[1])


def _mentions(batch: dict[str, Any], of_plans: bool) -> list[list[Mention]]:
    return [[m for m in row if (m.plan != (0, 0)) == of_plans] for row in batch["mentions"]]


def loss(
    vlm: LocalVLM,
    adapter: str | None,
    model: nn.Module,
    batch: dict[str, Any],
    store: FeatureStore | None = None,
    guide: Guide | None = None,
) -> Any:
    """Mean cross-entropy over the tokens to be learned, and the share of them that is right.

    With a ``store`` the batch is one without patches, and the tower learns nothing. A ``guide``, which needs one, adds
    its weighted loss.
    """
    network = vlm.network
    following = torch.nn.functional.pad(batch["labels"][:, 1:], (0, 1), value=IGNORE)  # (B, T)
    wanted = following != IGNORE
    with vlm.adapters.active(adapter):
        see = network.see
        features = store.features(batch["pictures"]) if store is not None else see(batch["patches"], batch["grids"])
        embeddings, extra = network.embed(batch["ids"], features)
        heads, focus = (guide.heads, guide.focus(batch, features)) if guide is not None else ((), NOWHERE)
        followers, plans = (guide.followers, guide.plans(batch)) if guide is not None else ((), NOWHERE)
        with looking(network.text, heads, focus) as away, looking(network.text, followers, plans) as astray:
            hidden = states_at(network.text, wanted, inputs_embeds=embeddings, position_ids=batch["positions"], **extra)
        logits = network.head(hidden).float()  # (N, V)
    value, right = CrossEntropy.apply(logits, following[wanted])
    away += astray
    if guide is None or not away:
        return value, {"token_accuracy": right}
    looked = torch.stack(away).mean()
    return value + guide.weight * looked, {"token_accuracy": right, "replies": value.detach(), "away": looked.detach()}


TASK = re.compile(r"\b[Ff]ind the ([a-z ]+)")


def task_of(messages: Sequence[Message]) -> str:
    """What a conversation's system turn asks to find; empty where it is about something else."""
    first = messages[0] if messages else {}
    if first.get("role") != "system":
        return ""
    found = TASK.search(" ".join(str(part.get("text", "")) for part in first["content"]))
    return found.group(1).strip() if found else ""
