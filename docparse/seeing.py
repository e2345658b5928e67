"""From the last law to a reading where mass may lie on cells: what is seen there is pointed at, not read."""

from __future__ import annotations

import numpy as np

from docparse.answer import Reading, read_answer
from docparse.config import DocparseConfig
from docparse.evidence import Outcome, mass_of_words
from docparse.fields.patches import PatchField
from docparse.fields.words import DocumentWords
from docparse.regions import FoundRegion, find_regions

SEEN = "the evidence was found by its looks and not read: give a model that writes answers from it (--model)"
NONE = np.zeros(0, np.int64)  # a region of cells has no words


def read_outcome(
    words: DocumentWords, outcome: Outcome, config: DocparseConfig, patches: PatchField | None = None
) -> Reading:
    """The answer under a law over words; where most mass lies on cells, their regions with an empty text.

    ``patches`` shrinks the boxes of cells to the ink in them.
    """
    settled = float(outcome.settled.sigmoid())
    support = outcome.flow.support
    cells = support.words < 0
    if not bool(cells.any()) or float(outcome.word_mass.sum()) >= 0.5:  # words in cells share their mass
        belongs = outcome.answer.double().numpy()
        return read_answer(words, mass_of_words(outcome.word_mass), belongs, settled, config)
    if settled < config.settled:
        return Reading(None, (), (), settled, 0.0)
    mass = outcome.flow.rho[cells].double().numpy()
    boxes, pages = support.boxes[cells].double().numpy(), support.pages[cells].numpy()
    found = find_regions(mass, boxes, pages, config.regions)
    extents = [support.grid.extent(page) for page in range(len(support.grid.sizes))]
    regions = tuple(
        FoundRegion(r.page, patches.tight(r.page, r.box, extents[r.page]) if patches else r.box, r.mass, NONE)
        for r in found
    )
    return Reading("", regions, (), settled, settled * min(1.0, sum(r.mass for r in regions)))
