"""The published ObjectNav benchmarks as settings of `habitat`, for whoever has their licensed scenes and episode files.

Body, camera height, sliding and radius of success are those of each benchmark's own configuration; the picture is the
paper's 640 x 480 for all of them (section 2.2). The files are named with ``episodes`` and ``scenes``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from backbone.errors import ConfigError
from backbone.worlds.world import WorldConfig

Config = TypeVar("Config", bound=WorldConfig)

_LOCOBOT: dict[str, Any] = {
    "hfov_deg": 79.0,
    "camera_height": 0.88,
    "agent_height": 0.88,
    "agent_radius": 0.18,
    "max_steps": 500,
    "success_distance": 0.1,
}
# Stretch, as in OVON's own code: a higher camera, a wider radius of success, and walls that let it slide along.
_STRETCH = {
    **_LOCOBOT,
    "camera_height": 1.31,
    "agent_height": 1.41,
    "agent_radius": 0.17,
    "success_distance": 0.25,
    "allow_sliding": True,
}


@dataclass(frozen=True)
class Benchmark:
    """A published set of episodes: how many there are, where its files usually lie, and its settings."""

    episodes: int
    files: str  # of the episodes, below the folder habitat-lab calls data
    settings: Mapping[str, Any] = field(default_factory=lambda: _LOCOBOT)


BENCHMARKS: dict[str, Benchmark] = {
    "hm3d-v1": Benchmark(2000, "datasets/objectnav/hm3d/v1/val/val.json.gz"),
    "hm3d-v2": Benchmark(1000, "datasets/objectnav/hm3d/v2/val/val.json.gz"),
    "mp3d": Benchmark(2195, "datasets/objectnav/mp3d/v1/val/val.json.gz"),
    "ovon-seen": Benchmark(3000, "datasets/ovon/hm3d/v1/val_seen/val_seen.json.gz", _STRETCH),
    "ovon-synonyms": Benchmark(3000, "datasets/ovon/hm3d/v1/val_unseen_easy/val_unseen_easy.json.gz", _STRETCH),
    "ovon-unseen": Benchmark(3000, "datasets/ovon/hm3d/v1/val_unseen_hard/val_unseen_hard.json.gz", _STRETCH),
}


def benchmark(name: str) -> Benchmark:
    """A benchmark by name; an unknown one is a `ConfigError` that lists them and names the closest."""
    if name not in BENCHMARKS:
        close = difflib.get_close_matches(name, BENCHMARKS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}{hint}")
    return BENCHMARKS[name]


def with_settings(config: Config, settings: Mapping[str, Any], where: str) -> Config:
    """``config`` with ``settings``, but for the fields that were set to something else than their defaults.

    Raises:
        ConfigError: the config has no such field.
    """
    known = {f.name: f.default for f in fields(config)}  # type: ignore[arg-type] # configs are dataclasses
    missing = sorted(set(settings) - set(known))
    if missing:
        raise ConfigError(f"{where} needs a world with {', '.join(missing)}; {config.world} has none, choose habitat")
    changes = {name: value for name, value in settings.items() if getattr(config, name) == known[name]}
    return replace(config, **changes)  # type: ignore[type-var] # likewise
