"""The commands of patch fields: what is refused before anything slow, and the way from records to a page pointed at."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from apps.cli import main
from docparse.fields.patches import PatchConfig
from docparse.patch_data import VERSION, patch_folder


def said(capsys, *arguments: str) -> tuple[int, str]:
    code = main([*arguments])
    shown = capsys.readouterr()
    return code, " ".join((shown.out + shown.err).split())


def begun(records: Path, *configs: PatchConfig) -> Path:
    for config in configs:
        folder = patch_folder(records, config)
        folder.mkdir(parents=True)
        (folder / "about.json").write_text(json.dumps({"version": VERSION, "config": asdict(config)}))
    return records


def test_a_server_has_no_patches(capsys, tmp_path):
    arguments = ("data", "records", "--n", "1", "--patches", "http://host/v1#model", "--output", str(tmp_path))
    code, text = said(capsys, *arguments)
    assert code == 2
    assert "hidden states" in text


def test_training_without_patch_fields_says_how_to_make_them(capsys, tmp_path):
    arguments = ("train", "docparse", "--records", str(tmp_path), "--output", str(tmp_path / "run"), "--fields", "both")
    code, text = said(capsys, *arguments)
    assert code == 1
    assert "fovea data records" in text
    begun(tmp_path, PatchConfig(longest=512), PatchConfig(longest=768))
    code, text = said(capsys, *arguments)
    assert code == 2
    assert "512 pixels" in text
    assert "several" in text
    code, text = said(capsys, *arguments, "--method", "detector")
    assert code == 2
    assert "--method flow" in text


def test_fields_that_the_weights_do_not_have_are_refused(capsys, tmp_path):
    page = tmp_path / "page.png"
    Image.fromarray(np.full((80, 60, 3), 255, np.uint8)).save(page)
    code, text = said(capsys, "read", str(page), "What is the total?", "--fields", "both", "--no-ocr")
    assert code == 2
    assert "trained on words, not on both" in text


@pytest.mark.parametrize("fields", ["patches", "both"])
def test_from_records_to_a_place_on_a_page(capsys, tmp_path, fields):
    """With nano: two steps teach nothing, but every part has to fit."""
    records, run = tmp_path / "records", tmp_path / "run"
    made = ("--n", "1", "--seed", "9", "--patches", "nano", "--longest", "192", "--output", str(records))
    assert said(capsys, "data", "records", "--split", "train", *made)[0] == 0
    small = ("--steps", "2", "--questions-per-step", "2", "--threads", "1", "--output", str(run))
    assert said(capsys, "train", "docparse", "--records", str(records), "--fields", fields, *small)[0] == 0
    about = json.loads((run / "model" / "config.json").read_text())["config"]
    assert about["patches"]["longest"] == 192
    assert about["patches"]["fingerprint"]
    assert about["network"]["words"] == (fields == "both")
    page = tmp_path / "page.png"
    image = np.full((300, 220, 3), 255, np.uint8)
    image[100:160, 60:150] = 20
    Image.fromarray(image).save(page)
    weights = ("--weights", str(run / "model"), "--fields", fields, "--json")
    code = main(["read", str(page), "Where is the block?", *weights])
    answer = json.loads(capsys.readouterr().out)
    assert code == 0
    if fields == "patches":
        assert [step["name"] for step in answer["steps"]][-1] == "64 cells a side"
    else:
        assert any("no words" in note for note in answer["notes"])


def test_patches_that_could_not_be_made_leave_nothing_for_training_to_find(capsys, tmp_path):
    arguments = ("data", "records", "--n", "1", "--pages", "1", "1", "--output", str(tmp_path), "--patches", "nano")
    code, text = said(capsys, *arguments, "--longest", "64", "--layer", "99")
    assert code == 1
    assert "layers must lie" in text
    assert not [*tmp_path.glob("patches/*/about.json")]
    code, text = said(capsys, *arguments, "--longest", "64")
    assert code == 0, text
    (tmp_path / "train-0000001.npz").write_bytes((tmp_path / "train-0000000.npz").read_bytes())
    code, text = said(capsys, *arguments, "--longest", "64", "--n", "2")
    assert code == 1
    assert "--pages, --hops and --sights" in text
