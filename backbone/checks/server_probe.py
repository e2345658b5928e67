"""A policy server under examination: how it is reached, what is sent to it, what was learnt of it so far."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

from backbone.checks.report import Wrong
from backbone.errors import DataError
from backbone.serving.client import PolicyClient
from backbone.serving.codec import DTYPES

Keys = Mapping[str, Mapping[str, Any]]  # observation key -> {"shape": [...], "dtype": "uint8"}; a text has dtype "str"
_PICTURE, _TEXT = {"shape": [224, 224, 3], "dtype": "uint8"}, {"dtype": "str"}
PRESETS: dict[str, Keys] = {
    "libero": {
        "observation/image": _PICTURE,
        "observation/wrist_image": _PICTURE,
        "observation/state": {"shape": [8], "dtype": "float32"},
        "prompt": _TEXT,
    },
    "droid": {
        "observation/exterior_image_1_left": _PICTURE,
        "observation/wrist_image_left": _PICTURE,
        "observation/joint_position": {"shape": [7], "dtype": "float32"},
        "observation/gripper_position": {"shape": [1], "dtype": "float32"},
        "prompt": _TEXT,
    },
    "aloha": {
        "images": {
            name: {"shape": [3, 224, 224], "dtype": "uint8"}
            for name in ("cam_high", "cam_low", "cam_left_wrist", "cam_right_wrist")
        },
        "state": {"shape": [14], "dtype": "float32"},
        "prompt": _TEXT,
    },
}


@dataclass
class ServerProbe:
    """The server under examination, and what was learnt of it so far."""

    url: str
    token: str | None = None
    keys: Keys | None = None  # None: as the metadata says
    prompt: str = ""  # for keys that are texts; empty: the example in the metadata
    timeout_s: float = 10.0
    requests: int = 50
    hostile: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None

    def client(self) -> PolicyClient:
        """A new connection."""
        return PolicyClient(self.url, token=self.token, timeout_s=self.timeout_s, connect_timeout_s=self.timeout_s)

    def link(self) -> AbstractContextManager[ClientConnection]:
        """A new connection that says nothing by itself."""
        headers = {"Authorization": f"Api-Key {self.token}"} if self.token else {}
        return connect(
            self.url, additional_headers=headers, compression=None, max_size=2**24, close_timeout=0.5, proxy=None
        )

    @property
    def seeded(self) -> bool:
        """Whether the server takes seeds and resets with observations."""
        return "seed" in (self.metadata.get("resets") or ())

    def observation(self, number: int, **more: Any) -> dict[str, Any]:
        """A made-up observation; equal for equal ``number``."""
        keys = self.keys or self.metadata.get("observation_keys")
        if not isinstance(keys, Mapping) or not keys:
            raise DataError(
                "the metadata has no observation_keys, so nobody can know what to send; give the keys by hand "
                f"(--like {'|'.join(PRESETS)}, or --keys FILE.json)"
            )
        generator = np.random.default_rng(number)
        made = {key: self._value(entry, generator, key) for key, entry in keys.items()}
        return {**made, **(more if self.seeded else {})}

    def _value(self, entry: Any, generator: np.random.Generator, key: str) -> Any:
        if not isinstance(entry, Mapping):
            raise Wrong(f"observation key {key}: expected a map with shape and dtype, got {entry!r:.80}")
        if entry.get("dtype") == "str":
            return self.prompt or entry.get("example") or "check"
        if "dtype" not in entry:  # a map of keys
            return {name: self._value(inner, generator, f"{key}/{name}") for name, inner in entry.items()}
        if entry["dtype"] not in DTYPES:
            raise Wrong(f"observation key {key}: dtype {entry['dtype']!r} is none of {', '.join(sorted(DTYPES))}")
        shape = [64 if size is None else int(size) for size in entry.get("shape", ())]
        dtype = DTYPES[entry["dtype"]]
        if dtype.kind == "f":
            return generator.uniform(0.0, 1.0, shape).astype(dtype)
        return generator.integers(0, 256 if dtype.itemsize == 1 else 1000, shape).astype(dtype)
