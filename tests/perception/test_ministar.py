import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backbone.contracts import Box, Image
from backbone.curriculum.scenes import outline
from backbone.errors import ConfigError, DataError
from backbone.images import SourceImage
from perception.benchmarks import ministar
from perception.benchmarks.ministar import KINDS, SEEDS, SHAPE_GROUPS, SIDES, SIZES, benchmark, questions, scene
from perception.benchmarks.photographs import PACKAGED, Photograph, photographs, split_of
from perception.benchmarks.scene_image import RIM, Badge, SceneImage, Tile

SEED = st.integers(0, 3000)


def difference(a: Image, b: Image) -> np.ndarray:
    assert a.shape == b.shape
    return np.abs(a.astype(int) - b.astype(int))


@pytest.mark.parametrize(("seed", "size"), [(0, 2048), (5, 1024), (11, 1024)])
def test_a_small_view_equals_the_full_drawing_made_small(seed: int, size: int) -> None:
    drawn = scene(seed, "train", size)
    full = SourceImage.from_array(drawn.array)
    for longest in (64, 256, 512):
        error = difference(drawn.resized(longest), full.resized(longest))
        assert error.mean() < 2.5
        assert np.percentile(error, 99) < 25


@pytest.mark.parametrize("seed", [1, 6])
def test_crops_equal_those_of_the_full_drawing(seed: int) -> None:
    drawn = scene(seed, "train", 1024)
    full = SourceImage.from_array(drawn.array)
    width, height = drawn.size
    for badge in drawn.badges:
        for grown, size in ((4.0, (224, 224)), (4.0, (30, 50)), (20.0, (256, 200))):
            half = badge.side * grown / 2
            (x, y) = badge.centre
            box = Box.clamped((x - half, y - half, x + half, y + half), width, height)
            error = difference(drawn.crop(box, *size), full.crop(box, *size))
            assert error.mean() < 3.0, (badge, grown, size)
    whole = Box(0, 0, width, height)
    assert difference(drawn.crop(whole, width, height), full.array).max() == 0


def test_an_enlarged_crop_shows_no_more_than_the_pixels_hold() -> None:
    drawn = scene(2, "train", 1024)
    box = Box.clamped(drawn.badges[0].box.corners, *drawn.size)
    native = drawn.array[int(box.y0) : int(np.ceil(box.y1)), int(box.x0) : int(np.ceil(box.x1))]
    enlarged = cv2.resize(native, (300, 300), interpolation=cv2.INTER_CUBIC)
    assert difference(drawn.crop(box, 300, 300), np.asarray(enlarged, np.uint8)).max() <= 2


@given(SEED)
@settings(max_examples=12, deadline=None)
def test_badges_are_drawn_where_their_boxes_say(seed: int) -> None:
    drawn = scene(seed, "train", 1024)
    empty = SceneImage(drawn.width, drawn.height, drawn.tiles, ())
    changed = difference(drawn.resized(512), empty.resized(512)).max(2) > 12
    scale = 512 / 1024
    outside = changed.copy()
    for badge in drawn.badges:
        x0, y0, x1, y1 = (v * scale for v in badge.box.corners)
        inside = changed[int(y0) : int(np.ceil(y1)), int(x0) : int(np.ceil(x1))]
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        assert rows.size >= 0.8 * (y1 - y0)
        assert columns.size >= 0.8 * (x1 - x0)
        outside[int(y0 - 1) : int(np.ceil(y1)) + 1, int(x0 - 1) : int(np.ceil(x1)) + 1] = False
    assert not outside.any()


@given(SEED, st.sampled_from(("train", "held_out")))
@settings(max_examples=30, deadline=None)
def test_scenes_keep_their_promises(seed: int, split: str) -> None:
    drawn = scene(SEEDS[split].start + seed, split)
    assert max(drawn.size) in SIZES
    assert 2 <= len(drawn.badges) <= 6
    assert len({b.name for b in drawn.badges}) == len(drawn.badges)
    assert len({b.symbol for b in drawn.badges}) == len(drawn.badges)
    for i, badge in enumerate(drawn.badges):
        assert SIDES[0] <= badge.side / max(drawn.size) <= SIDES[1]
        assert badge.box.x1 <= drawn.width
        assert badge.box.y1 <= drawn.height
        assert all(badge.box.iou(other.box) == 0 for other in drawn.badges[i + 1 :])
    names = {t.photograph.name for t in drawn.tiles}
    assert all(PACKAGED[name][1] == split for name in names)
    area = sum((t.box[2] - t.box[0]) * (t.box[3] - t.box[1]) for t in drawn.tiles)
    assert area == pytest.approx(drawn.width * drawn.height)


@given(SEED)
@settings(max_examples=30, deadline=None)
def test_questions_have_one_right_answer(seed: int) -> None:
    drawn = scene(seed, "train", 1024)
    by_name = {b.name: b for b in drawn.badges}
    by_symbol = {b.symbol: b for b in drawn.badges}
    for kind, q in questions(drawn).items():
        assert kind == q.kind
        assert len(set(q.options)) == 4
        right = q.options[q.answer]
        if kind == "attribute":
            name = q.text.split(" on the ")[1].rstrip("?")
            assert by_name[name].symbol == right
            assert drawn.badges[q.targets[0]].name == name
        elif kind == "shape":
            assert by_symbol[q.text.rstrip("?").split()[-1]].name == right
        else:
            first, second = q.text.removeprefix("Where is the ").rstrip("?").split(" relative to the ")
            a, b = by_name[first].centre, by_name[second].centre
            dx, dy = a[0] - b[0], a[1] - b[1]
            assert {"left": dx < 0, "right": dx > 0, "above": dy < 0, "below": dy > 0}[right]
            along, across = (abs(dx), abs(dy)) if right in ("left", "right") else (abs(dy), abs(dx))
            assert along >= 2 * across
            assert {drawn.badges[i].name for i in q.targets} == {first, second}


def test_distractors_stand_in_the_scene_and_answers_are_spread() -> None:
    items = [questions(scene(seed, "train", 1024)) for seed in range(120)]
    for kind in KINDS:
        places = np.bincount([q[kind].answer for q in items], minlength=4)
        assert places.min() >= 15, (kind, places)
    directions = [q["relation"].options[q["relation"].answer] for q in items]
    assert min(directions.count(d) for d in ministar.DIRECTIONS) >= 15
    with_many = [s for s in (scene(i, "train", 1024) for i in range(40)) if len(s.badges) >= 4]
    for drawn in with_many:
        assert set(questions(drawn)["attribute"].options) <= {b.symbol for b in drawn.badges}


def test_the_same_seed_is_the_same_picture_and_question() -> None:
    a, b = scene(77, "train"), scene(77, "train")
    assert (a.resized(256) == b.resized(256)).all()
    assert questions(a) == questions(b)
    assert (scene(78, "train", max(a.size)).badges) != a.badges


def test_a_symbol_cannot_be_read_at_256_but_can_from_the_original() -> None:
    """Pictures that differ in one symbol alone: nearly equal at 256 px, clearly different in the close-up."""
    for seed in range(8):
        drawn = scene(seed, "train", 1024)
        badge = drawn.badges[0]
        views, crops = [], []
        for symbol in "KT":
            changed = Badge(badge.colour, badge.shape, symbol, badge.centre, badge.side, badge.rgb)
            picture = SceneImage(drawn.width, drawn.height, drawn.tiles, (changed,))
            views.append(picture.resized(256))
            crops.append(picture.crop(badge.box, 224, 224))
        assert difference(*crops).max() > 120
        x0, y0, x1, y1 = (int(v / 4) for v in badge.box.corners)
        small = difference(*views)[y0 : y1 + 1, x0 : x1 + 1].max(2)
        assert (small > 60).sum() <= 6  # pixels that tell K from T


@pytest.mark.parametrize("shape", [shape for group in SHAPE_GROUPS for shape in group])
@pytest.mark.parametrize("symbol", ["M", "Q"])
def test_symbols_lie_wholly_inside_their_shape(shape: str, symbol: str) -> None:
    photo = Photograph.from_array("grey", np.full((64, 64, 3), 90, np.uint8))
    tile = Tile((0.0, 0.0, 256.0, 256.0), photo, (0.0, 0.0, 64.0, 64.0), False, (1.0, 1.0, 1.0))
    one, other = (Badge("red", shape, s, (128.0, 128.0), 200.0, (215, 35, 35)) for s in (symbol, "I"))
    drawn = [SceneImage(256, 256, (tile,), (badge,)).array for badge in (one, other)]
    points = outline(shape, (128.0, 128.0), 100.0)
    ys, xs = np.nonzero(difference(*drawn).max(2) > 20)
    assert ys.size > 100
    assert 0.2 * 200 < np.ptp(ys) < 0.3 * 200
    deep = [cv2.pointPolygonTest(points, (float(x), float(y)), True) for x, y in zip(xs, ys, strict=True)]
    assert min(deep) > RIM * 200  # clear of the rim


def test_mirrored_tiles_show_the_photograph_reversed() -> None:
    ramp = np.repeat(np.arange(0, 240, 4, dtype=np.uint8)[None, :, None], 40, 0).repeat(3, 2)
    photo = Photograph.from_array("ramp", np.ascontiguousarray(ramp))
    straight, mirrored = (
        SceneImage(60, 40, (Tile((0.0, 0.0, 60.0, 40.0), photo, (0.0, 0.0, 60.0, 40.0), flag, (1.0,) * 3),), ())
        for flag in (False, True)
    )
    assert difference(straight.array, photo.levels[0]).max() == 0
    assert difference(mirrored.array, np.ascontiguousarray(photo.levels[0][:, ::-1])).max() == 0


def test_items_are_the_same_whatever_the_count() -> None:
    few, many = benchmark(3), benchmark(8)
    assert [i.id for i in few.items] == [i.id for i in many.items[:3]]
    assert few.items[1] == many.items[1]
    assert [max(i.load().size) for i in many.items] == [*SIZES, *SIZES]
    assert {i.kind for i in benchmark(40).items} == set(KINDS)
    assert {i.kind for i in benchmark(10, kinds={"relation": 1.0}).items} == {"relation"}
    assert benchmark(2, offset=1).items[0].seed == few.items[1].seed


def test_item_boxes_are_the_targets() -> None:
    for item in benchmark(12).items:
        assert item.seed in SEEDS["held_out"]
        drawn = item.load()
        assert isinstance(drawn, SceneImage)
        boxes = {b.box.corners for b in drawn.badges}
        assert {b.corners for b in item.boxes} <= boxes
        assert len(item.boxes) == (2 if item.kind == "relation" else 1)


def test_splits_share_no_seed_and_no_photograph() -> None:
    assert SEEDS["train"].stop <= SEEDS["held_out"].start
    assert not {p.name for p in photographs("train")} & {p.name for p in photographs("held_out")}
    with pytest.raises(DataError, match="seeds: train 0"):
        scene(5, "held_out")
    with pytest.raises(DataError, match="split"):
        scene(5, "test")  # type: ignore[arg-type]


@pytest.mark.parametrize("longest", [255, 8193])
def test_sizes_out_of_range_are_refused(longest: int) -> None:
    with pytest.raises(ConfigError, match="8192"):
        scene(0, "train", longest)


@pytest.mark.parametrize("kinds", [{}, {"colour": 1.0}, {"attribute": -1.0}, {"attribute": 0.0}])
def test_impossible_kinds_are_refused(kinds: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="kinds"):
        benchmark(2, kinds=kinds)


def test_a_users_photographs_join_their_split(tmp_path: Path) -> None:
    names = [f"holiday {i}.png" for i in range(12)]
    for name in names:
        cv2.imwrite(str(tmp_path / name), np.full((60, 80, 3), 90, np.uint8))
    found = {split: {p.name for p in photographs(split, tmp_path)} & set(names) for split in SEEDS}
    assert found["train"] | found["held_out"] == set(names)
    assert found["held_out"] == {n for n in names if split_of(n) == "held_out"}
    assert found["held_out"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no train photograph"):
        photographs("train", tmp_path / "empty")


def test_a_missing_photograph_names_the_remedy() -> None:

    from perception.benchmarks import photographs as module

    with pytest.raises(DataError, match=r"pip install -e '\.\[data\]'"):
        module._packaged_path("china.jpg", "no_such_package", "images")


def test_tiles_join_without_a_gap_at_odd_scales() -> None:
    photo = Photograph.from_array("white", np.full((50, 70, 3), 255, np.uint8))
    ones = (1.0, 1.0, 1.0)
    tiles = tuple(
        Tile((x0, 0.0, x1, 333.0), photo, (0.0, 0.0, 70.0, 50.0), x0 > 0, ones)
        for x0, x1 in ((0.0, 333.3), (333.3, 700.1), (700.1, 1001.0))
    )
    picture = SceneImage(1001, 333, tiles, ())
    for longest in (1001, 500, 127, 64):
        assert picture.resized(longest).min() == 255
    assert picture.crop(Box(330, 0, 340, 10), 7, 9).min() == 255


def test_views_are_checked() -> None:
    drawn = scene(0, "train", 1024)
    with pytest.raises(DataError, match="at least 1 pixel"):
        drawn.resized(0)
    with pytest.raises(DataError, match="at least 1 x 1"):
        drawn.crop(Box(0, 0, 10, 10), 0, 5)
    with pytest.raises(DataError, match="no pixel inside"):
        drawn.crop(Box(5000, 0, 5010, 10), 5, 5)
    assert drawn.resized(None).shape == (*drawn.size[::-1], 3)


def test_training_scenes_are_fast() -> None:
    """The fast path never draws the original: the limit is a fifth of what one core does, for busy machines."""
    scene(0, "train").resized(256)
    started = time.process_time()
    for seed in range(40):
        scene(seed, "train").resized(256)
    assert 40 / (time.process_time() - started) > 30


def test_the_largest_picture_fits_in_memory_and_time() -> None:
    code = (
        "import resource, time\n"
        "from perception.benchmarks.ministar import scene\n"
        "s = next(d for d in (scene(i, 'train', 8192) for i in range(99)) if min(d.size) == 8192)\n"
        "s.resized(64)\n"
        "begun, base = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "s.array\n"
        "print(time.process_time() - begun, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    seconds, mebibytes = (float(v) for v in done.stdout.split())
    assert mebibytes < 500  # the picture itself has 192
    assert seconds < 5  # about 1 s of an idle core


def test_preview_writes_pictures_and_questions(tmp_path: Path) -> None:
    from perception.benchmarks.preview import preview

    preview(tmp_path, count=1, longest=512)
    names = {p.name for p in tmp_path.iterdir()}
    seed = SEEDS["held_out"].start
    assert names == {f"{seed}-256.png", f"{seed}-boxes.png", f"{seed}-badges.png", f"{seed}.json"}
