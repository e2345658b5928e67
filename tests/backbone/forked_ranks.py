"""Two forked processes in a gloo group, for tests: they share what is imported, and start at once."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from accelerate.state import AcceleratorState


def in_two_processes(work: Callable[[int, Path], None], folder: Path) -> None:
    """Run ``work(rank, folder)`` in both; a failure of either fails the test, and ends the other, which would wait."""
    running, codes = {_start(work, rank, folder) for rank in (0, 1)}, []
    while running:
        for child in list(running):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                running.remove(child)
                codes.append(status)
                for other in running if status else ():
                    os.kill(other, signal.SIGKILL)
        time.sleep(0.02)
    assert codes == [0, 0]


def _start(work: Callable[[int, Path], None], rank: int, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "ACCELERATE_USE_CPU": "true"}
        os.environ |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        AcceleratorState._reset_state(reset_partial_state=True)  # the parent's says that there is one process
        store = f"file://{folder}/store"
        torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        work(rank, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
