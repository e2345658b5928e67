"""What the Documents tab shows, as a function of how far a run has got and of the page and step chosen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal

import numpy as np

from apps.demo.charts import seconds
from apps.demo.drawing import LONGEST_SHOWN
from backbone.contracts import Evidence, Image, Ledger
from docparse.drawing import PALETTE, evidence_picture, heaviest_pages, step_picture

if TYPE_CHECKING:
    from apps.demo.documents_desk import OpenDocument
    from docparse.pipeline import DocumentAnswer, DocumentSession

Phase = Literal["waiting", "running", "done", "cancelled", "failed"]
STAGES = ("reading", "locating", "answering")
EXPLANATIONS = {
    "reading": "Every page is read into words, by OCR where it is a scan.",
    "locating": "The evidence flows from all pages to a few words, in steps from coarse to fine.",
    "answering": "The words that hold the evidence say the answer, or that it is not in the document.",
}
_STEPS = "".join(f"<li><b>{stage}</b>{text}</li>" for stage, text in EXPLANATIONS.items())
IDLE = (
    '<div class="fv-stages" data-phase="idle"><p>Choose a document or an example and ask. Then:</p>'
    f'<ul class="fv-idle">{_STEPS}</ul></div>'
)
MANY_PAGES = 1000  # of the page chooser

DOCUMENTS_CSS = """
#documents-answer:not(:has(.fv-answer)), #documents-evidence:not(:has(table)), #documents-notes:not(:has(li)),
#documents-ledger:not(:has(.fv-ledger)), #documents-caption:not(:has(p)) { display: none; }
#documents-view img { max-height: 820px; object-fit: contain; }
#documents-file { min-height: 120px; }
.fv-confidence { font-size: .95rem; font-weight: 400; color: var(--body-text-color-subdued); margin-top: 4px; }
.fv-evidence { width: 100%; border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
.fv-evidence, .fv-evidence :is(tbody, tr) { border: 0 !important; }
.fv-evidence :is(th, td) { padding: 5px 8px; text-align: right; border: 0 !important; white-space: nowrap;
  border-bottom: 1px solid var(--border-color-primary) !important; }
.fv-evidence :is(th, td):last-child { text-align: left; white-space: normal; min-width: 12ch; overflow-wrap: anywhere; }
.fv-evidence th { font-weight: 500; color: var(--body-text-color-subdued); }
.fv-evidence i { color: white; font-style: normal; font-weight: 700; padding: 1px 7px; border-radius: 4px; }
.fv-caption { margin: 0; color: var(--body-text-color-subdued); font-size: .92rem; }
"""


@dataclass
class Course:
    """How far a run has come; drawn as a row of steps."""

    phase: Phase = "waiting"
    message: str = ""
    current: str | None = None
    pages: tuple[int, int] = (0, 0)  # read, in all
    _began: float = 0.0
    _spent: dict[str, float] = field(default_factory=dict)  # seconds

    def enter(self, stage: str) -> None:
        """A stage begins, and the one before it ends."""
        self._leave()
        self.phase, self.current, self._began = "running", stage, time.monotonic()

    def settle(self, ledger: Ledger) -> None:
        """Replace the times seen from the page by those the run measured itself."""
        self.current = None
        names = {"pages": "reading", "fields": "locating", "flow": "locating", "answer": "answering"}
        self._spent = dict.fromkeys(STAGES, 0.0)
        for stage in ledger.stages:
            if stage.name in names:
                self._spent[names[stage.name]] += stage.milliseconds / 1000

    def finish(self, phase: Phase, message: str = "") -> None:
        """The run is over."""
        self._leave()
        self.phase, self.message = phase, message

    def _leave(self) -> None:
        if self.current is not None:
            self._spent[self.current] = time.monotonic() - self._began
        self.current = None

    def html(self) -> str:
        """The steps, each to do, active or done with its time, and one sentence."""
        text = self.message or {"waiting": "Waiting for its turn.", "done": "Done."}.get(self.phase, "")
        if self.current is not None:
            text = EXPLANATIONS[self.current]
            if self.current == "reading" and self.pages[1]:
                text = f"Page {self.pages[0]} of {self.pages[1]} is read."
        steps = "".join(self._step(stage) for stage in STAGES)
        return (
            f'<div class="fv-stages" data-phase="{self.phase}"><ol>{steps}</ol>'
            f'<p role="status" aria-live="polite">{escape(text)}</p></div>'
        )

    def _step(self, stage: str) -> str:
        state = "active" if stage == self.current else "done" if stage in self._spent else "todo"
        spent = time.monotonic() - self._began if stage == self.current else self._spent.get(stage, 0.0)
        shown = "" if state == "todo" else f"<small>{seconds(1000 * spent)}</small>"
        return f'<li class="fv-{state}" data-stage="{stage}">{stage}{shown}</li>'


def answer_html(answer: DocumentAnswer) -> str:
    """The answer in large letters, and how sure it is."""
    meaning = "that it stands there" if answer.found else "that it does not stand there"
    return (
        f'<div class="fv-answer{"" if answer.found else " fv-muted"}" data-found="{str(answer.found).lower()}">'
        f'{escape(answer.text)}<div class="fv-confidence">confidence {answer.confidence:.2f} {meaning}</div></div>'
    )


def evidence_html(answer: DocumentAnswer, session: DocumentSession) -> str:
    """Each region: number, page, box in pixels of the page as shown and in PDF points, mass, text."""
    if not answer.evidence:
        return ""
    pages = session.pages
    points = any(pages[entry.page].to_points is not None for entry in answer.evidence)
    names = (
        "",
        "page",
        "x0, y0, x1, y1 in pixels",
        *(["left, bottom, right, top in points"] if points else []),
        "mass",
    )
    head = "".join(f"<th>{name}</th>" for name in (*names, "text"))
    rows = []
    for number, entry in enumerate(answer.evidence, 1):
        cells = [f'<i style="background:rgb{PALETTE[(number - 1) % len(PALETTE)]}">{number}</i>', str(entry.page + 1)]
        cells.append(", ".join(f"{value:.0f}" for value in entry.box.corners))
        if points:
            page = pages[entry.page]
            box = page.points(entry.box.corners) if page.to_points is not None else ()
            cells.append(", ".join(f"{value:.1f}" for value in box))
        cells += [f"{entry.mass:.2f}", escape(entry.text[:400])]
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    body = "".join(rows)
    return f'<div class="fv-scroll"><table class="fv-evidence"><tr>{head}</tr>{body}</table></div>'


def times_html(ledger: Ledger) -> str:
    """A bar for each stage: where the time went. Nothing here reads tokens."""
    if not ledger.stages:
        return ""
    total = ledger.total()
    longest = max(1e-9, max(stage.milliseconds for stage in ledger.stages))
    rows = "".join(
        f'<div class="fv-bar"><span>{escape(stage.name)}</span><span class="fv-track">'
        f'<i class="fv-text" style="width:{100 * stage.milliseconds / longest:.2f}%"></i></span>'
        f"<span>{seconds(stage.milliseconds)}</span></div>"
        for stage in ledger.stages
    )
    passes = f"{total.forward_passes} steps of the flow, no tokens"
    return f'<div class="fv-ledger"><p><b>{seconds(total.milliseconds)}</b> · {passes}</p>{rows}</div>'


def page_choices(answer: DocumentAnswer, pages: int) -> list[tuple[str, int]]:
    """(label, page from 0) of all pages in order; those that hold a hundredth of the mass say how much."""
    held = np.zeros(pages)
    if answer.steps:
        np.add.at(held, answer.steps[-1].pages, answer.steps[-1].mass)
    return [
        (f"{page + 1}" + (f" · {held[page]:.0%} of the mass" if held[page] >= 0.01 else ""), page)
        for page in range(min(pages, MANY_PAGES))
    ]


def first_page(answer: DocumentAnswer) -> int:
    """The page to show first: that of the heaviest evidence, or with most mass."""
    if answer.evidence:
        return answer.evidence[0].page
    heavy = heaviest_pages(answer.steps[-1], 1) if answer.steps else []
    return heavy[0] if heavy else 0


def positions(answer: DocumentAnswer) -> int:
    """How many positions the slider has: one for each step, then the page as it is with its boxes."""
    return len(answer.steps) + 1


def page_picture(opened: OpenDocument, page: int, position: int) -> tuple[Image | None, str]:
    """What the viewer shows of a page (from 0) at a slider position (from 1), and its caption as HTML.

    Raises `DataError` for a page that there is not, or a document that was closed.
    """
    answer = opened.answer
    shown = opened.document.page(page)
    if answer is None or shown.image is None:
        return None, caption_html(f"Page {page + 1} cannot be shown: {shown.error or 'it was not drawn'}")
    marked = [(number, entry) for number, entry in enumerate(answer.evidence, 1) if entry.page == page]
    count = len(opened.session.pages)
    if position > len(answer.steps):
        picture = evidence_picture(shown.image, *_boxes(marked), longest=LONGEST_SHOWN)
        return picture, caption_html(f"Page {page + 1} of {count} as it is, {_regions(len(marked))}")
    step = answer.steps[position - 1]
    boxes, numbers = _boxes(marked if position == len(answer.steps) else [])
    held = float(step.mass[step.pages == page].sum())
    said = f"Page {page + 1} of {count}, step {position} of {len(answer.steps)} on {step.name}: {held:.1%} of the mass"
    return step_picture(shown.image, page, step, boxes, numbers, LONGEST_SHOWN), caption_html(said)


def caption_html(text: str) -> str:
    """The line under the page."""
    return f'<p class="fv-caption" aria-live="polite">{escape(text)}</p>'


def _regions(count: int) -> str:
    return "no evidence here" if not count else "one region" if count == 1 else f"{count} regions"


def _boxes(marked: Sequence[tuple[int, Evidence]]) -> tuple[list[tuple[float, float, float, float]], list[int]]:
    return [entry.box.corners for _, entry in marked], [number for number, _ in marked]
