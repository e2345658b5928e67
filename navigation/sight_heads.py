"""The linear classifiers of a tower's tokens, which learning to see leaves, and where they are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from backbone.chat import Chat
from backbone.errors import ModelError
from backbone.local import LocalVLM
from backbone.prefix import Features
from navigation.config import NavigationConfig
from navigation.glimpse_maps import CELL, DEPTH_BINS, IGNORE, KINDS, maps
from navigation.glimpses import glimpse
from navigation.homes.furniture import words

CLASSES = {"kind": len(KINDS), "depth": DEPTH_BINS}
HEADS_FILE = "sight.safetensors"
STREAM = 0x516  # keeps these frames apart from those of the questions with the same seed
TRIED, TRIED_SEED = 12, 1 << 31  # frames on which classifiers are tried, with a seed that no training has
LEAST_RIGHT = 0.8  # share of the kinds of cells; the shipped ones reach 0.89, and 0.73 on nano's tower as it was before
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


def frames_at(chat: Chat, agent: NavigationConfig, count: int, seed: int, index: int) -> dict[str, Tensor]:
    """Batch ``index``: patches and grids of frames of training homes, and the labels of all their tokens, (N,) each."""
    rng = np.random.default_rng([STREAM, seed, index])
    shown = [glimpse(rng, (agent.width, agent.height)) for _ in range(count)]
    labels = [maps(s) for s in shown]
    patches, grids = chat.patches([chat.picture(s.rgb) for s in shown])
    flat = {name: torch.from_numpy(np.concatenate([m[name].ravel() for m in labels])) for name in CLASSES}
    return {"patches": patches, "grids": grids, **flat}


def sight_loss(
    vlm: LocalVLM, heads: SightHeads, adapter: str | None, batch: dict[str, Tensor]
) -> tuple[Tensor, dict[str, float | Tensor]]:
    """Sum of the mean cross-entropies of both maps, and the share of each that is right."""
    with vlm.adapters.active(adapter):
        features: list[Features] = vlm.network.see(batch["patches"], batch["grids"])
    told = heads(torch.cat([f.merged for f in features]).float())
    losses: list[Tensor] = []
    right: dict[str, float | Tensor] = {}
    for name, logits in told.items():
        labels = batch[name]
        if len(labels) != len(logits):
            raise ModelError(f"{vlm.name}: {len(logits)} visual tokens for {len(labels)} labels of {CELL} pixels each")
        losses.append(nn.functional.cross_entropy(logits.float(), labels, ignore_index=IGNORE))
        known = labels != IGNORE
        right[name] = (logits.argmax(-1) == labels)[known].float().mean()
    return torch.stack(losses).sum(), right


def check_fit(vlm: LocalVLM, adapter: str | None, heads: SightHeads, agent: NavigationConfig) -> float:
    """The share of kinds that classifiers name right on this tower's features of some frames.

    Raises:
        ModelError: so few that they must belong to another tower.
    """
    with torch.no_grad():
        frames = frames_at(Chat(vlm.processor, vlm.pixels), agent, TRIED, TRIED_SEED, 0)
        right = float(sight_loss(vlm, heads, adapter, frames)[1]["kind"])
    if right < LEAST_RIGHT:
        raise ModelError(
            f"the classifiers of sight name {right:.0%} of the cells right on {vlm.name}, less than {LEAST_RIGHT:.0%}: "
            "they belong to another tower, or learned too little; give --sight the directory that "
            "train navigation sight left with this one"
        )
    return right
