"""How long a conversation is before anything is encoded: what the memory's limit and the rule of 35 must fit into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backbone.pixels import Pixels
from backbone.vlm import Message
from navigation.config import NavigationConfig

AROUND_TURN = 6  # tokens of the chat template around a turn
AROUND_IMAGE = 2  # vision start and end
CHARACTERS = 2.0  # of text a token, a low guess: words split more often in a small vocabulary
ACTION = 10  # tokens of the longest action with nano's vocabulary; 8 with Qwen's


@dataclass(frozen=True)
class Estimate:
    """Upper estimates in tokens."""

    images: int
    text: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.images + self.text


def image_tokens(width: int, height: int, pixels: Pixels) -> int:
    """Tokens of one picture with what stands around it."""
    w, h = pixels.resize(width, height)
    return (w // pixels.factor) * (h // pixels.factor) + AROUND_IMAGE


def estimate(messages: Sequence[Message], pixels: Pixels) -> Estimate:
    """Tokens of a conversation, estimated from above without a tokenizer."""
    images, text = 0, 0.0
    for message in messages:
        text += AROUND_TURN
        for part in message["content"]:
            if part["type"] == "image":
                height, width = part["image"].shape[:2]
                images += image_tokens(width, height, pixels)
            else:
                text += len(part["text"]) / CHARACTERS
    return Estimate(images, round(text))


def longest_cycle(config: NavigationConfig, pixels: Pixels) -> int:
    """Tokens of the longest possible cycle: a full memory, the longest thought, and ``force_after`` fast turns."""
    picture = image_tokens(config.width, config.height, pixels)
    edges = (config.memory_limit - 1) * config.force_after * (ACTION + 1)
    if config.edge_style == "runs":
        edges = (config.memory_limit - 1) * config.force_after * (ACTION + 1) // 2
    memory = config.memory_limit * (4 * picture + 8) + edges
    fast = config.force_after * (picture + ACTION + 2 * AROUND_TURN)
    return 400 + memory + picture + config.thought_tokens + ACTION + fast
