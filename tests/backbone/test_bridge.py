"""A world in another interpreter; every fault of its worker is a `WorldError` here, and the next episode is sound."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bridge_helpers import ACTION, ROOT, WORKER, drill, gone, same

from backbone.errors import WorldError
from backbone.worlds.bridge import BridgedWorld
from backbone.worlds.environments import Environment, environment_path, environment_python, write_environment


@pytest.fixture(scope="module")
def shared() -> Iterator[BridgedWorld]:
    world = drill()
    yield world
    world.close()


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


def test_a_world_is_not_used_from_two_threads_or_pickled(shared: BridgedWorld) -> None:
    shared.reset(seed=0)
    with shared._lock, pytest.raises(WorldError, match="while another call is under way"):
        shared.step(ACTION)
    with pytest.raises(TypeError):
        pickle.dumps(shared)


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
