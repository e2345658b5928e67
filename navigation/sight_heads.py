"""The linear classifiers of a tower's tokens, which learning to see leaves, and where they are kept."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from backbone.errors import ModelError
from navigation.glimpse_maps import DEPTH_BINS, KINDS
from navigation.homes.furniture import words

CLASSES = {"kind": len(KINDS), "depth": DEPTH_BINS}
HEADS_FILE = "sight.safetensors"
CLASS_OF = {words(kind): number for number, kind in enumerate(KINDS)}


class SightHeads(nn.Module):
    """Linear classifiers over the visual tokens that the language model reads."""

    def __init__(self, width: int) -> None:
        """``width`` is that of the tower's output."""
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(width, classes) for name, classes in CLASSES.items()})

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        """``features`` (N, width) -> logits (N, classes) by the map's name."""
        return {name: head(features) for name, head in self.heads.items()}

    @classmethod
    def load(cls, folder: Path, width: int) -> SightHeads:
        """The classifiers of a directory; `ModelError` where there are none, or those of another width."""
        heads, path = cls(width), folder / HEADS_FILE
        try:
            heads.load_state_dict(load_file(path))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise ModelError(
                f"{path}: no classifiers for a width of {width}; train navigation sight makes them: {error}"
            ) from error
        return heads
