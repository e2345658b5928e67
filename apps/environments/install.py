"""Building, trying and marking the environment of a world."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import importlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from apps.environments import RECIPES, Log, Recipe, find_recipe
from apps.environments.building import find_python
from apps.worlds import world_config_class
from backbone.errors import ConfigError, UnsupportedError, WorldError
from backbone.rollout.agents import resting_action
from backbone.worlds.environments import (
    Environment,
    environment_path,
    environment_python,
    read_environment,
    write_environment,
)

State = Literal["ready", "missing", "outdated", "broken"]


@dataclass(frozen=True)
class Installed:
    """The result of an installation: the interpreter, whether it was built now, and what the trial saw."""

    python: Path
    built: bool
    trial: str


def install(
    name: str, log: Log, *, python: Path | None = None, base: Path | None = None, force: bool = False
) -> Installed:
    """Make the environment of a world, or record the user's own ``python`` that has the simulator already.

    ``base`` is the interpreter to build with. What was left half built is built anew; what is finished and up to date
    is only tried, unless ``force``. Raises `ConfigError` for an unknown world, `WorldError` if a step fails.
    """
    recipe = find_recipe(name)
    with _one_at_a_time(name):
        state, _ = environment_state(name)
        if python is not None:
            if state in ("ready", "outdated") and not force:
                raise ConfigError(f"{name} is installed in {environment_path(name)}; --force replaces it")
            return _record(name, python, log)
        if state == "ready" and not force:
            found = environment_python(name)
            return Installed(found, False, trial(name, found, log))
        return _build(name, recipe, base, log)


def environment_state(name: str) -> tuple[State, str]:
    """Whether a world's environment can be used, and a line about it."""
    try:
        environment = read_environment(name)
        if environment is None:
            half = environment_path(name).is_dir()
            return "missing", "left half built" if half else "not installed"
        python = environment_python(name)
    except WorldError as error:
        return "broken", str(error).partition(";")[0]
    if environment.recipe and environment.recipe != RECIPES[name].version():
        return "outdated", f"{python} was made by an older recipe"
    return "ready", str(python)


def trial(name: str, python: Path, log: Log) -> str:
    """Open the world with ``python``, begin an episode, take the expert's first step; a line about what was seen.

    A world without an expert (LIBERO ships none) is tried with the action that rests.
    """
    log(f"trying it: one step of {name}")
    kind: Any = world_config_class(name)
    if "python" not in {field.name for field in dataclasses.fields(kind)}:
        raise ConfigError(f"{kind.__name__} has no option python, so another interpreter cannot be chosen")
    config = kind(python=str(python))
    world = config.make()
    try:
        observation, _ = world.reset(seed=0, options=config.options(0))
        try:
            action = np.asarray(world.expert_action(), np.float32)
        except UnsupportedError:
            action = np.array(resting_action(world.action_spec), np.float32)
        world.step(action)
    finally:
        world.close()
    about = getattr(world, "about", {})
    cameras = ", ".join(f"{key} {image.shape[1]}x{image.shape[0]}" for key, image in observation.images.items())
    return f"Python {about.get('python', '?')}, NumPy {about.get('numpy', '?')}, cameras: {cameras}"


def _record(name: str, python: Path, log: Log) -> Installed:
    found = environment_python(name, python)
    if found.is_relative_to(environment_path(name)):
        raise ConfigError(f"{found} lies in the folder that is replaced; without --python that is built anew")
    seen = trial(name, found, log)
    shutil.rmtree(environment_path(name), ignore_errors=True)
    write_environment(Environment(name, str(found)))
    return Installed(found, False, seen)


def _build(name: str, recipe: Recipe, base: Path | None, log: Log) -> Installed:
    chosen = find_python(recipe.pythons, base)
    path = environment_path(name)
    if path.exists():
        log(f"removing {path}")
        shutil.rmtree(path)
    path.mkdir(parents=True)
    importlib.import_module(recipe.module).install(path, chosen, log)
    python = path / "bin" / "python"
    seen = trial(name, environment_python(name, python), log)
    write_environment(Environment(name, str(python), recipe.version()))
    return Installed(python, True, seen)


@contextlib.contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    lock = environment_path(name).with_suffix(".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WorldError(f"{name} is being installed by another process ({lock} is locked); wait for it") from error
        yield
