"""Positions that a prefix hands on equal those counted over the whole conversation."""

import numpy as np
import pytest
import torch
from local_helpers import FAMILIES, assistant, message, picture

from backbone.vlm import VLM


@pytest.fixture(scope="module", params=FAMILIES)
def vlm(request, tiny_vlm_dir):
    return VLM.load(str(tiny_vlm_dir(request.param)), device="cpu")


def turns(seed):
    """Twelve turns with pictures of several sizes, texts, and replies in between."""
    draw = np.random.default_rng(seed)
    for i in range(12):
        parts = [picture(seed * 100 + i, *(32 * draw.integers(1, 4, 2)))] if draw.random() < 0.6 else []
        parts += [f"turn {i} of {seed}"] if draw.random() < 0.7 or not parts else []
        yield message(*parts), assistant("reply " * int(draw.integers(1, 4)))


@pytest.mark.parametrize("seed", range(4))
def test_extended_positions_are_those_of_the_whole(vlm, seed):
    prefix, before = None, []
    for asked, said in turns(seed):
        prefix = vlm.prefill(asked) if prefix is None else vlm.extend(prefix, [*before, *asked])
        state = prefix.state
        whole = vlm.network.positions(state.ids, [p.grid for p in state.pictures])
        assert torch.equal(state.positions, whole)
        assert state.next_position == int(whole.max()) + 1
        before = said


def test_a_fork_takes_over_only_what_is_common(vlm):
    first = vlm.prefill([*message(picture(1), "one"), *assistant("a"), *message(picture(2, 64, 32), "two")])
    other = vlm.prefill([*message(picture(1), "one"), *assistant("a"), *message(picture(3, 96, 96), "three")])
    assert other.stage.reused_tokens > 0
    assert first.key != other.key
    for state in (first.state, other.state):
        assert torch.equal(state.positions, vlm.network.positions(state.ids, [p.grid for p in state.pictures]))
