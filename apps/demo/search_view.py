"""What the Search tab shows, as a function of how far a run has got."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from apps.demo.charts import seconds
from apps.demo.drawing import box_colour
from backbone.contracts import Box, Image, Ledger
from backbone.vlm import VLM
from perception.crops import Crop

Phase = Literal["waiting", "running", "done", "cancelled", "failed"]
STAGES: dict[str, tuple[str, ...]] = {
    "sparc": ("searching", "looking", "answering"),
    "native": ("answering",),
    "zoom": ("searching", "looking", "answering"),
}
EXPLANATIONS = {
    "searching": "The model reads the small picture and says where to look.",
    "looking": "Close-ups are cut from the original.",
    "answering": "The model answers from the small picture and the close-ups.",
}
_STEPS = "".join(f"<li><b>{stage}</b>{text}</li>" for stage, text in EXPLANATIONS.items())
IDLE = (
    '<div class="fv-stages" data-phase="idle"><p>Choose a picture or an example and ask. Then you can watch:</p>'
    f'<ul class="fv-idle">{_STEPS}</ul></div>'
)


@dataclass
class StageTimes:
    """When each stage of a run began; drawn as a row of steps."""

    method: str
    phase: Phase = "waiting"
    message: str = ""
    current: str | None = None
    _begun: dict[str, float] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)

    def enter(self, stage: str) -> None:
        """A stage begins, and the one before it ends; the zoom loop comes back to stages."""
        self._leave()
        self.phase, self.current = "running", stage
        self._begun[stage] = time.monotonic()

    def settle(self, ledger: Ledger) -> None:
        """Replace the times seen from the page by those the run measured itself."""
        self.current = None
        for stage in STAGES[self.method]:
            spent = [entry.milliseconds / 1000 for entry in ledger.stages if entry.name == stage]
            if spent:
                self._spent[stage] = sum(spent)

    def finish(self, phase: Phase, message: str = "") -> None:
        """The run is over."""
        self._leave()
        self.phase, self.message, self.current = phase, message, None

    def _leave(self) -> None:
        if self.current is not None:
            self._spent[self.current] = self._elapsed(self.current)

    def _elapsed(self, stage: str) -> float:
        running = time.monotonic() - self._begun[stage] if stage == self.current else 0.0
        return self._spent.get(stage, 0.0) + running

    def html(self) -> str:
        """The steps, each to do, active or done with its time, and one sentence."""
        steps = "".join(self._step(stage) for stage in STAGES[self.method])
        text = self.message or {"waiting": "Waiting for its turn.", "done": "Done."}.get(self.phase, "")
        if self.current is not None:
            text = EXPLANATIONS.get(self.current, "")
        return (
            f'<div class="fv-stages" data-phase="{self.phase}"><ol>{steps}</ol>'
            f'<p role="status" aria-live="polite">{escape(text)}</p></div>'
        )

    def _step(self, stage: str) -> str:
        state = "active" if stage == self.current else "done" if stage in self._spent else "todo"
        spent = "" if state == "todo" else f"<small>{seconds(1000 * self._elapsed(stage))}</small>"
        return f'<li class="fv-{state}" data-stage="{stage}">{stage}{spent}</li>'


def message_html(phase: Phase, message: str) -> str:
    """The stage area with a sentence alone."""
    return (
        f'<div class="fv-stages" data-phase="{phase}"><p role="status" aria-live="polite">{escape(message)}</p></div>'
    )


def answer_html(text: str, *, complete: bool) -> str:
    """The answer in large letters, with a caret while it is being written."""
    if not text and complete:
        return '<div class="fv-answer fv-muted">The model ended without writing anything.</div>'
    caret = "" if complete else '<span class="fv-caret"></span>'
    return f'<div class="fv-answer" data-complete="{str(complete).lower()}">{escape(text)}{caret}</div>'


def spelled_out(text: str, choice: int | None, options: Sequence[str]) -> str:
    """A chosen letter with the option it stands for; a free answer as it is."""
    return text if choice is None else f"{text}. {options[choice]}"


def regions_html(boxes: Sequence[Box]) -> str:
    """The numbered regions with their labels and, when several samples were fused, how many of them agree."""
    if not boxes:
        return ""
    items = "".join(
        f'<li><i style="background:rgb{box_colour(i)}">{i + 1}</i>{escape(box.label or "region")}'
        f"<small>{box.width:.0f} × {box.height:.0f} px · score {box.score:.2f}</small></li>"
        for i, box in enumerate(boxes)
    )
    return f'<ul class="fv-regions">{items}</ul>'


def notes_html(notes: Sequence[str]) -> str:
    """Everything partial, repaired or changed on reading, as a list."""
    if not notes:
        return ""
    return f'<ul class="fv-notes">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>'


def close_ups(crops: Sequence[Crop]) -> list[tuple[Image, str]]:
    """Gallery items, numbered like the boxes."""
    return [(crop.image, f"{index + 1} · {crop.box.label or 'region'}") for index, crop in enumerate(crops)]


def whole_picture_tokens(vlm: VLM, width: int, height: int) -> int:
    """Visual tokens of the picture at its own size, whatever the model's limits."""
    return math.ceil(width / vlm.pixels.factor) * math.ceil(height / vlm.pixels.factor)
