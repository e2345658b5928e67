"""From samples to tensors: one row per picture, its conversations side by side behind one encoding of it.

A row is the picture followed by lanes of conversations; each conversation sees the picture and itself only, and its
positions continue right after the picture. Each is thus trained on exactly what it sees in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from backbone.contracts import Image
from backbone.curriculum.sample import Message, Region, Sample
from backbone.errors import DataError
from backbone.nano.config import NanoConfig

Ints = NDArray[np.int64]
IGNORE = -100


@dataclass(frozen=True)
class Encoded:
    """One conversation as tokens; image spans are already expanded to their visual tokens."""

    ids: Ints  # (L,)
    positions: Ints  # (3, L): time, row, column
    target: NDArray[np.bool_]  # (L,) tokens the model has to write
    visual: NDArray[np.bool_]  # (L,)
    focus: tuple[tuple[int, Region], ...]  # (token index, region of the first picture)
    images: tuple[Image, ...]


@dataclass(frozen=True)
class Batch:
    """Tensors of one step. A row is the shared picture, padded to P tokens, and K lanes of F tokens: L = P + K * F.

    A lane holds one or more conversations. ``grids`` lists pictures in the order their visual tokens stand in the rows.
    """

    ids: Tensor  # (B, L)
    positions: Tensor  # (3, B, L)
    mask: Tensor  # (B, K, F, P + F) additive: what each lane token sees of the picture and of its own lane
    labels: Tensor  # (B, L) id of the token that follows, or IGNORE
    visual: Tensor  # (B, L) bool
    patches: Tensor  # (N patches, 3 * 2 * patch^2)
    grids: Tensor  # (N, 3)
    first_pictures: Tensor  # (B,) index in grids of each row's shared picture
    focus_at: Tensor  # (3, n) row, lane, place in the lane of tokens whose successor depends on a region
    focus_cells: Tensor  # (n, P) bool: the visual token under that region's centre
    samples: tuple[Sample, ...]


class Encoder:
    """Turns samples into batches with a tokenizer whose chat template is Qwen3-VL's."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, config: NanoConfig, tokens_per_picture: int | None = None
    ) -> None:
        """``tokens_per_picture`` bounds a row: conversations beyond it are left out, the first is always kept."""
        self.tokens_per_picture = tokens_per_picture
        self.tokenizer = tokenizer
        self.config = config
        self.image_id = int(tokenizer.convert_tokens_to_ids("<|image_pad|>"))  # type: ignore[arg-type]
        self.pad_id = int(tokenizer.convert_tokens_to_ids("<|endoftext|>"))  # type: ignore[arg-type]

    def conversation(self, messages: Sequence[Message]) -> Encoded:
        """Render as Qwen3-VL's template does, tokenize once, and mark what is to be learned."""
        text, images, target_spans, focus_spans = render(messages)
        made = self.tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        offsets, raw = made["offset_mapping"], made["input_ids"]
        starts = np.array([a for a, _ in offsets])
        target = np.zeros(len(raw), bool)
        for a, b in target_spans:
            target |= (starts >= a) & (starts < b)
        focus_of = {
            i: region for a, b, region in focus_spans for i in np.flatnonzero((starts >= a) & (starts < b)).tolist()
        }
        return self._expand(raw, target, focus_of, images)

    def _expand(
        self, raw: Sequence[int], target: NDArray[np.bool_], focus_of: dict[int, Region], images: list[Image]
    ) -> Encoded:
        ids: list[int] = []
        positions: list[Ints] = []
        keep: list[bool] = []
        visual: list[bool] = []
        focus: list[tuple[int, Region]] = []
        position, seen = 0, 0
        for index, token in enumerate(raw):
            if token == self.image_id:
                grid = self.grid(images[seen])
                seen += 1
                positions.append(_picture_positions(grid, position))
                ids += [token] * (grid[0] * grid[1])
                visual += [True] * (grid[0] * grid[1])
                keep += [False] * (grid[0] * grid[1])
                position += max(grid)
                continue
            if index in focus_of:
                focus.append((len(ids), focus_of[index]))
            ids.append(token)
            visual.append(False)
            keep.append(bool(target[index]))
            positions.append(np.full((3, 1), position, np.int64))
            position += 1
        if seen != len(images):
            raise DataError(f"conversation has {len(images)} pictures but {seen} image tokens")
        return Encoded(
            np.array(ids, np.int64),
            np.concatenate(positions, 1),
            np.array(keep),
            np.array(visual),
            tuple(focus),
            tuple(images),
        )

    def grid(self, image: Image) -> tuple[int, int]:
        """Visual tokens (rows, columns) of a picture; its sides must be multiples of one token's side."""
        factor = self.config.factor
        if image.shape[0] % factor or image.shape[1] % factor:
            raise DataError(f"training picture of {image.shape[:2]} must have sides that are multiples of {factor}")
        return image.shape[0] // factor, image.shape[1] // factor

    def patches(self, image: Image) -> NDArray[np.float32]:
        """Patches in the order and scale of the family's image processor: (h w, 3 * 2 * patch^2), values -1 to 1."""
        p, m = self.config.patch, self.config.merge
        rows, columns = self.grid(image)
        values = image.astype(np.float32) / 127.5 - 1.0
        x = values.reshape(rows, m, p, columns, m, p, 3).transpose(0, 3, 1, 4, 6, 2, 5)
        x = np.repeat(x[:, :, :, :, :, None], 2, axis=5)  # a still picture fills both frames of a temporal patch
        return np.ascontiguousarray(x.reshape(rows * columns * m * m, -1))

    def batch(self, samples: Sequence[Sample]) -> Batch:
        """Rows of all samples; conversations are packed into lanes so that little is padding."""
        rows = [[self.conversation(c) for c in s.conversations] for s in samples]
        prefixes = [_shared_length(row) for row in rows]
        if self.tokens_per_picture is not None:
            rows = [_within(row, p, self.tokens_per_picture) for row, p in zip(rows, prefixes, strict=True)]
        packed, room = _pack_all([[len(e.ids) - p for e in row] for p, row in zip(prefixes, rows, strict=True)])
        out = _Rows(len(rows), max(prefixes), max(len(lanes) for lanes in packed), room, self.pad_id)
        for b, (prefix, row, lanes) in enumerate(zip(prefixes, rows, packed, strict=True)):
            out.add(b, prefix, row, lanes, self.config.factor, self.grid(row[0].images[0]))
        m = self.config.merge
        grids = [self.grid(i) for i in out.images]
        at, cells = [f[0] for f in out.focus], [f[1] for f in out.focus]
        return Batch(
            torch.from_numpy(out.ids),
            torch.from_numpy(out.positions),
            out.mask(),
            torch.from_numpy(out.labels),
            torch.from_numpy(out.visual),
            torch.from_numpy(np.concatenate([self.patches(i) for i in out.images])),
            torch.tensor([[1, h * m, w * m] for h, w in grids]),
            torch.tensor(out.first_pictures),
            torch.tensor(at, dtype=torch.long).reshape(-1, 3).T,
            torch.from_numpy(np.array(cells, bool).reshape(len(cells), out.prefix)),
            tuple(samples),
        )


class _Rows:
    """Arrays of a batch while they are filled."""

    def __init__(self, rows: int, prefix: int, lanes: int, lane: int, pad: int) -> None:
        shape = (rows, prefix + lanes * lane)
        self.prefix, self.lanes, self.lane = prefix, lanes, lane
        self.ids = np.full(shape, pad, np.int64)
        self.positions = np.zeros((3, *shape), np.int64)
        self.labels = np.full(shape, IGNORE, np.int64)
        self.visual = np.zeros(shape, bool)
        self.owner = np.full(shape, -1, np.int64)  # 0 shared picture, k conversation k, -1 padding
        self.images: list[Image] = []
        self.first_pictures: list[int] = []
        self.focus: list[tuple[tuple[int, int, int], NDArray[np.bool_]]] = []

    def add(
        self,
        b: int,
        prefix: int,
        row: Sequence[Encoded],
        lanes: Sequence[Sequence[int]],
        factor: int,
        grid: tuple[int, int],
    ) -> None:
        self.first_pictures.append(len(self.images))
        self.images.append(row[0].images[0])
        self._copy(b, slice(0, prefix), row[0], slice(0, prefix), 0)
        cells_at = np.flatnonzero(row[0].visual[:prefix])
        for lane, members in enumerate(lanes):
            place = 0
            for index in members:
                e = row[index]
                size, at = len(e.ids) - prefix, self.prefix + lane * self.lane + place
                self._copy(b, slice(at, at + size), e, slice(prefix, None), index + 1)
                self.labels[b, at : at + size - 1] = np.where(e.target, e.ids, IGNORE)[prefix + 1 :]
                self.images += e.images[1:]
                for token, region in e.focus:
                    cells = np.zeros(self.prefix, bool)
                    cells[cells_at[central_cell(region, grid, factor)]] = True
                    self.focus.append(((b, lane, place + token - prefix - 1), cells))  # the token before predicts
                place += size

    def _copy(self, b: int, to: slice, e: Encoded, part: slice, owner: int) -> None:
        self.ids[b, to] = e.ids[part]
        self.positions[:, b, to] = e.positions[:, part]
        self.visual[b, to] = e.visual[part]
        self.owner[b, to] = owner

    def mask(self) -> Tensor:
        """Additive (B, K, F, P + F): the whole picture, and earlier tokens of the same conversation."""
        picture = torch.from_numpy(self.owner[:, : self.prefix] == 0)[:, None, None]
        own = torch.from_numpy(self.owner[:, self.prefix :].reshape(-1, self.lanes, self.lane))
        same = (own[..., :, None] == own[..., None, :]) & torch.ones(self.lane, self.lane, dtype=torch.bool).tril()
        allowed = torch.cat([picture.expand(-1, self.lanes, self.lane, -1), same], -1)
        return torch.where(allowed, 0.0, -1e4)


def _within(row: list[Encoded], prefix: int, budget: int) -> list[Encoded]:
    total = 0
    kept: list[Encoded] = []
    for e in row:
        total += len(e.ids) - prefix
        if kept and total > budget:
            total -= len(e.ids) - prefix
            continue
        kept.append(e)
    return kept


def _pack_all(rows: Sequence[Sequence[int]]) -> tuple[list[list[list[int]]], int]:
    """Lanes for every row, and the lane length that leaves the least padding."""
    longest = max(max(row) for row in rows)
    best: tuple[int, int, list[list[list[int]]]] | None = None
    for room in sorted({longest, longest * 5 // 4, longest * 3 // 2, longest * 2, longest * 3}):
        packed = [_pack(row, room) for row in rows]
        cost = max(len(lanes) for lanes in packed) * room
        if best is None or cost < best[0]:
            best = cost, room, packed
    assert best is not None  # noqa: S101 - there is always a longest conversation
    return best[2], best[1]


def _pack(lengths: Sequence[int], room: int) -> list[list[int]]:
    """First fit, longest first: indices per lane of ``room`` tokens."""
    lanes: list[list[int]] = []
    free: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        lane = next((k for k, space in enumerate(free) if space >= lengths[index]), None)
        if lane is None:
            lane = len(lanes)
            lanes.append([])
            free.append(room)
        lanes[lane].append(index)
        free[lane] -= lengths[index]
    return lanes


def central_cell(region: Region, grid: tuple[int, int], factor: int) -> int:
    """Index of the visual token under a region's centre."""
    rows, columns = grid
    row = min(rows - 1, int((region[1] + region[3]) / 2 / factor))
    return row * columns + min(columns - 1, int((region[0] + region[2]) / 2 / factor))


def render(
    messages: Sequence[Message],
) -> tuple[str, list[Image], list[tuple[int, int]], list[tuple[int, int, Region]]]:
    """Text of the chat template, pictures in order, character spans to learn, and spans with a focus region."""
    text, images = "", []
    targets: list[tuple[int, int]] = []
    focus: list[tuple[int, int, Region]] = []
    for message in messages:
        text += f"<|im_start|>{message['role']}\n"
        start = len(text)
        for part in message["content"]:
            if part["type"] == "image":
                images.append(part["image"])
                text += "<|vision_start|><|image_pad|><|vision_end|>"
                continue
            if part.get("focus") is not None:
                focus.append((len(text), len(text) + len(part["text"]), part["focus"]))
            text += part["text"]
        text += "<|im_end|>"
        if message["role"] == "assistant":
            targets.append((start, len(text)))
        text += "\n"
    return text, images, targets, focus


def _picture_positions(grid: tuple[int, int], start: int) -> Ints:
    rows, columns = np.meshgrid(np.arange(grid[0]), np.arange(grid[1]), indexing="ij")
    return np.stack([np.zeros(rows.size, np.int64), rows.ravel(), columns.ravel()]) + start


def _shared_length(row: Sequence[Encoded]) -> int:
    """Tokens all conversations begin with: the first picture and equal text after it, short of any answer."""
    first = row[0]
    picture = int(np.flatnonzero(first.visual)[0])
    inside = np.flatnonzero(~first.visual[picture:])
    least = picture + (int(inside[0]) if len(inside) else len(first.visual) - picture) + 1  # its closing token too
    most = min(_private_from(e, least) for e in row)
    length = most
    for e in row[1:]:
        differs = np.flatnonzero(e.ids[:length] != first.ids[:length])
        length = int(differs[0]) if len(differs) else length
    if length < least:
        raise DataError("conversations of one sample differ before the end of their shared picture")
    return length


def _private_from(e: Encoded, least: int) -> int:
    """The first token that cannot be shared: one that predicts an answer, or that begins another picture."""
    answer = int(np.flatnonzero(e.target)[0]) - 1
    later = np.flatnonzero(e.visual[least:])
    return min(answer, least + int(later[0]) if len(later) else answer)
