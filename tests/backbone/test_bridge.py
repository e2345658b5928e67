"""The bridge: messages survive the way; every fault of a worker is a `WorldError` here, and nothing is left behind."""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from backbone.errors import WorldError
from backbone.worlds import framing
from backbone.worlds.bridge import BridgedWorld
from backbone.worlds.environments import Environment, environment_path, environment_python, write_environment
from backbone.worlds.framing import DTYPES, Channel, ClosedError, DeadlineError, FrameError

WORKER = Path(__file__).with_name("drill_worker.py")
ACTION = np.array([0.25, -0.5], np.float32)
ROOT = Path(__file__).parents[2]


def drill(**arguments: Any) -> BridgedWorld:
    return BridgedWorld(WORKER, Path(sys.executable), arguments, start_timeout_s=30, step_timeout_s=10)


@pytest.fixture(scope="module")
def shared() -> Iterator[BridgedWorld]:
    world = drill()
    yield world
    world.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


# messages --------------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
arrays = st.sampled_from(sorted(DTYPES)).flatmap(lambda dtype: npst.arrays(dtype, shapes))
keys = st.text(max_size=4).filter(lambda key: key != framing.KEY)
values = st.recursive(
    scalars | arrays, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(values)
@settings(max_examples=40, deadline=None)
def test_a_message_survives_the_way(value: Any) -> None:
    ours, theirs = map(Channel, socket.socketpair())
    ours.send(value)
    assert same(value, theirs.receive())
    ours.close(), theirs.close()


def test_a_strided_array_is_sent_as_what_it_shows() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    picture = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    ours.send([picture[::-1, ::2], np.float32(0.5), np.int64(3), np.bool_(True), (1, 2)])
    got = theirs.receive()
    assert np.array_equal(got[0], picture[::-1, ::2])
    assert got[1:] == [0.5, 3, True, [1, 2]]
    assert got[0].flags.writeable
    ours.close(), theirs.close()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1.0, math.nan]}, r"\['a'\]\[1\] is nan"),
        ({"a": np.array(["text"])}, "cannot be sent"),
        ({"a": np.array([object()])}, "cannot be sent"),
        ({"a": np.zeros(2, ">f4")}, "cannot be sent"),
        ({1: 2}, "keys must be text"),
        ({framing.KEY: 0}, "keys must be text and not"),
        ({"a": {1, 2}}, "is a set"),
        (b"bytes", "is a bytes"),
        (json.loads("[" * 40 + "]" * 40), "nested deeper"),
        ([np.zeros(0)] * 300, "above the limits"),
        (np.broadcast_to(np.uint8(0), (1 << 30,)), "above the limits"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        framing.encode(value)


def frame(header: Any, payload: bytes = b"", claimed: int | None = None) -> bytes:
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return framing.PREFIX.pack(framing.MAGIC, len(data), len(payload) if claimed is None else claimed) + data + payload


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        framing.PREFIX.pack(framing.MAGIC, 1 << 31, 0),
        framing.PREFIX.pack(framing.MAGIC, 10, 1 << 62),
        frame(b"\xff\xfe"),
        frame(b"[" * 100_000),
        frame([]),
        frame({"body": 1}),
        frame({"body": 1, "arrays": 7}),
        frame({"body": 1, "arrays": [["|O", [1]]]}, b"12345678"),
        frame({"body": 1, "arrays": [["<f4", [-1]]]}),
        frame({"body": 1, "arrays": [["<f4", [2]]]}, b"1234"),
        frame({"body": 1, "arrays": [["<f4", [1 << 40, 1 << 40]]]}, b"1234"),
        frame({"body": {framing.KEY: 5}, "arrays": []}),
        frame({"body": {framing.KEY: -1}, "arrays": [["|u1", [1]]]}, b"1"),
    ],
)
def test_hostile_messages_are_refused_without_allocating_what_they_claim(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(theirs)
    ours.sendall(data)
    ours.close()
    with pytest.raises(FrameError):
        channel.receive()
    channel.close()


def test_truncated_and_trickling_messages() -> None:
    data = b"".join(map(bytes, framing.encode({"image": np.arange(100, dtype=np.uint8)})))
    for cut in (0, 3, 20, len(data) - 1):
        ours, theirs = socket.socketpair()
        ours.sendall(data[:cut])
        ours.close()
        with pytest.raises(ClosedError):
            Channel(theirs).receive()
        theirs.close()
    ours, theirs = socket.socketpair()
    channel = Channel(theirs, alive=lambda: None)
    sender = threading.Thread(target=lambda: [ours.sendall(data[i : i + 1]) for i in range(len(data))])
    sender.start()
    assert np.array_equal(channel.receive()["image"], np.arange(100, dtype=np.uint8))
    sender.join()
    with pytest.raises(DeadlineError):
        channel.receive(time.monotonic() + 0.05)
    with pytest.raises(DeadlineError):  # nobody reads: the message does not fit into the socket
        channel.send(np.zeros(64 << 20, np.uint8), time.monotonic() + 0.05)
    ours.close(), channel.close()


# a world ---------------------------------------------------------------------------------------------------------


def test_an_episode_in_another_interpreter(shared: BridgedWorld) -> None:
    observation, info = shared.reset(seed=7)
    expected = np.random.default_rng([7, 0]).integers(0, 256, (128, 128, 3), np.uint8)
    assert np.array_equal(observation.images["front"], expected)
    assert observation.depths["front"].shape == (128, 128)
    assert (observation.instruction, info) == ("drill", {"success": False})
    for step in range(1, 9):
        observation, reward, terminated, truncated, info = shared.step(ACTION)
        assert np.array_equal(info["action"], ACTION)
        assert observation.time_s == pytest.approx(0.1 * step)
        assert (reward, terminated, truncated) == (0.0, False, step == 8)
    assert shared.describe() == {"seed": 7, "steps": 8}
    assert shared.metrics() == {"success": 0.0, "path_length": 8.0}
    assert shared.draw().shape == (16, 16, 3)
    sent = {"points": np.arange(6.0).reshape(2, 3), "name": "é"}
    assert same(sent, shared.call("echo", **sent))


def test_the_order_of_calls_is_guarded() -> None:
    world = drill()
    for call in (world.describe, world.metrics, world.draw, world.expert_action, lambda: world.step(ACTION)):
        with pytest.raises(WorldError, match="before reset"):
            call()
    world.reset(seed=0)
    for wrong in (np.zeros(3, np.float32), np.array([np.nan, 0], np.float32), np.array([2, 0], np.float32)):
        with pytest.raises(WorldError, match="action"):
            world.step(wrong)
    assert world.expert_action().tolist() == [0.5, -0.5]
    for _ in range(8):
        world.step(ACTION)
    with pytest.raises(WorldError, match="after the end of the episode"):
        world.step(ACTION)
    with pytest.raises(WorldError, match="has no method '_secret'"):
        world.call("_secret")
    pid = world.worker_pid
    world.close()
    world.close()
    assert pid is not None
    assert gone(pid)
    with pytest.raises(WorldError, match="is closed"):
        world.reset(seed=0)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raise", r"ValueError: the drill raises[\s\S]*drill_worker.py"),
        ("exit", "SystemExit: the drill calls sys.exit"),
        ("kill", "died during step: killed by SIGKILL"),
        ("crash", r"killed by SIGSEGV[\s\S]*string_at"),
        ("garbage", "a message begins with"),
        ("huge", "claims 4294967295 header"),
        ("nan state", "NaN or infinite"),
        ("nan reward", "only finite numbers"),
        ("wrong image", r"expected uint8 \(H, W, 3\)"),
        ("objects", r"\['thing'\] is a object"),
        ("no success", "info needs success"),
    ],
)
def test_a_failing_step_is_an_error_and_the_next_episode_is_sound(shared: BridgedWorld, fault: str, words: str) -> None:
    shared.reset(seed=1, options={"faults": {"step 2": fault}})
    shared.step(ACTION)
    pid, begun = shared.worker_pid, time.monotonic()
    with pytest.raises(WorldError, match=words) as caught:
        shared.step(ACTION)
    assert time.monotonic() - begun < 5.0  # noticed at once, not by the deadline of 10 s
    assert len(str(caught.value).splitlines()) <= 32
    assert pid is not None
    assert gone(pid)
    with pytest.raises(WorldError, match="call reset first"):
        shared.step(ACTION)
    shared.reset(seed=1)
    assert shared.worker_pid != pid
    shared.step(ACTION)


def test_faults_of_reset_and_of_other_methods(shared: BridgedWorld) -> None:
    with pytest.raises(WorldError, match="reset raised ValueError: the drill raises"):
        shared.reset(seed=0, options={"faults": {"reset": "raise"}})
    shared.reset(seed=0)
    pid = shared.worker_pid
    with pytest.raises(WorldError, match="fail raised ValueError"):
        shared.call("fail")
    shared.step(ACTION)  # a question that cannot be answered does not end the episode
    assert shared.worker_pid == pid
    shared.restart()
    assert shared.worker_pid != pid
    with pytest.raises(WorldError, match="before reset"):
        shared.describe()


@pytest.mark.parametrize("fault", ["hang", "hang in native code"])
def test_a_hanging_step_meets_its_deadline_and_says_where(fault: str) -> None:
    world = BridgedWorld(WORKER, Path(sys.executable), start_timeout_s=30, step_timeout_s=0.3)
    world.reset(seed=0, options={"faults": {"step 1": fault}})
    pid = world.worker_pid
    with pytest.raises(WorldError, match=r"no answer to step within 0.3 s[\s\S]*in misbehave"):
        world.step(ACTION)
    assert pid is not None
    assert gone(pid)
    world.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [("raise", "hello raised ValueError"), ("kill", "died during hello"), ("hang", "no answer to hello within")],
)
def test_a_world_that_cannot_be_opened(fault: str, words: str) -> None:
    limit = 3.0 if fault == "hang" else 30.0
    with pytest.raises(WorldError, match=words):
        BridgedWorld(WORKER, Path(sys.executable), {"on_open": fault}, start_timeout_s=limit)


def test_interpreters_and_worker_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="cannot be started"):
        BridgedWorld(WORKER, tmp_path / "python")
    with pytest.raises(WorldError, match="no worker file"):
        BridgedWorld(tmp_path / "worker.py", Path(sys.executable))
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\necho no numpy here >&2\nexit 3\n")
    bare.chmod(0o755)
    with pytest.raises(WorldError, match=r"exit code 3[\s\S]*no numpy here"):
        BridgedWorld(WORKER, bare)


def test_a_large_observation_arrives_whole(shared: BridgedWorld) -> None:
    shared.reset(seed=0, options={"faults": {"step 1": "big"}})
    observation = shared.step(ACTION)[0]
    assert all((observation.images[f"camera {i}"] == i).all() for i in range(8))


def test_the_worker_does_not_see_our_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    world = drill()
    about = world.call("about")
    assert "PYTHONPATH" not in about["environment"]
    assert "/somewhere/else" not in about["path"]
    assert not any(Path(entry) == ROOT / "backbone/worlds" for entry in about["path"])
    world.close()


# nothing is left behind --------------------------------------------------------------------------------------------


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


def test_a_world_is_not_used_from_two_threads_or_pickled(shared: BridgedWorld) -> None:
    shared.reset(seed=0)
    with shared._lock, pytest.raises(WorldError, match="while another call is under way"):
        shared.step(ACTION)
    with pytest.raises(TypeError):
        pickle.dumps(shared)


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


# environments ------------------------------------------------------------------------------------------------------


def test_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEA_WORLDS", str(tmp_path))
    with pytest.raises(WorldError, match="run: fovea worlds install drill"):
        environment_python("drill")
    assert environment_python("drill", sys.executable) == Path(sys.executable)
    with pytest.raises(WorldError, match="is not a program"):
        environment_python("drill", tmp_path)
    write_environment(Environment("drill", sys.executable, "recipe 1"))
    assert environment_python("drill") == Path(sys.executable)
    write_environment(Environment("drill", str(tmp_path / "python")))
    with pytest.raises(WorldError, match="is gone; run: fovea worlds install drill --force"):
        environment_python("drill")
    (environment_path("drill") / "fovea-world.json").write_text("{}")
    with pytest.raises(WorldError, match="is broken"):
        environment_python("drill")
    monkeypatch.delenv("FOVEA_WORLDS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert environment_path("drill") == tmp_path / "cache/fovea/worlds/drill"
