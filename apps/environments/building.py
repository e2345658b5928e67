"""The steps recipes share: finding a Python, making a virtual environment, installing pinned files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from apps.environments import Log
from backbone.errors import WorldError

PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
PROBE_S = 30.0
SHOWN_LINES = 15
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_CONSTRAINT", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")


def find_python(versions: Sequence[str], given: Path | None = None) -> Path:
    """An interpreter of one of ``versions`` that can make virtual environments; ``given`` must be one, if it is given.

    Looked for among: our own, those on PATH, and pyenv's. Raises `WorldError` that says what was looked for.
    """
    for candidate in [given] if given else _candidates(versions):
        if _version(candidate) in versions:
            return candidate
    wanted = " or ".join(versions)
    if given:
        raise WorldError(f"{given} is not a Python {wanted} with venv; leave --base out to look for one")
    raise WorldError(
        f"no Python {wanted} with venv was found on PATH or in pyenv; install one "
        f"(apt-get install python{versions[0]}-venv, pyenv install {versions[0]}, or conda), or name it with --base"
    )


def _candidates(versions: Sequence[str]) -> Iterator[Path]:
    yield Path(sys.executable)
    for version in versions:
        on_path = shutil.which(f"python{version}")
        if on_path:
            yield Path(on_path)
        root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        for folder in sorted(root.glob(f"versions/{version}.*"), reverse=True):
            yield folder / "bin" / "python"


def _version(python: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - candidates above, or the user's own choice
            [str(python), "-c", PROBE], capture_output=True, text=True, timeout=PROBE_S, env=clean_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def clean_environment() -> dict[str, str]:
    """Our environment without what would lead another interpreter to our packages, or pip elsewhere."""
    return {key: value for key, value in os.environ.items() if key not in HIDDEN}


def run(command: Sequence[str | Path], log: Log, what: str) -> None:
    """Run a program, its output to ``log`` line by line. Raises `WorldError` with its last lines if it fails."""
    last: deque[str] = deque(maxlen=SHOWN_LINES)
    with subprocess.Popen(  # noqa: S603 - commands are built by recipes
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=clean_environment(),
    ) as process:
        try:
            for line in process.stdout or ():
                last.append(line.rstrip())
                log(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise WorldError(f"{what} failed (exit code {process.returncode}); its last words:\n" + "\n".join(last))


def make_environment(path: Path, python: Path, log: Log) -> Path:
    """A virtual environment in ``path``; its interpreter."""
    log(f"making a virtual environment with {python}")
    run([python, "-m", "venv", path], log, f"{python} -m venv")
    return path / "bin" / "python"


def pip_install(python: Path, requirements: Path, log: Log, options: Iterable[str] = ()) -> None:
    """Install exactly the files whose hashes stand in ``requirements``, nothing else."""
    log(f"installing {requirements.name}")
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    exactly: list[str | Path] = [
        "--progress-bar",
        "off",
        "--no-compile",
        "--require-hashes",
        "--no-deps",
        *options,
        "-r",
        requirements,
    ]
    run([*pip, *exactly], log, f"pip install {requirements.name}")
