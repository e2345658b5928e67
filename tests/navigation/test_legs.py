"""Segments that end with a leg of the way, plans that speak of that leg alone, and going astray to learn from it."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nav_records import stage_two

from backbone.errors import ConfigError
from backbone.vlm import VLM
from navigation.actions import END, LEFT, MOVE, OBS, RIGHT
from navigation.batches import Encoder
from navigation.config import DataConfig, NavigationConfig
from navigation.data import MakingConfig
from navigation.examples import segment_example
from navigation.making import make_episode
from navigation.records import with_thoughts
from navigation.segments import leg_ends, turns_off
from navigation.sight_heads import CLASS_OF
from navigation.straying import Straying
from navigation.thoughts import TemplateTeacher, first_leg, situation, think_all
from navigation.train import mentions_of
from navigation.worlds.navigation_world import ahead, bearing, wrapped

NANO = NavigationConfig.preset("nano")
LEGS = DataConfig(samples=200, segments="legs")
CONFIG = MakingConfig(
    stage="stage2",
    agent=dataclasses.replace(NANO, width=64, height=64),
    data=LEGS,
    noise=0.0,
    stray=0.05,
    per_home=4,
)
TURN = math.radians(30)


def walked(actions, pose=(0.0, 0.0, 0.0)):
    """The poses of a robot that nothing is in the way of."""
    poses = [pose]
    for action in actions:
        x, z, heading = poses[-1]
        if action == MOVE:
            dx, dz = ahead(heading)
            poses.append((x + 0.25 * dx, z + 0.25 * dz, heading))
        else:
            poses.append((x, z, wrapped(heading + (TURN if action == LEFT else -TURN))))
    return poses


@pytest.fixture(scope="module")
def made():
    world = CONFIG.ready_world().make()
    found = [make_episode(world, CONFIG, n) for n in (0, 1, 3, 4)]
    world.close()
    return found


@given(st.integers(-5, 6), st.integers(2, 15), st.floats(-3, 3))
def test_a_leg_is_the_turns_and_steps_that_were_made(turns, steps, heading):
    actions = [LEFT if turns > 0 else RIGHT] * abs(turns) + [MOVE] * steps
    assert first_leg(walked(actions, (1.0, -2.0, heading))) == (turns, steps)


def test_a_leg_ends_at_a_corner_and_small_corrections_belong_to_it():
    corner = [LEFT, *[MOVE] * 6, RIGHT, RIGHT, RIGHT, *[MOVE] * 8]
    assert first_leg(walked(corner)) == (1, 6)
    wavering = [MOVE, MOVE, LEFT, MOVE, RIGHT, RIGHT, MOVE, LEFT, MOVE, MOVE]
    assert first_leg(walked(wavering)) == (0, 6)
    assert first_leg(walked([LEFT, LEFT])) == (2, 0)
    assert first_leg(walked([])) == (0, 0)


def test_a_turn_leaves_the_line_when_it_is_more_than_a_correction():
    first, *_, here = walked([MOVE] * 6)
    turned = walked([MOVE] * 6 + [LEFT])[-1]
    assert not turns_off(first, here, LEFT)  # 30 degrees are corrected by one turn back
    assert turns_off(first, turned, LEFT)
    assert not turns_off(first, turned, RIGHT)
    assert not turns_off(first, turned, MOVE)
    assert not turns_off(first, walked([MOVE, LEFT, LEFT])[-1], LEFT)  # too short a way to have a direction
    assert leg_ends(LEGS.least_leg, first, turned, LEFT, LEGS)
    assert not leg_ends(LEGS.least_leg - 1, first, turned, LEFT, LEGS)
    assert not leg_ends(LEGS.least_leg, first, turned, LEFT, DataConfig())


def test_segments_end_sooner_and_plans_lead_where_the_robot_went(made):
    lengths = [len(c.actions) for m in made for c in m.trajectory.cycles[:-1]]
    assert max(lengths) <= 16
    assert min(lengths) < 12
    for recorded in made:
        assert recorded.trajectory.success
        for number, cycle in enumerate(recorded.trajectory.cycles):
            if cycle.actions[0] == END:
                continue
            turns, steps = situation(recorded.trajectory, number).way
            motor = [a for a in cycle.actions if a in (MOVE, LEFT, RIGHT)]
            assert steps <= len(motor) + 1
            if steps > 4 and turns:  # what is planned as a turn is turned to
                end = cycle.poses[0][2] + turns * TURN
                assert min(abs(wrapped(p[2] - end)) for p in cycle.poses) < TURN + 1e-6
                assert f"{'left' if turns > 0 else 'right'} {abs(turns)}, ahead {steps}." in cycle.thought


def test_plans_are_within_sight(made):
    """From where a plan is made one sees the end of its leg, over the floor at the height of the eye."""
    from navigation.worlds.rooms import RoomsConfig
    from navigation.worlds.rooms_scene import generated_scene

    seen = []
    for recorded in made:
        home = recorded.trajectory.facts["home"]
        sight = generated_scene(home["seed"], home["split"], RoomsConfig().rules()).sight
        for number, cycle in enumerate(recorded.trajectory.cycles):
            _, steps = situation(recorded.trajectory, number).way
            poses = np.array(cycle.poses)
            far = np.linalg.norm(poses[:, :2] - poses[0, :2], axis=1)
            end = poses[int(np.abs(far - 0.25 * steps).argmin())]
            eye, target = (np.array([[p[0], NANO.camera_height, p[1]]]) for p in (poses[0], end))
            seen.append(bool(sight.free(eye, target, -1)[0, 0]))
    assert len(seen) > 10
    assert np.mean(seen) >= 0.9  # a leg bends by up to 0.4 m


def test_what_is_met_astray_is_looked_around_at_and_not_learned(made):
    blocked = 0
    for recorded in made:
        for cycle in recorded.trajectory.cycles:
            wrong = [i for i, learn in enumerate(cycle.learn) if not learn]
            assert not wrong or wrong[0] >= LEGS.least_leg  # nothing else is wrong without noise
            if cycle.actions[-1] == OBS and wrong and wrong[-1] == len(cycle.actions) - 2:
                assert cycle.learn[-1]
                blocked += math.dist(cycle.poses[-1][:2], cycle.poses[-2][:2]) < 0.01
    assert blocked >= 1


def test_straying_is_a_function_of_its_generator_and_stops_at_what_it_meets():
    def actions(seed):
        astray = Straying(np.random.default_rng(seed), 1.0)
        return [astray.action((0.0, -0.25 * i, 0.0)) for i in range(8)]

    assert actions(3) == actions(3)
    astray = Straying(np.random.default_rng(0), 1.0)
    pose = (0.0, 0.0, 0.0)
    while astray.action(pose) != MOVE:
        assert not astray.blocked(pose)
    assert astray.under_way
    assert not astray.blocked((0.0, -0.25, 0.0))
    astray.action((0.0, -0.25, 0.0))
    assert astray.blocked((0.0, -0.25, 0.0))
    assert not astray.under_way
    assert not astray.blocked((0.0, -0.25, 0.0))
    assert Straying(np.random.default_rng(0), 0.0).action(pose) is None


def test_thoughts_are_written_alike_again(made):
    for recorded in made:
        assert think_all(recorded, TemplateTeacher("short", CONFIG.seed)).trajectory == recorded.trajectory


@pytest.mark.parametrize("change", [{"stray": -0.1}, {"stray": 1.0}, {"stray": math.nan}])
def test_impossible_chances_are_refused(change):
    with pytest.raises(ConfigError, match="stray"):
        MakingConfig(**change)


def test_unknown_segments_are_refused():
    with pytest.raises(ConfigError, match="fixed or legs"):
        DataConfig(segments="corners")


@pytest.mark.parametrize(
    ("plan", "view", "kind"),
    [
        ("The bed is left; go there: left 3, ahead 8.", 1, "bed"),
        ("Go to the bed ahead: right 1, ahead 8.", 0, "bed"),
        ("Go to the bed behind: left 6.", 2, "bed"),
        ("No bed. Go right through the door: right 2, ahead 12.", 3, "door"),
        ("bed left, but round. Explore ahead through the door again: ahead 3.", 0, "door"),
    ],
)
def test_the_numbers_of_a_plan_rest_on_what_it_leads_to(tiny_vlm_dir, plan, view, kind):
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")), pixels=NANO.pixels(vlm.pixels))
    recorded = stage_two()
    text = f"Been: gym. Here bedroom: ahead sofa. {plan}"
    recorded = with_thoughts(recorded, [text] * len(recorded.trajectory.cycles))
    example = segment_example(recorded, 1, NANO)
    system = {"role": "system", "content": [{"type": "text", "text": "Find the bed. Think, then act."}]}
    row = Encoder(vlm, 4096, mentions_of(vlm)).row(
        dataclasses.replace(example, messages=(system, *example.messages[1:]))
    )
    written = plan.rsplit(": ", 1)[1].rstrip(".")
    ids = vlm.tokenizer(f" {written}", add_special_tokens=False)["input_ids"]
    newest = 4 * (len(recorded.memory(1, NANO.memory_limit).landmarks) - 1)
    places = {m.token + 1: m for m in row.mentions if m.pictures == (newest + view,) and m.kind == CLASS_OF[kind]}
    runs = [i for i in range(len(row.ids) - len(ids)) if row.ids[i : i + len(ids)].tolist() == list(ids)]
    assert any(all(i + k in places for k in range(len(ids))) for i in runs)
    told = [m.plan for m in row.mentions if m.plan != (0, 0)]
    assert [row.ids[a:b].tolist() for a, b in told] == [list(ids)] * (sum(example.learn) - 1)
    found = [m for m in row.mentions if m.pictures == tuple(range(newest, newest + 4))]
    if plan.startswith("No"):
        assert not found
    else:  # that it was found rests on all views, the side on the one of that side
        side = next(
            s for s in ("ahead", "left", "behind") if s in plan.replace(";", ":").replace(",", ":").split(":")[0]
        )
        assert vlm.tokenizer.decode(row.ids[found[0].token + 1 :]).lstrip().startswith(plan.split(",")[0].split(":")[0])
        sides = [m for m in row.mentions if m.pictures == (newest + ("ahead", "left", "behind").index(side),)]
        assert any(vlm.tokenizer.decode(row.ids[m.token + 1 :]).lstrip().startswith(side[:2]) for m in sides)
    fast = [m for m in row.mentions if m.pictures and m.pictures[0] > newest + 4]
    assert fast
    assert {m.kind for m in fast} == {CLASS_OF[kind]}


def test_bearings_are_headings():
    assert bearing((0, 0), (0, -1)) == pytest.approx(0)
    assert bearing((0, 0), (-1, 0)) == pytest.approx(math.pi / 2)
