"""The worlds by name. Each is imported only when asked for, because each brings a simulator."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import cast

from apps.names import no_such
from apps.plugins import is_plugin, load_plugin
from backbone.worlds.world import WorldConfig


@dataclass(frozen=True)
class WorldEntry:
    """Where a world's config class lives, what the world is for, and how its simulator gets installed."""

    module: str
    config: str
    summary: str
    system: str  # navigation, vla or driving
    remedy: str


WORLDS: dict[str, WorldEntry] = {
    "rooms": WorldEntry(
        "navigation.worlds.rooms", "RoomsConfig", "generated homes", "navigation", "pip install -e '.[worlds]'"
    ),
    "habitat": WorldEntry(
        "navigation.worlds.habitat",
        "HabitatConfig",
        "the same homes, or HM3D and MP3D, in habitat-sim",
        "navigation",
        "fovea worlds install habitat",
    ),
    "metaworld": WorldEntry(
        "vla.worlds.metaworld", "MetaWorldConfig", "50 table-top tasks of an arm", "vla", "pip install -e '.[worlds]'"
    ),
    "libero": WorldEntry(
        "vla.worlds.libero", "LiberoConfig", "LIBERO's five suites", "vla", "fovea worlds install libero"
    ),
    "highway": WorldEntry(
        "driving.worlds.highway",
        "HighwayConfig",
        "highway-env's traffic through three cameras",
        "driving",
        "pip install -e '.[worlds]'",
    ),
    "metadrive": WorldEntry(
        "driving.worlds.metadrive",
        "MetaDriveConfig",
        "MetaDrive's maps and recorded logs",
        "driving",
        "fovea worlds install metadrive",
    ),
}


def world_config_class(name: str) -> type[WorldConfig]:
    """The config class of a world or of your own ``package.module:Class``; the closest name answers an unknown one."""
    if is_plugin(name):
        return cast(type[WorldConfig], load_plugin(name, "world", "options", "make"))
    if name not in WORLDS:
        raise no_such("world", name, WORLDS)
    entry = WORLDS[name]
    return cast(type[WorldConfig], getattr(importlib.import_module(entry.module), entry.config))
