"""The ledger as a small chart and table, in plain HTML that follows the page's light or dark theme."""

from __future__ import annotations

from html import escape

from backbone.contracts import Ledger, Stage

KINDS = (("visual", "visual tokens"), ("text", "text tokens"), ("generated", "generated tokens"))
COLUMNS = ("stage", "visual", "text", "reused", "generated", "passes", "time")


def token_parts(stage: Stage) -> tuple[int, int, int]:
    """``(visual, text, generated)`` tokens the model processed in a stage; they sum to ``stage.tokens``."""
    return stage.visual_tokens, stage.prompt_tokens - stage.visual_tokens, stage.generated_tokens


def seconds(milliseconds: float) -> str:
    """A duration as people read it: ``85 ms``, ``1.2 s``."""
    return f"{milliseconds:.0f} ms" if milliseconds < 999.5 else f"{milliseconds / 1000:.1f} s"


def ledger_html(ledger: Ledger, whole_picture_tokens: int | None = None) -> str:
    """One bar for each stage, its parts to one common scale, and the numbers below.

    Args:
        ledger: what a call cost; an empty one gives a sentence that says so.
        whole_picture_tokens: visual tokens of the picture at its own size, for comparison.
    """
    if not ledger.stages:
        return '<p class="fv-muted">Nothing was computed.</p>'
    total = ledger.total()
    parts = [_headline(total, whole_picture_tokens), _bars(ledger), _legend(), _table(ledger, total)]
    return f'<div class="fv-ledger">{"".join(parts)}</div>'


def _headline(total: Stage, whole: int | None) -> str:
    text = f"<b>{total.tokens:,}</b> tokens in <b>{seconds(total.milliseconds)}</b>"
    if whole is not None:
        text += f" · <b>{total.visual_tokens:,}</b> visual tokens; the picture at its own size has {whole:,}"
    return f"<p>{text}</p>"


def _bars(ledger: Ledger) -> str:
    widest = max(1, max(stage.tokens for stage in ledger.stages))
    rows = []
    for stage in ledger.stages:
        cells = "".join(
            f'<i class="fv-{kind}" style="width:{100 * count / widest:.2f}%" title="{count:,} {name}"></i>'
            for (kind, name), count in zip(KINDS, token_parts(stage), strict=True)
            if count
        )
        rows.append(
            f'<div class="fv-bar"><span>{escape(stage.name)}</span><span class="fv-track">{cells}</span>'
            f"<span>{seconds(stage.milliseconds)}</span></div>"
        )
    return "".join(rows)


def _legend() -> str:
    items = "".join(f'<span><i class="fv-{kind}"></i>{name}</span>' for kind, name in KINDS)
    return f'<div class="fv-legend">{items}</div>'


def _table(ledger: Ledger, total: Stage) -> str:
    head = "".join(f"<th>{column}</th>" for column in COLUMNS)
    body = "".join(_row(stage) for stage in ledger.stages)
    return (
        f'<div class="fv-scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        f"<tfoot>{_row(total)}</tfoot></table></div>"
    )


def _row(stage: Stage) -> str:
    visual, text, generated = token_parts(stage)
    numbers = (visual, text, stage.reused_tokens, generated, stage.forward_passes)
    cells = "".join(f"<td>{number:,}</td>" for number in numbers)
    return f"<tr><th>{escape(stage.name)}</th>{cells}<td>{seconds(stage.milliseconds)}</td></tr>"
