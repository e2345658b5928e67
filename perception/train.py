"""Training one circuit alone: a LoRA adapter on vision and language side, the base and the other circuit untouched.

STATED by the authors: selective training of perception, at the lowest resolution, adapter swapped in for stage 1 only.
Rank, alpha, epochs and "both sides" come from second-hand accounts. The rest is our choice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from peft import LoraConfig
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from backbone.errors import ConfigError, DataError, ModelError
from backbone.local import LocalVLM
from backbone.training import TrainingConfig, TrainingResult, train
from perception.data import Circuit, Record

IGNORE = -100
# Attention and MLP of every language layer, and of every block of the vision tower in all Qwen-VL families.
TARGETS = (
    r".*language_model\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
    r"|.*visual\.blocks\.\d+\.(attn\.(qkv|proj)|mlp\.(linear_fc1|linear_fc2|fc1|fc2|gate_proj|up_proj|down_proj))"
)


@dataclass(frozen=True)
class CircuitTraining:
    """Settings of one circuit's training."""

    circuit: Circuit = "perception"
    rank: int = 16  # second-hand account of the paper
    alpha: int = 32  # second-hand account of the paper
    epochs: float = 2.0  # second-hand account of the paper
    batch: int = 64  # OUR CHOICE
    accumulate: int = 8  # OUR CHOICE: ``batch`` is reached in so many passes
    learning_rate: float = 1e-4  # OUR CHOICE: cosine
    warmup_fraction: float = 0.03  # OUR CHOICE
    precision: str = "bf16"
    sharding: Literal["none", "full"] = "none"  # full: under torchrun, each process holds a piece of every weight
    seed: int = 0
    steps: int | None = None  # instead of ``epochs``
    targets: str = field(default=TARGETS, repr=False)

    def __post_init__(self) -> None:
        for key in ("rank", "alpha", "batch", "accumulate"):
            if getattr(self, key) < 1:
                raise ConfigError(f"{key} must be at least 1, got {getattr(self, key)}")
        if self.batch % self.accumulate:
            raise ConfigError(f"batch {self.batch} must be a multiple of accumulate {self.accumulate}")
        if not self.epochs > 0 or (self.steps is not None and self.steps < 1):
            raise ConfigError(f"epochs and steps must be positive, got {self.epochs} and {self.steps}")

    def training(self, records: int) -> TrainingConfig:
        """The settings of the shared loop for so many records."""
        return TrainingConfig(
            steps=self.steps or max(1, math.ceil(self.epochs * records / self.batch)),
            learning_rate=self.learning_rate,
            warmup_fraction=self.warmup_fraction,
            accumulate=self.accumulate,
            precision=self.precision,  # type: ignore[arg-type] # checked there
            sharding=self.sharding,
            seed=self.seed,
        )


def train_circuit(
    vlm: LocalVLM, records: Sequence[Record], output: Path, settings: CircuitTraining, *, resume: bool = True
) -> TrainingResult:
    """Train a fresh adapter named after its circuit and save it as a PEFT directory in ``output/adapter``.

    It stays attached under that name here. Elsewhere: ``vlm.adapters.attach("perception", output / "adapter")``, then
    ``PerceptionConfig(perception_adapter="perception")``.

    Raises:
        DataError: no records, or records of the other circuit.
        ConfigError: an adapter of that name is attached already.
        ModelError: the model has no layers that the adapter could go on.
    """
    wrong = [record.id for record in records if record.circuit != settings.circuit]
    if not records or wrong:
        raise DataError(
            f"need {settings.circuit} records, got {len(records)}, {len(wrong)} of another circuit {wrong[:3]}"
        )
    name = settings.circuit
    lora = LoraConfig(r=settings.rank, lora_alpha=settings.alpha, target_modules=settings.targets)
    torch.manual_seed(settings.seed)
    vlm.adapters.attach(name, lora)
    weights = vlm.adapters.trainable(name)
    if not weights:
        raise ModelError(f"{vlm.name}: no layer matches the adapter's targets {settings.targets}")
    batches = Batches(vlm, records, settings.batch // settings.accumulate, settings.seed)
    try:
        result = train(
            vlm.model,
            batches.at,
            lambda model, batch: loss(vlm, name, model, batch),
            settings.training(len(records)),
            output,
            resume=resume,
            config_record={"circuit": asdict(settings), "records": len(records), "model": vlm.name},
        )
    finally:
        for weight in weights:
            weight.requires_grad_(False)
    if int(os.environ.get("RANK", "0")) == 0:  # under torchrun all processes hold the same weights
        vlm.adapters.save(name, output / "adapter")
    return result


def loss(
    vlm: LocalVLM, adapter: str | None, model: nn.Module, batch: dict[str, Tensor]
) -> tuple[Tensor, dict[str, float | Tensor]]:
    """Mean cross-entropy over the target tokens of a batch, with the adapter active."""
    with vlm.adapters.active(adapter):
        logits = model(**{k: v for k, v in batch.items() if k != "labels"}, use_cache=False).logits  # (B, T, V)
    following = batch["labels"][:, 1:]  # (B, T - 1)
    wanted = following != IGNORE
    predicted = logits[:, :-1][wanted].float()  # (N, V)
    value = nn.functional.cross_entropy(predicted, following[wanted])
    right = (predicted.argmax(-1) == following[wanted]).float().mean()
    return value, {"token_accuracy": right}


class Batches:
    """Batches as a pure function of their number: every epoch is a new permutation drawn from the seed."""

    def __init__(self, vlm: LocalVLM, records: Sequence[Record], size: int, seed: int) -> None:
        """``size`` records a batch."""
        self._processor, self._records, self._size, self._seed = vlm.processor, records, size, seed
        self._end = "<|im_end|>"

    def at(self, index: int) -> dict[str, Tensor]:
        """Batch ``index``: padded on the right, labels only on targets."""
        count = len(self._records)
        picked = []
        for position in range(index * self._size, (index + 1) * self._size):
            order = np.random.default_rng([self._seed, position // count]).permutation(count)
            picked.append(self._encode(self._records[int(order[position % count])]))
        padding: dict[str, float] = {"input_ids": self._pad, "labels": IGNORE}
        batch: dict[str, Tensor] = {}
        for key in picked[0]:
            rows = [row[key] for row in picked]
            if key in ("pixel_values", "image_grid_thw"):
                batch[key] = torch.cat(rows)
            else:
                batch[key] = pad_sequence(rows, batch_first=True, padding_value=padding.get(key, 0))
        return batch

    @property
    def _pad(self) -> int:
        return int(self._processor.tokenizer.pad_token_id)

    def _encode(self, record: Record) -> dict[str, Tensor]:
        """One record; everything of shape (T,) except pixels and grids."""
        messages = [
            {**m, "content": [p if p["type"] == "text" else {"type": "image"} for p in m["content"]]}
            for m in record.messages()
        ]
        text = self._processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        made: dict[str, Any] = dict(self._processor(text=[text], images=list(record.images), return_tensors="pt"))
        # The prompt ends in a newline, after which Qwen's tokenizer always begins a new token.
        target = self._processor.tokenizer(record.target + self._end, add_special_tokens=False, return_tensors="pt")
        ids, reply = made.pop("input_ids")[0], target["input_ids"][0]
        row = {
            "input_ids": torch.cat([ids, reply]),
            "labels": torch.cat([torch.full_like(ids, IGNORE), reply]),
            "attention_mask": torch.ones(len(ids) + len(reply), dtype=torch.long),
        }
        del made["attention_mask"]
        for key, value in made.items():
            per_token = value.ndim == 2 and value.shape == (1, len(ids))  # mm_token_type_ids: 0 is text
            row[key] = torch.cat([value[0], torch.zeros_like(reply, dtype=value.dtype)]) if per_token else value
        return row
