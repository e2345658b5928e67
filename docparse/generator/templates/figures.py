"""The facts of a chart: what it shows as a whole, and each printed value."""

from __future__ import annotations

import re

from docparse.generator.charts import Figure, Series
from docparse.generator.document import Split
from docparse.generator.draft import Draft

_WHOLE: dict[Split, tuple[str, ...]] = {
    "train": ("Which figure shows {m}?", "Where is {m} shown in a chart?", "What is the caption of the chart on {m}?"),
    "held_out": ("Find the chart of {m}.", "Which chart presents {m}?"),
}


def note_figure(draft: Draft, series: Series, figure: Figure) -> None:
    """Facts on the figure with its caption, and on the values that were printed whole."""
    metric = _metric(series.caption)
    whole = tuple(form.format(m=metric) for form in _WHOLE[draft.split])
    draft.fact(f"figure {metric.lower()}", (), whole, (series.caption,), (figure.whole,), "figure")
    for name, span in zip(series.categories, figure.values, strict=True):
        words = draft.sheets[span.page].words[span.first : span.last]
        text = " ".join(word.text for word in words)
        ask = f"{metric.lower()} of {name.lower()}"
        draft.fact(ask, (ask,), (), (text,), (span,), "cell", "cell", name, metric)


def _metric(caption: str) -> str:
    """What a caption says is shown, without its number and grouping."""
    caption = re.sub(r"^(Figure|Fig\.|Chart) \d+[:.]? (- )?", "", caption)
    for tail in (" by ", " per ", ", ", " ("):
        caption = caption.split(tail)[0]
    return caption
