"""``fovea data record`` as people run it: how far it is, how it goes on, and what it says if nothing comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.cli import main
from backbone.records.reader import RecordedDataset

WORLD = "tests.toy_world:ToyConfig"
HOPELESS = ("--agent", "still", "--max-steps", "1", "--only-successes")


def record(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str, str]:
    code = main(["data", "record", WORLD, "--output", str(folder), *words])
    return code, *capsys.readouterr()


def test_a_recording_goes_on_and_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = record(capsys, tmp_path, "--episodes", "2")
    assert code == 0
    assert "2 of 2 episodes, success 1.000" in out  # a line, for nobody sees a bar here
    code, out, _ = record(capsys, tmp_path, "--episodes", "3", "--json")
    assert code == 0
    assert json.loads(out)["n"] == {"expected": 3, "recorded": 3, "skipped": 0}
    assert len(list(RecordedDataset(tmp_path, strict=True))) == 3
    code, _, err = record(capsys, tmp_path, "--episodes", "4", "--json")
    assert code == 0
    assert "4 of 4 episodes" in err  # those of before are counted


def test_other_settings_in_the_same_folder_are_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record(capsys, tmp_path, "--episodes", "1")[0] == 0
    code, _, err = record(capsys, tmp_path, "--episodes", "1", "--crf", "30")
    assert code == 2
    assert "holds a recording of other settings (video.crf: 18 -> 30)" in err
    assert len(err) < 400


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--episodes", "2", "--episode-timeout-s", "0.00001"], 1, "left out: episode 0 "),
        ([*HOPELESS, "--episodes", "1"], 1, "left out: episode 0 unsuccessful"),
        ([*HOPELESS, "--episodes", "5"], 1, "; and 2 more"),
        (["--episodes", "0"], 2, "at least 1"),
        (["--crf", "99"], 2, "crf must be 0 to 51"),
    ],
)
def test_what_went_wrong_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    found, _, err = record(capsys, tmp_path / "set", *words)
    assert found == code
    assert said in err


def test_a_file_in_the_way_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, err = record(capsys, tmp_path / "file")
    assert code == 2
    assert "is a file; give a directory" in err
