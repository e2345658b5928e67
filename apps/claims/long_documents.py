"""Claims about where several steps earn their keep: many pages under a budget of particles, questions of two looks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import assets
from apps.claims.claim import Finding, Workbench

if TYPE_CHECKING:
    from backbone.statistics import Interval
    from docparse.data import Example
    from docparse.scoring import Row

BUDGET = 256  # particles of any step
LONG_FIRST = 5000  # seed of the first document of many pages
LONG_DOCUMENTS = 60
FEWEST_PAGES = 10  # some templates end before the pages that are asked for; those documents are left out
MOST_PAGES = 40
OF_ONE = 3  # questions of a document
HOPS_FIRST = 7000
HOPS_DOCUMENTS = 60
HOPS = ("link", "row_near", "record")
OTHER = "other"
TINY = "<0.5 %"


def beats_within_budget(bench: Workbench) -> Finding:
    """The flow under a budget against one step under the same, whose words are chosen by cells or by matching."""
    from docparse.comparison import difference, needs

    flow = _long("flow", bench.folder)
    words, numbers, holds = [], {}, True
    for name, said, points in (
        ("one-step", "on the finest grid that fits", 10),
        ("one-step+match", "on matching words", 0),
    ):
        rows = _long(name, bench.folder)
        everywhere, tiny = difference(flow, rows), difference(flow, rows, where=lambda row: row.bucket == TINY)
        holds = holds and min(everywhere.low, tiny.low) > 0 and 100 * tiny.estimate >= points
        words.append(f"one step {said}: mean IoU {_signed(everywhere)}, under 0.5 % of the page {_signed(tiny)}")
        numbers[name] = {"all": vars(everywhere), "tiny": vars(tiny), "iou": _mean(rows)}
    taken = needs(flow)
    words.insert(0, f"flow {_mean(flow):.3f} in {taken.milliseconds:.0f} ms")
    return Finding(holds, "; ".join(words), {"budget": BUDGET, "iou": _mean(flow), **numbers})


def beats_all_words(bench: Workbench) -> Finding:
    """The flow under a budget against rivals without one: one step on all words, the KL geometry, the detector."""
    from docparse.comparison import difference, needs

    flow = _long("flow", bench.folder)
    mine = needs(flow)
    words, numbers = [f"flow {_mean(flow):.3f}, {mine.milliseconds:.0f} ms, {mine.matrix_megabytes:.2g} MB"], {}
    for name, said in (("one-step-all", "one step on all words"), ("kl", "KL steps"), ("detector", "detector")):
        rows = _long(name, bench.folder)
        taken, less = needs(rows), difference(flow, rows)
        size = f", {taken.matrix_megabytes:.2g} MB" if name == "one-step-all" else ""
        words.append(f"{said} {_mean(rows):.3f}, {taken.milliseconds:.0f} ms{size}: flow minus it {_signed(less)}")
        numbers[name] = {"iou": _mean(rows), "difference": vars(less), **vars(taken)}
    holds = numbers["one-step-all"]["difference"]["low"] > 0
    return Finding(holds, "; ".join(words), {"budget": BUDGET, "iou": _mean(flow), **vars(mine), **numbers})


def takes_two_looks(bench: Workbench) -> Finding:
    """Questions of two looks: the flow that was trained on them against rivals that were, and the one that was not."""
    from docparse.comparison import difference

    looks = _hops("looks", bench.folder)
    words, numbers = [], {}
    for name in ("looks/one-step", "looks in KL", "looks/detector", "flow"):
        rows = _hops(name, bench.folder)
        parts = {kind: difference(looks, rows, where=partial(_is_of, kind)) for kind in (*HOPS, OTHER)}
        said = ", ".join(f"{kind} {_signed(value)}" for kind, value in parts.items())
        words.append(f"minus {name}: {said}")
        numbers[name] = {kind: vars(value) for kind, value in parts.items()}
    means = ", ".join(f"{kind} {_mean([r for r in looks if _is_of(kind, r)]):.3f}" for kind in (*HOPS, OTHER))
    link = numbers["looks/one-step"]["link"]
    return Finding(link["low"] > 0 and link["estimate"] >= 0.1, f"looks {means}; " + "; ".join(words), numbers)


def _is_of(kind: str, row: Row) -> bool:
    return row.kind == kind if kind in HOPS else row.kind not in HOPS


@cache
def _long(name: str, folder: Path) -> list[Row]:
    from docparse.evaluate import evaluate_reader, filtered_reader, reader_of
    from docparse.weights import load_network

    if name == "one-step+match":
        read = filtered_reader(*load_network(assets.DOCPARSE / "one-step"), BUDGET)
    elif name == "one-step-all":
        read = reader_of(assets.DOCPARSE / "one-step", budget=1_000_000)
    else:
        read = reader_of(assets.DOCPARSE if name == "flow" else assets.DOCPARSE / name, budget=BUDGET)
    return evaluate_reader(read, _long_examples(folder))


@cache
def _hops(name: str, folder: Path) -> list[Row]:
    from docparse.evaluate import evaluate_reader, flow_reader, reader_of
    from docparse.weights import load_network

    if name == "looks in KL":
        network, config = load_network(assets.DOCPARSE / "looks")
        read = flow_reader(network, replace(config, flow=replace(config.flow, geometry="kl")))
    else:
        read = reader_of(assets.DOCPARSE if name == "flow" else assets.DOCPARSE / name)
    return evaluate_reader(read, _hop_examples(folder))


@cache
def _long_examples(folder: Path) -> tuple[Example, ...]:
    """The first answerable questions of each held-out document of at least `FEWEST_PAGES` pages."""
    from docparse.data import GeneratedConfig, load_document, make_records
    from docparse.documents.embedding import TextEmbedder

    pages = (FEWEST_PAGES, MOST_PAGES)
    config = GeneratedConfig(folder / "long-documents", "held_out", LONG_FIRST, 4 * LONG_DOCUMENTS, pages=pages)
    examples: list[Example] = []
    documents = 0
    for path in make_records(config, TextEmbedder()):
        found = load_document(path)
        if found and len(found[0].words.sizes) >= FEWEST_PAGES:
            examples += [example for example in found if example.truth.answers][:OF_ONE]
            documents += 1
        if documents >= LONG_DOCUMENTS:
            break
    return tuple(examples)


@cache
def _hop_examples(folder: Path) -> tuple[Example, ...]:
    """Questions of two looks, and as many others, of held-out documents."""
    from docparse.data import GeneratedConfig, load_document, make_records
    from docparse.documents.embedding import TextEmbedder

    config = GeneratedConfig(folder / "hop-documents", "held_out", HOPS_FIRST, HOPS_DOCUMENTS, hops=6)
    examples: list[Example] = []
    for path in make_records(config, TextEmbedder()):
        found = [example for example in load_document(path) if example.truth.answers]
        two = [example for example in found if example.truth.kind in HOPS]
        examples += two + [example for example in found if example.truth.kind not in HOPS][:OF_ONE]
    return tuple(examples)


def _mean(rows: list[Row]) -> float:
    values = [row.values["iou"] for row in rows if "iou" in row.values]
    return sum(values) / len(values)


def _signed(value: Interval) -> str:
    return f"{value.estimate:+.3f} ({value.low:+.3f} to {value.high:+.3f}, n = {value.n})"
