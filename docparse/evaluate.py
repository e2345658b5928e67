"""Evaluating readers on records: the same examples for every rival, one row a question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from docparse.answer import Reading
from docparse.areas import Place
from docparse.config import DocparseConfig
from docparse.data import Example
from docparse.evidence import Outcome, ask, run_evidence, start_level, within_budget
from docparse.fields.words import DocumentWords
from docparse.flow.cost import ground_cost
from docparse.flow.divergence import wasserstein2
from docparse.flow.targets import target_law
from docparse.losses import regions_of
from docparse.model import EvidenceNetwork
from docparse.rivals import DetectorNetwork, detect, matched_words
from docparse.scoring import Prediction, Row, Truth, score
from docparse.seeing import read_outcome
from docparse.weights import load_network

Reader = Callable[[Example], Prediction]  # one question to a prediction, in page units


def flow_reader(
    network: EvidenceNetwork, config: DocparseConfig, distances: bool = False, budget: int | None = None
) -> Reader:
    """The reader as it answers; ``distances`` adds W2 to the truth after every step.

    ``budget`` bounds the particles of every step (`docparse.evidence.within_budget`). Where it makes a single step end
    on cells, their boxes shrink to the answer's words in them, which is the best a rival can make of a cell.
    """

    def read(example: Example) -> Prediction:
        fitted = within_budget([example.words], config, budget) if budget else start_level(example.words, config)
        with torch.inference_mode():
            asked = ask(example.words, example.fields, fitted, example.patches)
            outcome = run_evidence(network, fitted, [asked])[0]
        found = read_outcome(example.words, outcome, fitted, asked.patches)
        regions = tuple((region.page, region.box) for region in found.regions)
        if fitted.flow.steps == 1 and not fitted.flow.words:
            regions = around_words(example.words, found)
        support, rho = outcome.flow.support, outcome.flow.rho.double().numpy()
        law = (support.pages.numpy(), support.boxes.double().numpy(), rho)
        return Prediction(
            found.text,
            regions,
            tuple(region.mass for region in found.regions),
            law,
            step_distances(outcome, example) if distances and example.truth.answers else (),
            particles=max(len(step.support) for step in outcome.flow.steps),
        )

    return read


def filtered_reader(network: EvidenceNetwork, config: DocparseConfig, budget: int) -> Reader:
    """A rival of the flow under a budget: string matching chooses the words, and one step weighs them.

    ``config`` has a single step on words; the ``budget`` words that match best (`docparse.rivals.matched_words`) are
    its particles.
    """

    def read(example: Example) -> Prediction:
        fitted = replace(config, flow=replace(config.flow, max_particles=budget))
        matched = matched_words(example.words, example.fields)
        best = np.sort(np.argsort(-matched, kind="stable")[:budget])
        with torch.inference_mode():
            asked = ask(example.words, example.fields, fitted, None)
            outcome = run_evidence(network, fitted, [asked], [torch.from_numpy(best)])[0]
        found = read_outcome(example.words, outcome, fitted, None)
        regions = tuple((region.page, region.box) for region in found.regions)
        masses = tuple(region.mass for region in found.regions)
        return Prediction(found.text, regions, masses, particles=len(outcome.flow.support))

    return read


def around_words(words: DocumentWords, found: Reading) -> tuple[Place, ...]:
    """For each region the box around the answer's words in it; the region itself if it has none."""
    chosen = np.array(found.words, np.int64)
    out: list[Place] = []
    for region in found.regions:
        inside = words.boxes[chosen[np.isin(chosen, region.members)]].astype(float)
        x0, y0, x1, y1 = (*inside[:, :2].min(0), *inside[:, 2:].max(0)) if len(inside) else region.box
        out.append((region.page, (float(x0), float(y0), float(x1), float(y1))))
    return tuple(out)


def reader_of(folder: Path, distances: bool = False, budget: int | None = None) -> Reader:
    """The reader, or rival, that a folder of weights holds. Raises `ModelError` as `docparse.weights.load_network`."""
    network, config = load_network(folder)
    if isinstance(network, DetectorNetwork):
        return partial(detect, network, settled=config.settled)
    return flow_reader(network, config, distances, budget)


def step_distances(outcome: Outcome, example: Example) -> tuple[float, ...]:
    """W2 between the law after every step and the truth on that step's support, in page units."""
    out = []
    for step in outcome.flow.steps:
        truth = target_law(step.support, regions_of(example.truth)).rho[None]
        cost = ground_cost(step.support.points, pages=step.support.pages)
        out.append(float(wasserstein2(step.rho.float(), truth[0].float(), cost).distance))
    return tuple(out)


def truth_of(example: Example) -> Truth:
    """What scoring wants to know, in page units."""
    evidence = tuple(
        (int(page), tuple(float(v) for v in box))
        for page, box in zip(example.truth.pages, example.truth.boxes, strict=True)
    )
    sizes = {page: (float(w), float(h)) for page, (w, h) in enumerate(example.words.sizes)}
    return Truth(example.name, example.truth.answers, evidence, sizes, kind=example.truth.kind)  # type: ignore[arg-type]


def evaluate_reader(read: Reader, examples: Iterable[Example]) -> list[Row]:
    """One row an example; a reader that raises fails its row, never the run."""
    rows = []
    for example in examples:
        started = time.perf_counter()
        try:
            prediction = read(example)
        except Exception as error:
            prediction = Prediction(None, error=f"{type(error).__name__}: {error}")
        elapsed = 1000 * (time.perf_counter() - started)
        rows.append(score(truth_of(example), replace(prediction, milliseconds=elapsed)))
    return rows


def short(rows: Sequence[Row]) -> dict[str, Any]:
    """Means of the metrics that matter, and of region IoU by evidence area: for logs."""
    names = ("iou", "hit@0.5", "page", "pointing", "mass", "anls", "exact_match", "strict", "abstained")
    out: dict[str, Any] = {"n": len(rows), "failed": sum(row.status == "failed" for row in rows)}
    for name in names:
        values = [row.values[name] for row in rows if name in row.values]
        out[name] = round(float(np.mean(values)), 4) if values else None
    for place in sorted({row.bucket for row in rows if row.bucket}):
        values = [row.values["iou"] for row in rows if row.bucket == place and "iou" in row.values]
        out[f"iou {place}"] = (round(float(np.mean(values)), 4), len(values)) if values else None
    for step in range(8):
        values = [row.values[f"w2_{step}"] for row in rows if f"w2_{step}" in row.values]
        if values:
            out[f"w2_{step}"] = round(float(np.mean(values)), 4)
    return out
