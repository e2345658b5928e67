"""fovea data navigation and fovea train navigation, from the command line to weights that load."""

import json

import pytest

from apps.cli import main
from backbone.vlm import VLM
from navigation.records import list_episodes, read_trajectory


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("episodes")
    assert main(["data", "navigation", "stage1", "--episodes", "2", "--output", str(folder)]) == 0
    return folder


def test_episodes_are_made_once(episodes, capsys):
    paths = list_episodes(episodes)
    assert [read_trajectory(p).source for p in paths] == ["shortest"] * 2
    assert main(["data", "navigation", "stage1", "--episodes", "2", "--output", str(episodes), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["expected"], told["made"], told["failed"], told["new"]) == (2, 2, 0, 0)


def test_other_settings_are_wrong_usage(episodes, capsys):
    given = ["data", "navigation", "stage1", "--episodes", "2", "--output", str(episodes), "--noise", "0.3"]
    assert main(given) == 2
    assert "other settings" in capsys.readouterr().err
    assert main(["data", "navigation", "stage1", "--world.split", "val", "--output", str(episodes)]) == 2


@pytest.mark.parametrize("given", [["--segments", "legs"], ["--stray", "0.03"]])
def test_what_does_nothing_in_stage_one_is_wrong_usage(given, tmp_path, capsys):
    assert main(["data", "navigation", "stage1", "--episodes", "1", *given, "--output", str(tmp_path / "out")]) == 2
    assert given[0] in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_stage_one_is_trained_and_its_adapter_loads(episodes, tmp_path, tiny_vlm_dir, capsys):
    model = str(tiny_vlm_dir("qwen3_vl"))
    given = ["train", "navigation", "stage1", "--model", model, "--preset", "nano", "--data", str(episodes)]
    given += ["--language", "lora", "--tower", "frozen", "--rank", "4"]
    given += ["--steps", "1", "--batch", "2", "--precision", "fp32"]
    assert main([*given, "--output", str(tmp_path / "run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["result"]["steps"] == 1
    assert told["settings"]["alpha"] == 8
    vlm = VLM.load(model)
    vlm.adapters.attach("navigation", told["weights"])
    assert json.loads((tmp_path / "run" / "agent.json").read_text())["prompt_style"] == "short"


def test_episodes_of_another_stage_are_wrong_usage(episodes, capsys):
    assert main(["train", "navigation", "stage2", "--data", str(episodes)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "holds episodes of stage1, not of stage2" in told


def test_a_stage_without_data_is_wrong_usage(capsys):
    assert main(["train", "navigation", "stage2"]) == 2
    assert "fovea data navigation stage2" in capsys.readouterr().err
