"""Where attention is told to look: what words mean, where that lies, and the loss against attention in full."""

import dataclasses

import numpy as np
import pytest
import torch
from nav_records import stage_two

from backbone.errors import ConfigError, ModelError
from backbone.nano.losses import attention_of
from backbone.vlm import VLM
from navigation.batches import Encoder, Guide, loss, task_of
from navigation.config import NavigationConfig
from navigation.examples import segment_example
from navigation.feature_store import FeatureStore
from navigation.guidance import LEAST, Focus, Mention, looking
from navigation.records import with_thoughts
from navigation.sight_heads import CLASS_OF, SightHeads
from navigation.train import StageTraining, guide_of, learning, mentions_of

NANO = NavigationConfig.preset("nano")
THOUGHT = "Been: kitchen. Here bedroom: ahead bed, left tv monitor, right unicorn. No bed. Go ahead."
GUIDED = StageTraining(language="full", tower="frozen", guidance=0.5, precision="fp32")


@pytest.fixture
def vlm(tiny_vlm_dir):
    own = VLM.load(str(tiny_vlm_dir("qwen3_vl")))
    return VLM.load(str(tiny_vlm_dir("qwen3_vl")), pixels=NANO.pixels(own.pixels))


def example():
    made = stage_two()
    recorded = with_thoughts(made, [THOUGHT] * len(made.trajectory.cycles))
    found = segment_example(recorded, 1, NANO)
    system = {"role": "system", "content": [{"type": "text", "text": "Find the bed. Think, then act."}]}
    return dataclasses.replace(found, messages=(system, *found.messages[1:]))


def test_mentions_are_the_names_on_their_sides_and_the_tasks_object(vlm):
    assert task_of(example().messages) == "bed"
    encoder = Encoder(vlm, 4096, mentions_of(vlm))
    row = encoder.row(example())
    tokenizer = vlm.tokenizer

    def names(kind):
        return [m for m in row.mentions if m.kind == CLASS_OF[kind]]

    places = (len(row.pictures) - len([m for m in example().messages if m["role"] == "user"])) // 4
    newest = 4 * (places - 1)
    thought = [m for m in row.mentions if m.pictures and m.pictures[0] < 4 * places]
    spoken = {CLASS_OF["bed"]: newest, CLASS_OF["tv monitor"]: newest + 1}
    assert {m.kind: m.pictures[0] for m in thought} == spoken  # the unicorn has no class
    for kind in ("bed", "tv monitor"):
        written = [int(row.ids[m.token + 1]) for m in thought if m.kind == CLASS_OF[kind]]
        assert tokenizer.decode(written) == f" {kind}"
    copied = [m for m in row.mentions if m.source >= 0]
    assert [int(row.ids[m.token + 1]) for m in copied] == [int(row.ids[m.source]) for m in copied]
    assert tokenizer.decode([int(row.ids[m.source]) for m in copied]) == " bed"
    fast = [m for m in names("bed") if m.pictures[0] >= 4 * places]
    replies = encoder.replies(row.ids)[1:]
    assert [m.token + 1 for m in fast] == [begin for begin, _ in replies]
    assert [m.pictures[0] for m in fast] == list(range(4 * places + 1, 4 * places + 1 + len(replies)))
    assert Encoder(vlm, 4096).row(example()).mentions == ()


def test_focus_is_the_cells_of_the_kind_and_nothing_where_it_is_not_seen():
    kinds = [[torch.tensor([1, 2, 2]), torch.tensor([3, 1])]]
    mentions = [[Mention(9, 2, (0,)), Mention(9, 3, (0,)), Mention(9, 1, (0, 1)), Mention(9, source=1)]]
    focus = Focus.of(mentions, [[2, 6]], kinds, 10)
    assert focus.rows.tolist() == [0, 0, 0]
    assert focus.queries.tolist() == [9, 9, 9]
    assert [torch.nonzero(w).ravel().tolist() for w in focus.wanted] == [[3, 4], [2, 7], [1]]
    assert Focus.of([[Mention(9, 5, (0,))]], [[2, 6]], kinds, 10).wanted.shape == (0, 10)


def test_the_loss_is_that_of_attention_computed_in_full(vlm):
    text, length = vlm.network.text, 12
    embeddings = torch.randn(2, length, vlm.network.width, generator=torch.Generator().manual_seed(0))
    wanted = torch.zeros(3, length, dtype=torch.bool)
    wanted[0, 2:5] = wanted[1, 1] = wanted[2, 11] = True
    focus = Focus(torch.tensor([0, 1, 1]), torch.tensor([7, 4, 6]), wanted)
    heads = ((0, 1), (1, 3))
    seen = {}
    with attention_of(text.config, "eager"), torch.no_grad():
        handles = [
            text.layers[i].self_attn.register_forward_hook(lambda m, a, o, i=i: seen.update({i: o[1]}))
            for i, _ in heads
        ]
        text(inputs_embeds=embeddings, use_cache=False)
        for handle in handles:
            handle.remove()
    with looking(text, heads, focus) as losses, torch.no_grad():
        text(inputs_embeds=embeddings, use_cache=False)
    assert len(losses) == 2
    for (layer, head), value in zip(heads, losses, strict=True):
        mass = [
            float(seen[layer][b, head, q][w].sum())
            for b, q, w in zip(focus.rows.tolist(), focus.queries.tolist(), wanted, strict=True)
        ]
        assert mass[2] == 0  # what comes later is not seen
        assert float(value) == pytest.approx(-np.log(np.array(mass) + LEAST).mean(), rel=1e-4)


def test_heads_that_are_not_there_are_refused(vlm):
    empty = Focus(torch.zeros(0).long(), torch.zeros(0).long(), torch.zeros(0, 4, dtype=torch.bool))
    for heads in (((99, 0),), ((0, 99),)):
        with pytest.raises(ModelError, match="no head"), looking(vlm.network.text, heads, empty):
            pass


def test_guidance_raises_the_attention_where_it_is_wanted(vlm):
    classifiers = SightHeads(vlm.network.width)
    torch.manual_seed(0)
    encoder = Encoder(vlm, 4096, mentions_of(vlm))
    batch = encoder.batch([encoder.row(example())], patches=False)
    store = FeatureStore(vlm, None, 64)
    guide = Guide(classifiers, ((0, 0),), 1.0)
    features = store.features(batch["pictures"])
    with torch.no_grad():  # all cells are beds
        classifiers.heads["kind"].weight.zero_()
        classifiers.heads["kind"].bias.zero_()
        classifiers.heads["kind"].bias[CLASS_OF["bed"]] = 1.0
    assert len(guide.focus(batch, features).rows) >= 3
    with learning(vlm, GUIDED):
        chosen = [p for p in vlm.model.parameters() if p.requires_grad]
        optimiser = torch.optim.Adam(chosen, 1e-2)
        values = []
        for _ in range(8):
            value, numbers = loss(vlm, None, vlm.model, batch, store, guide)
            assert float(value.detach()) == pytest.approx(float(numbers["replies"] + numbers["away"]), rel=1e-5)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            values.append(float(numbers["away"]))
    assert values[-1] < 0.7 * values[0]


def test_guidance_needs_a_resting_tower_and_classifiers(vlm):
    with pytest.raises(ConfigError, match="guidance"):
        dataclasses.replace(GUIDED, tower="full")
    with pytest.raises(ConfigError, match="guidance"):
        dataclasses.replace(GUIDED, store_mebibytes=0)
    assert guide_of(vlm, dataclasses.replace(GUIDED, guidance=0.0)) is None
    with pytest.raises(ModelError, match="no classifiers"):
        guide_of(vlm, GUIDED)  # the shipped ones are nano's
