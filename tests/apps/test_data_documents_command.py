"""``fovea data documents``: the files it writes, its JSON, its errors."""

import json
from pathlib import Path

import pytest

from apps import cli
from docparse.benchmarks import load_benchmark


def test_documents_are_written_and_can_be_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made"
    arguments = [
        "--n",
        "2",
        "--seed",
        "7",
        "--kind",
        "letter",
        "--pages",
        "2",
        "--scan",
        "none",
        "--output",
        str(folder),
    ]
    assert cli.main(["data", "documents", *arguments, "--json"]) == cli.DONE
    said = json.loads(capsys.readouterr().out)
    assert (said["documents"], said["pages"], said["config"]["split"]) == (2, 4, "held_out")
    assert sorted(p.name for p in (folder / "documents").iterdir()) == ["held_out-7.pdf", "held_out-8.pdf"]
    assert len(list((folder / "pages").iterdir())) == 4
    benchmark = load_benchmark("generated", folder)
    assert benchmark.counts["loaded"] == said["questions"] > 4
    words = [json.loads(line) for line in (folder / "words.jsonl").read_text("utf-8").splitlines()]
    assert [(w["document"], w["page"]) for w in words] == [
        ("held_out-7", 0),
        ("held_out-7", 1),
        ("held_out-8", 0),
        ("held_out-8", 1),
    ]
    assert all(len(word) == 7 for page in words for word in page["words"])


def test_without_pdf_only_pictures_are_written(tmp_path: Path) -> None:
    arguments = ["--n", "1", "--kind", "slides", "--split", "train", "--no-pdf", "--output", str(tmp_path)]
    assert cli.main(["data", "documents", *arguments]) == cli.DONE
    assert not (tmp_path / "documents").exists()
    assert load_benchmark("generated", tmp_path).items[0].path is None


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--n", "0"], "at least 1 document"),
        (["--pages", "41"], "pages must be 1 to 40"),
        (["--unanswerable", "2"], "share of unanswerable"),
        (["--questions", "0"], "at least 1 question"),
    ],
)
def test_impossible_settings_are_wrong_usage(
    arguments: list[str], match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["data", "documents", "--output", str(tmp_path), *arguments]) == cli.USAGE
    assert match in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    assert cli.main(["data", "documents", "--output", str(tmp_path / "file")]) == cli.USAGE
    assert "is a file" in capsys.readouterr().err
