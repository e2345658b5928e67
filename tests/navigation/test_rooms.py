"""The world `rooms`: the contract, Habitat's rules by hand, what the agent sees against what is there, the expert."""

import math
from dataclasses import replace

import numpy as np
import pytest

from backbone.checks.world import check_world
from backbone.errors import ConfigError, WorldError
from navigation import metrics
from navigation.homes.furniture import CATEGORIES, GOAL_CATEGORIES
from navigation.worlds.navigation_world import ahead, gps_compass, heading_of, rotation_xyzw, wrapped
from navigation.worlds.rooms import RoomsConfig, RoomsWorld

SMALL = RoomsConfig(width=64, height=64, homes=3, max_rooms=4, depth=True)
STOP, FORWARD, LEFT, RIGHT = (np.array([i], np.float32) for i in range(4))


@pytest.fixture(scope="module")
def world():
    made = SMALL.make()
    try:
        made.reset(seed=0)
    except WorldError as error:
        pytest.skip(f"no off-screen OpenGL here: {error}")
    yield made
    made.close()


def play(world: RoomsWorld, seed: int, **options: object) -> tuple[list[bytes], dict[str, float]]:
    """The pictures and the measures of the expert's episode."""
    seen, over = [world.reset(seed=seed, options=options)[0].images["front"].tobytes()], False
    while not over:
        observation, _, terminated, truncated, _ = world.step(world.expert_action())
        seen.append(observation.images["front"].tobytes())
        over = terminated or truncated
    return seen, world.metrics()


def test_the_contract(world):
    config = replace(SMALL, max_steps=12, pose_in_state=True, look=True, forward_noise_m=0.02, turn_noise_deg=2.0)
    report = check_world(config, steps=4)
    assert report.ok, [f for f in report.findings if not f.ok]


def test_expert_finds_what_it_is_told(world):
    rows = [play(world, seed)[1] for seed in range(6)]
    assert all(row["success"] == row["success_view_point"] == 1.0 for row in rows)
    assert np.mean([row["spl"] for row in rows]) > 0.92
    assert all(row["distance_to_goal"] < 0.1 and row["oracle_success"] == 1.0 for row in rows)
    assert all(row["distance_to_object"] < 1.1 and row["stopped"] == 1.0 for row in rows)


def test_expert_gets_past_a_door_post():
    """From this start it walks into a door's post, from where no single step leads nearer."""
    made = RoomsConfig(width=16, height=16).make()
    assert play(made, 6)[1]["success"] == 1.0
    made.close()


def test_expert_under_the_rule_of_the_object(world):
    near = replace(SMALL, distance_to="object").make()
    rows = [play(near, seed)[1] for seed in range(4)]
    near.close()
    assert all(row["success"] == row["success_object"] == 1.0 for row in rows)
    assert all(row["distance_to_object"] < 1.0 for row in rows)


def test_same_seed_same_pictures_in_another_world(world):
    other = SMALL.make()
    play(other, 5)
    assert play(world, 2)[0] == play(other, 2)[0]
    other.close()


def test_a_stop_at_once_is_no_success(world):
    _, info = world.reset(seed=1)
    shortest = info["distance_to_goal"]
    assert shortest > 0.5
    _, reward, terminated, truncated, info = world.step(STOP)
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
    row = world.metrics()
    assert row["success"] == row["spl"] == row["soft_spl"] == row["path_length"] == 0.0
    assert row["shortest_path"] == pytest.approx(shortest)
    with pytest.raises(WorldError, match="over"):
        world.step(STOP)


def test_measures_are_habitats_formulas(world):
    world.reset(seed=3)
    start = np.array(world.describe()["position"])
    shortest, walked, here = world.metrics()["shortest_path"], 0.0, start
    for action in [world.expert_action() for _ in range(1)] + [LEFT, FORWARD, FORWARD, RIGHT, FORWARD]:
        _, _, _, _, info = world.step(action)
        there = np.array(world.describe()["position"])
        walked += float(np.linalg.norm(there - here))
        here = there
    row, left = world.metrics(), info["distance_to_goal"]
    assert row["path_length"] == pytest.approx(walked, abs=1e-9)
    assert row["soft_spl"] == pytest.approx(max(0, 1 - left / shortest) * shortest / max(shortest, walked))
    assert row["spl"] == 0.0
    assert row["steps"] == 6.0


def test_steps_do_not_slide_and_say_when_they_collide(world):
    world.reset(seed=4)
    state = world.describe()
    place, collisions = np.array(state["position"]), 0
    forward = np.array(ahead(heading_of(tuple(state["rotation_xyzw"]))))
    for _ in range(60):
        _, _, _, _, info = world.step(FORWARD)
        there = np.array(world.describe()["position"])
        moved = (there - place)[[0, 2]]
        length = float(np.linalg.norm(moved))
        assert moved == pytest.approx(forward * length, abs=1e-6)  # straight ahead, however far
        assert info["collided"] == (length < 0.25 - 1e-6)
        collisions += info["collided"]
        place = there
    assert collisions > 30  # by then it stands before something
    assert world.metrics()["collisions"] == collisions
    assert np.linalg.norm(there - place) == 0.0


def test_depth_is_the_way_that_is_free(world):
    observation, _ = world.reset(seed=5)
    for _ in range(12):
        middle = observation.depths["front"][31:33, 31:33].min()
        before = np.array(world.describe()["position"])
        observation, _, _, _, info = world.step(FORWARD)
        moved = float(np.linalg.norm(np.array(world.describe()["position"]) - before))
        after = observation.depths["front"][31:33, 31:33].min()
        if middle - moved > 0.3 and not info["collided"]:
            assert after <= middle - moved + 0.35  # what was ahead came nearer, or something nearer came into view
        observation, *_ = world.step(LEFT)
    assert (observation.depths["front"] > 0).all()  # homes are closed: there is always something


def test_panorama_is_what_turning_shows(world):
    observation, _ = world.reset(seed=2)
    steps = world.describe()["steps"]
    around = world.panorama()
    assert list(around) == ["front", "left", "back", "right"]
    assert np.array_equal(around["front"], observation.images["front"])
    assert world.describe()["steps"] == steps
    for name in ("left", "back", "right"):
        for _ in range(3):
            observation, *_ = world.step(LEFT)
        close = np.abs(observation.images["front"].astype(int) - around[name]) <= 1
        assert close.mean() > 0.995  # three turns of 30 degrees and one of 90 differ in the last bit
    assert world.metrics()["steps"] == 9.0


def test_labels_agree_with_each_other(world):
    world.reset(seed=7)
    state, instances, semantic = world.describe(), world.instances(), world.semantic()
    labels = {int(k): v for k, v in state["labels"].items()}
    assert (instances > 0).all()
    names = np.array(["", *CATEGORIES])[semantic]
    assert all(labels[i] == c for i, c in zip(instances.ravel().tolist(), names.ravel().tolist(), strict=True))
    for entry in state["visible"]:
        mask = instances == entry["id"]
        x0, y0, x1, y1 = entry["box"]
        assert entry["share"] == pytest.approx(mask.mean(), abs=1e-5)
        assert mask[y0:y1, x0:x1].sum() == mask.sum()
        assert labels[entry["id"]] == entry["category"]
    room = next(r for r in state["rooms"] if r["name"] == state["room"])
    x, z = state["position"][0], state["position"][2]
    assert room["box"][0] - 0.1 <= x <= room["box"][2] + 0.1
    assert room["box"][1] - 0.1 <= z <= room["box"][3] + 0.1
    assert state["category"] in GOAL_CATEGORIES
    assert {g["id"] for g in state["goals"]} <= {
        o["id"] for o in state["objects"] if o["category"] == state["category"]
    }
    assert all(g["view_points"] for g in state["goals"])


def test_options_and_config_choose_home_and_category(world):
    observation, info = world.reset(seed=0, options={"home": 1, "category": "toilet"})
    assert (info["home"], info["category"]) == (1, "toilet")
    assert observation.instruction == "find the toilet"
    with pytest.raises(WorldError, match="unknown options"):
        world.reset(seed=0, options={"house": 1})
    absent = next(c for c in GOAL_CATEGORIES if c not in {o["category"] for o in world.describe()["objects"]})
    with pytest.raises(WorldError, match=f"no reachable '{absent}'; it has"):
        world.reset(seed=0, options={"home": 1, "category": absent})
    spoken = world.reset(seed=0, options={"home": 1, "category": "toilet"})[0].instruction
    assert spoken == observation.instruction


def test_a_category_leads_to_a_home_that_has_it():
    made = replace(SMALL, category="gym_equipment", homes=50, max_rooms=8).make()
    homes = {made.reset(seed=seed)[1]["home"] for seed in range(3)}
    assert all(made.reset(seed=seed)[1]["category"] == "gym_equipment" for seed in range(2))
    assert homes
    made.close()
    nowhere = replace(SMALL, category="gym_equipment", homes=1).make()
    with pytest.raises(WorldError, match="none of the 1 homes from 0 on has a reachable 'gym_equipment'"):
        nowhere.reset(seed=0)


def test_pose_in_state_is_habitats_gps_and_compass():
    assert gps_compass((0, 0), 0.0, (0.0, -2.0), 0.0) == pytest.approx([2, 0, 0])
    assert gps_compass((0, 0), 0.0, (1.0, 0.0), math.pi / 2) == pytest.approx([0, 1, math.pi / 2])
    assert gps_compass((1, 1), math.pi / 2, (0.0, 1.0), -math.pi / 2) == pytest.approx([1, 0, math.pi])
    assert gps_compass((1, 1), math.pi / 2, (1.0, 0.0), math.pi / 2) == pytest.approx([0, 1, 0])
    for heading in (-3.0, -1.0, 0.0, 2.5):
        assert wrapped(heading_of(rotation_xyzw(heading)) - heading) == pytest.approx(0)
    made = replace(SMALL, pose_in_state=True).make()
    assert made.reset(seed=1)[0].state == pytest.approx([0, 0, 0])
    assert made.step(RIGHT)[0].state == pytest.approx([0, 0, -math.pi / 6])
    made.close()


def test_noise_is_the_seeds_own(world):
    noisy = replace(SMALL, forward_noise_m=0.05, turn_noise_deg=5.0).make()
    ends = []
    for _ in range(2):
        noisy.reset(seed=9)
        for action in (LEFT, FORWARD, LEFT, FORWARD):
            noisy.step(action)
        ends.append((noisy.describe()["position"], noisy.describe()["rotation_xyzw"]))
    noisy.close()
    world.reset(seed=9)
    for action in (LEFT, FORWARD, LEFT, FORWARD):
        world.step(action)
    assert ends[0] == ends[1]
    assert ends[0][1] != world.describe()["rotation_xyzw"]


def test_looking_up_and_down_tilts_the_camera():
    made = replace(SMALL, look=True).make()
    level = made.reset(seed=1)[0].images["front"]
    floor_share = (made.semantic() == CATEGORIES.index("floor") + 1).mean()
    made.step(np.array([5], np.float32))
    assert (made.semantic() == CATEGORIES.index("floor") + 1).mean() > floor_share
    for _ in range(5):
        made.step(np.array([5], np.float32))
    assert made.describe()["tilt_deg"] == pytest.approx(-60)
    for _ in range(2):
        back = made.step(np.array([4], np.float32))[0].images["front"]
    assert (np.abs(back.astype(int) - level) <= 1).mean() > 0.99
    made.close()


def test_the_map_shows_goals_and_the_way(world):
    world.reset(seed=6)
    before = world.draw()
    world.step(LEFT)
    for _ in range(3):
        world.step(world.expert_action())
    after = world.draw()
    assert before.shape == after.shape
    assert not np.array_equal(before, after)
    assert (np.abs(after.astype(int) - (232, 150, 20)).max(-1) < 12).sum() > 20  # the goal's colour


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 4}, "width and height"),
        ({"turn_deg": 31.0}, "divide 360"),
        ({"category": "dragon"}, "category must be one of"),
        ({"split": "test"}, "split must be"),
        ({"success_distance": 0.0}, "success_distance"),
        ({"min_rooms": 7, "max_rooms": 4}, "3 to 8 rooms"),
        ({"unusual": (("bed", "moon"),)}, "unusual"),
    ],
)
def test_impossible_configs_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        RoomsConfig(**fields)


def test_both_rules_from_one_episode(world):
    """A stop 0.5 m from the object, off every view point, succeeds by one rule alone."""
    made = replace(SMALL, distance_to="object", success_distance=1.0).make()
    made.reset(seed=0)
    made.step(STOP)
    row, episode = made.metrics(), made._episode
    expected = metrics.success(True, episode.object_distance, 1.0)
    assert row["success"] == float(expected)
    assert row["success_view_point"] == float(metrics.success(True, episode.distance))
    made.close()


@pytest.mark.slow
def test_expert_over_a_hundred_episodes():
    made = RoomsConfig(width=32, height=32).make()
    rows = [play(made, seed)[1] for seed in range(100)]
    made.close()
    assert np.mean([row["success"] for row in rows]) >= 0.98
    assert np.mean([row["spl"] for row in rows]) >= 0.95
