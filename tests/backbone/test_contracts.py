"""Contracts: every example is valid, invalid values are refused with a message that names them, ledgers add up."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backbone import contracts
from backbone.contracts import (
    ActionChunk,
    ActionSpec,
    Answer,
    Box,
    Decision,
    Evidence,
    Ledger,
    Observation,
    Stage,
    Trajectory,
)
from backbone.errors import DataError

NAN, INF = float("nan"), float("inf")
CONTRACTS = [v for v in vars(contracts).values() if dataclasses.is_dataclass(v) and isinstance(v, type)]
finite = st.floats(-1e4, 1e4)


def test_all_contracts_are_found() -> None:
    expected = {Box, Stage, Ledger, Answer, Evidence, Observation, ActionSpec, ActionChunk, Trajectory, Decision}
    assert expected <= set(CONTRACTS)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda c: c.__name__)
def test_example_is_valid_and_frozen(contract: Any) -> None:
    example = contract.make_example()
    assert isinstance(example, contract)
    name = dataclasses.fields(contract)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(example, name, getattr(example, name))


@pytest.mark.parametrize(
    ("contract", "changes", "message"),
    [
        (Box, {"x0": NAN}, "NaN"),
        (Box, {"y1": INF}, "infinite"),
        (Box, {"score": NAN}, "NaN"),
        (Box, {"x1": 10.0}, "x0 < x1"),
        (Box, {"y1": 5.0}, "y0 < y1"),
        (Box, {"x0": -1.0}, "outside"),
        (Stage, {"milliseconds": -1.0}, "milliseconds"),
        (Stage, {"first_token_ms": NAN}, "first_token_ms"),
        (Stage, {"generated_tokens": -1}, "generated_tokens"),
        (Stage, {"visual_tokens": 121}, "121 visual tokens exceed 120"),
        (Evidence, {"page": -1}, "page -1"),
        (Evidence, {"mass": 1.01}, "mass 1.01"),
        (Evidence, {"mass": NAN}, "mass nan"),
        (Observation, {"images": {}}, "no images"),
        (Observation, {"images": {"left": np.zeros((4, 4, 3), np.float32)}}, r"'left'.*float32 \(4, 4, 3\)"),
        (Observation, {"images": {"left": np.zeros((3, 4, 4), np.uint8)}}, r"'left'.*\(3, 4, 4\)"),
        (Observation, {"images": {"left": np.zeros((4, 4), np.uint8)}}, r"\(4, 4\)"),
        (Observation, {"images": {"left": np.zeros((0, 4, 3), np.uint8)}}, "no pixels"),
        (Observation, {"images": {"left": [[0]]}}, "list"),
        (Observation, {"state": np.zeros(4)}, "float64"),
        (Observation, {"state": np.zeros((1, 4), np.float32)}, r"\(1, 4\)"),
        (Observation, {"state": np.array([0, NAN], np.float32)}, "1 of 2 values"),
        (Observation, {"time_s": INF}, "time_s"),
        (ActionSpec, {"names": ("forward",)}, "'names': 1"),
        (ActionSpec, {"names": (), "units": (), "low": (), "high": ()}, "non-zero"),
        (ActionSpec, {"low": (0.0, 1.0)}, "'turn'"),
        (ActionSpec, {"high": (INF, 1.0)}, "'forward'"),
        (ActionSpec, {"control_hz": 0.0}, "control_hz"),
        (ActionChunk, {"values": np.zeros((5, 3), np.float32)}, r"\(H, 2\).*\(5, 3\)"),
        (ActionChunk, {"values": np.zeros(2, np.float32)}, r"\(2,\)"),
        (ActionChunk, {"values": np.zeros((5, 2))}, "float64"),
        (ActionChunk, {"values": np.full((5, 2), INF, np.float32)}, "10 of 10"),
        (Trajectory, {"points": np.zeros((4, 4), np.float32)}, r"\(4, 4\)"),
        (Trajectory, {"points": np.full((4, 2), NAN, np.float32)}, "8 of 8"),
        (Trajectory, {"dt_s": 0.0}, "dt_s"),
    ],
)
def test_invalid_values_are_refused_with_what_was_found(contract: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(contract.make_example(), **changes)


@given(st.tuples(finite, finite, finite, finite), st.integers(1, 5000), st.integers(1, 5000))
def test_clamped_box_is_inside_or_refused(corners: tuple[float, ...], width: int, height: int) -> None:
    xa, ya, xb, yb = corners
    inside_x = min(max(xa, xb), width) > max(min(xa, xb), 0)
    inside_y = min(max(ya, yb), height) > max(min(ya, yb), 0)
    if not (inside_x and inside_y):
        with pytest.raises(DataError, match="no area inside"):
            Box.clamped(corners, width, height)
        return
    box = Box.clamped(corners, width, height, "a", 0.5)
    assert 0 <= box.x0 < box.x1 <= width
    assert 0 <= box.y0 < box.y1 <= height
    assert box == Box.clamped((xb, yb, xa, ya), width, height, "a", 0.5)
    assert Box.clamped(box.corners, width, height, "a", 0.5) == box


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    x0, y0, w, h = (
        draw(st.integers(0, 12)),
        draw(st.integers(0, 12)),
        draw(st.integers(1, 8)),
        draw(st.integers(1, 8)),
    )
    return Box(x0, y0, x0 + w, y0 + h)


@given(boxes(), boxes())
def test_iou_and_coverage_equal_counted_pixels(a: Box, b: Box) -> None:
    def mask(box: Box) -> np.ndarray[Any, np.dtype[np.bool_]]:
        grid = np.zeros((24, 24), bool)
        grid[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)] = True
        return grid

    both, either = (mask(a) & mask(b)).sum(), (mask(a) | mask(b)).sum()
    assert a.iou(b) == pytest.approx(both / either)
    assert a.iou(b) == b.iou(a)
    assert a.coverage(b) == pytest.approx(both / mask(b).sum())
    assert a.area == mask(a).sum()


stages = st.builds(
    lambda name, visual, text, reused, generated, passes, first, rest, reasoned: Stage(
        name, visual, visual + text, reused, generated, passes, first + rest, first, reasoned, "why" if reasoned else ""
    ),
    st.sampled_from(["looking", "answering"]),
    *[st.integers(0, 1000)] * 5,
    st.integers(0, 1000).map(float),
    st.integers(0, 1000).map(float),
    st.booleans(),
)
ledgers = st.lists(stages, max_size=4).map(lambda s: Ledger(tuple(s)))


@given(ledgers, ledgers, ledgers)
def test_ledgers_add_up(a: Ledger, b: Ledger, c: Ledger) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + Ledger() == a == Ledger() + a
    whole, left, right = (a + b).total(), a.total(), b.total()
    for key in (
        "visual_tokens",
        "prompt_tokens",
        "reused_tokens",
        "generated_tokens",
        "forward_passes",
        "milliseconds",
    ):
        assert getattr(whole, key) == getattr(left, key) + getattr(right, key)
    assert whole.tokens == left.tokens + right.tokens
    assert whole.reasoned == (left.reasoned or right.reasoned)
    if b.stages:  # the answer's first token comes after everything before its stage
        assert whole.first_token_ms == left.milliseconds + right.first_token_ms
    assert json.loads(json.dumps((a + b).to_dict(), allow_nan=False))["total"]["milliseconds"] == whole.milliseconds


def test_sum_of_ledgers_and_answer_are_json() -> None:
    total = sum([Ledger.make_example()] * 3, Ledger())
    assert len(total.stages) == 6
    assert math.isclose(total.total().milliseconds, 6 * 410.0)
    answer = json.loads(json.dumps(Answer.make_example().to_dict(), allow_nan=False))
    assert answer["regions"][0]["label"] == "mug"
    assert [s["name"] for s in answer["ledger"]["stages"]] == ["looking", "answering"]
