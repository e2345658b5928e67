"""Glimpses of homes are repeatable, their maps and answers agree with the pixels and with the home."""

import json
import math
import re
import threading

import numpy as np
import pytest

from backbone.curriculum.sample import get_source
from backbone.rendering.mesh import Camera
from backbone.rendering.projection import pixel_rays
from navigation import curriculum
from navigation.curriculum import rounded, side
from navigation.glimpse_maps import IGNORE, KINDS, depth_bin, maps
from navigation.glimpses import EYE, HFOV_DEG, OPEN, RUN, glimpse, home_of
from navigation.homes.furniture import CATEGORIES, words
from navigation.worlds.navigation_world import ahead
from navigation.worlds.rooms_view import camera_pose

SIZE = (160, 128)


def drawn(number, size=SIZE):
    rng = np.random.default_rng([5, number])
    return glimpse(rng, size), rng


def conversations(count):
    for number in range(count):
        shown, rng = drawn(number)
        for first, answer in curriculum.question_set(rng, shown, 8):
            yield shown, first["content"][1]["text"], "".join(p["text"] for p in answer["content"])


def test_a_sample_is_a_pure_function_of_its_seed_in_any_order_and_thread():
    make = get_source("homes").make
    samples = [make(np.random.default_rng([5, n]), (170, 130)) for n in (0, 3, RUN, 0)]
    made = []
    thread = threading.Thread(target=lambda: made.append(make(np.random.default_rng([5, 3]), (170, 130))))
    thread.start()
    thread.join()
    for a, b in ((samples[0], samples[3]), (samples[1], made[0])):
        assert np.array_equal(a.image, b.image)
        assert str(a.conversations) == str(b.conversations)
        assert all(np.array_equal(a.maps[k], b.maps[k]) for k in ("kind", "depth"))
    assert samples[0].image.shape == (128, 160, 3)
    assert not np.array_equal(samples[0].image, samples[1].image)


def test_runs_share_homes_and_splits_do_not():
    homes = [{home_of(np.random.default_rng([5, n]), s, "train") for s in range(OPEN)} for n in (0, RUN - 1, RUN)]
    assert homes[0] == homes[1]
    assert not homes[0] & homes[2]
    assert drawn(0)[0].scene.home.split == "train"
    child = np.random.default_rng(np.random.SeedSequence(3).spawn(1)[0])
    assert home_of(child, 0, "train") != home_of(np.random.default_rng(3), 0, "train")


def test_maps_agree_with_the_pixels():
    for number in range(6):
        shown, _ = drawn(number)
        made = maps(shown)
        assert made["kind"].shape == made["depth"].shape == (4, 5)
        assert made["kind"].dtype == made["depth"].dtype == np.int64
        for row in range(4):
            for column in range(5):
                cell = shown.categories[32 * row : 32 * row + 32, 32 * column : 32 * column + 32]
                shares = {KINDS[i + 1]: float((cell == i).mean()) for i in np.unique(cell) if i >= 0}
                kind = int(made["kind"][row, column])
                things = {k: v for k, v in shares.items() if k not in ("wall", "floor", "ceiling", "door", "window")}
                best = max(things.values(), default=0.0)
                if best >= 0.2:
                    assert things[KINDS[kind]] == best
                elif best >= 0.05:
                    assert kind == IGNORE
                else:
                    assert KINDS[kind] == max(shares, key=shares.get) or KINDS[kind] == "door"
                middle = shown.depth[32 * row + 8 : 32 * row + 24, 32 * column + 8 : 32 * column + 24]
                assert made["depth"][row, column] == depth_bin(np.median(middle))


def test_depth_bins_are_even_in_the_logarithm():
    edges = 0.3 * (10 / 0.3) ** (np.arange(17) / 16)
    assert depth_bin(edges[:-1] * 1.001).tolist() == list(range(16))
    assert depth_bin(np.array([0.0, 0.1, 50.0])).tolist() == [IGNORE, 0, 15]


def test_cells_of_a_doorway_pass_its_posts():
    found = 0
    for number in range(40):
        shown, _ = drawn(number)
        kinds = maps(shown)["kind"]
        if not shown.doors or shown.doors[0].distance < 1.5:
            continue
        camera = Camera(camera_pose(*shown.place[:1], EYE, shown.place[1], shown.heading, 0.0), HFOV_DEG)
        origin, rays = pixel_rays(*SIZE, camera)
        for row, column in np.argwhere(kinds == 1 + CATEGORIES.index("door")):
            y, x = 32 * row + 16, 32 * column + 16
            crossed = False
            for door in shown.scene.home.doors:
                axis, centre, other = (2, door.z, 0) if door.along == "x" else (0, door.x, 2)
                t = (centre - origin[axis]) / rays[y, x, axis]
                point = origin + t * rays[y, x]
                crossed |= 0 < t < shown.depth[y, x] and abs(point[other] - (door.x, 0, door.z)[other]) < door.width / 2
            cell = shown.categories[32 * row : 32 * row + 32, 32 * column : 32 * column + 32]
            assert crossed or (cell == CATEGORIES.index("door")).any()
            found += crossed
    assert found > 5


def test_answers_agree_with_pixels_and_floor():
    asked = dict.fromkeys(("box", "exists", "move", "free", "door", "way", "list"), 0)
    for shown, question, answer in conversations(60):
        in_view = {words(s.category) for s in shown.seen}
        if answer.startswith("[{"):
            entry = json.loads(answer)[0]
            x0, y0, x1, y1 = (v * SIZE[i % 2] / 1000 for i, v in enumerate(entry["bbox_2d"]))
            mask = shown.categories == [words(c) for c in CATEGORIES].index(entry["label"])
            rows, columns = np.nonzero(mask)
            got = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            assert np.allclose([x0, y0, x1, y1], got, atol=0.2)
            asked["box"] += 1
        elif question.startswith(("Is there a", "Do you see")):
            name = re.sub("^(Is there a|Do you see a) ", "", question).rstrip("?").removesuffix(" in view")
            assert (name in in_view) == (answer == "yes")
            asked["exists"] += 1
        elif question.startswith("Can I move"):
            metres = float(question.split()[4])
            step = shown.place + metres * np.array(ahead(shown.heading))
            assert shown.scene.floor.walk(shown.place, step)[1] == (answer == "no")
            asked["move"] += 1
        elif "free" in question or question.startswith("How far can"):
            assert answer == (f"{rounded(shown.free_m)} m" if shown.free_m < 2.5 else "more than 2.5 m")
            asked["free"] += 1
        elif question.startswith("Which way is the") and "door" in question:
            assert answer == "no door in view" or answer.split(",")[0] == side(shown.doors[0].bearing)
            asked["door"] += 1
        elif question.startswith("Which way"):
            name = question.removeprefix("Which way is the ").rstrip("?")
            columns = np.nonzero(shown.categories == [words(c) for c in CATEGORIES].index(name))[1]
            off = np.median(columns) - SIZE[0] / 2
            assert answer == ("left" if off < -20 else "right" if off > 20 else "ahead")
            asked["way"] += 1
        elif question.endswith("in view?") or "objects" in question:
            assert answer == "none" or in_view.issuperset(answer.split(", "))
            asked["list"] += 1
    assert min(asked.values()) >= 5, asked


def test_yes_and_no_are_balanced_for_presence():
    answers = [a for _, q, a in conversations(80) if q.startswith(("Is there", "Do you see"))]
    assert 0.35 < np.mean([a == "yes" for a in answers]) < 0.65


@pytest.mark.parametrize(("degrees", "word"), [(0, "ahead"), (-9, "ahead"), (12, None), (20, "left"), (-20, "right")])
def test_sides(degrees, word):
    assert side(math.radians(degrees)) == word


@pytest.mark.parametrize(("metres", "said"), [(0.1, "0"), (0.63, "0.75"), (1.3, "1.5"), (3.2, "3"), (5.6, "6")])
def test_rounding(metres, said):
    assert rounded(metres) == said


def test_distance_of_a_thing_is_that_of_its_pixels():
    for number in range(10):
        shown, _ = drawn(number)
        camera = Camera(camera_pose(*shown.place[:1], EYE, shown.place[1], shown.heading, 0.0), HFOV_DEG)
        origin, rays = pixel_rays(*SIZE, camera)
        points = origin + rays * shown.depth[..., None]
        for seen in shown.seen[:3]:
            hit = points[shown.ids == seen.id]
            metres = np.hypot(hit[:, 0] - shown.place[0], hit[:, 2] - shown.place[1])
            assert seen.distance == pytest.approx(np.median(metres), abs=1e-3)
            bearings = [shown.bearing(p[0], p[2]) for p in hit]
            assert seen.bearing == pytest.approx(np.median(bearings), abs=1e-3)
