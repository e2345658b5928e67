"""Options that commands share, and the choice of a system's settings for a model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import assets
from perception.config import PerceptionConfig

if TYPE_CHECKING:
    from backbone.vlm import VLM


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which weights run where."""

    model: str = "nano"  # nano, a hub id, a local directory, or http://host:port/v1#model
    device: str = "auto"  # auto, cpu, cuda, cuda:1, ...
    seed: int = 0  # of everything that is sampled

    def load(self) -> VLM:
        """Load the model; torch is imported only here."""
        from backbone.vlm import VLM

        return VLM.load(self.model, device=self.device)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How perception looks; what is not given stays as the model's preset has it."""

    method: Literal["sparc", "native", "zoom"] = "sparc"  # search then answer, one pass, or the zoom-tool loop
    regime: Literal[256, 512, "full"] = 256  # longest side in pixels of the picture searched
    rollouts: int = 4  # perception samples, fused; 1 is greedy
    temperature: float | None = None  # of the perception samples
    max_crops: int | None = None  # most close-ups
    perception_adapter: str | None = None  # LoRA adapter of the looking circuit
    reasoning_adapter: str | None = None  # LoRA adapter of the answering circuit

    def config(self, model: str) -> PerceptionConfig:
        """The model's preset with these options; impossible ones raise `ConfigError`."""
        given = {
            "temperature": self.temperature,
            "max_crops": self.max_crops,
            "perception_adapter": self.perception_adapter,
            "reasoning_adapter": self.reasoning_adapter,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        base = PerceptionConfig.preset(preset_name(model))
        return replace(base, method=self.method, regime=self.regime, rollouts=self.rollouts, **changes)  # type: ignore[arg-type]


def weights_version(model: str) -> str:
    """SHA-256 over the weight files of ``nano`` or a local directory; empty for hub ids and servers."""
    folder = assets.NANO if model == "nano" else Path(model)
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def preset_name(model: str) -> str:
    """The perception preset that suits a model's name."""
    if model == "nano":
        return "nano"
    return "qwen2.5-vl-3b" if "qwen2.5" in model.lower() or "qwen2_5" in model.lower() else "qwen3-vl-4b"
