"""The command line: exit codes, one-line errors, JSON that is JSON, speed of the help, and `ask` from end to end."""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from apps import cli
from apps.commands import REGISTRY
from apps.commands.common import ModelOptions, SearchOptions, preset_name, weights_version
from backbone.errors import CancelledError, ConfigError
from backbone.vlm import VLM
from tests.apps.fakes import ANSWER, ScriptedVLM


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedVLM]:
    vlm = ScriptedVLM(step_s=0.0)
    monkeypatch.setattr(VLM, "load", staticmethod(lambda *_, **__: vlm))
    return vlm


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    rng = np.random.default_rng(0)
    Pillow.fromarray(rng.integers(0, 256, (600, 800, 3), dtype=np.uint8)).save(path)
    return path


def test_help_is_fast_and_imports_no_torch() -> None:
    for arguments in (["--help"], ["ask", "--help"]):
        probe = f"import sys; from apps.cli import main; main({arguments}); sys.exit('torch' in sys.modules)"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)  # noqa: S603
        assert done.returncode == 0
        assert "usage: fovea" in done.stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert after.ru_utime - before.ru_utime < 2.0  # 0.3 s here; processor time, so that a busy machine may be slow


@pytest.mark.parametrize("words", list(REGISTRY))
def test_every_command_has_help_with_its_example(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words, "--help"]) == cli.DONE
    printed = capsys.readouterr().out
    assert " ".join(REGISTRY[words].example.split()) in " ".join(printed.split())
    assert REGISTRY[words].example.startswith(" ".join(("fovea", *words)))
    assert importlib.import_module(REGISTRY[words].module).Command.__doc__


@pytest.mark.parametrize("words", list(REGISTRY))
def test_every_example_parses(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    kind = importlib.import_module(REGISTRY[words].module).Command
    monkeypatch.setattr(kind, "run", lambda self, output: 0)
    assert cli.main(shlex.split(REGISTRY[words].example)[1:]) == cli.DONE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "usage: fovea COMMAND"),
        (["trian"], "did you mean 'train'" if ("train", "backbone") in REGISTRY else "no command"),
        (["eval"], "eval needs one more word: eval perception"),
        (["data", "ministra"], "did you mean 'data ministar'?"),
        (["ask"], "Missing from fovea ask"),
        (["ask", "a.png", "q", "--regime", "300"], "300"),
        (["ask", "a.png", "q", "--rollout", "3"], "--rollouts"),
    ],
)
def test_wrong_usage_is_code_2_on_stderr(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == cli.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "Traceback" not in printed.err


def test_a_missing_picture_is_one_line_and_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", "nowhere.png", "What is it?"]) == cli.FAILED
    assert capsys.readouterr().err.strip() == "fovea: nowhere.png: no such file; check the path"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "fovea: interrupted"),
        (CancelledError("3 of 9 items done"), 130, "fovea: interrupted: 3 of 9 items done"),
        (ConfigError("first\nsecond"), 2, "fovea: first second"),
        (
            PermissionError(13, "Permission denied", "/x"),
            1,
            "fovea: /x: Permission denied; check the path, its permissions and the room on its disk",
        ),
        (OSError("the cable is loose"), 1, "fovea: the cable is loose"),
        (
            ModuleNotFoundError("No module named 'gradio'", name="gradio"),
            1,
            "fovea: this needs the package gradio, which is not installed; run: pip install -e '.[demo]'",
        ),
        (RuntimeError("a\nb"), 1, "fovea: internal error: RuntimeError: a b (set FOVEA_TRACEBACK=1 to see where)"),
    ],
)
def test_every_failure_is_one_line(
    error: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", fail)
    assert cli.main(["ask"]) == code
    assert capsys.readouterr().err == line + "\n"


def test_a_defect_shows_its_traceback_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEA_TRACEBACK", "1")
    monkeypatch.setattr(cli, "_dispatch", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cli.main([])


@pytest.mark.usefixtures("scripted")
def test_ask_prints_the_answer_regions_and_ledger(photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", str(photo), "What colour is the circle?", "--rollouts", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(ANSWER)
    for words in ("red circle", "searching", "looking", "answering", "total"):
        assert words in printed


@pytest.mark.usefixtures("scripted")
def test_ask_json_is_json_alone_and_output_is_written(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deep" / "run"
    line = ["ask", str(photo), "Which?", "--options", "red", "blue", "--json", "--seed", "7", "--output", str(folder)]
    assert cli.main(line) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert record["answer"] == "A"
    assert record["options"] == ["red", "blue"]
    assert record["seed"] == 7
    assert record["size"] == [800, 600]
    assert record["config"]["rollouts"] == 4
    assert len(record["regions"]) == 2
    assert record["ledger"]["total"]["generated_tokens"] > 0
    assert json.loads((folder / "answer.json").read_text()) == record
    overlay = np.asarray(Pillow.open(folder / "overlay.png"))
    assert overlay.shape == (600, 800, 3)
    assert (overlay != np.asarray(Pillow.open(photo))).any()
    assert len(list(folder.glob("close-up-*.png"))) == 2


@pytest.mark.usefixtures("scripted")
def test_ask_says_what_reading_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "turned.jpg"
    exif = Pillow.Exif()
    exif[0x0112] = 6
    Pillow.new("RGB", (80, 60)).save(path, exif=exif)
    assert cli.main(["ask", str(path), "What?"]) == 0
    assert "note: rotated by 90 degrees as its EXIF orientation says" in capsys.readouterr().out


@pytest.mark.usefixtures("scripted")
def test_evaluation_runs_resumes_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder, method in zip(folders, ("sparc", "native"), strict=True):
        line = ["eval", "perception", "ministar", "--limit", "3", "--method", method, "--output", str(folder)]
        assert cli.main(line) == 0
        assert "accuracy" in capsys.readouterr().out
    assert cli.main(line) == cli.USAGE  # results are never overwritten
    assert "already holds results" in capsys.readouterr().err
    assert cli.main([*line, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"]["scored"] == 3
    assert cli.main(["eval", "compare", *map(str, folders), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"]["common"] == 3
    assert cli.main(["eval", "compare", *map(str, folders)]) == 0
    assert "McNemar" in capsys.readouterr().out


def test_an_evaluation_with_failed_items_is_code_1(
    tmp_path: Path, scripted: ScriptedVLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(scripted, "generate", broken)
    line = ["eval", "perception", "ministar", "--limit", "1", "--output", str(tmp_path / "run")]
    assert cli.main(line) == cli.FAILED


def test_an_interrupted_evaluation_says_how_to_go_on(
    tmp_path: Path, scripted: ScriptedVLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scripted, "generate", interrupted)
    line = ["eval", "perception", "ministar", "--limit", "1", "--output", str(tmp_path / "run")]
    assert cli.main(line) == cli.INTERRUPTED
    assert "--resume goes on in" in capsys.readouterr().err


def test_mini_star_is_written_as_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["data", "ministar", "--count", "2", "--sizes", "256", "--output", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 2
    records = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    for record in records:
        picture = Pillow.open(tmp_path / record["image"])
        assert list(picture.size) == record["size"]
        assert max(picture.size) == 256
        assert all(0 <= box["x0"] < box["x1"] <= picture.width for box in record["boxes"])
        assert 0 <= record["answer"] < len(record["options"]) == 4


def test_options_become_the_config_of_the_model(tmp_path: Path) -> None:
    config = SearchOptions(method="zoom", regime="full", rollouts=8, temperature=0.3).config("nano")
    assert (config.method, config.regime, config.rollouts, config.temperature) == ("zoom", "full", 8, 0.3)
    assert config.zoom_prompt == "short"  # nano's preset
    assert (config.zoom_temperature, config.zoom_top_p) == (0.0, 1.0)
    drawn = SearchOptions(method="zoom", zoom_temperature=0.7, zoom_top_p=0.8).config("nano")
    assert (drawn.zoom_temperature, drawn.zoom_top_p) == (0.7, 0.8)
    assert preset_name("Qwen/Qwen2.5-VL-3B-Instruct") == "qwen2.5-vl-3b"
    for size, preset in ((4122, "nano"), (151936, "qwen3-vl-4b")):
        (tmp_path / "config.json").write_text(json.dumps({"text_config": {"vocab_size": size}}))
        assert preset_name(str(tmp_path)) == preset
    assert preset_name("http://localhost:8000/v1#Qwen/Qwen3-VL-4B-Instruct") == "qwen3-vl-4b"
    with pytest.raises(ConfigError, match="temperature"):
        SearchOptions(temperature=0.0).config("nano")


def test_weights_version_follows_the_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"a")
    first = weights_version(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"b")
    assert first
    assert weights_version(str(tmp_path)) != first
    assert weights_version("Qwen/Qwen3-VL-4B-Instruct") == ""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("ask a.png What? --output taken", 2, "taken is a file; give a directory"),
        ("ask a.png What? --output taken/below", 2, "taken/below cannot be made (Not a directory)"),
        ("ask a.png What? --seed -1", 2, "--seed must not be negative"),
        ("ask a.png What? --device gpu", 2, "unknown device 'gpu'"),
        ("ask a.png What? --model ./nowhere", 1, "model directory ./nowhere does not exist"),
        ("ask a.png What? --reasoning-adapter nowhere", 2, "--reasoning-adapter nowhere: no such directory"),
        ("ask a.png What? --options A", 2, "needs 2 to 10 options"),
        ("eval perception ministar --limit 1 --output taken", 2, "taken is a file; give a directory"),
        ("eval perception ministar --limit 1 --oracle --overlap 2", 2, "oracle overlap must lie from 0 to 1"),
        ("eval perception vstar", 2, "--path"),
        ("data sample --output taken", 2, "taken is a file; give a directory"),
    ],
)
def test_what_is_wrong_is_found_before_the_model_loads(
    words: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ModelOptions, "load", lambda _: pytest.fail("the model was loaded"))
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("")
    Pillow.new("RGB", (64, 64)).save("a.png")
    assert cli.main(words.split()) == code
    assert said in capsys.readouterr().err
