"""What works on this machine: one `Check` for each part, with the one-line remedy for what does not.

The core is checked by using it (torch computes, nano's weights load strictly). Optional parts are looked up without
importing them, because some are heavy and some crash without a display; ``deep`` imports each, and opens each world, in
a process of its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import assets
from apps.world_states import world_state
from apps.worlds import WORLDS

State = Literal["ok", "missing", "broken"]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEEP_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Check:
    """One part's state. ``core`` parts must be ok for Fovea to work at all; ``remedy`` is empty where it is ok."""

    name: str
    state: State
    detail: str
    remedy: str = ""
    core: bool = False


@dataclass(frozen=True)
class OptionalPart:
    """A package that one feature needs: its import name, what it is for, and how to get it."""

    module: str
    purpose: str
    remedy: str


OPTIONAL = (
    OptionalPart("gradio", "web demo", "pip install -e '.[demo]'"),
    OptionalPart("matplotlib", "charts of the demo", "pip install -e '.[demo]'"),
    OptionalPart("skimage", "photographs of the generated benchmark", "pip install -e '.[data]'"),
    OptionalPart("easy_vqa", "easy-VQA, nano's outside check", "pip install -e '.[data]'"),
    OptionalPart("rapidocr", "reading text of scanned pages", "pip install rapidocr onnxruntime"),
    OptionalPart("vllm", "serving large models", "pip install vllm on a GPU machine; --model http://HOST:8000/v1#NAME"),
)


def examine(model: str = "nano", *, deep: bool = False) -> Iterator[Check]:
    """All checks in order, the core first; ``model`` is loaded strictly as part of the core."""
    yield _python()
    yield _guarded("torch", _torch, "pip install -r constraints.txt, or `make install`")
    yield _guarded("transformers", _transformers, "pip install 'transformers>=5.16'")
    yield _guarded("Qwen-VL processors", _processors, "pip install torchvision in the version that matches torch")
    if model == "nano":
        yield nano_files(assets.NANO)
    yield _guarded(f"model {model}", lambda: _load(model), "see the message; `fovea train backbone` rebuilds nano")
    yield _library("EGL", ("libEGL.so.1",), "rendering without a display", "apt-get install libegl1 libegl-mesa0")
    yield _library("OpenGL", ("libGL.so.1", "libOpenGL.so.0"), "rendering", "apt-get install libgl1 libopengl0")
    yield _library("OSMesa", ("libOSMesa.so.8", "libOSMesa.so"), "rendering in software", "apt-get install libosmesa6")
    yield _program("Chromium", CHROMIUM, "browser tests of the demo", "apt-get install chromium")
    yield _program("Tesseract", ("tesseract",), "second reader of scanned pages", "apt-get install tesseract-ocr")
    for part in OPTIONAL:
        yield optional_part(part, deep=deep)
    for name in WORLDS:
        yield world(name, deep=deep)


def _guarded(name: str, check: Callable[[], str], remedy: str) -> Check:
    """A core check: its text when it passes, its first line of complaint when it does not."""
    try:
        return Check(name, "ok", check(), core=True)
    except ImportError as error:
        return Check(
            name, "missing" if isinstance(error, ModuleNotFoundError) else "broken", _line(error), remedy, True
        )
    except Exception as error:  # a doctor reports whatever is wrong with the patient
        return Check(name, "broken", _line(error), remedy, True)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _python() -> Check:
    return Check("Python", "ok", f"{platform.python_version()}, {platform.machine()}, {sys.executable}", core=True)


def _torch() -> str:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    product = torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    if product.sum().item() != 8.0:
        raise RuntimeError(f"torch computes {product.tolist()} for a product of ones on {device}")
    gpu = f", {torch.cuda.get_device_name()}" if device == "cuda" else ""
    return f"{torch.__version__} computes on {device}{gpu}, {torch.get_num_threads()} threads"


def _transformers() -> str:
    found = importlib.metadata.version("transformers")
    major, minor = (int(part) for part in found.split(".")[:2])
    if (major, minor) < (5, 16):
        raise RuntimeError(f"transformers {found} is too old, 5.16 or newer is needed")
    return found


def _processors() -> str:
    from transformers import Qwen2_5_VLProcessor, Qwen3VLProcessor

    return f"{Qwen3VLProcessor.__name__}, {Qwen2_5_VLProcessor.__name__}"


def nano_files(folder: Path) -> Check:
    """Whether nano's weights lie in ``folder`` with the checksums written beside them (``SHA256SUMS``)."""
    name, remedy = "nano's files", "git checkout -- assets/nano, or `fovea train backbone` to rebuild them"
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        return Check(name, "missing", f"no {sums}", remedy, True)
    total = 0
    for line in sums.read_text("utf-8").splitlines():
        expected, _, file = line.partition("  ")
        path = folder / file.strip()
        if not path.is_file():
            return Check(name, "missing", f"no {path}", remedy, True)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != expected:
            return Check(name, "broken", f"{path} does not have the checksum in {sums.name}", remedy, True)
        total += len(data)
    return Check(name, "ok", f"{total / 1e6:.1f} MB with the recorded checksums", core=True)


def _load(model: str) -> str:
    from backbone.vlm import VLM

    vlm = VLM.load(model)
    return f"loads strictly, family {vlm.family}"


def _library(name: str, files: tuple[str, ...], purpose: str, remedy: str) -> Check:
    for file in files:
        try:
            ctypes.CDLL(file)
        except OSError:
            continue
        return Check(name, "ok", f"{file} ({purpose})")
    return Check(name, "missing", f"for {purpose}", remedy)


def _program(name: str, commands: tuple[str, ...], purpose: str, remedy: str) -> Check:
    found = next((path for path in map(shutil.which, commands) if path), None)
    if found is None:
        return Check(name, "missing", f"for {purpose}", remedy)
    return Check(name, "ok", f"{found} ({purpose})")


def optional_part(part: OptionalPart, *, deep: bool) -> Check:
    """Look an optional package up; with ``deep`` also import it in a process of its own."""
    if importlib.util.find_spec(part.module) is None:
        return Check(part.module, "missing", f"for: {part.purpose}", part.remedy)
    if not deep:
        return Check(part.module, "ok", f"installed ({part.purpose})")
    try:
        done = subprocess.run(  # noqa: S603 - the names are the constants above
            [sys.executable, "-c", f"import {part.module}"], capture_output=True, text=True, timeout=DEEP_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return Check(part.module, "broken", f"import took more than {DEEP_TIMEOUT_S:.0f} s", part.remedy)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Check(part.module, "broken", last, part.remedy)
    return Check(part.module, "ok", f"imports ({part.purpose})")


def world(name: str, *, deep: bool) -> Check:
    """Whether a world can be used; with ``deep`` one step is taken in it."""
    found = world_state(name, deep=deep)
    state: State = "ok" if found.state == "ready" else "missing" if found.state == "missing" else "broken"
    return Check(f"world {name}", state, f"{found.summary}; {found.detail}", found.remedy)
