"""What calls of the local engine cost and return, in the contract's terms."""

from __future__ import annotations

import time
from collections.abc import Sequence

from backbone.chat import Prompt
from backbone.contracts import Stage
from backbone.decoding import Decoded
from backbone.encoding import Cost
from backbone.prefix import PrefixState
from backbone.vlm import Generation, Prefix


def prefix_of(state: PrefixState, cost: Cost, milliseconds: float, name: str) -> Prefix:
    """A state as callers see it, and what it cost."""
    stage = Stage(name, cost.visual, cost.prompt, cost.reused, 0, cost.passes, milliseconds)
    return Prefix(state.key(), len(state.ids), sum(p.tokens for p in state.pictures), stage, state)


def generation_of(out: Decoded, cost: Cost, started: float, name: str) -> Generation:
    """All samples of one prompt."""
    return _generation(out, slice(None), _stage(name, cost, out, started, slice(None), out.steps))


def encoded_cost(prompt: Prompt) -> Cost:
    """What encoding a prompt costs without any prefix."""
    return Cost(sum(p.tokens for p in prompt.pictures), len(prompt.ids), 0, 1)


def generations_of(out: Decoded, costs: Sequence[Cost], started: float, name: str) -> list[Generation]:
    """One generation per prompt of a batch.

    Each stage has its own tokens and passes, the time to its own first token, and an equal part of the whole time, so
    that the stages of a batch add up to what it took.
    """
    n = len(out.samples) // len(costs)
    generations = []
    for i, cost in enumerate(costs):
        rows = slice(i * n, i * n + n)
        steps = max(s.sampled for s in out.samples[rows]) - 1
        generations.append(_generation(out, rows, _stage(name, cost, out, started, rows, steps, len(costs))))
    return generations


def _stage(name: str, cost: Cost, out: Decoded, started: float, rows: slice, steps: int, share: int = 1) -> Stage:
    first = (out.first_token - started) * 1000
    sampled = sum(s.sampled for s in out.samples[rows])
    whole = _since(started) / share
    return Stage(name, cost.visual, cost.prompt, cost.reused, sampled, cost.passes + steps, whole, first)


def _generation(out: Decoded, rows: slice, stage: Stage) -> Generation:
    samples = out.samples[rows]
    return Generation(
        tuple(s.text for s in samples),
        tuple(tuple(s.ids) for s in samples),
        tuple(tuple(s.log_probs) for s in samples),
        tuple(s.finished for s in samples),
        stage,
    )


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
