"""``fovea serve`` and ``fovea check server`` as people run them, and the load benchmark in small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from serving_helpers import LAYOUT, SPEC, chunk, served, unchecked

from apps.cli import main
from apps.server.robot import Robot
from backbone.checks.server import check_server
from backbone.checks.server_probe import ServerProbe
from backbone.serving.client import PolicyClient
from backbone.serving.codec import pack, unpack
from backbone.serving.spec import spec_to_plain
from tests.clients.load import measure_load, measure_overhead
from tests.clients.load import served as loaded
from tests.websocket_server import listening

FAVOURABLE = {"action": spec_to_plain(SPEC), "actions_unnormalized": True, "resets": ["seed"]}
KEYS = {"x": {"dtype": "float32", "shape": [2]}}


CARELESS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Careless:
    agent: str = "careless"

    def make(self, spec):
        return {}["weights"]

@dataclass(frozen=True)
class Hanging:
    agent: str = "hanging"

    def make(self, spec):
        import threading

        class Agent:
            def session(self, instruction, seed):
                threading.Event().wait(60)

        agent = Agent()
        agent.spec = spec
        return agent
"""


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    path = tmp_path / "arm.json"
    path.write_text(json.dumps(Robot("arm", SPEC, LAYOUT).to_plain()))
    return path


@contextmanager
def command(*words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running ``fovea serve --json`` and the address it printed."""
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-m", "apps.cli", "serve", *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            text += line
        yield process, json.loads(text)["url"]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_a_robots_file_until_a_signal(robot, number):
    served_arm = command(str(robot), "--agent", "random", "--port", "0", "--token-env", "MY_TOKEN", MY_TOKEN="a" * 12)
    with served_arm as (process, url), PolicyClient(url, token="a" * 12) as client:
        assert client.get_server_metadata()["world"] == "arm"
        seen = {"images/front": np.zeros((8, 12, 3), np.uint8), "state": np.zeros(2, np.float32), "prompt": ""}
        assert client.infer(seen)["actions"].shape == (1, 2)
        began = time.perf_counter()
        process.send_signal(number)
        assert process.wait(20) == 0
        assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("arm.json", 2, "--agent is missing"),
        ("arm.json --agent expert", 2, "cannot be served"),
        ("arm.json --agent random --token-env NO_SUCH", 2, "no such environment variable"),
        ("arm.json --agent nobody", 2, "there are: "),
        ("arm.json --agent metaworld-expert", 2, "the agent's actions are not the world's"),
        ("arm.json --agent random --alias x", 2, "--alias takes"),
        ("arm.json --agent random --batch 2", 2, "leave --batch at 1"),
        ("arm.json --agent random --host 192.0.2.1", 1, "no address of this machine; choose another --host"),
        ("arm.json --agent random --host no-such-host.invalid", 1, "no such host: "),
        ("arm.json --save-spec arm.json/x.json", 2, "--save-spec arm.json/x.json: arm.json is no directory"),
        ("arm.json --agent own:Careless", 1, "the agent careless cannot be made: KeyError: 'weights'"),
        ("arm.json --agent own:Hanging --warmup 0.3", 1, "did not answer its first observation in 0.3 s (warm-up)"),
        ("arm.json --agent random --warmup 0", 2, "warmup_s must be positive"),
        ("gone.json --agent random", 1, "cannot be read"),
        ("roms --agent random", 2, "did you mean 'rooms'"),
    ],
)
def test_serve_says_what_is_wrong(robot, capsys, monkeypatch, words, code, said):
    monkeypatch.delenv("NO_SUCH", raising=False)
    monkeypatch.chdir(robot.parent)
    monkeypatch.syspath_prepend(robot.parent)
    Path("own.py").write_text(CARELESS)
    sys.modules.pop("own", None)
    assert main(["serve", *words.split(), "--port", "0"]) == code
    assert said in capsys.readouterr().err


def test_a_taken_port_is_named(robot, capsys):
    with served() as server:
        assert main(["serve", str(robot), "--agent", "random", "--port", str(server.port)]) == 1
    assert "the port is taken; choose another --port" in capsys.readouterr().err


def test_a_taken_port_is_told_before_anything_is_loaded(capsys):
    with served() as server:
        words = ["serve", "gone.json", "--agent", "random", "--port", str(server.port)]
        for host in ("127.0.0.1", "localhost"):
            assert main([*words, "--host", host]) == 1
            assert "the port is taken" in capsys.readouterr().err
    assert main(words) == 1  # free again
    assert "cannot be read" in capsys.readouterr().err


def test_a_good_server_passes_every_check(capsys):
    with served() as server:
        assert main(["check", "server", server.url, "--requests", "5", "--hostile", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert len(report["findings"]) == 9


def _failures(url: str, **options) -> dict[str, str]:
    report = check_server(ServerProbe(url, timeout_s=1.0, requests=3, keys=KEYS, **options))
    return {finding.name: finding.message for finding in report.failed}


def imitation(answer, metadata=None, healthy: bool = True):
    """A server that answers each message, text or bytes, with ``answer(connection number, message)``; None: silence."""
    count = iter(range(10**6))

    def handle(connection):
        number = next(count)
        connection.send(pack(metadata or {}))
        for message in connection:
            reply = answer(number, message)
            if isinstance(reply, str):
                connection.send(reply)
                connection.close(1011)
            elif reply is not None:
                connection.send(pack(reply))

    def health(connection, request):
        return connection.respond(200 if healthy else 404, "OK\n") if request.path == "/healthz" else None

    return listening(handle, process_request=health)


def _strict(message) -> bool:
    try:
        return set(unpack(message)) >= {"x"}
    except Exception:
        return False


def _stock(values):
    """A server like openpi's own, whose policy returns ``values(connection)``."""
    return lambda number, message: (
        {"actions": values(number)} if _strict(message) else "Traceback (most recent call last): KeyError"
    )


def test_a_stock_server_passes_with_remarks():
    with imitation(_stock(lambda _: np.zeros((4, 2), np.float32))) as url:
        report = check_server(ServerProbe(url, timeout_s=2.0, requests=3, keys=KEYS))
    assert report.ok, report.failed
    remarks = " ".join(finding.message for finding in report.findings)
    assert "it does not say: action" in remarks
    assert "tracebacks" in remarks


@pytest.mark.parametrize(
    ("answer", "metadata", "check", "said"),
    [
        (_stock(lambda _: np.full((4, 2), np.nan)), {}, "finite", "a NaN reached the wire"),
        (_stock(lambda _: np.zeros(2)), {}, "finite", "expect (horizon, action values)"),
        (_stock(lambda _: [[0.0, 0.0]]), {}, "finite", "no array `actions`"),
        (_stock(lambda _: np.full((4, 2), 7.0)), FAVOURABLE, "finite", "leave the limits"),
        (_stock(lambda _: np.zeros((4, 3))), FAVOURABLE, "finite", "names 2 action values, the answer has 3"),
        (_stock(lambda _: np.zeros((4, 2))), {**FAVOURABLE, "action_horizon": 5}, "finite", "horizon of 5"),
        (_stock(lambda _: np.zeros((4, 2))), {"actions_unnormalized": False}, "speaks first", "un-normalise"),
        (_stock(lambda n: np.full((4, 2), n / 1e3)), FAVOURABLE, "equal observations", "state leaks"),
        (lambda _, message: {"actions": np.zeros((4, 2))}, {}, "bad messages", "as if it were an observation"),
        (lambda _, m: {"actions": np.zeros((4, 2))} if _strict(m) else None, {}, "bad messages", "no answer in 1 s"),
        (
            lambda _, m: {"actions": np.zeros((4, 2)), "extra": {"y": np.zeros(1)}} if _strict(m) else "no",
            {},
            "finite",
            "extra/y: arrays shorter",
        ),
    ],
)
def test_each_fault_is_found_and_explained(answer, metadata, check, said):
    with imitation(answer, metadata) as url:
        failures = _failures(url)
    found = [message for name, message in failures.items() if check in name]
    assert found, failures
    assert said in found[0]


def test_no_server_and_no_health_are_explained(capsys):
    with imitation(_stock(lambda _: np.zeros((4, 2))), healthy=False) as url:
        assert "HTTP 404" in _failures(url)["GET /healthz answers OK"]
    assert main(["check", "server", url, "--timeout", "1"]) == 1  # it has gone
    said = capsys.readouterr().out
    assert said.count("nobody listens") == 1
    assert said.count("not checked, because of 'it speaks first, with metadata'") == 7
    assert said.count("FAIL") == 2  # no health, no metadata; what could not be checked has not failed
    assert "0 checks held, 2 failed, 7 not checked" in said
    assert main(["check", "server", url, "--token-env", "NO_SUCH_TOKEN"]) == 2
    assert "--token-env NO_SUCH_TOKEN: there is no such" in capsys.readouterr().err
    with served(lambda *_: unchecked(np.zeros((1, 2)))) as server:
        assert main(["check", "server", server.url, "--keys", __file__]) == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "names no host"),
        ("ws://:8000", "names no host"),
        ("127.0.0.1:99999", "no address (Port out of range"),
        ("http://127.0.0.1:8000", "begins with ws:// or wss://"),
        ("ws://127.0.0.1:8000/vla-eval", "at its openpi address: fovea check server ws://127.0.0.1:8000/"),
        ("127.0.0.1:8000/vla-eval/", "speaks openpi's protocol"),
        ("garbage", "'garbage' is no address of a server: it names no port; write ws://HOST:PORT"),
    ],
)
def test_what_is_no_address_is_wrong_usage(capsys, url, said):
    assert main(["check", "server", url]) == 2
    assert said in capsys.readouterr().err


def test_a_server_without_declared_keys_asks_for_them():
    with imitation(_stock(lambda _: np.zeros((4, 2)))) as url:
        report = check_server(ServerProbe(url, timeout_s=1.0, requests=1))
    assert any("--like libero|droid|aloha" in finding.message for finding in report.failed)


def test_the_load_benchmark_in_small():
    with loaded(5.0) as (url, process):
        overhead = measure_overhead(url, 30)
        load = measure_load(url, process, clients=8, seconds=3.0)
    assert overhead["p50"] > 0
    assert load.errors == ()
    assert load.answered >= 8
    assert load.slowest_share >= 0.5
    assert load.health_ms["p50"] < 1000
    assert load.growth_mb < 30


def test_one_thread_serves_in_turns_however_eager_a_client_is():
    """Eight connections of one eager client against one modest client: the modest one waits for eight, not for ever."""
    import threading

    stop, counts = threading.Event(), [0] * 9

    def slow(memory, seen):
        time.sleep(0.005)
        return chunk((0.1, 0.1))

    seen = {"images/front": np.zeros((8, 12, 3), np.uint8), "state": np.zeros(2, np.float32), "prompt": ""}
    with served(slow) as server:

        def ask(index: int) -> None:
            with PolicyClient(server.url) as client:
                while not stop.is_set():
                    client.infer(seen)
                    counts[index] += 1

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(9)]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        stop.set()
        for thread in threads:
            thread.join()
    assert min(counts) >= 0.5 * np.mean(counts) > 0
