"""The sampling loop on a scripted model: stop strings, streams, choices, generators, dropped rows."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TopPLogitsWarper

from backbone.decoding import Rules, TextStream, choice_trie, decode, depth, nucleus
from backbone.errors import CancelledError, ConfigError
from backbone.tokenizer import build_tokenizer

TOKENIZER = build_tokenizer(1024)
END = TOKENIZER.eos_token_id


class Script:
    """Rows that want to say given texts; records how many rows each step computed."""

    def __init__(self, texts):
        self.ids = [[*TOKENIZER(t)["input_ids"], END] for t in texts]
        self.rows, self.at, self.sizes = list(range(len(texts))), 0, []

    def logits(self):
        out = torch.full((len(self.rows), len(TOKENIZER)), -20.0)
        for i, row in enumerate(self.rows):
            out[i, self.ids[row][min(self.at, len(self.ids[row]) - 1)]] = 20.0
        return out

    def step(self, tokens):
        assert len(tokens) == len(self.rows)
        self.at += 1
        self.sizes.append(len(tokens))
        return self.logits()

    def keep(self, rows):
        self.rows = [self.rows[r] for r in rows]


def say(*texts, cancel=None, on_text=None, **rules):
    script = Script(texts)
    seeds = [(0, i) for i in range(len(texts))]
    out = decode(lambda: script, script.logits(), seeds, Rules(frozenset({END}), **rules), TOKENIZER, cancel, on_text)
    return out, script


def test_rows_end_by_themselves_and_cost_nothing_afterwards():
    out, script = say("hi", "a somewhat longer text here", "mid one")
    assert [s.text for s in out.samples] == ["hi", "a somewhat longer text here", "mid one"]
    assert all(s.finished for s in out.samples)
    assert script.sizes == sorted(script.sizes, reverse=True)
    assert script.sizes[-1] == 1
    assert all(len(s.log_probs) == len(s.ids) == s.sampled - 1 for s in out.samples)


def test_the_limit_leaves_a_text_unfinished():
    out, _ = say("one two three four five", max_new_tokens=3)
    assert (len(out.samples[0].ids), out.samples[0].finished, out.steps) == (3, False, 2)


@given(st.text(max_size=40), st.text(min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_stop_strings_cut_exactly_and_streams_never_show_them(text, stop):
    text = TOKENIZER.decode(TOKENIZER(text)["input_ids"], skip_special_tokens=True)
    pieces = []
    out, _ = say(text, stop=(stop,), on_text=lambda _, p: pieces.append(p), max_new_tokens=500)
    assert out.samples[0].text == text.split(stop)[0]
    assert "".join(pieces) == out.samples[0].text
    kept = TOKENIZER.decode(out.samples[0].ids, skip_special_tokens=True)
    assert kept.startswith(out.samples[0].text) or "\ufffd" in kept


def test_tokens_that_only_spell_the_stop_string_are_dropped():
    out, _ = say("yes\n\nno more", stop=("\n\n",))
    assert out.samples[0].text == "yes"
    assert TOKENIZER.decode(out.samples[0].ids) == "yes"
    assert out.samples[0].finished


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_streams_give_whole_characters(text):
    ids = TOKENIZER(text)["input_ids"]
    pieces = []
    stream = TextStream(TOKENIZER, (), pieces.append)
    for token in ids:
        stream.push(token)
    whole = TOKENIZER.decode(ids, skip_special_tokens=True)
    assert stream.end() == "".join(pieces) == whole


def test_sampling_follows_the_distribution():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2, 0.0]]))
    rules = Rules(frozenset({9}), temperature=1.0, max_new_tokens=1)
    out = decode(lambda: None, logits.expand(4000, -1), [(7, i) for i in range(4000)], rules, TOKENIZER)
    share = np.bincount([s.ids[0] for s in out.samples], minlength=4) / 4000
    assert np.abs(share - [0.5, 0.3, 0.2, 0.0]).max() < 0.03
    cold = Rules(frozenset({9}), temperature=0.05, max_new_tokens=1)
    assert {s.ids[0] for s in decode(lambda: None, logits, [(1, 1)], cold, TOKENIZER).samples} == {0}


def test_choices_follow_the_trie_even_against_the_model():
    options = ("turn left", "turn right", "turn", "stop")
    out, _ = say("stop it", "turn left", "something else", choices=options)
    assert [s.text for s in out.samples[:2]] == ["stop", "turn left"]
    assert out.samples[2].text in options
    assert all(s.finished for s in out.samples)
    trie = choice_trie(TOKENIZER, options)
    assert depth(trie) == max(len(TOKENIZER(o)["input_ids"]) for o in options)


def test_a_choice_that_begins_another_one_can_end():
    assert say("turn", choices=("turn", "turn left"))[0].samples[0].text == "turn"
    assert say("turn left", choices=("turn", "turn left"))[0].samples[0].text == "turn left"


def test_cancel_is_seen_before_each_step():
    event = threading.Event()
    event.set()
    with pytest.raises(CancelledError, match="after 1 tokens"):
        say("a long text that goes on", cancel=event)


def test_rules_refuse_contradictions():
    with pytest.raises(ConfigError, match="contradict"):
        Rules(frozenset(), stop=("x",), choices=("a",))
    with pytest.raises(ConfigError, match="temperature"):
        Rules(frozenset(), temperature=float("nan"))


@pytest.mark.parametrize("top_p", [1e-9, 0.05, 0.3, 0.5, 0.8, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("sharpness", [0.1, 1.0, 8.0])
def test_the_likeliest_tokens_are_those_of_transformers(top_p, sharpness):
    scores = torch.randn(7, 501, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * sharpness
    scores[2, 40:] = -torch.inf  # as choices leave it
    expected = TopPLogitsWarper(top_p)(None, scores.clone())
    found = nucleus(scores, top_p)
    assert torch.equal(found, expected)
    assert torch.isfinite(found).any(-1).all()
    for row, alone in zip(found, scores, strict=True):
        assert torch.equal(nucleus(alone[None], top_p)[0], row)


def test_equal_scores_are_left_out_the_same_way_in_any_batch():
    scores = torch.zeros(3, 6, dtype=torch.float64)
    found = nucleus(scores, 0.5)
    assert torch.isfinite(found).sum(-1).tolist() == [3, 3, 3]
    assert all(torch.equal(nucleus(scores[:1], 0.5)[0], row) for row in found)


def test_only_the_likeliest_are_drawn_and_as_often_as_they_should():
    class Flat:
        def step(self, tokens):
            return logits[: len(tokens)]

        def keep(self, rows):
            pass

    wanted = TOKENIZER(" a b c d", add_special_tokens=False)["input_ids"][:4]
    logits = torch.full((4000, len(TOKENIZER)), -30.0)
    logits[:, wanted] = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    rules = Rules(frozenset({END}), temperature=1.0, max_new_tokens=1, top_p=0.65)
    out = decode(Flat, logits, [(1, i) for i in range(4000)], rules, TOKENIZER)
    drawn = [s.ids[0] for s in out.samples]
    assert set(drawn) == set(wanted[:2])
    assert drawn.count(wanted[0]) / 4000 == pytest.approx(4 / 7, abs=0.03)
    assert out.samples[0].log_probs[0] == pytest.approx(float(np.log(0.4 if drawn[0] == wanted[0] else 0.3)), abs=1e-4)
