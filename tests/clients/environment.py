"""The real clients, each in a virtual environment of its own: openpi-client wants NumPy 1, vla-eval much else."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

PINS = {"openpi": "openpi-client==0.1.2", "vla-eval": "vla-eval==0.8.0"}
UNDECLARED = {"openpi": ["typing_extensions"], "vla-eval": []}  # openpi-client imports it without asking for it
MODULES = {"openpi": "openpi_client", "vla-eval": "vla_eval"}


def client_python(folder: Path, client: str) -> Path:
    """The Python that has ``client``, installed below ``folder`` if it is not there yet.

    Raises:
        subprocess.CalledProcessError: pip failed.
    """
    home = folder / client
    python = home / "bin" / "python"
    if not has_client(folder, client):
        venv.create(home, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", PINS[client]]
        pip += UNDECLARED[client]
        subprocess.run(pip, check=True, stdout=sys.stderr)  # noqa: S603 - a fixed command
    return python


def has_client(folder: Path, client: str) -> bool:
    """Whether the environment is complete."""
    return any((folder / client).glob(f"lib/python3*/site-packages/{MODULES[client]}/__init__.py"))
