"""MetaDrive 0.3.0.1 with the NumPy 1.24 and gym 0.25 that it pins, maps, models and recorded logs in its wheel."""

from __future__ import annotations

from pathlib import Path

from apps.environments import Log
from apps.environments.building import make_environment, pip_install

REQUIREMENTS = Path(__file__).with_name("metadrive.txt")


def install(path: Path, python: Path, log: Log) -> None:
    """A virtual environment with exactly the files of `REQUIREMENTS`."""
    pip_install(make_environment(path, python, log), REQUIREMENTS, log)
