"""A virtual environment of its own for LeRobot, which wants Python 3.12 and other versions than Fovea has."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

LEROBOT, PYTHON = "0.6.1", "3.12"
logger = logging.getLogger(__name__)


def install(folder: Path) -> Path:
    """Create the environment (5 GB, some minutes) unless it is there; returns its interpreter.

    Raises:
        RuntimeError: there is no Python 3.12 on the path.
        subprocess.CalledProcessError: pip failed.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        base = shutil.which(f"python{PYTHON}")
        if base is None:
            raise RuntimeError(f"LeRobot {LEROBOT} needs Python {PYTHON}, and there is no python{PYTHON} on the path")
        _call([base, "-m", "venv", str(folder)])
    wanted = f"lerobot-{LEROBOT}.dist-info", "datasets-*.dist-info"  # the second comes with the extra
    if not all(any(folder.glob(f"lib/python3.*/site-packages/{pattern}")) for pattern in wanted):
        logger.info("installing LeRobot %s into %s: minutes", LEROBOT, folder)
        _call([str(python), "-m", "pip", "install", "-q", f"lerobot[dataset]=={LEROBOT}"])
    return python


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - commands of this file alone
