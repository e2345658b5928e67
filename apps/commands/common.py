"""Options that commands share, and the choice of a system's settings for a model."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import assets
from backbone.errors import ConfigError, ModelError
from perception.config import PerceptionConfig

if TYPE_CHECKING:
    from backbone.vlm import VLM

DEVICE = re.compile(r"auto|cpu|mps|xpu|cuda(:\d+)?")
PRUNED_BELOW = 10_000  # entries; nano has 4,122, the families' own vocabularies over 150,000


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which weights run where."""

    model: str = "nano"  # nano, a hub id, a local directory, or http://host:port/v1#model
    device: str = "auto"  # auto, cpu, cuda, cuda:1, ...
    seed: int = 0  # of everything that is sampled

    def check(self) -> None:
        """Find what cannot be loaded before anything slow is imported.

        Raises:
            ConfigError: a device of no known name, or a negative seed.
            ModelError: the name of a directory that does not exist.
        """
        if not DEVICE.fullmatch(self.device):
            raise ConfigError(f"unknown device {self.device!r}; use auto, cpu, cuda or cuda:N")
        if self.seed < 0:
            raise ConfigError(f"--seed must not be negative, got {self.seed}")
        if self.model.startswith((".", "/", "~")) and not Path(self.model).expanduser().exists():
            raise ModelError(f"model directory {self.model} does not exist")

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
    zoom_temperature: float = 0.0  # of the zoom loop's turns; 0 is greedy, as with the other methods
    zoom_top_p: float = 1.0  # of the same: draw from the likeliest tokens alone that have this probability together
    max_crops: int | None = None  # most close-ups
    perception_adapter: str | None = None  # of the looking circuit: a LoRA directory, or a name the server knows
    reasoning_adapter: str | None = None  # of the answering circuit, likewise

    def config(self, model: str) -> PerceptionConfig:
        """The model's preset with these options; impossible ones raise `ConfigError`. Adapters come by `attach`."""
        if "://" not in model:
            self._check_adapters()
        given = {"temperature": self.temperature, "max_crops": self.max_crops}
        given |= {"zoom_temperature": self.zoom_temperature, "zoom_top_p": self.zoom_top_p}
        changes = {key: value for key, value in given.items() if value is not None}
        base = PerceptionConfig.preset(preset_name(model))
        return replace(base, method=self.method, regime=self.regime, rollouts=self.rollouts, **changes)  # type: ignore[arg-type]

    def _check_adapters(self) -> None:
        for circuit, source in (("perception", self.perception_adapter), ("reasoning", self.reasoning_adapter)):
            if source is not None and not Path(source).is_dir():
                raise ConfigError(f"--{circuit}-adapter {source}: no such directory; give one that training wrote")

    def attach(self, vlm: VLM, config: PerceptionConfig) -> PerceptionConfig:
        """``config`` with the adapters asked for, which are attached to ``vlm`` if it is local."""
        from backbone.local import LocalVLM

        names: dict[str, str] = {}
        for circuit, source in (("perception", self.perception_adapter), ("reasoning", self.reasoning_adapter)):
            if source is None:
                continue
            if isinstance(vlm, LocalVLM):
                vlm.adapters.attach(circuit, source)
            names[f"{circuit}_adapter"] = circuit if isinstance(vlm, LocalVLM) else source
        return replace(config, **names)  # type: ignore[arg-type]

    def adapters_version(self) -> str:
        """SHA-256 over the weights of local adapters, in words that join `weights_version`; empty without any."""
        found = [("perception", self.perception_adapter), ("reasoning", self.reasoning_adapter)]
        return "".join(f" {circuit} {weights_version(source)}" for circuit, source in found if source)


def check_folder(folder: Path | None, flag: str = "--output") -> None:
    """Make the directory, before anything slow is done for it; `ConfigError` if there can be none to write into."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{flag} {folder} is a file; give a directory, which is made if need be")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{flag} {folder} cannot be made ({error.strerror}); choose another directory") from error
    _check_writable(folder, f"{flag} {folder}")


def check_file(file: Path | None, flag: str) -> None:
    """Raise `ConfigError` if no file can be written there, before anything slow is done for it; makes nothing."""
    if file is None:
        return
    if file.is_dir():
        raise ConfigError(f"{flag} {file} is a directory; give the name of a file")
    if not file.parent.is_dir():
        raise ConfigError(f"{flag} {file}: {file.parent} is no directory; make it first, or give another file")
    _check_writable(file.parent, f"{flag} {file}")


def _check_writable(folder: Path, what: str) -> None:
    """By writing: permissions do not tell of every file system."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"{what} cannot be written to ({error.strerror}); choose another directory") from error


def token_from(variable: str | None, flag: str = "--token-env") -> str | None:
    """The secret in the environment variable that ``flag`` names; raises `ConfigError` if it holds none."""
    if variable is None:
        return None
    token = os.environ.get(variable)
    if not token:
        raise ConfigError(f"{flag} {variable}: there is no such environment variable; export it first")
    return token


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
    """The perception preset that suits a model: nano's own prompts for nano's vocabulary, else the family's."""
    if model == "nano" or _has_nano_vocabulary(Path(model)):
        return "nano"
    return "qwen2.5-vl-3b" if "qwen2.5" in model.lower() or "qwen2_5" in model.lower() else "qwen3-vl-4b"


def _has_nano_vocabulary(folder: Path) -> bool:
    """Whether a directory holds a model with the pruned vocabulary: one that was trained as nano is."""
    path = folder / "config.json"
    if not path.is_file():
        return False
    try:
        size = json.loads(path.read_text("utf-8")).get("text_config", {}).get("vocab_size", 0)
    except (OSError, ValueError, AttributeError):
        return False  # loading the model will say what is wrong with the file
    return isinstance(size, int) and 0 < size < PRUNED_BELOW
