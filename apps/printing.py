"""Tables for people: the regions looked at and what each stage cost."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backbone.contracts import Box, Ledger, Stage

COLUMNS = ("visual", "prompt", "reused", "written", "passes", "ms")


def regions_table(regions: Sequence[Box]) -> Table:
    """The regions in pixels of the original, in the order in which they were looked at."""
    table = Table(title="Where it looked (pixels of the original)", title_justify="left")
    for name in ("", "what", "x0", "y0", "x1", "y1", "support"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for number, box in enumerate(regions, 1):
        corners = [f"{value:.0f}" for value in box.corners]
        table.add_row(str(number), escape(box.label), *corners, f"{box.score:.2f}")
    return table


def ledger_table(ledger: Ledger) -> Table:
    """Every stage and the total: tokens, forward passes and milliseconds."""
    table = Table(title="What it cost (tokens, forward passes, time)", title_justify="left")
    table.add_column("stage")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for stage in ledger.stages:
        table.add_row(escape(stage.name), *_cells(stage))
    table.add_section()
    table.add_row("total", *_cells(ledger.total()))
    return table


def _cells(stage: Stage) -> tuple[str, ...]:
    counts = (
        stage.visual_tokens,
        stage.prompt_tokens,
        stage.reused_tokens,
        stage.generated_tokens,
        stage.forward_passes,
    )
    return (*(f"{count:,}" for count in counts), f"{stage.milliseconds:,.0f}")


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """What was changed, repaired or left out."""
    for note in notes:
        console.print(f"note: {escape(note)}")
