"""The training loss of nano: next token of every answer, plus two kinds of guidance that exist in training only."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen3VLForConditionalGeneration
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen3_vl.modeling_qwen3_vl import repeat_kv

from backbone.curriculum.sample import Sample
from backbone.curriculum.scenes import COLOURS, SHAPES, SYMBOLS
from backbone.nano.config import Guidance, NanoConfig
from backbone.nano.encode import IGNORE, Batch, central_cell

_COLOUR = {name: i + 1 for i, name in enumerate(COLOURS)}  # 0: nothing here
_SHAPE = {name: i + 1 for i, name in enumerate(SHAPES)}
_SYMBOL = {name: i + 1 for i, name in enumerate(SYMBOLS)}
SHARED_PICTURE = "shared_picture"  # name of the training attention among transformers' own
BINS = 50  # of a coordinate in the dense head
SYMBOL_WEIGHT = 1.5  # of the symbol among what the dense head tells: 32 kinds, and learned last
MAPS = {"kind": 64, "depth": 16}  # label maps of frames of the worlds, and how many classes each has at most
READABLE = 24  # symbols on things narrower than this many pixels are not asked of the tower


class DenseHead(nn.Module):
    """What lies at each visual token: colour, shape, symbol, and its box as four distributions. Training only.

    Coordinates are classified into bins rather than regressed: a distance loss on 160 features lets one step of the
    optimiser move a box by a tenth of the picture, and that noise drowns what the other classes have to teach.
    """

    def __init__(self, width: int) -> None:
        """``width`` is that of the tower's output."""
        super().__init__()
        self.sizes = (len(COLOURS) + 1, len(SHAPES) + 1, 4 * BINS, len(SYMBOLS) + 1)
        self.linear = nn.Linear(width, sum(self.sizes))
        self.maps = nn.ModuleDict({name: nn.Linear(width, classes) for name, classes in MAPS.items()})

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        """``features`` (N, width) -> colour, shape, box (4 * BINS) and symbol logits, each (N, .)."""
        return torch.split(self.linear(features), list(self.sizes), dim=-1)


def linear_patches(embed: Any, patches: Tensor) -> Tensor:
    """The patch embedding as the matrix product it is: its convolution's backward pass is slow on a CPU."""
    weight = embed.proj.weight
    return functional.linear(patches.to(weight.dtype), weight.flatten(1), embed.proj.bias)


class NanoTraining(nn.Module):
    """The model with its training-only head; calling it gives the loss of a batch and its parts."""

    def __init__(self, model: Qwen3VLForConditionalGeneration, config: NanoConfig, guidance: Guidance) -> None:
        """``model`` is trained in place; ``guidance`` may be exchanged between stages."""
        super().__init__()
        self.model = model
        self.config = config
        self.guidance = guidance
        self.dense = DenseHead(config.text_width)
        embed = model.model.visual.patch_embed
        embed.forward = functools.partial(linear_patches, embed)

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of one batch: answer + dense + attention, weighted by the guidance config."""
        inner = self.model.model
        vision = inner.visual(batch.patches, grid_thw=batch.grids)
        features = vision.pooler_output
        parts: dict[str, Tensor] = {}
        if self.guidance.answer > 0:
            parts.update(self._answer(batch, features, vision.deepstack_features))
        if self.guidance.dense > 0:
            pieces = self._shared_pictures(features, batch)
            losses = {"dense": self._dense(pieces, batch), "maps": self._maps(pieces, batch)}
            parts.update({name: value for name, value in losses.items() if value is not None})
        dense = self.guidance.dense
        weights = {
            "answer": self.guidance.answer,
            "attention": self.guidance.attention,
            "dense": dense,
            "maps": dense,
        }
        total = torch.stack([weights[k] * v for k, v in parts.items()]).sum()
        return total, {k: v.detach() for k, v in parts.items()}

    def _answer(self, batch: Batch, features: Tensor, deepstack: list[Tensor]) -> dict[str, Tensor]:
        inner = self.model.model
        embeds = inner.language_model.embed_tokens(batch.ids)
        embeds = embeds.masked_scatter(batch.visual[..., None], features.to(embeds.dtype))
        text_config = inner.language_model.config
        with (
            attention_of(text_config, SHARED_PICTURE),
            watch_attention(inner.language_model.layers, self.guidance.heads, self.guidance.attention > 0) as seen,
        ):
            hidden = inner.language_model(
                inputs_embeds=embeds,
                attention_mask=batch.mask,
                position_ids=batch.positions,
                visual_pos_masks=batch.visual,
                deepstack_visual_embeds=deepstack or None,
                use_cache=False,
            ).last_hidden_state
        asked = batch.labels != IGNORE
        logits = self.model.lm_head(hidden[asked]).float()
        parts = {"answer": functional.cross_entropy(logits, batch.labels[asked])}
        if self.guidance.attention > 0 and batch.focus_at.shape[1]:
            parts["attention"] = torch.stack([_looked_away(a, batch) for a in seen]).mean()
        return parts

    def _shared_pictures(self, features: Tensor, batch: Batch) -> list[Tensor]:
        """The features (tokens, width) of the picture each row shares."""
        pieces = torch.split(features, (batch.grids.prod(-1) // self.config.merge**2).tolist())
        return [pieces[int(i)] for i in batch.first_pictures]

    def _maps(self, pieces: Sequence[Tensor], batch: Batch) -> Tensor | None:
        """Cross entropy of the label maps, over all samples of the batch that have one."""
        losses: list[Tensor] = []
        for name in MAPS:
            known = [(p, s.maps[name]) for p, s in zip(pieces, batch.samples, strict=True) if name in s.maps]
            if not known:
                continue
            labels = torch.from_numpy(np.concatenate([m.ravel() for _, m in known]))
            logits = self.dense.maps[name](torch.cat([p for p, _ in known]).float()).float()
            if bool((labels != IGNORE).any()):
                losses.append(functional.cross_entropy(logits, labels, ignore_index=IGNORE))
        return torch.stack(losses).sum() if losses else None

    def _dense(self, pieces: Sequence[Tensor], batch: Batch) -> Tensor | None:
        known = [
            (p, dense_targets(s, self.config))
            for p, s in zip(pieces, batch.samples, strict=True)
            if s.things is not None
        ]
        if not known:
            return None
        logits = self.dense(torch.cat([p for p, _ in known]).float())
        colour, shape, symbol, box = (
            torch.from_numpy(np.concatenate(t)) for t in zip(*(t for _, t in known), strict=True)
        )
        loss = _class_loss(logits[0], colour) + _class_loss(logits[1], shape)
        read = symbol != IGNORE
        if bool(read.any()):
            loss = loss + SYMBOL_WEIGHT * functional.cross_entropy(logits[3].float()[read], symbol[read])
        there = colour > 0
        if bool(there.any()):
            loss = loss + _box_loss(logits[2][there], box[there])
        return loss


def _class_loss(logits: Tensor, classes: Tensor) -> Tensor:
    """Cross entropy in which empty cells, which are most, count a fifth."""
    weight = torch.ones(logits.shape[1])
    weight[0] = 0.2
    return functional.cross_entropy(logits.float(), classes, weight, ignore_index=IGNORE)


def _box_loss(logits: Tensor, boxes: Tensor) -> Tensor:
    """Cross entropy of the coordinates (N, 4), 0 to 1, each shared by its two nearest of BINS bin centres."""
    place = (boxes * BINS - 0.5).clamp(0, BINS - 1)
    low = place.floor().long().clamp(max=BINS - 2)
    share = (place - low).unsqueeze(-1)
    logs = logits.float().view(-1, 4, BINS).log_softmax(-1)
    at_low, at_high = (logs.gather(-1, low.unsqueeze(-1) + step) for step in (0, 1))
    return -((1 - share) * at_low + share * at_high).mean()


def dense_targets(sample: Sample, config: NanoConfig) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Per visual token: colour, shape and symbol class and box (0 to 1) of the thing whose centre lies in it.

    Classes are 0 where nothing is, and IGNORE where only a thing's edge reaches; the symbol also where it is too small.
    """
    height, width = sample.image.shape[:2]
    factor = config.factor
    rows, columns = height // factor, width // factor
    n = rows * columns
    colour, shape, symbol = np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, IGNORE, np.int64)
    box = np.zeros((n, 4), np.float32)
    things = sample.things or ()
    for thing in things:
        x0, y0, x1, y1 = (v / factor for v in thing.box)
        touched = np.zeros((rows, columns), bool)
        touched[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))] = True
        colour[touched.ravel()] = shape[touched.ravel()] = IGNORE
    for thing in sorted(things, key=lambda t: t.area):  # of two centres in one cell the larger thing counts
        x0, y0, x1, y1 = thing.box
        cell = central_cell(thing.box, (rows, columns), factor)
        colour[cell], shape[cell] = _COLOUR[thing.colour], _SHAPE[thing.shape]
        box[cell] = np.array([x0 / width, y0 / height, x1 / width, y1 / height], np.float32)
        if min(x1 - x0, y1 - y0) >= READABLE:
            symbol[cell] = _SYMBOL.get(thing.symbol, 0)
    return colour, shape, symbol, box


def _looked_away(attention: Tensor, batch: Batch) -> Tensor:
    """Minus log of the attention (B, K, F, P + F) that falls on the focus region, mean over focus tokens."""
    rows = attention[batch.focus_at[0], batch.focus_at[1], batch.focus_at[2]].float()  # (n, P + F)
    return -((rows[:, : batch.focus_cells.shape[1]] * batch.focus_cells).sum(-1) + 1e-4).log().mean()


def shared_picture_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Attention over rows of one shared picture and K lanes; see `Batch`. Equal to full attention under that mask.

    Queries (B, H, L, D), keys and values (B, H / groups, L, D), mask (B, K, F, P + F). Lanes never see each other, so
    their products are not computed: at eight conversations that is a sixth of the work.
    Returns the output (B, L, H, D) and the lanes' weights (B, H, K, F, P + F).
    """
    groups = int(module.num_key_value_groups)  # type: ignore[arg-type]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    b, lanes, lane = attention_mask.shape[:3]
    prefix, h, d = query.shape[2] - lanes * lane, query.shape[1], query.shape[3]
    rest = query.shape[2] - prefix  # split, never sliced: the gradient of a slice is a whole tensor of zeros
    (q0, q1), (k0, k1), (v0, v1) = (torch.split(x, [prefix, rest], 2) for x in (query * scaling, key, value))
    picture = functional.scaled_dot_product_attention(q0, k0, v0, is_causal=True, scale=1.0)
    q, k, v = (x.reshape(b, h, lanes, lane, d) for x in (q1, k1, v1))
    to_picture = (q1 @ k0.transpose(2, 3)).view(b, h, lanes, lane, prefix)
    scores = torch.cat([to_picture, q @ k.transpose(3, 4)], -1) + attention_mask[:, None]
    weights = torch.softmax(scores, -1)
    on_picture, on_lane = torch.split(weights, [prefix, lane], -1)
    seen = on_picture.reshape(b, h, lanes * lane, prefix) @ v0
    out = seen + (on_lane @ v).view(b, h, lanes * lane, d)
    return torch.cat([picture, out], 2).transpose(1, 2).contiguous(), weights


ALL_ATTENTION_FUNCTIONS.register(SHARED_PICTURE, shared_picture_attention)


@contextmanager
def attention_of(config: Any, name: str) -> Iterator[None]:
    """Use another attention implementation of a language model while a forward pass runs."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


@contextmanager
def watch_attention(layers: Any, heads: Sequence[tuple[int, int]], active: bool) -> Iterator[list[Tensor]]:
    """Collect the lanes' attention weights (B, K, F, P + F) of some heads while a forward pass runs."""
    seen: list[Tensor] = []
    if not active:
        yield seen
        return

    def hook(head: int) -> Callable[[Any, Any, Any], None]:
        return lambda _module, _inputs, output: seen.append(output[1][:, head])

    handles = [layers[layer].self_attn.register_forward_hook(hook(head)) for layer, head in heads]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
