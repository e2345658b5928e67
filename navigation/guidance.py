"""Telling a few attention heads where to look while replies are learned. It exists in training only.

OUR CHOICE, for a small model: learning replies alone it finds late, if ever, which of hundreds of tokens they rest on.
What is meant is told by the words (the object of the task, the things a thought names, the side it sees them on), where
that lies by the classifiers that sight was learned with (`navigation.sight`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from backbone.errors import ModelError
from navigation.memory import VIEWS
from navigation.thoughts import SIDES

Ints = NDArray[np.int64]
SAID = re.compile(rf"\b({'|'.join(SIDES)}) ([a-z][a-z ]*?)(?=[,.])")
PLAN = re.compile(r": ((?:(left|right) (\d+))?(?:, )?(?:ahead \d+)?)\.")  # of a short thought, at its end
DOOR = "door"
LEAST = 1e-4  # added to the attention, so that none at all is no infinite loss


@dataclass(frozen=True)
class Mention:
    """A token to be written that rests on something: the token before it should look there.

    ``token`` is the index of that token; what it rests on are the cells of pictures ``pictures`` that show ``kind``, or
    the one token ``source``, or the tokens of the ``plan``, begin and end, that it carries out.
    """

    token: int
    kind: int = -1
    pictures: tuple[int, ...] = ()
    source: int = -1
    plan: tuple[int, int] = (0, 0)


class Mentions:
    """Finds them in conversations; ``encode`` gives the tokens of a text, ``classes`` the numbers of the names."""

    def __init__(self, encode: Any, decode: Any, classes: dict[str, int]) -> None:
        """Names are encoded once."""
        self._encode, self._decode = encode, decode
        self.classes = classes
        self._names = {name: list(encode(f" {name}")) for name in classes}
        self._sides = {side: list(encode(f" {side}")) for side in SIDES}

    def of(self, ids: Ints, replies: Sequence[tuple[int, int]], starts: Sequence[int], what: str) -> list[Mention]:
        """All of one conversation.

        Args:
            ids: (T,) tokens.
            replies: begin and end of every reply that is learned.
            starts: first visual token of every picture.
            what: the object of the task, as its name is written there.
        """
        found: list[Mention] = []
        tokens = ids.tolist()
        aim, plan = what, (0, 0)  # what it goes to while it acts, and where that is written
        for begin, end in replies:
            before = int(np.searchsorted(np.asarray(starts), begin)) - 1  # the picture that is answered
            text = self._decode(tokens[begin:end])
            if "<think" in text:
                aim = DOOR if _through_door(text) else what
                found += self._of_thought(tokens, begin, end, text, before, what)
                found += self._of_verdict(tokens, begin, end, text, before - VIEWS, what)
                plan, view = self._plan(tokens, begin, end, text)
                if before >= VIEWS and aim in self.classes:
                    pictures = (before - VIEWS + view,)
                    found += [Mention(i - 1, self.classes[aim], pictures) for i in range(*plan)]
                continue
            if before >= 0 and aim in self.classes:
                found.append(Mention(begin - 1, self.classes[aim], (before,)))
            if plan != (0, 0):
                found.append(Mention(begin - 1, plan=plan))
        return found

    def _of_verdict(self, tokens: list[int], begin: int, end: int, text: str, first: int, what: str) -> list[Mention]:
        """That the object was found rests on wherever it is seen, and the side that is told on the view there."""
        said = re.search(rf"\. ((?:The |Go to the )?{re.escape(what)}(?: is)?) ({'|'.join(SIDES)})\b", text)
        if said is None or first < 0 or what not in self.classes:
            return []
        opening, side = (list(self._encode(f" {words}")) for words in said.groups())
        at = _find(tokens, opening + side, begin, end)
        if at < 0:
            return []
        kind, views = self.classes[what], tuple(range(first, first + VIEWS))
        there = at + len(opening)
        sides = [Mention(there + i - 1, kind, (first + SIDES.index(said[2]),)) for i in range(len(side))]
        return [Mention(at - 1, kind, views), *sides]

    def _plan(self, tokens: list[int], begin: int, end: int, text: str) -> tuple[tuple[int, int], int]:
        """Where the turns and steps of a thought are written, and which of the four views they lead into."""
        plans = list(PLAN.finditer(text))
        if not plans or not plans[-1][1]:
            return (0, 0), 0
        written, side, turns = plans[-1].groups()
        ids = self._encode(f" {written}")
        at = _find(tokens, ids, begin, end)
        left = int(turns or 0) * (-1 if side == "right" else 1)
        return ((at, at + len(ids)) if at >= 0 else (0, 0)), round(left * VIEWS / 12) % VIEWS

    def _of_thought(self, tokens: list[int], begin: int, end: int, text: str, before: int, what: str) -> list[Mention]:
        """Things on the sides of the newest look around, and the task's object wherever else it is named.

        That look around comes right before the picture that is answered.
        """
        found: list[Mention] = []
        taken: set[int] = set()
        place = begin
        first = before - VIEWS
        for side, name in SAID.findall(text):
            ids = self._names.get(name)
            if ids is None or first < 0:
                continue
            at = _find(tokens, self._sides[side] + ids, place, end)
            if at < 0:
                continue
            place = at + len(self._sides[side])
            view = first + SIDES.index(side)
            found += [Mention(place + i - 1, self.classes[name], (view,)) for i in range(len(ids))]
            taken.update(range(place, place + len(ids)))
        name = self._names.get(what)
        source = _find(tokens, name, 0, begin) if name else -1
        at = begin
        while name and source >= 0 and (at := _find(tokens, name, at, end)) >= 0:
            if at not in taken and not self._goes_on(tokens, at + len(name)):
                found += [Mention(at + i - 1, source=source + i) for i in range(len(name))]
            at += len(name)
        return found

    def _goes_on(self, tokens: list[int], after: int) -> bool:
        """Whether a word goes on there: a bed in bedroom is no bed."""
        return after < len(tokens) and str(self._decode(tokens[after : after + 1]))[:1].isalpha()


def _through_door(thought: str) -> bool:
    """Whether a thought leads through a door, not to what is looked for."""
    return "through the door" in thought and "go there" not in thought


def _find(tokens: list[int], wanted: list[int], begin: int, end: int) -> int:
    """Where ``wanted`` first stands in ``tokens[begin:end]``; -1 if nowhere."""
    size = len(wanted)
    return next((i for i in range(begin, end - size + 1) if tokens[i : i + size] == wanted), -1)


@dataclass(frozen=True)
class Focus:
    """Where to look: for ``n`` query tokens their row and index, and which of the T tokens count, bool (n, T)."""

    rows: Tensor  # (n,)
    queries: Tensor  # (n,)
    wanted: Tensor  # (n, T)

    @classmethod
    def of(
        cls,
        mentions: Sequence[Sequence[Mention]],
        starts: Sequence[Sequence[int]],
        kinds: Sequence[Sequence[Tensor]],
        length: int,
    ) -> Focus:
        """From the mentions of every row; ``kinds[row][picture]`` are the classes of a picture's tokens.

        Mentions of what no token is taken for are left out.
        """
        rows, queries, wanted = [], [], []
        for row, found in enumerate(mentions):
            for mention in found:
                mask = torch.zeros(length, dtype=torch.bool)
                if mention.source >= 0:
                    mask[mention.source] = True
                mask[slice(*mention.plan)] = True
                for picture in mention.pictures:
                    begin, seen = starts[row][picture], kinds[row][picture]
                    mask[begin : begin + len(seen)] = seen == mention.kind
                if bool(mask.any()):
                    rows.append(row)
                    queries.append(mention.token)
                    wanted.append(mask)
        empty = torch.zeros((0, length), dtype=torch.bool)
        return cls(torch.tensor(rows).long(), torch.tensor(queries).long(), torch.stack(wanted) if wanted else empty)


NOWHERE = Focus.of((), (), (), 1)


@contextmanager
def looking(text: nn.Module, heads: Sequence[tuple[int, int]], focus: Focus) -> Iterator[list[Tensor]]:
    """Collects, for every head ``(layer, head)``, minus the mean log of its attention on what ``focus`` wants.

    Raises:
        ModelError: the model has no such head, or its attention is not Qwen3-VL's.
    """
    losses: list[Tensor] = []
    layers: Any = text.layers
    for layer, head in heads:
        if not (0 <= layer < len(layers) and 0 <= head < layers[layer].self_attn.config.num_attention_heads):
            raise ModelError(f"guidance: there is no head {head} in layer {layer}")
        if not hasattr(layers[layer].self_attn, "q_norm"):
            raise ModelError("guidance knows the attention of Qwen3-VL only; train this model without it")

    def hook(head: int) -> Any:
        def collect(module: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
            hidden = options["hidden_states"] if "hidden_states" in options else args[0]
            losses.append(_looked_away(module, head, hidden, options["position_embeddings"], focus))

        return collect

    handles = [
        layers[layer].self_attn.register_forward_pre_hook(hook(head), with_kwargs=True)
        for layer, head in (heads if len(focus.rows) else ())
    ]
    try:
        yield losses
    finally:
        for handle in handles:
            handle.remove()


def _looked_away(module: Any, head: int, hidden: Tensor, rotary: tuple[Tensor, Tensor], focus: Focus) -> Tensor:
    """One head's attention at the query tokens alone, from the layer's input ``hidden`` (B, T, D)."""
    width, group = module.head_dim, head // module.num_key_value_groups
    cos, sin = (r.expand(len(hidden), -1, -1) for r in rotary)
    at = (focus.rows, focus.queries)
    q = module.q_norm(module.q_proj(hidden[at])[:, head * width : (head + 1) * width])
    q = _rotated(q, cos[at], sin[at])  # (n, d)
    k = module.k_norm(module.k_proj(hidden)[..., group * width : (group + 1) * width])
    k = _rotated(k, cos, sin)  # (B, T, d)
    later = torch.arange(hidden.shape[1]) > focus.queries[:, None]
    scores = torch.cat([q[focus.rows == b] @ k[b].T for b in range(len(hidden))]).float() * module.scaling
    attention = scores.masked_fill(later, -torch.inf).softmax(-1)
    on: Tensor = (attention * focus.wanted).sum(-1)
    return -(on + LEAST).log().mean()


def _rotated(values: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding with halves as pairs, as the family has it."""
    first, second = values.chunk(2, -1)
    return values * cos + torch.cat([-second, first], -1) * sin
