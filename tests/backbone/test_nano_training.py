"""The real training entry, made tiny: stages, resume, the directory it leaves, and guidance that bites."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from backbone.curriculum.sample import Sample, ask
from backbone.curriculum.scenes import random_scene
from backbone.errors import ConfigError
from backbone.nano.build import build_model
from backbone.nano.config import VOCABULARY, CurriculumConfig, Guidance, NanoConfig, StageConfig
from backbone.nano.encode import Encoder
from backbone.nano.losses import NanoTraining
from backbone.nano.measure import box_iou, first_box, measure
from backbone.nano.recipe import RECIPE
from backbone.nano.train import NanoTrainingConfig, load_start, mixture, train_nano
from backbone.tokenizer import build_tokenizer
from backbone.vlm import VLM

TINY = NanoConfig(text_width=48, text_layers=4, text_feed_forward=64, vision_width=40, vision_layers=4)
SMALL = ((128, 128),)


def stages(*steps):
    tower = CurriculumConfig((("crowded", 1.0),), SMALL, 2, 1, Guidance(answer=0.0, dense=1.0))
    pictures = CurriculumConfig((("shapes", 1.0), ("written", 0.5)), SMALL, 2)
    made = (("tower", tower), ("pictures", pictures))
    return tuple(StageConfig(name, n, 1e-3, what) for n, (name, what) in zip(steps, made, strict=False))


def run(folder, *steps, **options):
    config = NanoTrainingConfig(folder, TINY, stages(*steps), measure_every=0, measure_items=2, **options)
    return train_nano(config)


def test_stages_run_resume_and_leave_a_model_that_loads(tmp_path, capsys):
    first = run(tmp_path, 2, 2)
    said = capsys.readouterr().err.splitlines()  # no terminal here: plain lines
    assert [line for line in said if line.startswith("stage")] == ["stage tower, 1 of 2", "stage pictures, 2 of 2"]
    assert [line.split(":")[0] for line in said if "loss" in line] == ["step 2 of 2"] * 2
    assert first.steps == 4  # of both stages
    assert first.stopped is None
    log = [json.loads(line) for line in (tmp_path / "tower" / "log.jsonl").read_text().splitlines()]
    again = run(tmp_path, 2, 4)  # the first stage is finished, the second goes on
    assert again.steps == 6
    assert len([json.loads(line) for line in (tmp_path / "tower" / "log.jsonl").read_text().splitlines()]) >= len(log)
    vlm = VLM.load(str(tmp_path / "model"))
    image = np.zeros((128, 128, 3), np.uint8)
    made = vlm.generate([ask(image, "What is it?", "x")[0]], max_new_tokens=4)
    assert len(made.token_ids[0]) <= 4
    assert vlm.pixels.factor == TINY.factor


def test_the_written_model_answers_like_the_one_in_memory(tmp_path):
    run(tmp_path, 1, 1)
    model = build_model(TINY)
    training = NanoTraining(model, TINY, Guidance())
    load_start(training, tmp_path / "pictures")
    written = VLM.load(str(tmp_path / "model"), attention="eager")
    for name, value in written.model.state_dict().items():
        assert torch.allclose(value, model.state_dict()[name], atol=2e-3), name  # written as float16


def test_a_start_that_does_not_fit_is_named(tmp_path):
    run(tmp_path, 1)
    other = NanoTraining(build_model(replace(TINY, text_layers=5)), replace(TINY, text_layers=5), Guidance())
    with pytest.raises(ConfigError, match="does not fit"):
        load_start(other, tmp_path / "model")
    with pytest.raises(ConfigError, match="neither checkpoints nor"):
        load_start(other, tmp_path / "nothing")


def test_attention_guidance_turns_the_guided_heads_to_the_thing():
    torch.manual_seed(0)
    scene = random_scene(np.random.default_rng(3), (128, 128), 3, side=(0.2, 0.25))
    thing = scene.things[0]
    sample = Sample(scene.image, (ask(scene.image, f"Locate the {thing.name}.", ("12", thing.box)),), scene.things)
    batch = Encoder(build_tokenizer(VOCABULARY), TINY).batch([sample])
    training = NanoTraining(build_model(TINY), TINY, Guidance(dense=0.0, attention=1.0))
    optimizer = torch.optim.AdamW(training.parameters(), 3e-3)
    losses = []
    for _ in range(25):
        total, parts = training(batch)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append({k: float(v) for k, v in parts.items()})
    assert losses[-1]["attention"] < 0.5 * losses[0]["attention"]
    assert losses[-1]["answer"] < 0.5 * losses[0]["answer"]


def test_measurements_repeat_and_cover_every_ability():
    model = build_model(TINY)
    first, second = (measure(model, TINY, 2) for _ in range(2))
    assert first == second
    assert {"iou", "name", "count", "symbol", "text", "relation"} <= set(first)


def test_recipe_names_registered_sources():
    import perception.curriculum  # noqa: F401 - its sources are part of the recipe

    for stage in RECIPE:
        names, shares = mixture(stage)
        assert names
        assert sum(shares) == pytest.approx(1.0)


def test_configs_refuse_what_cannot_be():
    with pytest.raises(ConfigError, match="draws from nothing"):
        CurriculumConfig(weights=())
    with pytest.raises(ConfigError, match="unique names"):
        NanoTrainingConfig(stages=(StageConfig("a"), StageConfig("a")))
    with pytest.raises(ConfigError, match="deepstack"):
        NanoConfig(deepstack=(9,))


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ('[{"bbox_2d": [1, 2, 3, 4], "label": "x"}]', (1, 2, 3, 4)),
        ('[{"bbox_2d": [1, 2, 3], "label": "x"}]', None),
        ('[{"bbox_2d": [1, 2, 3,, 4]}]', None),
        ("no", None),
    ],
)
def test_first_box(text, box):
    assert first_box(text) == box


def test_box_iou_by_hand():
    assert box_iou((0, 0, 2, 2), (1, 1, 3, 3)) == pytest.approx(1 / 7)
    assert box_iou((0, 0, 1, 1), (2, 2, 3, 3)) == 0
    assert box_iou(None, (0, 0, 1, 1)) == 0
