"""What the document reader gives: an answer, where it stands, and the laws that led there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backbone.contracts import Evidence, Ledger
from docparse.documents import Page, Sights

NOT_HERE = "not in this document"


class Looking(Protocol):
    """What a session looks at anew: an open `Document`, or pages of several."""

    def page(self, index: int, picture: bool = True) -> Page:
        """Page ``index`` with its picture."""
        ...

    def sights(self, index: int) -> Sights:
        """What it shows beside its words."""
        ...


@dataclass(frozen=True, eq=False)
class StepView:
    """The law after one step, for drawing: particles' pages, boxes in pixels of their page as shown, and mass."""

    name: str
    pages: NDArray[np.int64]  # (N,)
    boxes: NDArray[np.float64]  # (N, 4)
    mass: NDArray[np.float64]  # (N,)
    converged: bool
    residual: float
    dropped: float  # mass the sparse support left out


@dataclass(frozen=True, eq=False)
class DocumentAnswer:
    """An answer and where it stands.

    ``text`` is `NOT_HERE` where the mass did not settle; ``evidence`` is then empty. Boxes are pixels of the page as
    shown; `docparse.documents.Page.points` gives PDF points. ``steps`` are the laws from coarse to fine.
    """

    text: str
    found: bool
    confidence: float  # 0 to 1
    evidence: tuple[Evidence, ...]
    steps: tuple[StepView, ...] = field(repr=False)
    ledger: Ledger
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the laws' particles."""
        return {
            "answer": self.text,
            "found": self.found,
            "confidence": self.confidence,
            "evidence": [
                {
                    "page": e.page + 1,
                    "box": [e.box.x0, e.box.y0, e.box.x1, e.box.y1],
                    "mass": e.mass,
                    "text": e.text,
                }
                for e in self.evidence
            ],
            "steps": [
                {
                    "name": s.name,
                    "particles": len(s.mass),
                    "converged": s.converged,
                    "residual": s.residual,
                    "dropped": s.dropped,
                }
                for s in self.steps
            ],
            "ledger": self.ledger.to_dict(),
            "notes": list(self.notes),
        }
