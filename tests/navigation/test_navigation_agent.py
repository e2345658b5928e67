"""The agent: its cycle with a scripted model, its prefixes with real ones."""

import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from speaking import PLAIN, WITH_LOOK, SpeakingVLM, front, images_of, noise, seen, text_of

from backbone.contracts import ActionSpec
from backbone.errors import CancelledError, ConfigError, UnsupportedError, WorldError
from backbone.vlm import VLM
from navigation.actions import ALL, END, LEFT, MOVE, OBS, RIGHT
from navigation.agent import FALLBACK, HydraAgent
from navigation.choosing import Chooser
from navigation.config import NavigationConfig
from navigation.switching import SwitchConfig

NANO = NavigationConfig.preset("nano")
THOUGHT = "<think_start>a door<think_end>\nMoveAhead 0.25"


def run(session, observations):
    return [session.act(o) for o in observations]


def episode(session, steps, value=10, make=seen):
    """Decisions of ``steps`` actions in a world that looks around when it is asked to."""
    decisions, around = [], False
    for i in range(steps):
        decision = session.act(make(value + 4 * (i % 50), around))
        around = decision.action == OBS
        decisions.append(decision)  # an end is no end here: what an untrained model says is not to cut the test short
    return decisions


def agent_of(vlm=None, spec=WITH_LOOK, config=NANO, **options):
    switch = options.pop("switch", SwitchConfig())
    return HydraAgent(vlm or SpeakingVLM(), spec, config, switch, **options)


class TestCycle:
    def test_it_looks_around_then_thinks_then_acts_fast(self):
        vlm = SpeakingVLM(actions=[LEFT, MOVE, OBS, RIGHT])
        session = agent_of(vlm).session("find the bed", 1)
        decisions = run(session, [seen(10), seen(10, True), seen(20), seen(30), seen(40), seen(40, True), seen(50)])
        assert [d.action for d in decisions] == [OBS, MOVE, LEFT, MOVE, OBS, MOVE, RIGHT]
        assert [d.status for d in decisions] == [
            "obs: start", "slow", "fast", "fast", "obs: policy", "slow", "fast",
        ]  # fmt: skip
        assert [d.why for d in decisions] == ["start", "start", None, None, "policy", "policy", None]
        assert [int(d.actions.values[0, 0]) for d in decisions] == [4, 1, 2, 1, 4, 1, 3]
        assert [d.thought for d in decisions] == ["", "a door", "", "", "", "a door", ""]

    def test_every_call_is_shown_the_cycle_so_far_and_nothing_else(self):
        vlm = SpeakingVLM(actions=[LEFT, OBS, RIGHT])
        session = agent_of(vlm).session("find the bed", 1)
        run(session, [seen(10), seen(10, True), seen(20), seen(30), seen(40, True), seen(50)])
        slow, fast1, fast2, slow2, fast3 = vlm.calls
        assert images_of(slow) == [10, 11, 12, 13, 10]
        assert images_of(fast1) == [10, 11, 12, 13, 10, 20]
        assert images_of(fast2) == [10, 11, 12, 13, 10, 20, 30]
        assert fast2["messages"][-2]["content"][0]["text"] == LEFT
        assert fast1["messages"][2]["content"][0]["text"] == THOUGHT
        # the look around clears frames and thought; what remains is two landmarks and the way between them
        assert images_of(slow2) == [10, 11, 12, 13, 40, 41, 42, 43, 40]
        assert "then MoveAhead 0.25, RotateLeft 30.0\n" in text_of(slow2)
        assert "a door" not in text_of(slow2)
        assert images_of(fast3) == [*images_of(slow2), 50]
        assert fast1["choices"] == ALL

    def test_every_edge_holds_its_own_actions(self):
        vlm = SpeakingVLM(actions=[LEFT, OBS, RIGHT, RIGHT, OBS, MOVE])
        session = agent_of(vlm).session("find the bed", 1)
        episode(session, 10)
        assert session.memory.edges == ((MOVE, LEFT), (MOVE, RIGHT, RIGHT))
        assert [landmark.step for landmark in session.memory.landmarks] == [0, 2, 5]

    def test_the_ledger_says_what_reasoned_and_why(self):
        session = agent_of(SpeakingVLM(actions=[LEFT, OBS])).session("find the bed", 1)
        decisions = run(session, [seen(10), seen(10, True), seen(20), seen(30), seen(40, True)])
        assert [d.ledger.total().reasoned for d in decisions] == [False, True, False, False, True]
        assert decisions[4].ledger.total().reason == "policy"
        assert [[s.name for s in d.ledger.stages] for d in decisions[1:3]] == [["thinking"], ["choosing"]]

    def test_the_end_ends(self):
        session = agent_of(SpeakingVLM(actions=[END])).session("find the bed", 1)
        decisions = run(session, [seen(10), seen(10, True), seen(20)])
        assert decisions[-1].action == END
        assert decisions[-1].actions.values[0, 0] == 0

    def test_thoughts_are_told_as_they_are_written(self):
        pieces = []
        session = agent_of(on_thought=pieces.append).session("find the bed", 7)
        run(session, [seen(10), seen(10, True)])
        assert "".join(p.text for p in pieces).strip() == THOUGHT
        assert {(p.seed, p.landmark) for p in pieces} == {(7, 1)}

    def test_a_closed_session_refuses(self):
        session = agent_of().session("find the bed", 1)
        session.close()
        with pytest.raises(WorldError, match="closed"):
            session.act(seen(1))

    def test_it_thinks_when_asked_from_outside(self):
        session = agent_of().session("find the bed", 1)
        run(session, [seen(10), seen(10, True), seen(20)])
        session.ask_to_think()
        asked, slow, fast = run(session, [seen(30), seen(30, True), seen(40)])
        assert (asked.status, slow.why, fast.mode) == ("obs: asked", "asked", "fast")

    def test_other_worlds_are_refused(self):
        with pytest.raises(ConfigError, match="move_forward"):
            agent_of(spec=ActionSpec.make_example())


class TestLooking:
    def test_without_a_look_around_the_body_turns_full_circle(self):
        session = agent_of(spec=PLAIN).session("find the bed", 1)
        decisions = run(session, [front(i) for i in range(1, 14)])
        assert [d.action for d in decisions] == [LEFT] * 12 + [MOVE]
        assert [d.status for d in decisions] == ["obs: start"] + ["looking"] * 11 + ["slow"]
        assert [int(v.flat[0]) for v in session.memory.landmarks[0].views] == [1, 4, 7, 10]
        after = session.act(front(20))
        assert after.mode == "fast"

    def test_a_robot_that_sends_one_picture_after_looking_is_made_to_turn(self):
        session = agent_of().session("find the bed", 1)
        first, *turns = run(session, [seen(10)] + [front(i) for i in range(1, 14)])
        assert first.action == OBS
        assert [d.action for d in turns] == [LEFT] * 12 + [MOVE]

    def test_frames_of_another_size_are_cut_to_shape(self):
        vlm = SpeakingVLM()
        session = agent_of(vlm).session("find the bed", 1)
        run(session, [seen(10, size=(100, 100)), seen(10, True, size=(100, 100))])
        shapes = {p["image"].shape for m in vlm.calls[0]["messages"] for p in m["content"] if p["type"] == "image"}
        assert shapes == {(128, 160, 3)}


class TestLimits:
    def test_at_thirty_five_obs_is_forced(self):
        decisions = episode(agent_of().session("find the bed", 1), 80)
        looks = [i for i, d in enumerate(decisions) if d.action == OBS]
        assert looks == [0, 36, 72]
        assert decisions[36].why == "forced"

    def test_a_fixed_period_counts_the_look(self):
        decisions = episode(agent_of(switch=SwitchConfig("fixed", period=16)).session("find the bed", 1), 50)
        assert [i for i, d in enumerate(decisions) if d.action == OBS] == [0, 16, 32, 48]
        assert {d.why for d in decisions[1:] if d.action == OBS} == {"strategy"}

    def test_always_thinks_before_every_action(self):
        decisions = episode(agent_of(switch=SwitchConfig("always")).session("find the bed", 1), 9)
        assert [d.mode for d in decisions] == ["obs", "slow"] * 4 + ["obs"]

    def test_never_has_neither_memory_nor_thought(self):
        vlm = SpeakingVLM()
        config = replace(NANO, window=5)
        decisions = episode(agent_of(vlm, config=config, switch=SwitchConfig("never")).session("find the bed", 1), 12)
        assert {d.mode for d in decisions} == {"fast"}
        assert [len(images_of(c)) for c in vlm.calls] == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]
        assert all(OBS not in c["choices"] for c in vlm.calls)

    def test_random_looks_have_their_rate_and_their_seed(self):
        def looks(seed):
            agent = agent_of(switch=SwitchConfig("random", rate=0.1))
            return [d.action == OBS for d in episode(agent.session("find the bed", seed), 800)]

        assert looks(1) == looks(1)
        assert looks(1) != looks(2)
        assert 0.06 < np.mean([np.mean(looks(s)) for s in range(4)]) < 0.13

    def test_a_full_context_is_cleared(self):
        config = replace(NANO, context_tokens=700)
        decisions = episode(agent_of(config=config).session("find the bed", 1), 12)
        assert [d.why for d in decisions if d.action == OBS] == ["start", "context", "context"]

    def test_a_threshold_needs_probabilities(self):
        with pytest.raises(UnsupportedError, match="load local weights"):
            agent_of(switch=SwitchConfig("threshold"))

    def test_impossible_rules_are_refused(self):
        for wrong in ({"strategy": "often"}, {"threshold": 1.5}, {"period": 1}, {"rate": -1.0}):
            with pytest.raises(ConfigError):
                SwitchConfig(**wrong)


class TestUnreadable:
    def test_a_second_thought_then_a_constrained_action(self):
        vlm = SpeakingVLM(thoughts=["<think_start>hm<think_end>", "<think_start>oh<think_end>\nobs"], actions=[RIGHT])
        session = agent_of(vlm).session("find the bed", 1)
        decision = run(session, [seen(10), seen(10, True)])[1]
        assert decision.action == RIGHT
        assert decision.thought == "oh"
        assert decision.status == "slow, repaired"
        assert len(decision.notes) == 2
        assert [c.get("temperature") for c in vlm.calls] == [0.0, 0.7, 0.0]
        assert OBS not in vlm.calls[-1]["choices"]

    def test_a_thought_too_long_is_not_tried_again(self):
        vlm = SpeakingVLM(thoughts=["<think_start>" + "on and on " * 80])
        session = agent_of(vlm).session("find the bed", 1)
        decision = run(session, [seen(10), seen(10, True)])[1]
        assert len(vlm.calls) == 2
        assert decision.action == MOVE
        run(session, [seen(20)])  # what was thought so far stays in the conversation, with its end
        assert "<think_end>\nMoveAhead 0.25" in text_of(vlm.calls[-1])

    def test_prose_is_read_where_decoding_is_free(self):
        config = replace(NANO, constrained=False)
        vlm = SpeakingVLM(thoughts=[THOUGHT, "I will turn left 30 degrees", "Hmm.", "What?", "turn right"])
        session = agent_of(vlm, config=config).session("find the bed", 1)
        decisions = run(session, [seen(10), seen(10, True), seen(20), seen(30), seen(40)])
        assert [d.action for d in decisions[2:]] == [LEFT, FALLBACK, RIGHT]
        assert [d.status for d in decisions[2:]] == ["fast, repaired"] * 3
        assert "unreadable 2 times" in decisions[3].notes[-1]
        # what stays in the conversation is the action, not the prose
        assert vlm.calls[-1]["messages"][-4]["content"][0]["text"] == LEFT


@pytest.fixture(scope="module")
def models(tiny_vlm_dir):
    found = {family: VLM.load(str(tiny_vlm_dir(family)), device="cpu") for family in ("qwen3_vl", "qwen2_5_vl")}
    nano = VLM.load("nano", device="cpu")
    return {**found, "nano": VLM.load("nano", device="cpu", pixels=NANO.pixels(nano.pixels))}


def words(decisions):
    return [(d.action, d.thought, d.status) for d in decisions]


@pytest.mark.parametrize("family", ["qwen3_vl", "qwen2_5_vl", "nano"])
class TestPrefixes:
    config = replace(NANO, thought_tokens=8, force_after=5, offer_after=5, offer_probability=1.0, least_pixels=None)

    def test_cached_equals_uncached_over_an_episode_with_looks(self, models, family):
        vlm = models[family]
        found = []
        for cached in (True, False):
            vlm.forget()
            session = agent_of(vlm, config=self.config, cached=cached).session("find the bed", 3)
            found.append(episode(session, 20, make=noise))
        assert words(found[0]) == words(found[1])
        assert sum(d.action == OBS for d in found[0]) >= 3

    def test_interleaved_sessions_equal_each_alone(self, models, family):
        agent = agent_of(models[family], config=replace(self.config, temperature=1.0))
        alone = [words(episode(agent.session("find the bed", s), 10, s * 1000, noise)) for s in (1, 2)]
        models[family].forget()
        sessions, around = [agent.session("find the bed", s) for s in (1, 2)], [False, False]
        together = [[], []]
        for i in range(10):
            for k, session in enumerate(sessions):
                decision = session.act(noise((k + 1) * 1000 + 4 * i, around[k]))
                around[k] = decision.action == OBS
                together[k].append(decision)
        assert [words(t) for t in together] == alone
        assert alone[0] != alone[1]

    def test_a_fast_step_encodes_the_last_action_and_one_frame(self, models, family):
        vlm = models[family]
        vlm.forget()  # or conversations of other tests would be found in the cache
        config = replace(self.config, force_after=35, offer_after=35)
        session = agent_of(vlm, config=config).session("find the bed", 3)
        decisions = episode(session, 16, make=noise)
        pairs = [(a, b) for a, b in pairwise(decisions) if a.mode == b.mode == "fast"]
        costs = [b.ledger.total() for _, b in pairs]
        assert len(pairs) > 4
        assert {c.visual_tokens for c in costs} == {vlm.visual_tokens(160, 128)}
        said = [len(vlm.tokenizer(a.action, add_special_tokens=False)["input_ids"]) for a, _ in pairs]
        assert len({c.prompt_tokens - tokens for c, tokens in zip(costs, said, strict=True)}) == 1
        assert [b.context - a.context for a, b in pairs] == [c.prompt_tokens for c in costs]

    def test_choosing_equals_constrained_generation(self, models, family):
        vlm = models[family]
        chooser = Chooser(vlm)
        for seed in range(6):
            text = [{"role": "user", "content": [{"type": "text", "text": f"Number {seed}, which way?"}]}]
            prefix = vlm.prefill(text)
            choice = chooser.choose(prefix, ALL)
            assert choice.text == vlm.generate(prefix, choices=ALL).texts[0]
            assert choice.log_probs[choice.text] <= 0
            assert chooser.log_probs(prefix, ALL)[OBS] == pytest.approx(choice.log_probs[OBS])

    def test_draws_follow_the_shares(self, models, family):
        vlm, draw = models[family], np.random.default_rng(0)
        chooser = Chooser(vlm)
        prefix = vlm.prefill([{"role": "user", "content": "which way?"}])
        share = float(np.exp(chooser.log_probs(prefix, ALL)[OBS]))
        choices = [chooser.choose(prefix, ALL, temperature=8.0, generator=draw) for _ in range(40)]
        turned = [c for c in choices if c.text in (LEFT, RIGHT)]
        assert turned
        for choice in turned:  # both turns are known once a turn was begun, and then all five make up the whole
            assert sum(np.exp(choice.log_probs[action]) for action in ALL) == pytest.approx(1.0)
        left, right = (vlm.generate(prefix, choices=(action,)) for action in (LEFT, RIGHT))
        pairs = zip(left.token_ids[0], right.token_ids[0], strict=False)
        at = next(i for i, (a, b) in enumerate(pairs) if a != b)  # where the two turns part
        wanted = left.log_probs[0][at] - right.log_probs[0][at]
        assert turned[0].log_probs[LEFT] - turned[0].log_probs[RIGHT] == pytest.approx(wanted, abs=1e-4)
        drawn = [chooser.choose(prefix, ALL, temperature=1.0, generator=draw).text for _ in range(80)]
        assert set(drawn) <= set(ALL)
        assert abs(np.mean([d == OBS for d in drawn]) - share) < 4 * np.sqrt(share * (1 - share) / 80) + 1e-9

    def test_a_threshold_splits_by_the_probability(self, models, family):
        vlm = models[family]
        low = agent_of(vlm, config=self.config, switch=SwitchConfig("threshold", threshold=0.0))
        high = agent_of(vlm, config=self.config, switch=SwitchConfig("threshold", threshold=1.0))
        eager = episode(low.session("find the bed", 3), 8, make=noise)
        calm = episode(high.session("find the bed", 3), 8, make=noise)
        assert [d.mode for d in eager][:6] == ["obs", "slow"] * 3
        assert [d.why for d in calm if d.action == OBS][:2] == ["start", "forced"][: sum(d.action == OBS for d in calm)]
        known = [d.obs_probability for d in eager + calm if d.mode == "fast" or d.status == "obs: policy"]
        assert all(0.0 <= p <= 1.0 for p in known)

    def test_a_cancelled_thought_stops(self, models, family):
        stop = threading.Event()
        agent = agent_of(models[family], config=self.config, cancel=stop, on_thought=lambda piece: stop.set())
        session = agent.session("find the bed", 3)
        session.act(noise(1))
        with pytest.raises(CancelledError):
            session.act(noise(1, True))
