"""`fovea train`: what is trained is written, found by `fovea ask`, and goes on after a stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from apps import cli
from apps.commands import train_backbone, train_perception
from backbone.training import TrainingResult
from tests.tiny_models import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_model("qwen3_vl", folder)
    return folder


def everything(vlm: Any, items: Any, config: Any, *, mining: Any, **_: Any) -> Iterator[Any]:
    """Mining that keeps every item with its own boxes."""
    for item in items:
        mining.counts["hard"] += 1
        yield item, item.boxes


def test_perception_is_trained_and_its_adapter_is_used(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train_perception, "mine", everything)
    folder = tmp_path / "looking"
    line = ["train", "perception", "--model", str(model), "--items", "2", "--output", str(folder), "--json"]
    line += ["--training.batch", "2", "--training.accumulate", "1", "--training.steps", "1"]
    assert cli.main(line) == 0, capsys.readouterr().err
    result = json.loads(capsys.readouterr().out)
    assert (result["records"], result["result"]["steps"]) == (2, 1)
    assert not (folder / "records.part").exists()
    photo = tmp_path / "photo.png"
    Pillow.fromarray(np.zeros((64, 64, 3), np.uint8)).save(photo)
    ask = ["ask", str(photo), "What?", "--options", "a", "b", "--model", str(model), "--rollouts", "1", "--json"]
    assert cli.main([*ask, "--perception-adapter", result["adapter"]]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["config"]["perception_adapter"] == "perception"
    assert cli.main([*ask, "--reasoning-adapter", str(tmp_path / "nowhere")]) == cli.USAGE
    assert "no such directory" in capsys.readouterr().err


def test_half_mined_records_are_mined_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "records.part").mkdir()
    (tmp_path / "records.part" / "records.jsonl").write_text("half a rec")
    monkeypatch.setattr(train_perception, "mine", lambda *_, **__: iter(()))
    line = ["train", "perception", "--model", str(model), "--items", "1", "--output", str(tmp_path)]
    assert cli.main(line) == 1
    assert "no record came out of 1 scenes" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()


@pytest.mark.parametrize(("stopped", "code"), [(None, 0), ("SIGINT", 130)])
def test_backbone_reports_how_training_ended(
    stopped: str | None,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = []

    def train(config: Any) -> TrainingResult:
        seen.append(config)
        return TrainingResult(3, 1.5, {"iou": 0.25}, tmp_path / "step-3", stopped)

    monkeypatch.setattr(train_backbone, "train_nano", train)
    line = ["train", "backbone", "--output", str(tmp_path), "--scale", "0.5", "--seed", "5"]
    assert cli.main(line) == code
    assert (seen[0].output, seen[0].scale, seen[0].seed) == (tmp_path, 0.5, 5)
    assert ("start again to go on" in capsys.readouterr().out) == (stopped is not None)
    assert cli.main([*line, "--json"]) == code
    record = json.loads(capsys.readouterr().out)
    assert record["config"]["scale"] == 0.5
    assert record["model"] == str(tmp_path / "model")
