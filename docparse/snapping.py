"""Boxes that grow to what they nearly cover: the cell of a table, the paragraph, the block of an address.

Cells and blocks are told from the words alone: a cell is a piece of a line between wide gaps (`DocumentWords.segment`),
a block lines with little white between them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from docparse.fields.words import DocumentWords
from docparse.regions import FoundRegion, RegionConfig


def snapped(region: FoundRegion, words: DocumentWords, config: RegionConfig) -> FoundRegion:
    """The region grown to every cell or block of which its box holds at least ``config.snap_share``, by words' width.

    Its mass stays; its members become all words of its own and of what it grew to. ``config.snap`` "off" changes
    nothing, and a region that nearly covers nothing whole stays as it is.
    """
    if config.snap == "off":
        return region
    group = words.segment if config.snap == "cells" else words.block
    held = _held(region, words)
    width = np.maximum(words.boxes[:, 2] - words.boxes[:, 0], 1e-6)
    chosen = [region.members]
    for number in np.unique(group[held]).tolist():
        every = np.flatnonzero(group == number)
        if width[every[held[every]]].sum() >= config.snap_share * width[every].sum():
            chosen.append(every)
    members = np.unique(np.concatenate(chosen))
    x0, y0 = words.boxes[members, :2].min(0).tolist()
    x1, y1 = words.boxes[members, 2:].max(0).tolist()
    a = region.box
    box = min(a[0], x0), min(a[1], y0), max(a[2], x1), max(a[3], y1)
    return FoundRegion(region.page, box, region.mass, members)


def _held(region: FoundRegion, words: DocumentWords) -> NDArray[np.bool_]:
    """(n,) which words have their middle in the region's box."""
    x0, y0, x1, y1 = region.box
    x, y = (words.boxes[:, 0] + words.boxes[:, 2]) / 2, (words.boxes[:, 1] + words.boxes[:, 3]) / 2
    held: NDArray[np.bool_] = (words.page == region.page) & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
    return held
