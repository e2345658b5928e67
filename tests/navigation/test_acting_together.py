"""Many sessions decided together: token for token what each decides alone, whatever it is at."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from speaking import PLAIN, WITH_LOOK, SpeakingVLM, noise

from backbone.adapters import LoraConfig
from backbone.errors import CancelledError, DataError, WorldError
from backbone.vlm import VLM
from navigation.actions import OBS
from navigation.agent import HydraAgent
from navigation.config import NavigationConfig
from navigation.switching import SwitchConfig
from navigation.tracing import TracedAgent, read_trace, trace_path

NANO = NavigationConfig.preset("nano")
SHORT = {"thought_tokens": 1, "slow_retries": 0, "force_after": 4, "offer_after": 4, "offer_probability": 1.0}
TINY = replace(NANO, least_pixels=None, **SHORT)
STEPS = 8


@pytest.fixture(scope="module")
def models(tiny_vlm_dir):
    found = {family: VLM.load(str(tiny_vlm_dir(family)), device="cpu") for family in ("qwen3_vl", "qwen2_5_vl")}
    nano = VLM.load("nano", device="cpu")
    return {**found, "nano": VLM.load("nano", device="cpu", pixels=NANO.pixels(nano.pixels))}


def agent_of(vlm, config=TINY, switch=None, spec=WITH_LOOK, **options):
    return HydraAgent(vlm, spec, config, switch, **options)


class Player:
    """One episode of noise: what is seen depends on its number and step, and on whether it was looked around."""

    def __init__(self, agent, number, steps=STEPS):
        self.session = agent.session("find the bed", number)
        self.number, self.steps, self.around, self.decisions = number, steps, False, []

    @property
    def done(self):
        return len(self.decisions) == self.steps

    def see(self):
        return noise(1000 * self.number + len(self.decisions), self.around)

    def take(self, decision):
        self.decisions.append(decision)
        self.around = decision.action == OBS


def alone(agent, numbers):
    players = [Player(agent, n, STEPS + n) for n in numbers]
    for player in players:
        agent.speaker._vlm.forget()
        while not player.done:
            player.take(player.session.act(player.see()))
    return players


def together(agent, numbers, late=()):
    """All at once; players number ``late`` begin some steps after the others, and so are at something else."""
    agent.speaker._vlm.forget()
    players = [Player(agent, n, STEPS + n) for n in numbers]
    step = 0
    while not all(p.done for p in players):
        now = [p for p in players if not p.done and (p.number not in late or step >= 3 * p.number)]
        for player, decision in zip(now, agent.act_many([p.session for p in now], [p.see() for p in now]), strict=True):
            player.take(decision)
        step += 1
    return players


def told(players):
    """All that was decided, with the counts that do not depend on what the cache held."""
    return [
        [
            (d.action, d.mode, d.why, d.thought, d.status, d.context, d.landmarks, d.notes, *stages_of(d))
            for d in p.decisions
        ]
        for p in players
    ]


def stages_of(decision):
    return [(s.name, s.generated_tokens, s.reasoned, s.reason) for s in decision.ledger.stages]


def chances(players):
    return [d.obs_probability for p in players for d in p.decisions if d.obs_probability is not None]


RULES = [
    SwitchConfig(),
    SwitchConfig("threshold", threshold=0.2),
    SwitchConfig("never"),
    SwitchConfig("always"),
    SwitchConfig("fixed", period=4),
    SwitchConfig("random", rate=0.3),
]


CASES = [("qwen3_vl", rule, 1.0) for rule in RULES]
CASES += [("qwen2_5_vl", RULES[0], 0.0), ("nano", RULES[0], 0.0), ("nano", RULES[2], 0.0), ("nano", RULES[4], 1.0)]


@pytest.mark.parametrize(("family", "switch", "temperature"), CASES, ids=lambda v: getattr(v, "strategy", None))
def test_together_equals_alone(models, family, switch, temperature):
    """Exactly, where logits agree to 1e-4: a tie that close would be seen by the comparison of chances first."""
    agent = agent_of(models[family], replace(TINY, temperature=temperature), switch)
    one, many = alone(agent, range(3)), together(agent, range(3), late=(1,))
    assert told(many) == told(one)
    assert np.allclose(chances(many), chances(one), atol=1e-4)
    assert len({str(t) for t in told(one)}) > 1
    if switch.thinks:
        assert any(d.mode == "slow" for p in one for d in p.decisions)


@pytest.mark.parametrize("options", [{"constrained": False, "fast_retries": 2}, {"slow_retries": 2}])
def test_repairs_equal_too(models, options):
    agent = agent_of(models["qwen3_vl"], replace(TINY, temperature=1.0, **options))
    one, many = alone(agent, range(3)), together(agent, range(3), late=(2,))
    assert told(many) == told(one)
    assert any(d.notes for p in one for d in p.decisions)


def test_turning_without_a_look_around_and_uncached_equal_too(models):
    for options in ({"spec": PLAIN}, {"cached": False}):
        agent = agent_of(models["qwen3_vl"], **options)
        assert told(together(agent, range(2))) == told(alone(agent, range(2)))


def test_a_full_context_equals_too(models):
    agent = agent_of(models["qwen3_vl"], replace(TINY, force_after=35, offer_after=35, context_tokens=400))
    one, many = alone(agent, range(3)), together(agent, range(3), late=(1,))
    assert told(many) == told(one)
    assert any(d.why == "context" for p in one for d in p.decisions)


def test_an_adapter_is_used(tiny_vlm_dir):
    vlm = VLM.load(str(tiny_vlm_dir("qwen3_vl")), device="cpu")
    vlm.adapters.attach("other", LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    generator = np.random.default_rng(0)
    for name, parameter in vlm.model.named_parameters():
        if "lora_B" in name:
            parameter.data.copy_(parameter.data.new_tensor(generator.normal(0, 0.5, tuple(parameter.shape))))
    vlm.adapters.version += 1
    plain, adapted = agent_of(vlm), agent_of(vlm, adapter="other")
    many = together(adapted, range(3))
    assert told(many) == told(alone(adapted, range(3)))
    assert told(many) != told(together(plain, range(3)))


def test_several_thoughts_share_their_passes(models):
    vlm, numbers = models["qwen3_vl"], range(4)
    agent, passes = agent_of(vlm), []
    sessions = [agent.session("find the bed", n) for n in numbers]
    agent.act_many(sessions, [noise(n) for n in numbers])
    hook = vlm.network.text.register_forward_hook(lambda *_: passes.append(1))
    try:
        decisions = agent.act_many(sessions, [noise(100 + n, True) for n in numbers])
    finally:
        hook.remove()
    written = [s.generated_tokens for d in decisions for s in d.ledger.stages if s.name == "thinking"]
    assert len(written) >= 4
    assert len(passes) < sum(written) / 2


def test_pieces_of_thoughts_go_to_their_episodes(models):
    def heard(run):
        pieces = {}
        agent = agent_of(
            models["qwen3_vl"], on_thought=lambda p: pieces.setdefault((p.seed, p.landmark), []).append(p.text)
        )
        run(agent, range(3))
        return {key: "".join(texts) for key, texts in pieces.items()}

    first = heard(alone)
    assert heard(together) == first
    assert {seed for seed, _ in first} == {0, 1, 2}


def test_a_cancel_ends_all_of_them(models):
    stop = threading.Event()
    agent = agent_of(models["qwen3_vl"], cancel=stop, on_thought=lambda piece: stop.set())
    sessions = [agent.session("find the bed", n) for n in range(2)]
    agent.act_many(sessions, [noise(n) for n in range(2)])
    with pytest.raises(CancelledError):
        agent.act_many(sessions, [noise(n, True) for n in range(2)])


class TestFailing:
    def test_a_closed_session_is_told_before_the_others_do_anything(self, models):
        agent = agent_of(models["qwen3_vl"])
        one, two = agent.session("find the bed", 1), agent.session("find the bed", 2)
        two.close()
        with pytest.raises(WorldError, match="closed"):
            agent.act_many([one, two], [noise(1), noise(2)])
        assert one.act(noise(1)).why == "start"

    def test_strangers_and_doubles_are_refused(self, models):
        agent, other = agent_of(models["qwen3_vl"]), agent_of(models["qwen3_vl"])
        mine, theirs = agent.session("find the bed", 1), other.session("find the bed", 1)
        for sessions in ([mine, theirs], [mine, mine]):
            with pytest.raises(DataError, match="different sessions of this agent"):
                agent.act_many(sessions, [noise(1), noise(2)])
        with pytest.raises(DataError, match="1 observations"):
            agent.act_many([mine, agent.session("find the bed", 2)], [noise(1)])
        assert agent.act_many([], []) == []

    def test_what_one_step_raises_is_raised(self, models):
        agent = agent_of(models["qwen3_vl"])
        sessions = [agent.session("find the bed", n) for n in range(3)]
        agent.act_many(sessions, [noise(n) for n in range(3)])
        broken = noise(1, True)
        broken.images["left"] = np.ones((128, 160), np.uint8)
        with pytest.raises(DataError, match="128, 160"):
            agent.act_many(sessions, [noise(5, True), broken, noise(6, True)])


def test_an_engine_without_prefixes_is_asked_one_by_one():
    agents = [agent_of(SpeakingVLM()) for _ in range(2)]
    one = []
    for number in range(3):
        player = Player(agents[0], number)
        while not player.done:
            player.take(player.session.act(player.see()))
        one.append(player)
    many = [Player(agents[1], n) for n in range(3)]
    while not many[0].done:
        found = agents[1].act_many([p.session for p in many], [p.see() for p in many])
        for player, decision in zip(many, found, strict=True):
            player.take(decision)
    assert told(many) == told(one)


def test_a_traced_agent_notes_what_was_decided_together(models, tmp_path):
    agent = agent_of(models["qwen3_vl"])
    traced = TracedAgent(agent, tmp_path)
    sessions = [traced.session("find the bed", n) for n in range(2)]
    decisions = traced.act_many(sessions, [noise(n) for n in range(2)])
    decisions += traced.act_many(sessions, [noise(n, True) for n in range(2)])
    for n, session in enumerate(sessions):
        session.close()
        rows = read_trace(trace_path(tmp_path, n))
        assert [row["action"] for row in rows] == [d.action for d in decisions[n::2]]
        assert rows[1].get("thought", "") == decisions[2 + n].thought
    with pytest.raises(DataError, match="not of this agent"):
        traced.act_many([agent.session("find the bed", 1)], [noise(1)])
