"""Named LoRA adapters on a loaded model, through PEFT: attach, activate for one call, merge with proof, unmerge."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model, set_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from backbone.errors import ConfigError, ModelError

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}  # of the largest logit


class Adapters:
    """The adapters of one model. None is active unless a call asks for one."""

    def __init__(self, model: torch.nn.Module, probe: Callable[[], Tensor], lock: AbstractContextManager[Any]) -> None:
        """``probe`` gives logits of a fixed input, which `merge` compares; ``lock`` (re-entrant) guards the model."""
        self._model, self._probe, self._lock = model, probe, lock
        self._configs: dict[str, LoraConfig] = {}
        self._on: str | None = None
        self._originals: dict[str, Tensor] = {}
        self.merged: str | None = None
        self.version = 0  # grows whenever what a name or the base stands for changes

    @property
    def names(self) -> tuple[str, ...]:
        """Attached adapters."""
        return tuple(self._configs)

    def attach(self, name: str, source: str | Path | LoraConfig) -> None:
        """Add an adapter from a PEFT directory, or a fresh one (which changes nothing yet) from a config.

        Raises:
            ConfigError: the name is taken or not usable.
            ModelError: the directory is incomplete, not LoRA, or does not fit this model's layers.
        """
        with self._lock:
            if name in self._configs or not name or "." in name:
                raise ConfigError(f"adapter name {name!r} is taken or not usable; attached: {list(self.names)}")
            self._check_unmerged()
            config, state = (source, None) if isinstance(source, LoraConfig) else _read(Path(source))
            try:
                self._inject(name, config)
                if state is not None:
                    self._fill(name, state, source)
            finally:
                self._switch(None)  # PEFT activates what it injects
            self._configs[name] = config
            self._freeze(name)
            self.version += 1

    def _inject(self, name: str, config: LoraConfig) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Already found a `peft_config`")  # several adapters are the point
            try:
                inject_adapter_in_model(config, self._model, name)
            except ValueError as error:
                raise ModelError(f"adapter {name!r} does not fit the model: {error}") from error

    def _fill(self, name: str, state: dict[str, Tensor], source: Any) -> None:
        try:
            result: Any = set_peft_model_state_dict(self._model, state, name)
        except (RuntimeError, KeyError) as error:
            self._remove(name)
            raise ModelError(f"adapter {name!r} from {source}: {error}") from error
        missing = [k for k in result.missing_keys if f".{name}." in k]
        if missing or result.unexpected_keys:
            self._remove(name)
            unexpected = list(result.unexpected_keys)
            raise ModelError(
                f"adapter {name!r} from {source}: missing weights {missing[:5]}, unexpected weights {unexpected[:5]}"
            )

    def _freeze(self, name: str) -> None:
        for key, parameter in self._model.named_parameters():
            if f".{name}." in key:
                parameter.requires_grad_(False)

    def _layers(self) -> Iterator[BaseTunerLayer]:
        return (m for m in self._model.modules() if isinstance(m, BaseTunerLayer))

    def _remove(self, name: str) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=f"Adapter {name} was active")
            for layer in self._layers():
                layer.delete_adapter(name)
        getattr(self._model, "peft_config", {}).pop(name, None)

    def _switch(self, name: str | None) -> None:
        for layer in self._layers():
            if name is not None:
                layer._active_adapter = [name]  # set_adapter() would also decide what is trainable
            layer._disable_adapters = name is None
        self._on = name

    @contextmanager
    def active(self, name: str | None) -> Iterator[None]:
        """Only ``name`` takes effect inside; raises `ModelError` for an unknown one, listing those attached."""
        with self._lock:
            self._check_known(name)
            before, wanted = self._on, self._on if self.merged is not None else name
            if wanted != before:
                self._switch(wanted)
            try:
                yield
            finally:
                if wanted != before:
                    self._switch(before)

    def _check_known(self, name: str | None) -> None:
        if name is not None and name not in self._configs:
            raise ModelError(f"no adapter {name!r} is attached; attached: {list(self.names)}")
        if self.merged is not None and name not in (None, self.merged):
            raise ModelError(f"adapter {self.merged!r} is merged into the weights; unmerge it before using {name!r}")

    def trainable(self, name: str) -> list[torch.nn.Parameter]:
        """Make the adapter's weights trainable and return them; all other weights stay as they are."""
        self._check_known(name)
        self._check_unmerged()
        weights = [p for key, p in self._model.named_parameters() if f".{name}." in key]
        for parameter in weights:
            parameter.requires_grad_(True)
        return weights

    def merge(self, name: str) -> float:
        """Fold an adapter into the base weights for speed; returns the largest change of a probe's logits.

        The original weights are kept, so that `unmerge` restores them bit by bit. Raises `ModelError`, leaving the
        model as it was, if the logits differ by more than rounding.
        """
        with self._lock:
            self._check_unmerged()
            with self.active(name):
                wanted = self._probe()
            self._fold(name)
            difference = float((self._probe() - wanted).abs().max())
            limit = TOLERANCE[next(self._model.parameters()).dtype] * max(float(wanted.abs().max()), 1.0)
            if not difference <= limit:
                self.unmerge()
                raise ModelError(
                    f"merging {name!r} changed the logits by {difference:.3g} (allowed {limit:.3g}); it was not merged"
                )
            return difference

    def _fold(self, name: str) -> None:
        modules = self._model.named_modules()
        layers: dict[str, Any] = {k: m for k, m in modules if isinstance(m, LoraLayer) and name in m.lora_A}
        self._originals = {k: m.get_base_layer().weight.detach().clone() for k, m in layers.items()}
        self._switch(name)
        for layer in layers.values():
            layer.merge(safe_merge=True, adapter_names=[name])
        self.merged = name
        self.version += 1

    def unmerge(self) -> None:
        """Restore the base weights exactly; the adapter stays attached."""
        with self._lock:
            if self.merged is None:
                raise ModelError("no adapter is merged")
            modules = dict(self._model.named_modules())
            with torch.no_grad():
                for key, original in self._originals.items():
                    layer: Any = modules[key]
                    layer.get_base_layer().weight.copy_(original)
                    layer.merged_adapters.clear()
            self._originals, self.merged = {}, None
            self._switch(None)
            self.version += 1

    def save(self, name: str, directory: str | Path) -> None:
        """Write a PEFT directory: ``adapter_config.json`` and ``adapter_model.safetensors``."""
        self._check_known(name)
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        state = get_peft_model_state_dict(self._model, adapter_name=name)
        save_file(
            {f"base_model.model.{k}": v.detach().contiguous().cpu() for k, v in state.items()}, directory / WEIGHTS
        )
        self._configs[name].save_pretrained(str(directory))

    def _check_unmerged(self) -> None:
        if self.merged is not None:
            raise ModelError(f"adapter {self.merged!r} is merged into the weights; unmerge it first")


def _read(directory: Path) -> tuple[LoraConfig, dict[str, Tensor]]:
    try:
        kind = json.loads((directory / CONFIG).read_text()).get("peft_type")
        if kind != "LORA":
            raise ModelError(f"{directory}: expected a LORA adapter, got {kind}")
        config = LoraConfig.from_pretrained(str(directory))
        state = load_file(directory / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(
            f"{directory}: expected a PEFT adapter with {CONFIG} and {WEIGHTS}; pickled weights are not read: {error}"
        ) from error
    prefix = "base_model.model."
    return config, {k.removeprefix(prefix): v for k, v in state.items()}
