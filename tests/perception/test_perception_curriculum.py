"""What nano is taught about searching: the prompts of use, boxes that hold their badge, held-out things untouched."""

import json

import numpy as np
import pytest

from backbone.contracts import Box
from backbone.curriculum import photos
from backbone.curriculum.sample import get_source
from backbone.nano.config import VOCABULARY, NanoConfig
from backbone.nano.encode import Encoder
from backbone.nano.measure import answer_of, first_box
from backbone.tokenizer import build_tokenizer
from perception import curriculum, prompts
from perception.benchmarks.ministar import questions, scene
from perception.benchmarks.photographs import PACKAGED
from perception.parsing import parse_regions


@pytest.fixture(scope="module")
def encoder():
    return Encoder(build_tokenizer(VOCABULARY), NanoConfig())


@pytest.mark.parametrize("name", ["search", "close_up", "native"])
def test_sources_repeat_and_encode(name, encoder):
    pytest.importorskip("skimage", reason="needs the photographs of scikit-image")
    a, b = (get_source(name).make(np.random.default_rng(5), (256, 256)) for _ in range(2))
    assert np.array_equal(a.image, b.image)
    assert [answer_of(c) for c in a.conversations] == [answer_of(c) for c in b.conversations]
    batch = encoder.batch([a])
    assert int((batch.labels >= 0).sum()) > 0


def test_training_photographs_are_none_of_the_held_out():
    held_out = {name for name, (_, split) in PACKAGED.items() if split == "held_out"}
    used = {relative.rsplit("/", 1)[-1] for _, relative in photos._TRAINING}
    assert used
    assert not used & held_out


def test_training_scenes_come_from_the_lower_training_seeds():
    for seed in range(50):
        drawn = curriculum._scene(np.random.default_rng(seed))
        assert drawn.split == "train"
        assert drawn.seed < curriculum.TRAIN_SEED_LIMIT


def test_stage_one_targets_parse_to_boxes_on_the_badges():
    for seed in range(8):
        drawn = scene(seed, "train", 1024)
        image, things = curriculum.shown(drawn, 256)
        question = questions(drawn)["relation"]
        made = curriculum.stage_one(image, things, question)
        text = answer_of(made)
        regions = parse_regions(text).regions
        assert len(regions) == len(json.loads(text)) == len(question.targets)
        for region, item in zip(regions, json.loads(text), strict=True):
            badge = next(b for b in drawn.badges if b.name == item["label"])
            box = Box.clamped([v * s / 1000 for v, s in zip(item["bbox_2d"], drawn.size * 2, strict=True)], *drawn.size)
            assert box.iou(badge.box) > 0.8
            assert region.label == item["label"]


def test_the_prompts_taught_are_the_prompts_used():
    drawn = scene(3, "train", 1024)
    image, things = curriculum.shown(drawn, 256)
    question = questions(drawn)["attribute"]
    taught = curriculum.stage_one(image, things, question)[0]
    used = prompts.perception_messages(image, question.text)[0]
    assert [p.get("text") for p in taught["content"]] == [p.get("text") for p in used["content"]]
    zoomed = curriculum.zoom(np.random.default_rng(0), drawn, image, things, question)
    assert [m["role"] for m in zoomed] == ["user", "assistant", "user", "assistant"]
    call = "".join(p["text"] for p in zoomed[1]["content"])
    box = json.loads(call.removeprefix("<tool_call>").removesuffix("</tool_call>"))["arguments"]["bbox_2d"]
    target = things[question.targets[0]].box
    assert np.allclose([v * image.shape[1 - i % 2] / 1000 for i, v in enumerate(box)], target, atol=1)
    assert answer_of(zoomed) in prompts.LETTERS[:4]


def test_close_ups_hold_most_of_their_badge():
    rng = np.random.default_rng(1)
    for seed in range(20):
        drawn = scene(seed, "train", 1024)
        badge = drawn.badges[0]
        loose = curriculum.loose_box(rng, badge.box, drawn.size)
        assert loose.coverage(badge.box) > 0.4
        image = curriculum.cropped(drawn, loose)
        assert max(image.shape) <= 288
        assert image.shape[0] % 32 == image.shape[1] % 32 == 0
    assert first_box("no") is None
