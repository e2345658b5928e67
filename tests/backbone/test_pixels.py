"""Pixel limits against the two public implementations of Qwen's smart_resize."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from qwen_vl_utils.vision_process import smart_resize as utils_resize
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as processor_resize

from backbone.errors import ConfigError, DataError
from backbone.pixels import MAX_ASPECT, Pixels

sides = st.one_of(st.integers(1, 300), st.integers(1, 20000))
limits = st.tuples(st.sampled_from([8, 16, 28, 32]), st.integers(1, 64), st.integers(1, 4000)).map(
    lambda t: Pixels(minimum=t[1] * t[0] ** 2, maximum=(t[1] + t[2]) * t[0] ** 2, factor=t[0])
)


def within_aspect(width: int, height: int) -> bool:
    return max(width, height) / min(width, height) <= MAX_ASPECT


@given(sides, sides, limits)
@example(1000, 10, Pixels(3136, 602112, 28))  # a side that rounds to 0
@example(42, 70, Pixels(784, 10**6, 28))  # halves: 1.5 and 2.5 both round to 2
@example(20000, 100, Pixels(784, 784 * 4, 28))  # at the aspect limit
def test_equals_the_processors_smart_resize(width: int, height: int, pixels: Pixels) -> None:
    assume(within_aspect(width, height))
    h, w = processor_resize(height, width, pixels.factor, pixels.minimum, pixels.maximum)
    assert pixels.resize(width, height) == (w, h)


@given(sides, sides, limits)
def test_equals_qwen_vl_utils_where_that_keeps_a_pixel(width: int, height: int, pixels: Pixels) -> None:
    """The two public versions part only for thin images: utils first raises a side to one token, or floors it to 0."""
    assume(within_aspect(width, height))
    assume(min(round(width / pixels.factor), round(height / pixels.factor)) > 0)
    h, w = utils_resize(height, width, pixels.factor, pixels.minimum, pixels.maximum)
    assume(min(h, w) > 0)
    assert pixels.resize(width, height) == (w, h)


@given(sides, sides, limits)
def test_sides_are_whole_tokens_and_the_area_is_within_limits(width: int, height: int, pixels: Pixels) -> None:
    assume(within_aspect(width, height))
    w, h = pixels.resize(width, height)
    assert w % pixels.factor == h % pixels.factor == 0
    assert min(w, h) >= pixels.factor
    thin = min(w, h) == pixels.factor  # one token high: the processors let such a strip exceed the maximum
    assert w * h <= pixels.maximum or thin or w * h <= pixels.minimum * 4
    assert pixels.resize(height, width) == (h, w)


@pytest.mark.parametrize(("width", "height"), [(0, 5), (5, 0), (-1, 5), (2010, 10), (1, 201)])
def test_impossible_images_are_refused(width: int, height: int) -> None:
    with pytest.raises(DataError, match=f"{width} x {height}"):
        Pixels(784, 10**6, 28).resize(width, height)


@pytest.mark.parametrize("values", [(0, 784, 28), (785, 784, 28), (1, 783, 28), (1, 784, 0)])
def test_impossible_limits_are_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match=r"pixel limits|visual token"):
        Pixels(*values)
