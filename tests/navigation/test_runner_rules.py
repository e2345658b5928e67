"""Rules that the runner keeps: a blocked step calls for a look around, and an end wants to be sure."""

import math
from dataclasses import dataclass, replace

import pytest
from speaking import WITH_LOOK, SpeakingVLM, seen

from backbone.contracts import Stage
from backbone.errors import ConfigError, UnsupportedError
from navigation.actions import END, LEFT, MOVE, OBS, RIGHT
from navigation.agent import HydraAgent
from navigation.choosing import Choice
from navigation.config import NavigationConfig
from navigation.switching import SwitchConfig
from navigation.talking import Begin, Choose, LogProbs, Speaker, Talk

NANO = NavigationConfig.preset("nano")


def session_of(thought="a door", config=NANO, actions=(MOVE,), **switch):
    reply = f"<think_start>{thought}<think_end>\nMoveAhead 0.25"
    vlm = SpeakingVLM(thoughts=[reply], actions=list(actions))
    return HydraAgent(vlm, WITH_LOOK, config, SwitchConfig(**switch)).session("find the bed", 1)


def acted(session, observations):
    return [session.act(o) for o in observations]


@pytest.mark.parametrize(
    ("thought", "turn"), [("go left 3, ahead 2", LEFT), ("left is a bed. Go right: right 1", RIGHT)]
)
def test_a_step_that_changes_nothing_is_looked_around_at_and_turned_from(thought, turn):
    session = session_of(thought)
    first = acted(session, [seen(10), seen(10, True), seen(20), seen(20), seen(20, True)])
    assert [d.status.split(",")[0] for d in first] == ["obs: start", "slow", "fast", "obs: blocked", "slow"]
    assert first[1].action == MOVE  # at the start nothing is known to be blocked
    assert first[-1].action == turn
    assert first[-1].why == "blocked"
    assert "blocked" in first[-1].notes[-1]
    assert acted(session, [seen(20)])[0].action == MOVE  # after a turn a like picture means nothing


def test_after_the_first_step_of_a_thought_too():
    decisions = acted(session_of(), [seen(10), seen(10, True), seen(10)])
    assert [d.why for d in decisions] == ["start", "start", "blocked"]


def test_turns_and_changed_pictures_are_not_blocked():
    session = session_of(actions=[LEFT, LEFT, MOVE, MOVE])
    decisions = acted(session, [seen(10), seen(10, True), seen(20), seen(20), seen(20), seen(24), seen(28)])
    assert OBS not in [d.action for d in decisions[1:]]


def test_without_names_the_dice_turn_and_the_seed_rules_them():
    def turn():
        return acted(session_of(), [seen(10), seen(10, True), seen(10), seen(10, True)])[-1].action

    assert turn() == turn()
    assert turn() in (LEFT, RIGHT)


@pytest.mark.parametrize(("config", "switch"), [(replace(NANO, blocked_change=0.0), {}), (NANO, {"strategy": "never"})])
def test_it_can_be_left_to_the_model_and_never_does_not_look(config, switch):
    session = session_of(config=config, **switch)
    decisions = acted(session, [seen(10), *[seen(10, not switch)], *[seen(10)] * 6])
    assert "obs: blocked" not in [d.status for d in decisions]


@pytest.mark.parametrize("change", [-0.1, 256.0, float("nan")])
def test_impossible_changes_are_refused(change):
    with pytest.raises(ConfigError, match="blocked_change"):
        replace(NANO, blocked_change=change)


@dataclass
class Torn:
    """What a session's step asks of a model, answered here: ``end`` with a share of its own, else the first choice."""

    share: float

    def drive(self, session, observation):
        step = session.step(observation)
        request, asked = next(step), []
        while True:
            if isinstance(request, Choose):
                asked.append(tuple(request.choices))
                text = END if END in request.choices else request.choices[0]
                answer = Choice(text, {END: math.log(self.share)} if text == END else {}, 1, Stage("choosing"))
            elif isinstance(request, Begin):
                answer = Talk()
            else:
                answer = {} if isinstance(request, LogProbs) else None
            try:
                request = step.send(answer)
            except StopIteration as done:
                return done.value, asked


@pytest.mark.parametrize(("share", "action"), [(0.39, MOVE), (0.41, END)])
def test_an_end_wants_to_be_sure(monkeypatch, share, action):
    monkeypatch.setattr(Speaker, "knows_probabilities", True)  # `Torn` tells them
    session = session_of(config=replace(NANO, end_confidence=0.4), strategy="never")
    decision, asked = Torn(share).drive(session, seen(10))
    assert decision.action == action
    assert len(asked) == (2 if action == MOVE else 1)
    assert END not in asked[-1] or action == END


def test_where_no_share_is_known_it_cannot_be_asked_for():
    with pytest.raises(UnsupportedError, match=r"end_confidence 0\.9 needs the probability of end"):
        session_of(config=replace(NANO, end_confidence=0.9))


@pytest.mark.parametrize("sure", [-0.1, 1.1])
def test_impossible_confidences_are_refused(sure):
    with pytest.raises(ConfigError, match="end_confidence"):
        replace(NANO, end_confidence=sure)
