"""Nano's architecture and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass, field

from backbone.errors import ConfigError

VOCABULARY = 4096  # ranks of Qwen's byte-pair encoding that are kept; all special tokens are kept too


@dataclass(frozen=True)
class NanoConfig:
    """Sizes of the vision tower and the language model. ``merge`` patches in a square make one visual token."""

    text_width: int = 160
    text_layers: int = 6
    text_heads: int = 4
    text_key_value_heads: int = 2
    text_head_dim: int = 48
    text_feed_forward: int = 480
    vision_width: int = 160
    vision_layers: int = 5
    vision_heads: int = 5
    vision_feed_forward: int = 480
    patch: int = 16
    merge: int = 2
    deepstack: tuple[int, ...] = (1, 3)  # tower layers whose features are added in the first language layers
    position_grid: int = 16  # learned position embeddings per side, interpolated to the picture
    max_positions: int = 16384
    minimum_pixels: int = 192 * 192
    maximum_pixels: int = 2048 * 2048

    def __post_init__(self) -> None:
        if self.text_head_dim % 8 or self.vision_width % (4 * self.vision_heads):
            raise ConfigError(
                f"head sizes must allow rotary positions: text_head_dim % 8, vision_width % 4 heads: {self}"
            )
        if any(not 0 <= i < self.vision_layers for i in self.deepstack) or len(self.deepstack) > self.text_layers:
            raise ConfigError(f"deepstack layers {self.deepstack} must lie in the tower of {self.vision_layers} layers")

    @property
    def factor(self) -> int:
        """Pixels along the side of one visual token."""
        return self.patch * self.merge


@dataclass(frozen=True)
class Guidance:
    """Weights of the answer's loss and of two losses beside it that exist in training only.

    ``dense``: a linear head on every visual token names the colour, shape, box and symbol of what lies there.
    ``attention``: the ``heads`` ``(layer, head)`` are told where to look while a box or a name is written.
    """

    answer: float = 1.0  # the loss proper; 0 warms up the vision tower alone, without running the language model
    dense: float = 0.5
    attention: float = 0.3
    heads: tuple[tuple[int, int], ...] = ((2, 0), (3, 0))


@dataclass(frozen=True)
class CurriculumConfig:
    """What nano sees in a stage: sample sources with their weights, and picture sizes (width, height) in pixels."""

    weights: tuple[tuple[str, float], ...] = (("shapes", 1.0),)
    sizes: tuple[tuple[int, int], ...] = ((256, 256), (256, 192), (192, 256), (224, 224))
    images_per_step: int = 4
    tokens_per_picture: int = 330  # conversations beyond this are left out, so that rows are about equally long
    guidance: Guidance = field(default_factory=Guidance)

    def __post_init__(self) -> None:
        if not self.weights or min(w for _, w in self.weights) < 0 or sum(w for _, w in self.weights) <= 0:
            raise ConfigError(f"the curriculum draws from nothing: weights {self.weights}")
        if not self.sizes or self.images_per_step < 1 or self.tokens_per_picture < 1:
            raise ConfigError(f"a curriculum needs sizes, images_per_step >= 1 and tokens_per_picture >= 1: {self}")


@dataclass(frozen=True)
class StageConfig:
    """One stage of nano's training."""

    name: str
    steps: int = 1000
    learning_rate: float = 1e-3
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    frozen_tower: bool = False
