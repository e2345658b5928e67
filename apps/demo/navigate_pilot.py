"""The model that steers in the Navigate tab, loaded when it is first needed and shared by all."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from backbone.local import LocalVLM
from backbone.vlm import VLM
from navigation.agent_config import HydraConfig, load, resolved_adapter

NONE_NAMED = ("", "auto")  # no adapter of the user's


@dataclass(frozen=True)
class Steering:
    """A model with the name under which its adapter is attached, and what to call the two."""

    vlm: VLM
    adapter: str | None
    words: str


@dataclass(frozen=True, eq=False)
class Pilot:
    """Which model steers. It is the demo's own, unless that one was loaded for other sizes of pictures."""

    hydra: HydraConfig = field(default_factory=HydraConfig)
    _loaded: list[Steering] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def steering(self, own: VLM) -> Steering:
        """The model, loaded at the first call; ``own`` is the demo's. Raises `ModelError` or `RemoteError`."""
        with self._lock:
            if not self._loaded:
                self._loaded.append(self._load(own))
            return self._loaded[0]

    def _load(self, own: VLM) -> Steering:
        hydra = self.hydra
        config = hydra.navigation()
        fits = hydra.adapter in NONE_NAMED
        if isinstance(own, LocalVLM):
            sized = config.pixels(own.pixels) == own.pixels
            fits = sized and not resolved_adapter(hydra.model, hydra.adapter)
        if fits:
            return Steering(own, None, adapter_words(own.name, None))
        vlm, adapter = load(hydra.model, config, hydra.adapter, hydra.device, hydra.cache_mebibytes)
        trained = resolved_adapter(hydra.model, hydra.adapter)  # an adapter, or a whole model in place of the one named
        return Steering(vlm, adapter, adapter_words(hydra.model, trained))


def adapter_words(model: str, adapter: str | None) -> str:
    """The model in words that say what it was trained to; a directory by its last two names."""
    if not adapter:
        return f"{model} without an adapter" + (", not trained to find objects" if model == "nano" else "")
    return f"{model} with the weights of {'/'.join(Path(adapter).parts[-2:])}"
