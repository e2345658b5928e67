"""Box conventions: hand values, and the way there and back through resizing for several pixel limits."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backbone.boxes import GRID, BoxConvention
from backbone.contracts import Box
from backbone.errors import DataError, ModelError
from backbone.pixels import MAX_ASPECT, Pixels

LIMITS = [Pixels(4 * 28**2, maximum * 28**2, 28) for maximum in (16, 256, 1280)]


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("qwen2_vl", "relative"),
        ("qwen2_5_vl", "resized"),
        ("qwen3_vl", "relative"),
        ("qwen3_vl_moe", "relative"),
        ("qwen3_5", "relative"),
    ],
)
def test_convention_of_each_family(family: str, kind: str) -> None:
    assert BoxConvention.for_family(family).kind == kind


@pytest.mark.parametrize("family", ["llava", "qwen2_5_omni", "qwen2", ""])
def test_unknown_family_is_refused_by_name(family: str) -> None:
    with pytest.raises(ModelError, match=repr(family)):
        BoxConvention.for_family(family)


def test_hand_values() -> None:
    box, original, resized = Box(100, 50, 300, 250, "mug", 0.7), (400, 500), (560, 700)
    assert BoxConvention("relative").encode(box, original, resized) == (250, 100, 750, 500)
    assert BoxConvention("resized").encode(box, original, resized) == (140, 70, 420, 350)
    assert BoxConvention("relative").decode((250, 100, 750, 500), original, resized, "mug", 0.7) == box
    decoded = BoxConvention("resized").decode((140, 70, 420, 350), original, resized)
    assert decoded.corners == pytest.approx(box.corners)


@given(
    st.sampled_from(["relative", "resized"]),
    st.sampled_from(LIMITS),
    st.integers(20, 9000),
    st.integers(20, 9000),
    st.tuples(*[st.floats(0, 1)] * 4),
)
def test_round_trip_within_one_written_unit(
    kind: str, pixels: Pixels, width: int, height: int, part: tuple[float, float, float, float]
) -> None:
    """The written integers round, so a corner may move by half a unit of the grid it is written on, and no more."""
    assume(max(width, height) / min(width, height) <= MAX_ASPECT)
    convention, resized = BoxConvention(kind), pixels.resize(width, height)  # type: ignore[arg-type]
    unit_x, unit_y = (width / GRID, height / GRID) if kind == "relative" else (width / resized[0], height / resized[1])
    x0, x1 = sorted((part[0] * width, part[2] * width))
    y0, y1 = sorted((part[1] * height, part[3] * height))
    assume(x1 - x0 > 1.01 * unit_x and y1 - y0 > 1.01 * unit_y)
    box = Box(x0, y0, x1, y1, "thing", 0.5)
    back = convention.decode(convention.encode(box, (width, height), resized), (width, height), resized, "thing", 0.5)
    for got, want, unit in zip(back.corners, box.corners, (unit_x, unit_y, unit_x, unit_y), strict=True):
        assert abs(got - want) <= unit / 2 + 1e-6
    assert (back.label, back.score) == ("thing", 0.5)


@pytest.mark.parametrize("kind", ["relative", "resized"])
def test_same_physical_box_for_three_pixel_limits(kind: str) -> None:
    width, height, box = 1234, 877, Box(301.0, 202.0, 655.0, 440.0)
    written = set()
    for pixels in LIMITS:
        convention, resized = BoxConvention(kind), pixels.resize(width, height)  # type: ignore[arg-type]
        numbers = convention.encode(box, (width, height), resized)
        written.add(numbers)
        scale = max(width / resized[0], height / resized[1], 1.0)
        back = convention.decode(numbers, (width, height), resized)
        assert max(abs(a - b) for a, b in zip(back.corners, box.corners, strict=True)) <= scale
    assert len(written) == (1 if kind == "relative" else 3)  # only absolute numbers depend on the limits


@given(
    st.sampled_from(["relative", "resized"]),
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.tuples(*[st.floats(0, 1)] * 4),
)
def test_any_box_can_be_written_and_read_back(
    kind: str, width: int, height: int, part: tuple[float, float, float, float]
) -> None:
    """However small: a box of the image that is written for the model is a box when it is read."""
    x0, x1 = sorted((part[0] * width, part[2] * width))
    y0, y1 = sorted((part[1] * height, part[3] * height))
    assume(x0 < x1 and y0 < y1)
    convention, resized = BoxConvention(kind), (56, 56)  # type: ignore[arg-type]
    numbers = convention.encode(Box(x0, y0, x1, y1), (width, height), resized)
    side_x, side_y = (GRID, GRID) if kind == "relative" else resized
    assert 0 <= numbers[0] < numbers[2] <= side_x
    assert 0 <= numbers[1] < numbers[3] <= side_y
    convention.decode(numbers, (width, height), resized)


def test_decode_repairs_order_and_bounds_and_refuses_the_rest() -> None:
    convention = BoxConvention("relative")
    assert convention.decode((900, 800, 100, -50), (200, 100), (56, 56)).corners == pytest.approx((20, 0, 180, 80))
    assert convention.decode((500, 500, 4000, 4000), (200, 100), (56, 56)).corners == pytest.approx((100, 50, 200, 100))
    for numbers in [(5, 5, 5, 9), (1200, 0, 1400, 10), (float("nan"), 0, 10, 10), (0, 0, float("inf"), 10)]:
        with pytest.raises(DataError):
            convention.decode(numbers, (200, 100), (56, 56))
    with pytest.raises(DataError, match="4 numbers, got 3"):
        convention.decode((1, 2, 3), (200, 100), (56, 56))


def test_points_are_scaled_and_clipped() -> None:
    assert BoxConvention("relative").decode_point((500, 250), (200, 100), (56, 56)) == (100.0, 25.0)
    assert BoxConvention("resized").decode_point((28, 99), (200, 100), (56, 56)) == (100.0, 100.0)
    with pytest.raises(DataError, match="2 numbers, got 4"):
        BoxConvention("relative").decode_point((1, 2, 3, 4), (200, 100), (56, 56))
    with pytest.raises(DataError):
        BoxConvention("relative").decode_point((float("nan"), 1), (200, 100), (56, 56))
