"""One run of the Search tab: from what the page sends to the updates it shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from apps.commands.common import preset_name
from apps.demo.charts import ledger_html
from apps.demo.context import DemoContext
from apps.demo.drawing import draw_boxes
from apps.demo.fields import one_of
from apps.demo.jobs import Done, Tick
from apps.demo.picture_input import read_picture
from apps.demo.search_view import (
    StageTimes,
    answer_html,
    close_ups,
    notes_html,
    regions_html,
    spelled_out,
    whole_picture_tokens,
)
from apps.demo.sentences import Ending, told
from apps.demo.updates import row
from backbone.errors import DataError
from backbone.images import SourceImage
from backbone.vlm import VLM
from perception.answer import PerceptionAnswer, PerceptionEvent
from perception.config import Method, PerceptionConfig, Regime
from perception.pipeline import Searcher

OUTPUTS = ("stages", "picture", "regions", "crops", "answer", "ledger", "notes")
METHODS: dict[str, Method] = {"SPARC": "sparc", "native": "native", "zoom": "zoom"}
REGIMES: dict[str, Regime] = {"256": 256, "512": 512, "full": "full"}
SAMPLES = (1, 4, 8)
MAX_QUESTION = 2000  # characters
MAX_OPTION = 200


@dataclass(frozen=True)
class SearchRequest:
    """What the page sends, checked."""

    source: SourceImage
    question: str
    options: tuple[str, ...]
    config: PerceptionConfig


def read_request(
    context: DemoContext,
    path: str | None,
    question: str | None,
    options: str | None,
    method: str,
    regime: str,
    samples: int,
) -> SearchRequest:
    """Check everything a page or a script can send; an empty field may come as None.

    Raises:
        DataError: no or a broken picture, no question, too long a text, a number of options that is not 0 or 2 to 10,
            an unknown method, regime or number of samples.
    """
    question = (question or "").strip()
    lines = tuple(line.strip() for line in (options or "").splitlines() if line.strip())
    if not question:
        raise DataError("write a question first")
    if len(question) > MAX_QUESTION or any(len(line) > MAX_OPTION for line in lines):
        raise DataError(f"the question may have {MAX_QUESTION} characters and each option {MAX_OPTION}; shorten them")
    if len(lines) == 1 or len(lines) > 10:
        raise DataError(f"give no options, or 2 to 10 of them, one a line; there are {len(lines)}")
    for name, value, known in (("method", method, METHODS), ("regime", regime, REGIMES), ("samples", samples, SAMPLES)):
        one_of(name, value, known)
    preset = PerceptionConfig.preset(preset_name(context.vlm.name))
    config = replace(preset, method=METHODS[method], regime=REGIMES[regime], rollouts=samples)
    return SearchRequest(read_picture(path, context.config), question, lines, config)


def drawn_method(method: Any) -> Method:
    """The method whose steps are drawn before it is checked."""
    return METHODS.get(method, "sparc") if isinstance(method, str) else "sparc"


def update(**values: Any) -> tuple[Any, ...]:
    """A full row of outputs in which only the named ones change."""
    return row(OUTPUTS, values)


def run_search(context: DemoContext, owner: str, method: str, read: Callable[[], SearchRequest]) -> Iterator[Any]:
    """Updates of the page while one question is answered; ends with an error toast when it cannot be.

    Args:
        context: model, settings and turn-taking.
        owner: the session, for cancelling.
        method: what the page sent, for drawing the steps before it is checked.
        read: gives the checked request; called here so that its errors are shown like all others.
    """
    times = StageTimes(drawn_method(method))

    def show(phase: Ending, message: str) -> tuple[Any, ...]:
        times.finish(phase, message)
        return update(stages=times.html())

    yield from told(_updates(context, owner, times, read), show, "Cancelled. What was found so far stays below.")


def _updates(context: DemoContext, owner: str, times: StageTimes, read: Callable[[], SearchRequest]) -> Iterator[Any]:
    yield update(stages=times.html(), picture=None, regions="", crops=[], answer="", ledger="", notes="")
    request = read()
    yield update(picture=draw_boxes(request.source, ()))
    stream = context.jobs.stream(_work(context.vlm, request), owner)
    try:
        yield from _follow(context, request, times, stream)
    finally:
        stream.close()


def _work(vlm: VLM, request: SearchRequest) -> Callable[[threading.Event, Callable[[Any], None]], PerceptionAnswer]:
    def work(stop: threading.Event, emit: Callable[[Any], None]) -> PerceptionAnswer:
        searcher = Searcher(vlm, request.config)
        return searcher.ask(request.source, request.question, request.options, cancel=stop, on_event=emit)

    return work


def _follow(context: DemoContext, request: SearchRequest, times: StageTimes, stream: Iterator[Any]) -> Iterator[Any]:
    drawn: tuple[Any, ...] = ()
    for item in stream:
        if isinstance(item, Done):
            times.settle(item.result.ledger)
            times.finish("done")
            yield _final(context, request, times, item.result)
        elif isinstance(item, Tick):
            yield update(stages=times.html())
        else:
            if times.current != item.kind:
                times.enter(item.kind)
            yield update(stages=times.html(), **_shown(request, item, drawn))
            drawn = item.boxes or drawn


def _shown(request: SearchRequest, event: PerceptionEvent, drawn: tuple[Any, ...]) -> dict[str, Any]:
    """The outputs an event changes; pictures are sent again only when their boxes are new."""
    changed: dict[str, Any] = {}
    if event.boxes and event.boxes != drawn:
        changed["picture"] = draw_boxes(request.source, event.boxes)
        changed["regions"] = regions_html(event.boxes)
        changed["crops"] = close_ups(event.crops)
    if event.kind == "answering" and event.text:
        changed["answer"] = answer_html(event.text, complete=False)
    return changed


def _final(
    context: DemoContext, request: SearchRequest, times: StageTimes, answer: PerceptionAnswer
) -> tuple[Any, ...]:
    notes = [*(f"picture: {note}" for note in request.source.notes), *answer.notes]
    return update(
        stages=times.html(),
        picture=draw_boxes(request.source, answer.regions),
        regions=regions_html(answer.regions),
        crops=close_ups(answer.crops),
        answer=answer_html(spelled_out(answer.text, answer.choice, request.options), complete=True),
        ledger=ledger_html(answer.ledger, whole_picture_tokens(context.vlm, *request.source.size)),
        notes=notes_html(notes),
    )
