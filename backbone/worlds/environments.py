"""Where the interpreters of simulators live: one folder a world, with a marker that is written when it is complete."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from backbone.errors import WorldError

MARKER = "fovea-world.json"


@dataclass(frozen=True)
class Environment:
    """A finished environment: its interpreter, and the recipe it was made by (empty for the user's own interpreter)."""

    name: str
    python: str
    recipe: str = ""


def worlds_folder() -> Path:
    """``$FOVEA_WORLDS``, by default ``fovea/worlds`` in the user's cache folder."""
    named = os.environ.get("FOVEA_WORLDS")
    if named:
        return Path(named).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "fovea" / "worlds"


def environment_path(name: str) -> Path:
    """The folder of a world's environment, whether it is there or not."""
    return worlds_folder() / name


def read_environment(name: str) -> Environment | None:
    """The finished environment of a world, or None. Raises `WorldError` if its marker cannot be read."""
    marker = environment_path(name) / MARKER
    try:
        return Environment(**json.loads(marker.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise WorldError(f"{marker} is broken ({error}); run: fovea worlds install {name} --force") from error


def write_environment(environment: Environment) -> None:
    """Mark an environment as finished, atomically."""
    folder = environment_path(environment.name)
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{MARKER}.part"
    unfinished.write_text(json.dumps(asdict(environment), indent=2) + "\n", "utf-8")
    unfinished.replace(folder / MARKER)


def environment_python(name: str, override: str | os.PathLike[str] | None = None) -> Path:
    """The interpreter that runs a world: ``override`` if given, else the one of its environment.

    Raises `WorldError` with the remedy where there is none.
    """
    if override:
        given = Path(override).expanduser().absolute()  # not resolved: a venv's python is a link
        if not os.access(given, os.X_OK) or given.is_dir():
            raise WorldError(f"{name}: {given} is not a program; give the Python interpreter that has the simulator")
        return given
    environment = read_environment(name)
    if environment is None:
        raise WorldError(f"{name} has no environment in {environment_path(name)}; run: fovea worlds install {name}")
    python = Path(environment.python)
    if not os.access(python, os.X_OK):
        raise WorldError(f"{name}: its interpreter {python} is gone; run: fovea worlds install {name} --force")
    return python
