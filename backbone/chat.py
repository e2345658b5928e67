"""Messages with decoded pictures, turned into token ids and pictures to encode, the way the families' processors do.

The text is rendered by the model's own chat template; each image placeholder is widened to as many tokens as its
picture has. Paths, URLs and videos are refused: reading files is the caller's decision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backbone.contracts import Image, check_image
from backbone.errors import DataError, ModelError
from backbone.pixels import Pixels
from backbone.vlm import Message, Messages

ROLES = ("system", "user", "assistant", "tool")
IMAGE_TOKEN = "<|image_pad|>"  # noqa: S105


@dataclass(frozen=True)
class Picture:
    """One image of a conversation: its content hash and number of patches, with or without its pixels."""

    digest: str  # of the pixels, their shape, and the processor settings
    grid: tuple[int, int, int]  # (frames, rows, columns) of patches before merging
    tokens: int
    image: Image | None = field(repr=False, compare=False)  # None once encoded: what is kept holds no pixels


@dataclass(frozen=True)
class Prompt:
    """A rendered conversation. Picture ``i`` covers tokens ``starts[i]`` to ``starts[i] + pictures[i].tokens``."""

    ids: NDArray[np.int64]  # (T,)
    pictures: tuple[Picture, ...]
    starts: tuple[int, ...]
    messages: tuple[Message, ...] = field(repr=False)  # with `Picture` in place of arrays


class Chat:
    """A processor (tokenizer, chat template, image processor) bound to pixel limits."""

    def __init__(self, processor: Any, pixels: Pixels) -> None:
        """``processor`` is the transformers processor of the model; its limits are overwritten by ``pixels``."""
        self.tokenizer = processor.tokenizer
        self._processor = processor
        self._images = processor.image_processor
        self.pixels = pixels
        self.patch = int(self._images.patch_size)
        self.merge = int(self._images.merge_size)
        self._image_id = int(self.tokenizer.convert_tokens_to_ids(IMAGE_TOKEN))
        self._images.size = {"shortest_edge": pixels.minimum, "longest_edge": pixels.maximum}
        settings = (pixels, self.patch, self.merge, self._images.image_mean, self._images.image_std)
        self._settings = repr((*settings, self._images.resample, self._images.temporal_patch_size)).encode()

    def prepare(self, messages: Messages) -> tuple[Message, ...]:
        """Check messages and replace every array by its `Picture`; raises `DataError` saying what is wrong where."""
        if not messages:
            raise DataError("a conversation needs at least one message, got none")
        return tuple(self._message(m, f"message {i}") for i, m in enumerate(messages))

    def _message(self, message: Message, where: str) -> Message:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            raise DataError(f"{where}: expected a role of {', '.join(ROLES)}, got {role!r}")
        content = message.get("content")
        if isinstance(content, str):
            return dict(message)
        if not isinstance(content, Sequence):
            raise DataError(f"{where}: content must be text or a list of parts, got {type(content).__name__}")
        return {**message, "content": [self._part(p, f"{where}, part {i}") for i, p in enumerate(content)]}

    def _part(self, part: Any, where: str) -> Message:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind == "text" and isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"]}
        if kind != "image" or set(part) != {"type", "image"}:
            shown = sorted(part) if isinstance(part, dict) else part
            raise DataError(f"{where}: expected a text part or an image part with an array, got type {kind!r}: {shown}")
        if isinstance(part["image"], str):
            raise DataError(f"{where}: paths and URLs are refused here; decode it with backbone.images.read_image")
        return {"type": "image", "image": self.picture(check_image(part["image"], where))}

    def picture(self, image: Image) -> Picture:
        """The identity and size of one image."""
        height, width = image.shape[:2]
        w, h = self.pixels.resize(width, height)
        digest = hashlib.blake2b(self._settings + repr(image.shape).encode(), digest_size=20)
        digest.update(np.ascontiguousarray(image).data)
        grid = (1, h // self.patch, w // self.patch)
        return Picture(digest.hexdigest(), grid, grid[1] * grid[2] // self.merge**2, image)

    def render(self, messages: tuple[Message, ...], *, generation_prompt: bool) -> Prompt:
        """Apply the chat template, tokenize, and widen the placeholders. ``messages`` come from `prepare`."""
        pictures = tuple(
            p["image"] for m in messages if isinstance(m["content"], list) for p in m["content"] if _shows(p)
        )
        plain = [_without_pictures(m) for m in messages]
        text = self._processor.apply_chat_template(plain, tokenize=False, add_generation_prompt=generation_prompt)
        ids = np.asarray(self.tokenizer(text, add_special_tokens=False)["input_ids"], np.int64)
        at = np.flatnonzero(ids == self._image_id)
        if len(at) != len(pictures):
            raise DataError(
                f"messages hold {len(pictures)} images, the rendered prompt {len(at)} image placeholders: images "
                f"belong in user or tool messages, and text must not contain {IMAGE_TOKEN}"
            )
        repeats = np.ones(len(ids), np.int64)
        repeats[at] = [p.tokens for p in pictures]
        starts = (np.cumsum(repeats) - repeats)[at]
        return Prompt(np.repeat(ids, repeats), pictures, tuple(int(s) for s in starts), messages)

    def patches(self, pictures: Sequence[Picture]) -> tuple[Tensor, Tensor]:
        """Pixel values float32 (patches, C) and grids int64 (N, 3) of pictures that still have their pixels."""
        # Stated, since the processor would take an image of 1 or 3 pixels in height for channels first.
        images = [p.image for p in pictures]
        batch = self._images(images=images, input_data_format="channels_last", return_tensors="pt")
        grids: Tensor = batch["image_grid_thw"]
        wanted = torch.tensor([p.grid for p in pictures])
        if not torch.equal(grids, wanted):
            raise ModelError(
                f"the image processor made patch grids {grids.tolist()} where the pixel limits {self.pixels} give "
                f"{wanted.tolist()}; boxes would shift, so this processor cannot be used"
            )
        return batch["pixel_values"], grids


def without_pixels(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same messages with pictures that no longer hold their pixels."""

    def strip(part: Message) -> Message:
        return {"type": "image", "image": replace(part["image"], image=None)} if _shows(part) else part

    lists = (
        m if isinstance(m["content"], str) else {**m, "content": [strip(p) for p in m["content"]]} for m in messages
    )
    return tuple(lists)


def _shows(part: Message) -> bool:
    return bool(part["type"] == "image")


def _without_pictures(message: Message) -> Message:
    if isinstance(message["content"], str):
        return message
    return {**message, "content": [{"type": "image"} if _shows(p) else p for p in message["content"]]}
