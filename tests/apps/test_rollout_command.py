"""``fovea rollout`` and ``fovea check``: options of worlds and agents, exit codes, JSON, messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.agents import AGENTS, RemoteConfig, agent_config, agent_config_class
from apps.cli import main
from apps.commands.choices import named_world, option
from apps.plugins import is_plugin, load_plugin
from apps.worlds import world_config_class
from backbone.errors import ConfigError
from backbone.rollout.results import comparable
from tests.toy_world import CONTINUOUS, ToyConfig

WORLD = "tests.toy_world:ToyConfig"
POLICY = "tests.toy_world:ToyPolicyConfig"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def test_a_rollout_prints_and_writes_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "rollout", WORLD, "--agent", POLICY, "--agent.chunk", "3", "--world.max-steps", "9",
        "--episodes", "4", "--output", str(tmp_path), "--json", "--execute", "2",
    )  # fmt: skip
    assert code == 0
    result = json.loads(out)
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert result["config"]["world"] | {"max_steps": 9, "world": "toy"} == result["config"]["world"]
    assert result["config"]["agent"]["chunk"] == 3
    assert result["n"] == {"expected": 4, "scored": 4, "failed": 0, "missing": 0}
    assert "4 of 4 episodes, success" in err  # plain lines where there is no terminal
    code, out, _ = run(capsys, "rollout", WORLD, "--agent", POLICY, "--agent.chunk", "3", "--world.max-steps", "9",
                       "--episodes", "4", "--output", str(tmp_path), "--execute", "2")  # fmt: skip
    assert code == 0
    assert "4 expected, 4 scored, 0 failed, 0 missing" in out
    assert comparable(json.loads((tmp_path / "result.json").read_text())) == comparable(result)


LEAVING = """
import sys
from dataclasses import dataclass

@dataclass(frozen=True)
class Gone:
    world: str = "gone"

    def options(self, index):
        return {}

    def make(self):
        raise SystemExit(0)

@dataclass(frozen=True)
class Leaving:
    agent: str = "leaving"
    when: str = "make"

    def make(self, spec):
        if self.when == "make":
            raise SystemExit(0)
        self_ = self

        class Agent:
            def session(self, instruction, seed):
                raise SystemExit(0)

            def close(self):
                if self_.when == "close":
                    raise SystemExit(0)

        agent = Agent()
        agent.spec = spec
        return agent
"""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("rollout WORLD --agent leaving:Leaving", 1, "the agent leaving cannot be made: it raised SystemExit(0)"),
        ("rollout WORLD --agent leaving:Leaving --agent.when session", 1, "episode 0 failed: SystemExit: 0"),
        ("rollout WORLD --agent leaving:Leaving --agent.when close", 1, "cannot be closed: it raised SystemExit(0)"),
        ("rollout WORLD --agent ending:Leaving", 2, "importing ending ends the program (SystemExit(0))"),
        ("rollout leaving:Gone --agent random", 1, "the world gone cannot be opened: it raised SystemExit(0)"),
        ("serve leaving:Gone --port 0 --agent random", 1, "the world gone cannot be looked at: it raised SystemExit"),
        ("serve WORLD --port 0 --agent leaving:Leaving", 1, "the agent leaving cannot be made: SystemExit: 0"),
        ("serve WORLD --port 0 --agent leaving:Leaving --agent.when session", 1, "example observation (SystemExit: 0)"),
    ],
)
def test_an_agent_that_ends_the_program_is_a_stated_failure(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    code: int,
    said: str,
) -> None:
    (tmp_path / "leaving.py").write_text(LEAVING)
    (tmp_path / "ending.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    more = ["--episodes", "1", "--output", str(tmp_path / "out")] if words.startswith("rollout") else []
    found, out, err = run(capsys, *words.replace("WORLD", WORLD).split(), *more)
    assert found == code
    assert said in out + err


def test_failed_episodes_fail_the_command_unless_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["rollout", WORLD, "--world.faults", "1:raise-step", "--episodes", "2", "--output", str(tmp_path)]
    code, out, _ = run(capsys, *words)
    assert code == 1
    assert "episode 1 failed: ValueError: toy: a wheel came off" in out
    assert run(capsys, *words, "--allow-failures")[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["room"], 2, "did you mean 'rooms'?"),
        ([WORLD, "--agent", "expret"], 2, "did you mean 'expert'?"),
        ([WORLD, "--video", "some"], 2, "--video takes a number"),
        ([WORLD, "--workers", "0"], 2, "workers = 0"),
        ([WORLD, "--world.broken"], 1, "buy another one"),
        ([WORLD, "--gpus-per-worker", "1"], 2, "needs --backend ray, got serial"),
        ([WORLD, "--ray", "127.0.0.1:1"], 1, "no Ray cluster answers at 127.0.0.1:1"),
        (["tests.toy_world:Nothing"], 2, "no dataclass 'Nothing'"),
        (["tests.no_module:Config"], 2, "no module"),
        (["tests.toy_world:ToyPolicyConfig"], 2, "lacks world, options"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    words: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, err = run(capsys, "rollout", *words, "--output", str(tmp_path / "run"))
    assert found == code
    assert message in err
    assert "Traceback" not in err


def test_films_that_come_too_late_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["rollout", WORLD, "--output", str(tmp_path), "--episodes"]
    assert "no film" not in run(capsys, *words, "1", "--video", "0")[1]
    assert "no film of episodes 0: they were run before" in run(capsys, *words, "2", "--video", "all")[1]
    assert (tmp_path / "videos" / "episode-00001.mp4").stat().st_size > 1000


def test_other_settings_in_the_same_folder_are_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["rollout", WORLD, "--episodes", "1", "--output", str(tmp_path)]
    assert run(capsys, *words)[0] == 0
    code, _, err = run(capsys, *words, "--world.pixels", "30")
    assert code == 2
    assert "world.pixels: 24 -> 30" in err


def test_help_shows_the_options_of_world_and_agent(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "rollout", "--help", WORLD, "--agent", POLICY)
    assert code == 0
    for words in ("--world.pixels", "side of its camera", "--agent.chunk", "actions in a chunk", "WORLD", "of the run"):
        assert words in out
    code, out, _ = run(capsys, "rollout", "--help")
    assert code == 0
    assert "--world." not in out


def test_help_does_not_import_a_simulator_or_torch() -> None:
    import subprocess

    script = "import sys; from apps.cli import main; main(['rollout', '--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert not {"torch", "mujoco", "moderngl", "gymnasium", "ray"} & set(done.stderr.split())


def test_check_world_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "world", WORLD, "--world.discrete")
    assert code == 0
    assert "20 checks held, 0 failed" in out
    broken = ["tests.backbone.broken_worlds:BrokenConfig", "--world.kind", "SharedBuffer"]
    code, out, _ = run(capsys, "check", "world", *broken, "--json")
    report: dict[str, Any] = json.loads(out)
    assert code == 1
    assert not report["ok"]
    assert [f["name"] for f in report["findings"] if not f["ok"]] == ["observations belong to their receiver"]


def test_check_policy_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", "policy", POLICY, "--world", WORLD)
    assert code == 0
    assert "11 checks held, 0 failed" in out
    code, out, _ = run(capsys, "check", "policy", "tests.backbone.broken_policies:BrokenPolicyConfig", "--world", WORLD,
                       "--agent.kind", "Undead")  # fmt: skip
    assert code == 1
    assert "FAIL a closed session stays closed" in out
    assert "a closed session still acts" in out


def test_names_among_arguments() -> None:
    assert named_world(["--agent", "random", "rooms"]) == "rooms"
    assert named_world(["rooom", "--agent", "random"]) == "rooom"
    assert named_world(["--help"]) is None
    assert option(["--agent", "a", "--agent=b"], "--agent", "c") == "b"
    assert option([], "--agent", "c") == "c"
    assert is_plugin("a.b:C")
    assert not is_plugin("ws://host:8000")
    assert load_plugin(WORLD, "make") is ToyConfig


def test_every_agent_and_world_of_the_lists_can_be_described() -> None:
    for name in AGENTS:
        assert agent_config(name).agent == name
    for name in ("rooms", "metaworld"):
        try:
            config = world_config_class(name)()
        except ModuleNotFoundError:
            continue
        assert config.world == name
    assert world_config_class(WORLD) is ToyConfig
    assert agent_config_class("wss://host:1/") is RemoteConfig
    assert agent_config("ws://127.0.0.1:9").agent == "ws://127.0.0.1:9"
    with pytest.raises(ConfigError, match=r"package\.module:Class"):
        agent_config_class("nobody")


def test_a_server_that_is_not_there_is_a_stated_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("websockets", reason="needs the extra 'server'")
    code, _, err = run(
        capsys, "rollout", WORLD, "--agent", "ws://127.0.0.1:9", "--output", str(tmp_path), "--episodes", "1"
    )
    assert code == 1
    assert "127.0.0.1:9" in err
    assert CONTINUOUS.names == ("right", "up")
