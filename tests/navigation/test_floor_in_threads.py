"""A floor asked by two threads at once: in its own process, for a crash would end this one."""

import subprocess
import sys

SCRIPT = """
import sys
import threading
import numpy as np
from navigation.worlds.rooms import RoomsConfig
from navigation.worlds.rooms_scene import generated_scene
sys.setswitchinterval(1e-5)
floor = generated_scene(3, "val", RoomsConfig().rules()).floor
x0, z0, x1, z1 = floor.free.bounds
start, end = np.random.default_rng(0).uniform((x0, z0), (x1, z1), (2, 200, 2))
wanted, wrong = floor.sees(start, end), []
def ask():
    for _ in range(600):
        if not np.array_equal(floor.sees(start, end), wanted):
            wrong.append(1)
threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("wrong:", len(wrong))
"""


def test_one_home_serves_several_threads():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)  # noqa: S603 - our own script
    assert done.stdout.strip() == "wrong: 0", (done.returncode, done.stderr[-500:])
