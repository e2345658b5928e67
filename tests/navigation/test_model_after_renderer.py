"""A model loaded after a world was drawn: in its own process, for a crash would end this one."""

import subprocess
import sys

SCRIPT = """
from navigation.worlds.rooms import RoomsConfig
world = RoomsConfig(width=32, height=24, homes=3, min_rooms=3, max_rooms=3).make()
world.reset(seed=1)
import torch, torchvision
import torch._dynamo
world.reset(seed=2)
print("both work")
"""


def test_torch_survives_a_renderer_that_came_first():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)  # noqa: S603 - our own script
    assert done.stdout.strip() == "both work", (done.returncode, done.stderr[-500:])
