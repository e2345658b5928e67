"""SPARC's two stages (arXiv 2602.06566): find what matters in a small image, then answer from close-ups of it.

Stage 1 sees at most the regime's pixels. Stage 2 sees the same small image and close-ups of the original.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from backbone.contracts import Box, Ledger, Stage
from perception import prompts
from perception.answer import PerceptionAnswer, PerceptionEvent
from perception.crops import Crop, choose_regions, cut, decode_regions
from perception.fusion import fuse
from perception.parsing import parse_regions
from perception.request import Request, regions_of
from perception.scoring_several import choose_several


@dataclass(frozen=True)
class Search:
    """What stage 1 proposed: the boxes of each sample in original pixels, their fusion, and what it cost."""

    rollouts: tuple[tuple[Box, ...], ...]
    fused: tuple[Box, ...]
    ledger: Ledger
    notes: tuple[str, ...] = ()


def search(request: Request) -> Search:
    """Stage 1: N samples from one prefill of the small image, decoded and fused. One sample is greedy."""
    config = request.config
    request.emit(PerceptionEvent("searching"))
    generation = request.vlm.generate(
        prompts.perception_messages(request.view.image, request.question),
        n=config.rollouts,
        temperature=config.temperature if config.rollouts > 1 else 0.0,
        max_new_tokens=config.max_search_tokens,
        adapter=config.perception_adapter,
        seed=request.seed,
        cancel=request.cancel,
        stage="searching",
    )
    rollouts: list[tuple[Box, ...]] = []
    notes: list[str] = []
    for text in generation.texts:
        parsed = parse_regions(text)
        boxes, dropped = decode_regions(parsed.regions, request.view, request.vlm, config)
        rollouts.append(tuple(boxes))
        notes += [f"searching: {note}" for note in (*parsed.notes, *dropped)]
    request.emit(PerceptionEvent("searching", tuple(box for boxes in rollouts for box in boxes)))
    fused = tuple(fuse(rollouts, config.fusion_iou))
    if not fused:
        notes.append("no region found: answered from the global image alone")
    return Search(tuple(rollouts), fused, Ledger((generation.stage,)), tuple(dict.fromkeys(notes)))


def look(request: Request, boxes: Sequence[Box]) -> tuple[list[Crop], Ledger, list[str]]:
    """Close-ups of the original for ``boxes``, what cutting them cost, and notes; nothing for no boxes."""
    if not boxes:
        return [], Ledger(), []
    started = time.perf_counter()
    regions, notes = choose_regions(boxes, request.image.size, request.config)
    crops = cut(request.image, regions, request.view, request.vlm, request.config)
    stage = Stage("looking", milliseconds=1000 * (time.perf_counter() - started))
    request.emit(PerceptionEvent("looking", regions_of(crops), tuple(crops)))
    return crops, Ledger((stage,)), notes


def answer(request: Request, crops: Sequence[Crop], notes: Sequence[str] = ()) -> PerceptionAnswer:
    """Stage 2: one greedy pass over the small global image and the close-ups. Without close-ups: the native method."""
    request.check_cancelled("before answering")
    event = PerceptionEvent("answering", regions_of(crops), tuple(crops))
    request.emit(event)
    messages = prompts.reasoning_messages(
        request.view.image, [(crop.tag, crop.image) for crop in crops], request.prompt
    )
    generation = request.generate(
        messages,
        "answering",
        request.config.max_answer_tokens,
        request.constraint,
        lambda text: request.emit(replace(event, text=text)),
    )
    text = generation.texts[0].strip()
    if not generation.finished[0]:
        notes = (*notes, f"answer cut off after {len(generation.token_ids[0])} tokens")
    return PerceptionAnswer(
        text,
        regions_of(crops),
        Ledger((generation.stage,)),
        tuple(notes),
        method=request.config.method,
        regime=request.config.regime,
        choice=request.letters.index(text) if request.constraint else None,
        chosen=choose_several(text, request.options) if request.several else (),
        log_probs=generation.log_probs[0],
        crops=tuple(crops),
        shown_size=request.view.size,
    )


def look_and_answer(request: Request, boxes: Sequence[Box], notes: Sequence[str] = ()) -> PerceptionAnswer:
    """Stage 2 with close-ups of ``boxes``."""
    crops, ledger, dropped = look(request, boxes)
    result = answer(request, crops, (*notes, *dropped))
    return replace(result, ledger=ledger + result.ledger)


def run(request: Request) -> PerceptionAnswer:
    """Both stages."""
    found = search(request)
    request.check_cancelled("after searching")
    result = look_and_answer(request, found.fused, found.notes)
    return replace(result, ledger=found.ledger + result.ledger, rollouts=found.rollouts)
