"""Tables for people: the regions looked at and what each stage cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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


def evidence_table(evidence: Sequence[Mapping[str, Any]]) -> Table:
    """Where the answer stands: page, box in pixels of the page as shown, box in PDF points, mass, text."""
    table = Table(title="Where it stands (corners in pixels of the page as shown)", title_justify="left")
    points = any(entry["points"] for entry in evidence)
    for name in ("", "page", "x0, y0, x1, y1", *(["left, bottom, right, top in points"] if points else []), "mass"):
        table.add_column(name, justify="right")
    table.add_column("text")
    for number, entry in enumerate(evidence, 1):
        cells = [str(number), str(entry["page"]), ", ".join(f"{value:.0f}" for value in entry["box"])]
        if points:
            cells.append(", ".join(f"{value:.1f}" for value in entry["points"] or ()))
        text = entry["text"] if len(entry["text"]) <= 200 else entry["text"][:199] + "…"
        table.add_row(*cells, f"{entry['mass']:.2f}", escape(text))
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


def report_table(report: Mapping[str, Any]) -> Table:
    """A benchmark's report: accuracy in all and by kind and size, found targets, tokens, times."""
    table = Table(title=f"{report['benchmark']} ({report['split']}), {report['method']}, {report['model']}")
    table.title_justify = "left"
    table.add_column("")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("n", justify="right")
    _add_proportion(table, "accuracy", report["accuracy"])
    for group in ("by_kind", "by_size"):
        for name, value in report[group].items():
            _add_proportion(table, f"  {name}", value)
    boxes = report["boxes"]
    if boxes:
        _add_proportion(table, "targets found", boxes["target_recall"])
        _add_proportion(table, "items with all targets found", boxes["item_recall"])
        table.add_row("picture seen closely", f"{boxes['area_seen']:.1%}", "", str(boxes["items"]))
    table.add_section()
    for key in ("visual_tokens", "tokens"):
        if report["tokens"][key] is not None:
            table.add_row(f"{key.replace('_', ' ')} of an item", f"{report['tokens'][key]:,.0f}", "mean", "")
    for key in ("first_token_ms", "milliseconds"):
        for point, value in report[key].items():
            table.add_row(f"{key.replace('_', ' ')}", f"{value:,.0f}", str(point), "")
    counts = report["n"]
    table.caption = ", ".join(f"{value} {key}" for key, value in counts.items())
    return table


def _add_proportion(table: Table, name: str, value: Mapping[str, Any] | None) -> None:
    if value is not None:
        interval = f"{value['low']:.3f} to {value['high']:.3f}"
        table.add_row(escape(name), f"{value['estimate']:.3f}", interval, str(value["n"]))


DOCUMENT_METRICS = (
    "iou", "hit@0.5", "page", "pointing", "mass", "anls", "exact_match", "strict", "abstained", "milliseconds",
)  # fmt: skip


def documents_table(report: Mapping[str, Any], title: str) -> Table:
    """A summary of document questions: means with intervals, and region IoU by the evidence's share of its page."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("mean", "95 % interval", "n"):
        table.add_column(name, justify="right")
    values = report["metrics"]
    steps = sorted(name for name in values if name.startswith("w2_"))
    for name in (*DOCUMENT_METRICS, *steps):
        if name in values:
            _add_mean(table, name, values[name])
    if report["map"] is not None:
        table.add_row("mAP@[.5:.95]", f"{report['map']:.3f}", "", "")
    table.add_section()
    for bucket, group in report["by_bucket"].items():
        if "iou" in group:
            _add_mean(table, f"iou, evidence {bucket}", group["iou"])
    table.caption = ", ".join(f"{value} {key}" for key, value in report["n"].items())
    return table


def _add_mean(table: Table, name: str, value: Mapping[str, Any]) -> None:
    interval = f"{value['low']:.3f} to {value['high']:.3f}"
    table.add_row(escape(name), f"{value['estimate']:.3f}", interval, str(value["n"]))
