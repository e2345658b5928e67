"""Generated scenes are exact and repeatable; questions have one right answer."""

import re

import numpy as np
import pytest

from backbone.curriculum import easy_vqa, shapes, text
from backbone.curriculum.sample import get_source, source, sources
from backbone.curriculum.scenes import COLOURS, SHAPES, Thing, draw_thing, outline
from backbone.errors import ConfigError
from backbone.nano.measure import answer_of, box_iou, first_box


@pytest.mark.parametrize("name", ["shapes", "text", "easy_vqa"])
def test_sources_are_pure_functions_of_their_generator(name):
    a, b = (get_source(name).make(np.random.default_rng(11), (256, 192)) for _ in range(2))
    assert np.array_equal(a.image, b.image)
    assert [answer_of(c) for c in a.conversations] == [answer_of(c) for c in b.conversations]
    c = get_source(name).make(np.random.default_rng(12), (256, 192))
    assert a.image.shape != c.image.shape or not np.array_equal(a.image, c.image)


def test_registry_names_the_closest_and_refuses_twins():
    with pytest.raises(ConfigError, match="shapes"):
        get_source("shape")
    assert "shapes" in sources()
    with pytest.raises(ConfigError, match="registered twice"):
        source("shapes", 1.0)(lambda rng, size: shapes.shapes(rng, size))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turn", [0.0, 0.2])
def test_box_bounds_the_pixels_that_were_painted(shape, turn):
    canvas = np.zeros((200, 200, 3), np.uint8)
    points = outline(shape, (100.3, 90.7), 40.0, turn)
    box = (*points.min(0).tolist(), *points.max(0).tolist())
    draw_thing(canvas, Thing("white", shape, box), points, (255, 255, 255))
    rows, columns = np.nonzero(canvas[..., 0] > 127)
    painted = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert np.allclose(painted, box, atol=2.5)  # antialiased tips fade below half


def test_things_do_not_overlap():
    for seed in range(30):
        things = shapes.shape_scene(np.random.default_rng(seed), (256, 256), 8).things
        for i, a in enumerate(things):
            assert all(box_iou(a.box, b.box) == 0 for b in things[:i])


def test_counts_relations_and_boxes_agree_with_the_scene():
    checked = {"count": 0, "relation": 0, "ground": 0, "symbol": 0}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scene = shapes.shape_scene(rng, (256, 256), 6)
        if made := shapes.count_group(rng, scene):
            words = made[0]["content"][1]["text"].split()
            key = words[2].rstrip("s") if words[3] == "are" else words[2]
            hits = sum(key.rstrip("e") in (t.shape.rstrip("s").rstrip("e"), t.colour.rstrip("e")) for t in scene.things)
            if words[2] != "objects" and "cross" not in key:
                assert str(hits) == answer_of(made), (words, answer_of(made))
                checked["count"] += 1
        if made := shapes.relation(rng, scene):
            found = re.search(r"Where is the (\w+ \w+) relative to the (\w+ \w+)\?", made[0]["content"][1]["text"])
            a, b = (next(t for t in scene.things if t.name == found.group(k)) for k in (1, 2))
            if answer_of(made) in ("left", "right", "above", "below"):
                dx, dy = a.centre[0] - b.centre[0], a.centre[1] - b.centre[1]
                want = ("left" if dx < 0 else "right") if abs(dx) > abs(dy) else ("above" if dy < 0 else "below")
                assert answer_of(made) == want
                checked["relation"] += 1
        for thing in shapes.unique_things(scene)[:1]:
            box = first_box(answer_of(shapes.ground_thing(rng, scene, thing)))
            assert box_iou(tuple(v * 0.256 for v in box), thing.box) > 0.9
            checked["ground"] += 1
        if (made := shapes.symbol_on(rng, scene)) and answer_of(made) not in "ABCD":
            name = re.search(r"is on the (\w+ \w+)\?", made[0]["content"][1]["text"]).group(1)
            assert next(t for t in scene.things if t.name == name).symbol == answer_of(made)
            checked["symbol"] += 1
    assert all(count > 20 for count in checked.values()), checked


def test_lettered_options_hold_the_answer_once():
    rng = np.random.default_rng(0)
    for _ in range(50):
        asked, letter = shapes.lettered(rng, "What color?", "red", list(COLOURS))
        options = re.findall(r"^([A-D])\. (.*)$", asked, re.MULTILINE)
        assert dict(options)[letter] == "red"
        assert len({o for _, o in options}) == 4


def test_text_is_drawn_inside_its_band():
    for seed in range(40):
        sample = text.short_text(np.random.default_rng(seed), (256, 192))
        for conversation in sample.conversations:
            if box := first_box(answer_of(conversation)):
                assert 0 <= box[0] < box[2] <= 1000
                assert 0 <= box[1] < box[3] <= 1000


def test_easy_vqa_is_whole_and_its_splits_are_apart():
    assert len(easy_vqa.questions("train")) == 38575
    assert len(easy_vqa.questions("test")) == 9673
    assert easy_vqa.picture("test", 0).shape == (192, 192, 3)
