"""Pictures of an answer: mass where it lies and nowhere else, readable pages, boxes around their text."""

from __future__ import annotations

import numpy as np
import pytest

from backbone.errors import DataError
from docparse.drawing import DIMMED, PALETTE, evidence_picture, flow_strip, heat_map, heaviest_pages, step_picture
from docparse.pipeline import StepView


def page(width: int = 400, height: int = 600, value: int = 255) -> np.ndarray:
    return np.full((height, width, 3), value, np.uint8)


def step(name: str, pages: list[int], boxes: list[list[float]], mass: list[float]) -> StepView:
    return StepView(name, np.array(pages), np.array(boxes, float), np.array(mass), True, 0.0, 0.0)


def test_mass_is_drawn_where_it_lies_and_the_rest_is_dimmed() -> None:
    white = page()
    drawn = heat_map(white, np.array([[40.0, 60, 80, 120]]), np.array([0.3]))
    inside = np.zeros(white.shape[:2], bool)
    inside[60:120, 40:80] = True
    assert (drawn[~inside] == round(DIMMED * 255)).all()
    assert (drawn[inside] != round(DIMMED * 255)).any(1).all()
    assert (white == 255).all(), "the page was painted on"


def test_more_mass_is_brighter_and_lies_over_less() -> None:
    boxes = np.array([[0.0, 0, 50, 50], [50, 0, 100, 50], [100, 0, 150, 50], [0, 0, 20, 20]])
    drawn = heat_map(page(), boxes, np.array([0.5, 0.3, 0.1, 0.05])).astype(int).sum(2)
    assert drawn[30, 25] > drawn[30, 75] > drawn[30, 125] > drawn[300, 200]
    assert drawn[10, 10] == drawn[30, 25], "a small mass hides a larger one"


def test_text_can_be_read_under_the_mass() -> None:
    written = page()
    written[100:110, 100:200] = 0
    drawn = heat_map(written, np.array([[90.0, 90, 210, 120]]), np.array([1.0])).astype(int).sum(2)
    assert drawn[105, 150] < 0.5 * drawn[95, 150]


def test_particles_below_a_pixel_are_still_seen() -> None:
    drawn = heat_map(page(4000, 6000), np.array([[2000.0, 3000, 2002, 3002]]), np.array([1.0]), longest=300)
    assert drawn.shape == (300, 200, 3)
    assert (drawn != round(DIMMED * 255)).any(2).sum() == 1


def test_no_mass_is_a_dimmed_page() -> None:
    assert (heat_map(page(), np.zeros((0, 4)), np.zeros(0)) == round(DIMMED * 255)).all()
    assert (heat_map(page(), np.array([[0.0, 0, 9, 9]]), np.zeros(1)) == round(DIMMED * 255)).all()


@pytest.mark.parametrize("mass", [[-0.1], [float("nan")], [0.1, 0.2], []])
def test_what_is_no_mass_is_refused(mass: list[float]) -> None:
    with pytest.raises(DataError, match="mass of at least 0 a box"):
        heat_map(page(), np.array([[0.0, 0, 9, 9]]), np.array(mass))


def test_boxes_are_outlined_around_their_text_in_their_numbers_colour() -> None:
    source = page(value=200)
    drawn = evidence_picture(source, [(100, 200, 180, 220), (10, 10, 60, 30)], [2, 1])
    assert (drawn[200:220, 100:180] == 200).all(), "the evidence is painted over"
    assert (drawn[210, 99] == PALETTE[1]).all()
    assert (drawn[20, 60] == PALETTE[0]).all()
    assert (source == 200).all()


def test_a_box_at_the_page_edge_and_a_scaled_page() -> None:
    drawn = evidence_picture(page(1000, 2000, 200), [(0, 0, 1000, 40), (500, 1900, 600, 2000)], [1, 2], longest=500)
    assert drawn.shape == (500, 250, 3)
    changed = np.argwhere((drawn != 200).any(2))
    assert changed.max(0).tolist() == [499, 249]
    assert (drawn[480:498, 128:146] == 200).all()


def test_pages_of_one_step_share_a_scale() -> None:
    law = step("words", [0, 1], [[0, 0, 50, 50]] * 2, [0.9, 0.1])
    strong, weak = step_picture(page(), 0, law), step_picture(page(), 1, law)
    assert strong[25, 25].astype(int).sum() > weak[25, 25].astype(int).sum() + 100
    assert (step_picture(page(), 2, law) == round(DIMMED * 255)).all()


def test_heaviest_pages_come_first_and_empty_ones_not_at_all() -> None:
    law = step("words", [0, 3, 3, 1, 4], [[0, 0, 5, 5]] * 5, [0.2, 0.3, 0.2, 0.3, 0.0])
    assert heaviest_pages(law, 2) == [3, 1]
    assert heaviest_pages(law, 9) == [3, 1, 0]
    assert heaviest_pages(step("words", [], [], []), 3) == []


def test_a_strip_has_a_row_a_page_and_a_column_a_step() -> None:
    steps = [
        step("8 cells a side", [0, 1], [[0, 0, 200, 200]] * 2, [0.5, 0.5]),
        step("words", [1], [[10, 10, 60, 30]], [1.0]),
    ]
    drawn = flow_strip({1: page(), 0: page(600, 300)}, steps, {1: [(3, (10.0, 10.0, 60.0, 30.0))]}, tile=300)
    wide, tall = (300 + 8, 150 + 32), (200 + 8, 300 + 32)  # page 1, page 2
    assert drawn.shape == (wide[1] + tall[1], 2 * wide[0], 3)
    marked = (drawn == PALETTE[2]).all(2)
    assert marked.any()
    rows, columns = np.nonzero(marked)
    assert rows.min() >= wide[1], "the box of page 2 is drawn on page 1"
    assert columns.min() >= tall[0], "boxes belong to the last step"
    for nothing in ({}, {0: page()}):
        with pytest.raises(DataError, match="at least one page and one step"):
            flow_strip(nothing, [] if nothing else steps)
