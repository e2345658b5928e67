"""The recipe of the habitat environment; see the package's docstring for what each part is for."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from apps.environments import Log
from apps.environments.building import clean_environment, make_environment, pip_install, run
from backbone.errors import WorldError

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
OLD_GLIBC = (2, 38)  # below it the wheel misses symbols
ASK = (
    "import json, pybind11, sysconfig as s; p = s.get_paths(); "
    "print(json.dumps([p['purelib'], s.get_config_var('EXT_SUFFIX'), p['include'], pybind11.get_include()]))"
)
TABLE_TAG = (  # the wheel's tag is __pybind11_internals_v4_clang_libstdcpp_cxxabi1002__
    "-DPYBIND11_INTERNALS_VERSION=4",
    '-DPYBIND11_COMPILER_TYPE="_clang"',
    '-DPYBIND11_BUILD_ABI="_cxxabi1002"',
)
TRY = "import fovea_habitat; print('habitat-sim', fovea_habitat.habitat_sim.__version__)"
ELSEWHERE = "or give --python an interpreter that has habitat-sim already, for example conda's"


@dataclass(frozen=True)
class _Site:
    """Where things go in the new environment, and what its modules end with."""

    packages: Path
    suffix: str
    includes: tuple[str, str]


def install(path: Path, python: Path | str | None, log: Log) -> None:
    """Build the environment in the empty folder ``path`` with a CPython 3.13, ``python`` or the first one found.

    Takes a minute: half of it downloads 0.2 GB, half compiles one C++ module. Raises `WorldError` that says which step
    failed, or what this machine lacks.
    """
    glibc = check_machine()
    made = make_environment(path, _base_python(python), log)
    pip_install(made, REQUIREMENTS, log, ("--only-binary", ":all:"))
    site = _site(made)
    if glibc < OLD_GLIBC:
        _mend_glibc(site, log)
    _build_magnum(site, log)
    shutil.copy(HERE / "fovea_habitat.py", site.packages)
    for name in ("magnum", "corrade"):
        (site.packages / name).mkdir(exist_ok=True)
        shutil.copy(HERE / f"{name}_package.py", site.packages / name / "__init__.py")
    run([made, "-c", TRY], log, "importing habitat-sim")


def check_machine() -> tuple[int, int]:
    """The version of glibc; raises `WorldError` naming what this machine lacks to run the wheel."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise WorldError(
            f"habitat-sim's wheel is for x86-64 Linux, this is {platform.machine()} {sys.platform}; "
            f"use rooms, the same homes without it, {ELSEWHERE}"
        )
    try:
        version = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
        major, minor = (int(part) for part in version.split(".")[:2])
    except (ValueError, OSError) as error:
        raise WorldError(f"habitat-sim's wheel needs glibc, which this system does not have; {ELSEWHERE}") from error
    if shutil.which("g++") is None:
        raise WorldError(f"habitat: g++ is needed to build one module; on Debian: apt-get install g++; {ELSEWHERE}")
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError as error:
        raise WorldError(
            "habitat: libEGL.so.1 is missing, without which nothing is drawn off screen; "
            "on Debian: apt-get install libegl1 libgl1-mesa-dri libopengl0"
        ) from error
    return major, minor


def _base_python(python: Path | str | None) -> Path:
    if python is not None:
        return Path(python)
    from apps.environments.building import find_python

    return find_python(("3.13",))


def _site(python: Path) -> _Site:
    asked = subprocess.run(  # noqa: S603 - the environment's own interpreter
        [str(python), "-c", ASK], capture_output=True, text=True, check=False, env=clean_environment()
    )
    if asked.returncode:
        raise WorldError(f"habitat: {python} cannot tell its paths: {asked.stderr.strip()[-500:]}")
    packages, suffix, *includes = json.loads(asked.stdout)
    headers = Path(includes[0]) / "Python.h"
    if not headers.is_file():
        raise WorldError(f"habitat: {headers} is missing; on Debian: apt-get install python3.13-dev; {ELSEWHERE}")
    return _Site(Path(packages), suffix, (includes[0], includes[1]))


def _mend_glibc(site: _Site, log: Log) -> None:
    from apps.environments.habitat.older_glibc import relax_versions

    extension = site.packages / "habitat_sim" / "_ext" / f"habitat_sim_bindings{site.suffix}"
    log(f"fitting {extension.name} to this glibc: {relax_versions(extension)} symbols")
    target = site.packages / "libfovea_older_glibc.so"
    run(["g++", "-x", "c", "-O2", "-shared", "-fPIC", HERE / "older_glibc.c", "-o", target], log, "compiling")


def _build_magnum(site: _Site, log: Log) -> None:
    log("compiling the stand-in for Magnum's Python bindings")
    flags = ["-std=c++17", "-O2", "-w", "-fPIC", "-shared", "-fvisibility=hidden", *TABLE_TAG]
    includes = [f"-I{folder}" for folder in site.includes]
    target = site.packages / f"_fovea_magnum{site.suffix}"
    run(["g++", *flags, *includes, HERE / "magnum_module.cpp", "-o", target], log, "compiling magnum_module.cpp")
