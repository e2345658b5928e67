"""Fault drills of rollouts: whatever breaks is written down, and the other episodes' rows stay what they are."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backbone.errors import WorldError
from backbone.rollout.agents import ConstantConfig
from backbone.rollout.config import Episode, RolloutConfig, episode_seed
from backbone.rollout.episode import EpisodeSettings, run_episode
from backbone.rollout.limits import Overtime
from backbone.rollout.results import comparable
from backbone.rollout.runner import run_rollout
from tests.toy_world import ToyConfig, ToyPolicyConfig

ROOT = Path(__file__).parents[2]
POLICY = ToyPolicyConfig(noise=0.9)
BASE = RolloutConfig(world=ToyConfig(max_steps=12), agent=POLICY, episodes=5, seed=7)
FAULTY = ("1:raise-reset", "2:raise-step", "3:nan-metric", "4:nan-state")


def rows(config: RolloutConfig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = comparable([row.to_dict() for row in run_rollout(config).episodes])
    return found


@pytest.fixture(scope="module")
def sound() -> list[dict[str, Any]]:
    return rows(BASE)


@pytest.fixture(scope="module")
def faulty() -> list[dict[str, Any]]:
    return rows(replace(BASE, world=ToyConfig(max_steps=12, faults=FAULTY)))


def test_a_world_that_fails_costs_only_its_episode(sound: list[dict[str, Any]], faulty: list[dict[str, Any]]) -> None:
    assert faulty[0] == sound[0]
    errors = {row["index"]: (row["error"]["type"], row["error"]["message"]) for row in faulty[1:]}
    assert errors[1] == ("WorldError", "toy: no reset today")
    assert errors[2] == ("ValueError", "toy: a wheel came off")
    assert errors[3] == ("DataError", "toy: metric 'path_length' is nan")
    assert errors[4][0] == "DataError"
    assert "a wheel came off" in faulty[2]["error"]["traceback"]
    assert "_go_wrong" in faulty[2]["error"]["traceback"]
    assert "backbone/rollout" not in faulty[2]["error"]["traceback"]  # the machinery's frames differ between backends
    assert faulty[2]["steps"] == 2


def test_a_world_that_is_beyond_repair_is_replaced(sound: list[dict[str, Any]]) -> None:
    found = rows(replace(BASE, world=ToyConfig(max_steps=12, faults=("1:poison",))))
    assert found[1]["error"]["message"] == "toy: poisoned"
    assert [r for r in found if r["index"] != 1] == [r for r in sound if r["index"] != 1]


def test_an_episode_of_many_quick_steps_is_ended_where_no_alarm_can_ring() -> None:
    config = ToyConfig(delay_s=0.05)
    world = config.make()
    settings = EpisodeSettings(timeout_s=0.2)
    with pytest.raises(Overtime):
        run_episode(world, ConstantConfig().make(world.action_spec), Episode(0, 0, {}), settings)
    assert 1 <= world.steps <= 5


@pytest.mark.parametrize(("backend", "workers", "batch"), [("serial", 1, 3), ("processes", 2, 2)])
def test_failed_rows_are_the_same_however_they_are_run(
    faulty: list[dict[str, Any]], backend: Any, workers: int, batch: int
) -> None:
    world = ToyConfig(max_steps=12, faults=FAULTY)
    assert rows(replace(BASE, world=world, backend=backend, workers=workers, batch=batch)) == faulty


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("raise", "RuntimeError", "out of ideas"),
        ("exit", "SystemExit", "0"),
        ("nan", "DataError", "NaN"),
        ("wild", "WorldError", "right = 9 not in"),
        ("shape", "DataError", "expected float32 (H, 2)"),
        ("hang", "EpisodeTimeout", "did not end within 1 s"),
    ],
)
def test_a_policy_that_fails_costs_only_its_episode(
    sound: list[dict[str, Any]], batch: int, fault: str, error: str, words: str
) -> None:
    agent = replace(POLICY, fault=fault, fault_seed=episode_seed(7, 2))
    found = rows(replace(BASE, agent=agent, batch=batch, episode_timeout_s=1.0))
    assert found[2]["error"]["type"] == error
    assert words in found[2]["error"]["message"]
    assert [r for r in found if r["index"] != 2] == [r for r in sound if r["index"] != 2]


@pytest.mark.parametrize(("fault", "backend"), [("hang", "serial"), ("hang", "processes"), ("hang-deaf", "processes")])
def test_a_world_that_hangs_is_ended(sound: list[dict[str, Any]], fault: str, backend: Any) -> None:
    world = ToyConfig(max_steps=12, faults=(f"1:{fault}",))
    started = time.monotonic()
    found = rows(replace(BASE, world=world, backend=backend, episode_timeout_s=1.0))
    assert time.monotonic() - started < 60
    assert found[1]["error"]["type"] == "EpisodeTimeout"
    assert "_go_wrong" in found[1]["error"]["traceback"]  # where it hung
    assert [r for r in found if r["index"] != 1] == [r for r in sound if r["index"] != 1]


def test_a_worker_that_dies_is_replaced(sound: list[dict[str, Any]]) -> None:
    world = ToyConfig(max_steps=12, faults=("1:die",))
    found = rows(replace(BASE, world=world, backend="processes", workers=1, batch=2))
    assert found[1]["error"]["type"] == "WorkerDied"
    assert "SIGKILL" in found[1]["error"]["message"]
    assert "tried 2 times" in found[1]["error"]["message"]
    assert [r for r in found if r["index"] != 1] == [r for r in sound if r["index"] != 1]
    assert not multiprocessing.active_children()


def test_an_episode_whose_worker_was_killed_is_run_again(tmp_path: Path, sound: list[dict[str, Any]]) -> None:
    world = ToyConfig(max_steps=12, faults=("1:die-once",), marker=str(tmp_path / "died"))
    result = run_rollout(replace(BASE, world=world, backend="processes", workers=2))
    assert result.complete
    assert result.episodes[1].timing["attempts"] == 2
    found = comparable([row.to_dict() for row in result.episodes])
    assert [r | {"options": {}} for r in found] == sound


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_a_world_that_does_not_open_is_an_error_of_the_run(tmp_path: Path, backend: Any) -> None:
    with pytest.raises(WorldError, match="buy another one"):
        run_rollout(replace(BASE, world=ToyConfig(broken=True), backend=backend, output=tmp_path))
    assert not (tmp_path / "result.json").exists()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("backend", ["serial", "processes"])
def test_an_agent_that_hangs_while_it_is_made_is_given_up(backend: Any) -> None:
    agent = replace(POLICY, fault="hang-make")
    started = time.monotonic()
    with pytest.raises(WorldError, match=r"within 2 s[^\0]*toy_world\.py"):  # and it says where
        run_rollout(replace(BASE, agent=agent, backend=backend, start_timeout_s=2.0))
    assert time.monotonic() - started < 60
    assert not multiprocessing.active_children()


def test_a_world_that_hangs_while_it_is_opened_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = ToyConfig.make, []

    def slow(config: ToyConfig) -> Any:
        made.append(config)
        if len(made) > 1:
            time.sleep(3600)
        return make(config)

    monkeypatch.setattr(ToyConfig, "make", slow)
    with pytest.raises(WorldError, match="the world toy cannot be opened: it did not return within 1 s"):
        run_rollout(replace(BASE, world=ToyConfig(faults=("1:raise-step",)), start_timeout_s=1.0))
    assert len(made) == 2


def test_failed_episodes_are_run_again_on_demand(tmp_path: Path) -> None:
    marker = tmp_path / "died"
    world = ToyConfig(max_steps=12, faults=("1:die-once",), marker=str(marker))
    config = replace(BASE, world=world, backend="processes", retries=0, output=tmp_path / "run")
    assert [row.index for row in run_rollout(config).failed] == [1]
    assert not run_rollout(config).complete  # a failure is a result, until someone asks for more
    assert run_rollout(replace(config, retry_failed=True)).complete
    assert run_rollout(config).complete


# A kill of the whole run


def command(output: Path, workers: int) -> list[str]:
    return [
        sys.executable, "-m", "apps.cli", "rollout", "tests.toy_world:ToyConfig", "--agent",
        "tests.toy_world:ToyPolicyConfig", "--episodes", "8", "--world.delay-s", "0.05", "--world.max-steps", "12",
        "--agent.noise", "0.9", "--workers", str(workers), "--output", str(output),
    ]  # fmt: skip


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def assert_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 15
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def start_until(folder: Path, workers: int, lines: int) -> subprocess.Popen[bytes]:
    """Start the command and wait until ``lines`` episodes are on the disk."""
    process = subprocess.Popen(  # noqa: S603 - our own command line
        command(folder, workers), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    file, deadline = folder / "episodes.jsonl", time.monotonic() + 60
    while not (file.exists() and file.read_bytes().count(b"\n") >= lines):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_kill_and_rerun_give_the_result_of_a_straight_run(tmp_path: Path) -> None:
    process = start_until(tmp_path / "killed", workers=2, lines=2)
    workers = children(process.pid)
    process.kill()
    process.wait()
    assert_gone(workers)  # they notice that nobody is left to tell
    done = (tmp_path / "killed" / "episodes.jsonl").read_bytes().count(b"\n")
    assert 2 <= done < 8
    assert not (tmp_path / "killed" / "result.json").exists()
    for folder, count in (("killed", 2), ("straight", 1)):
        subprocess.run(command(tmp_path / folder, count), cwd=ROOT, check=True, capture_output=True)  # noqa: S603
    killed, straight = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("killed", "straight"))
    assert killed["timing"]["new_episodes"] == 8 - done
    assert comparable(killed) == comparable(straight)


def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(tmp_path: Path) -> None:
    process = start_until(tmp_path, workers=2, lines=1)
    workers = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"the same command goes on" in errors
    assert b"Traceback" not in errors
    assert_gone(workers)
