"""Learning to see homes: what lies at every visual token of a frame, and how far away it is, before any way is learned.

OUR CHOICE, for models that have hardly seen a home: a trajectory teaches its tower one action a frame, a frame with the
simulator's labels a class and a distance at each of its tokens. Only the tower's adapter learns; the classifiers are
kept beside it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from backbone.chat import Chat
from backbone.errors import ConfigError, ModelError
from backbone.local import LocalVLM
from backbone.training import TrainingConfig, TrainingResult, train
from backbone.training_config import fast_precision
from navigation.config import NavigationConfig
from navigation.even_pictures import even_pictures
from navigation.glimpse_maps import CELL
from navigation.sight_heads import HEADS_FILE, SightHeads, frames_at, sight_loss
from navigation.train import ADAPTER, StageTraining, learning, save_whole


@dataclass(frozen=True)
class SightTraining:
    """How the tower learns to see. All values are OUR CHOICE."""

    steps: int = 1500
    frames: int = 24  # of each step
    learning_rate: float = 2e-3
    rank: int = 32  # of the adapter, which later stages go on with
    checkpoint_minutes: float = 3.0
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for key in ("steps", "frames", "rank"):
            if getattr(self, key) < 1:
                raise ConfigError(f"sight: {key} must be at least 1, got {getattr(self, key)}")


class Sighted(nn.Module):
    """A model's tower with the classifiers, for the training loop."""

    def __init__(self, vlm: LocalVLM, heads: SightHeads) -> None:
        """``vlm`` is trained in place."""
        super().__init__()
        self.model, self.heads = vlm.model, heads


def train_sight(
    vlm: LocalVLM, output: Path, agent: NavigationConfig, settings: SightTraining, *, resume: bool = True
) -> TrainingResult:
    """Train the adapter of ``vlm``'s tower; leaves ``output/adapter`` (PEFT) with the classifiers in `HEADS_FILE`.

    ``output/model`` is the whole model with that adapter folded in, for stages that train more than adapters.

    Raises:
        ModelError: the model's visual tokens are not squares of `CELL` pixels.
    """
    own = vlm.visual_tokens(agent.width, agent.height)
    if own != (agent.width // CELL) * (agent.height // CELL):
        raise ModelError(f"{vlm.name}: {own} visual tokens a frame; labels are made for squares of {CELL} pixels")
    torch.manual_seed(settings.seed)
    heads = SightHeads(vlm.network.width)
    module = Sighted(vlm, heads)
    chat = Chat(vlm.processor, vlm.pixels)
    loop = TrainingConfig(
        steps=settings.steps,
        learning_rate=settings.learning_rate,
        warmup_fraction=0.05,
        precision=fast_precision(),
        seed=settings.seed,
        checkpoint_minutes=settings.checkpoint_minutes,
        threads=settings.threads,
    )
    both = StageTraining(language="lora", tower="lora", rank=settings.rank, alpha=2 * settings.rank)
    record: dict[str, Any] = {"sight": asdict(settings), "agent": asdict(agent), "model": vlm.name}
    with learning(vlm, both), even_pictures(vlm.model):
        for name, parameter in vlm.model.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and ".visual." in name)
        result = train(
            module,
            lambda index: frames_at(chat, agent, settings.frames, settings.seed, index),
            lambda _, batch: sight_loss(vlm, heads, ADAPTER, batch),
            loop,
            output,
            resume=resume,
            config_record=record,
        )
    vlm.adapters.save(ADAPTER, output / "adapter")
    save_whole(vlm, ADAPTER, output / "model")
    save_file({k: v.contiguous() for k, v in heads.state_dict().items()}, output / "adapter" / HEADS_FILE)
    (output / "agent.json").write_text(json.dumps(asdict(agent), indent=1) + "\n", encoding="utf-8")
    return result
