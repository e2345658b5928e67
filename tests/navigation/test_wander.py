"""The wanderer: forward while the way is free, turns when it is not, the same for the same seed."""

import numpy as np
import pytest

from backbone.contracts import ActionSpec, Observation
from backbone.errors import ConfigError, WorldError
from navigation.wander import WanderAgent, WanderConfig, clearance

SPEC = ActionSpec.discrete(("stop", "move_forward", "turn_left", "turn_right"), 2.0)
FORWARD, LEFT, RIGHT = 1, 2, 3


def _seen(depth_m: float | None = None, grey: int = 0) -> Observation:
    image = {"rgb": np.full((30, 30, 3), grey, np.uint8)}
    depths = {} if depth_m is None else {"rgb": np.full((30, 30), depth_m, np.float32)}
    return Observation(image, "find a chair", depths=depths)


def _choices(session, observations):
    return [int(session.act(observation).actions.values[0, 0]) for observation in observations]


def test_with_depth_it_walks_where_there_is_room_and_turns_before_a_wall():
    session = WanderAgent(SPEC).session("", 0)
    assert _choices(session, [_seen(3.0)] * 5) == [FORWARD] * 5
    turns = _choices(session, [_seen(0.3)] * 3)
    assert set(turns) <= {LEFT, RIGHT}
    assert len(set(turns)) == 1  # to one side, not to and fro


def test_without_depth_it_notices_that_a_step_did_not_change_the_view():
    session = WanderAgent(SPEC).session("", 0)
    assert _choices(session, [_seen(grey=g) for g in (10, 40, 90)]) == [FORWARD] * 3
    assert _choices(session, [_seen(grey=90)])[0] in (LEFT, RIGHT)


def test_a_wall_on_one_side_or_the_floor_does_not_block():
    depth = np.full((30, 30), 4.0, np.float32)
    depth[:, :8] = 0.2
    depth[22:] = 0.2
    assert clearance(depth) == 4.0
    depth[14:16, 14:18] = 0.2  # a chair's leg in the middle
    assert clearance(depth) == pytest.approx(4.0)  # thinner than a tenth of the view
    depth[10:20, 12:18] = 0.2
    assert clearance(depth) == pytest.approx(0.2)
    assert clearance(np.zeros((30, 30), np.float32)) == float("inf")


def test_the_seed_decides_and_nothing_else():
    agent = WanderAgent(SPEC, WanderConfig(turns=1))
    walls = [_seen(0.3)] * 40
    first, again, other = (_choices(agent.session(text, seed), walls) for text, seed in (("a", 1), ("b", 1), ("a", 2)))
    assert first == again
    assert first != other
    assert {LEFT, RIGHT} <= set(first)


def test_it_says_which_action_it_lacks_and_when_it_is_closed():
    with pytest.raises(ConfigError, match="move_forward or forward"):
        WanderAgent(ActionSpec.make_example())
    with pytest.raises(ConfigError, match="turns >= 1"):
        WanderConfig(turns=0)
    session = WanderAgent(SPEC).session("", 0)
    session.close()
    with pytest.raises(WorldError, match="closed"):
        session.act(_seen(1.0))
