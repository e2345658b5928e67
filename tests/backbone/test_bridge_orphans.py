"""Whatever ends first, the bridge leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from bridge_helpers import ACTION, ROOT, WORKER, alive, drill, gone

from backbone.errors import WorldError
from backbone.worlds.bridge import BridgedWorld


def test_a_close_that_hangs_is_ended_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backbone.worlds.process.CLOSE_S", 0.3)
    world = drill(on_close="hang", child=True)
    about = world.call("about")
    world.close()
    assert gone(about["pid"])
    assert gone(about["child"])


def test_close_from_another_thread_ends_a_step_under_way() -> None:
    world = drill()
    world.reset(seed=0, options={"faults": {"step 1": "hang"}})
    timer = threading.Timer(0.3, world.close)
    timer.start()
    with pytest.raises(WorldError, match="closed during step"):
        world.step(ACTION)
    timer.join()
    assert world.worker_pid is None


def test_a_worker_outlives_the_thread_that_made_it() -> None:
    made: list[BridgedWorld] = []
    thread = threading.Thread(target=lambda: made.append(drill()))
    thread.start()
    thread.join()
    time.sleep(0.1)
    made[0].reset(seed=0)
    made[0].close()


def test_a_forgotten_world_is_ended() -> None:
    world = drill()
    pid = world.worker_pid
    del world
    assert pid is not None
    assert gone(pid)


PROGRAM = """
import signal, sys, time
from pathlib import Path
import numpy as np
from backbone.worlds.bridge import BridgedWorld
world = BridgedWorld(Path(sys.argv[1]), Path(sys.executable))
world.reset(seed=0, options={"faults": {"step 1": sys.argv[2]}})
print(world.worker_pid, flush=True)
world.step(np.zeros(2, np.float32))
if sys.argv[3] == "wait":
    time.sleep(60)
"""


def program(fault: str, then: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-c", PROGRAM, str(WORKER), fault, then]
    process = subprocess.Popen(  # noqa: S603
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize("fault", ["", "hang in native code"])
def test_a_killed_client_leaves_no_orphan(fault: str) -> None:
    process, worker = program(fault, "wait")
    time.sleep(0.2)
    assert alive(worker)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert gone(worker)


def test_ctrl_c_ends_the_worker_of_a_step_under_way() -> None:
    process, worker = program("hang", "wait")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert gone(worker)


def test_a_client_that_just_ends_takes_its_worker_along() -> None:
    process, worker = program("", "end")
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert gone(worker)


def test_a_fork_neither_uses_nor_ends_its_parents_worker() -> None:
    world = drill()
    world.reset(seed=0)
    child = os.fork()
    if child == 0:
        try:
            world.step(ACTION)
        except WorldError as error:
            world.close()
            os._exit(7 if "another process" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    world.step(ACTION)
    world.close()
