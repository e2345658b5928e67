"""Wrong usage is code 2 and is found before a model loads: places to write to, questions, numbers of every command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from apps import cli
from apps.commands import REGISTRY
from apps.commands.common import check_file
from backbone.errors import ConfigError
from backbone.vlm import VLM
from tests.apps.fakes import ScriptedVLM

# A command line of every command that writes into --output, complete but for that.
WRITING = {
    "ask": "ask a.png What?",
    "read": "read a.png What?",
    "eval perception": "eval perception ministar --limit 1",
    "eval navigation": "eval navigation --n 1",
    "eval docparse": "eval docparse real --limit 1",
    "eval thoughts": "eval thoughts --data .",
    "data ministar": "data ministar --count 1 --sizes 256",
    "data documents": "data documents --n 1",
    "data sample": "data sample",
    "data records": "data records --n 1",
    "data sample-document": "data sample-document",
    "data record": "data record rooms --agent random --episodes 1",
    "data navigation": "data navigation stage1 --episodes 1",
    "train backbone": "train backbone",
    "train perception": "train perception --items 1",
    "train docparse": "train docparse --records .",
    "train navigation": "train navigation sight --steps 1",
    "rollout": "rollout rooms --agent random --episodes 1",
    "reproduce": "reproduce zoom",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("")
    Path("below").mkdir()
    Pillow.new("RGB", (64, 64)).save("a.png")
    return tmp_path


@pytest.fixture
def _unloadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VLM, "load", staticmethod(lambda *_, **__: pytest.fail("the model was loaded")))


def test_no_command_that_writes_is_forgotten() -> None:
    import importlib

    fields = {" ".join(w): importlib.import_module(e.module).Command.__dataclass_fields__ for w, e in REGISTRY.items()}
    assert {name for name, found in fields.items() if {"output", "config"} & found.keys()} == set(WRITING)


@pytest.mark.usefixtures("_unloadable")
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("taken", "taken is a file"),
        ("taken/more", "taken/more cannot be made (Not a directory)"),
        ("/proc", "/proc cannot be written to (No such file or directory)"),  # refuses even root
    ],
)
@pytest.mark.parametrize("command", WRITING)
def test_where_nothing_can_be_written(
    command: str, place: str, said: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = sorted(folder.rglob("*"))
    code = cli.main([*shlex.split(WRITING[command]), "--output", place])
    printed = capsys.readouterr().err
    assert (code, said in printed) == (cli.USAGE, True), printed
    assert printed.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.usefixtures("_unloadable")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('ask a.png ""', "the question is empty"),
        ('ask a.png " "', "the question is empty"),
        ("ask a.png What? --options A A", "given more than once"),
        ('read a.png ""', "a question needs 1 to 1000 characters, got 0"),
        ('read a.png "?!"', "has no words"),
        (f"read a.png {'x' * 1001}", "got 1001"),
        ("read a.png What? --pages 0", "pages"),
        ("demo --device gpu", "unknown device 'gpu'"),
        ("demo --port 0", "port must be 1 to 65535, got 0"),
        ("train perception --device gpu", "unknown device 'gpu'"),
        ("train perception --items 0", "--items must be at least 1 scene, got 0"),
        ("reproduce --items 0", "--items must be at least 1, got 0"),
        ("reproduce --seed -1", "--seed must not be negative, got -1"),
        ("rollout rooms --agent random --seed -1", "seed must be at least 0, got -1"),
        ("serve rooms --save-spec below", "--save-spec below is a directory; give the name of a file"),
        ("serve rooms --save-spec nowhere/x.json", "nowhere is no directory"),
        ("serve rooms --save-spec /proc/x.json", "/proc/x.json cannot be written to"),
    ],
)
def test_wrong_usage_is_found_early(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(shlex.split(words)) == cli.USAGE
    assert said in capsys.readouterr().err


def test_a_file_is_only_looked_for_and_nothing_is_left(folder: Path) -> None:
    check_file(folder / "taken", "--file")  # may be written over
    check_file(folder / "new.json", "--file")
    check_file(None, "--file")
    with pytest.raises(ConfigError, match="taken is no directory"):
        check_file(folder / "taken" / "new.json", "--file")
    assert not (folder / "new.json").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["a.png", "below", "taken"]


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_an_empty_answer_is_code_3_and_everything_is_written(
    extra: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(VLM, "load", staticmethod(lambda *_, **__: ScriptedVLM(step_s=0.0, answer=" \n")))
    assert cli.main(["ask", "a.png", "What?", "--output", "run", *extra]) == cli.SILENT == 3
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1].startswith("fovea: the model gave an empty answer")
    record: dict[str, Any] = json.loads(Path("run/answer.json").read_text())
    assert record["answer"].strip() == ""
    assert "the model gave an empty answer" in record["notes"]
    if extra:
        assert json.loads(printed.out) == record
    else:
        assert "What it cost" in printed.out


def test_the_readme_shows_every_command() -> None:
    shown = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert [name for words in REGISTRY if (name := " ".join(("fovea", *words))) + " " not in shown] == []
