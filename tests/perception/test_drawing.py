import numpy as np
import pytest
from scripted import canvas

from backbone.contracts import Box
from backbone.errors import ConfigError
from perception.crops import Crop
from perception.drawing import PALETTE, crop_strip, overlay


@pytest.mark.parametrize("size", [(1, 1), (3, 900), (40, 30), (640, 480), (3000, 200)])
def test_overlay_draws_on_a_copy_at_any_size(size: tuple[int, int]) -> None:
    image = canvas(*size)
    before = image.copy()
    box = Box(0, 0, size[0], max(size[1] / 2, 0.5), "a rather long label for a small picture " * 3)
    drawn = overlay(image, [box, box], [box])
    assert drawn.dtype == np.uint8
    assert max(drawn.shape[:2]) == min(1600, max(size))
    assert (image == before).all()
    assert (drawn != 90).any()


def test_outlines_stand_where_the_region_is_at_any_scale() -> None:
    drawn = overlay(canvas(4000, 2000), [Box(1000, 500, 2000, 1500)], longest=800)
    assert drawn.shape == (400, 800, 3)
    colour = np.array(PALETTE[0])
    rows, columns = np.nonzero((np.abs(drawn.astype(int) - colour) < 3).all(-1))
    assert 195 <= columns.min() <= 200 <= 400 <= columns.max() <= 405
    assert rows.max() <= 305
    assert (drawn[150:250, 250:350] == 90).all()


def test_strip_shows_every_close_up_at_one_height() -> None:
    crops = [Crop(Box(0, 0, 10, 10, f"part {i}"), "", canvas(64, side)) for i, side in enumerate((64, 32, 640))]
    strip = crop_strip(crops, 128)
    frame = 4
    assert strip.shape == (128 + frame, (128 + 256 + 32) + 3 * frame, 3)
    with pytest.raises(ConfigError, match="at least one"):
        crop_strip([])
