"""How the interpreters of simulators are built: one recipe a world, pinned, into a folder of its own.

A recipe is a module with ``install(path, python, log)``: build an environment in the empty folder ``path`` whose
interpreter is ``path/bin/python``, from the interpreter ``python``, telling ``log`` each step. It raises `WorldError`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from apps.names import no_such
from backbone.errors import ConfigError

Log = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """Where a recipe lives, the Python versions it is pinned for, and the files (globs) that are its content."""

    module: str
    pythons: tuple[str, ...]
    files: tuple[str, ...]
    size: str  # for people: what it downloads and takes

    def version(self) -> str:
        """A digest of the recipe's files: an environment of another digest is out of date."""
        digest = hashlib.sha256()
        here = Path(__file__).parent
        for path in sorted(path for pattern in self.files for path in here.glob(pattern) if path.is_file()):
            digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()[:16]


RECIPES: dict[str, Recipe] = {
    "habitat": Recipe(
        "apps.environments.habitat.install", ("3.13",), ("habitat/*",), "0.2 GB to download, 0.7 GB on disk"
    ),
    "metadrive": Recipe(
        "apps.environments.metadrive", ("3.11",), ("metadrive.txt",), "0.2 GB to download, 0.9 GB on disk"
    ),
    "libero": Recipe("apps.environments.libero", ("3.11",), ("libero.txt",), "0.9 GB to download, 2.1 GB on disk"),
}


def find_recipe(name: str) -> Recipe:
    """The recipe of a world; an unknown name, or a world that needs none, is a `ConfigError`."""
    from apps.worlds import WORLDS

    if name in RECIPES:
        return RECIPES[name]
    if name in WORLDS:
        raise ConfigError(f"{name} runs in Fovea's own interpreter; run: {WORLDS[name].remedy}")
    raise no_such("world to install", name, RECIPES)
