"""Boxes that grow to the cell or block they nearly cover, and only then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backbone.errors import ConfigError
from docparse.answer import read_answer
from docparse.config import DocparseConfig
from docparse.fields.words import DocumentWords, read_words
from docparse.regions import FoundRegion, RegionConfig
from docparse.snapping import snapped
from tests.docparse.reading import LettersEmbedder, page_of

PAGE = page_of("Red pump with valve | 120.50", "spare hose")


def words() -> DocumentWords:
    return read_words([PAGE], LettersEmbedder())


def region(of: DocumentWords, *texts: str) -> FoundRegion:
    members = np.array([of.texts.index(text) for text in texts])
    low, high = of.boxes[members, :2].min(0), of.boxes[members, 2:].max(0)
    return FoundRegion(0, (float(low[0]), float(low[1]), float(high[0]), float(high[1])), 0.9, members)


def texts(of: DocumentWords, found: FoundRegion) -> list[str]:
    return [of.texts[i] for i in found.members.tolist()]


def test_off_changes_nothing() -> None:
    of = words()
    before = region(of, "Red", "pump")
    assert snapped(before, of, RegionConfig()) is before


def test_a_box_that_holds_most_of_a_cell_grows_to_it_and_no_further() -> None:
    of = words()
    grown = snapped(region(of, "Red", "pump", "with"), of, RegionConfig(snap="cells", snap_share=0.6))
    assert texts(of, grown) == ["Red", "pump", "with", "valve"]
    assert grown.box[2] == pytest.approx(float(of.boxes[of.texts.index("valve"), 2]))
    assert grown.mass == 0.9
    whole = snapped(region(of, "Red", "pump", "with"), of, RegionConfig(snap="blocks", snap_share=0.3))
    assert texts(of, whole) == ["Red", "pump", "with", "valve", "120.50", "spare", "hose"]


def test_a_box_that_holds_little_of_a_cell_stays() -> None:
    of = words()
    before = region(of, "pump")
    after = snapped(before, of, RegionConfig(snap="cells", snap_share=0.6))
    assert after.box == pytest.approx(before.box)
    assert texts(of, after) == ["pump"]


def test_a_box_never_shrinks_and_a_block_of_another_page_is_never_taken() -> None:
    of = read_words([PAGE, PAGE], LettersEmbedder())
    before = replace(region(of, "Red", "pump", "with", "valve"), box=(0.0, 0.0, 0.9, 0.1))
    after = snapped(before, of, RegionConfig(snap="blocks", snap_share=0.5))
    assert after.box[:2] == (0.0, 0.0)
    assert after.box[2] == pytest.approx(0.9)
    assert {int(of.page[i]) for i in after.members.tolist()} == {0}


def test_the_answer_is_that_of_the_unsnapped_region() -> None:
    of = words()
    mass = np.zeros(len(of))
    mass[[of.texts.index(t) for t in ("Red", "pump", "with")]] = 1 / 3
    config = DocparseConfig()
    snapping = replace(config, regions=replace(config.regions, snap="cells", snap_share=0.6))
    plain, grown = (read_answer(of, mass, mass - 0.1, 1.0, c) for c in (config, snapping))
    assert plain.text == grown.text == "Red pump with"
    assert plain.regions[0].box[2] < grown.regions[0].box[2]


@pytest.mark.parametrize("change", [{"snap": "lines"}, {"snap_share": 0.0}, {"snap_share": 1.2}])
def test_settings_that_mean_nothing_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="snap off, cells or blocks"):
        RegionConfig(**change)  # type: ignore[arg-type]
