"""Run a method over a benchmark: one JSON line per item as it goes, one JSON report, resumable, failures recorded."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from backbone.contracts import Box
from backbone.errors import CancelledError, ConfigError, DataError
from backbone.vlm import VLM
from perception.answer import PerceptionAnswer
from perception.benchmarks.items import Benchmark, Item
from perception.config import PerceptionConfig
from perception.metrics import area_seen, best_iou, covered, summary
from perception.oracle import Oracle
from perception.pipeline import Searcher
from perception.scoring import choose
from perception.views import LargeImage

ITEMS_FILE = "items.jsonl"
REPORT_FILE = "report.json"


@dataclass(frozen=True)
class Run:
    """Everything that decides an item's result, and the hash under which results may be continued."""

    vlm: VLM
    config: PerceptionConfig
    benchmark: Benchmark
    seed: int
    oracle: Oracle | None
    model_version: str

    @property
    def settings(self) -> dict[str, Any]:
        """Plain JSON values of all settings, resolved."""
        return {
            "model": self.vlm.name,
            "model_version": self.model_version,
            "family": self.vlm.family,
            "pixels": asdict(self.vlm.pixels),
            "benchmark": self.benchmark.name,
            "split": self.benchmark.split,
            "method": "oracle" if self.oracle else self.config.method,
            "oracle": asdict(self.oracle) if self.oracle else None,
            "config": asdict(self.config),
            "seed": self.seed,
        }

    @property
    def hash(self) -> str:
        """First 16 hexadecimal digits of the settings' SHA-256."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:16]


def evaluate(
    vlm: VLM,
    benchmark: Benchmark,
    config: PerceptionConfig,
    output: Path,
    *,
    seed: int = 0,
    limit: int | None = None,
    resume: bool = False,
    oracle: Oracle | None = None,
    model_version: str = "",
    progress: bool = True,
) -> dict[str, Any]:
    """Ask every item and return the report, which is also written to ``output / "report.json"``.

    Each item's sampling seed depends on ``seed`` and its id alone. Each item starts with an empty prefix cache, so that
    its cost is that of the question asked alone, whatever ran before. ``limit`` takes the first items. ``resume``
    continues ``output / "items.jsonl"``: scored items of the same settings are kept, failed ones asked again.
    ``oracle`` feeds true boxes to stage 2. ``model_version`` names the weights where the model's name does not (for
    example a checkpoint's hash), so that results of other weights are never continued.

    Raises:
        ConfigError: ``output`` already holds results and ``resume`` is off, or a limit below 1.
        DataError: results to resume come from other settings, or the oracle has no boxes to show.
        CancelledError: a model was told to stop; what was done stays in the file.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1 item, got {limit}")
    items = benchmark.items[:limit]
    if oracle is not None and not any(item.boxes for item in items):
        raise DataError(f"benchmark {benchmark.name} has no boxes; the oracle needs one with boxes (ministar, vstar)")
    run = Run(vlm, config, benchmark, seed, oracle, model_version)
    done = _prepare(output, run, resume)
    _check_same_questions(items, done)
    todo = [item for item in items if item.id not in done]
    searcher = Searcher(vlm, config)
    with (output / ITEMS_FILE).open("a", encoding="utf-8") as file, _bar(benchmark.name, len(items), progress) as bar:
        right = sum(bool(done[item.id]["correct"]) for item in items if item.id in done)
        bar.update(right, len(items) - len(todo))
        for count, item in enumerate(todo, len(items) - len(todo) + 1):
            record = {"id": item.id, "hash": run.hash, **_ask(searcher, item, seed, oracle)}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            file.flush()
            done[item.id] = record
            right += bool(record["correct"])
            bar.update(right, count)
    report = {
        **run.settings,
        "hash": run.hash,
        "skipped": list(benchmark.skipped),
        **summary([done[item.id] for item in items if item.id in done], len(items)),
    }
    _write_atomically(output / REPORT_FILE, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return report


def item_seed(seed: int, item_id: str) -> int:
    """The sampling seed of an item: independent of the order, the number and the workers of a run."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{item_id}".encode()).digest()[:4], "big") >> 1


def _ask(searcher: Searcher, item: Item, seed: int, oracle: Oracle | None) -> dict[str, Any]:
    """One item's record; whatever goes wrong with it is recorded, except being told to stop."""
    started = time.perf_counter()
    size = [0, 0]
    try:
        image = item.load()
        size = list(image.size)
        own_seed = item_seed(seed, item.id)
        searcher.vlm.forget()
        if oracle is not None:
            answer = oracle.answer(searcher, item, image, own_seed)
        else:
            answer = searcher.ask(image, item.question, item.options, several=bool(item.several), seed=own_seed)
        outcome = _scored(item, image, answer, looks=oracle is not None or searcher.config.method != "native")
    except CancelledError:
        raise
    except Exception as error:
        outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}", "choice": None, "correct": False}
    seconds = time.perf_counter() - started
    return {
        "kind": item.kind,
        "group": item.group,
        "size": size,
        "question": item.question,
        "options": list(item.options),
        "answer": list(item.several) or item.answer,
        **outcome,
        "seconds": seconds,
    }


def _scored(item: Item, image: LargeImage, answer: PerceptionAnswer, looks: bool) -> dict[str, Any]:
    choice, right = _choice(item, answer)
    total = answer.ledger.total()
    proposals = [box for boxes in answer.rollouts for box in boxes]
    targets = [_inside(box, image.size) for box in item.boxes] if looks else []
    return {
        "status": "scored",
        "text": answer.text,
        "choice": choice,
        "correct": right,
        "coverage": [covered(box, answer.regions) for box in targets],
        "region_iou": [best_iou(box, answer.regions) for box in targets],
        "proposal_iou": [best_iou(box, proposals) for box in targets] if answer.rollouts else None,
        "area_seen": area_seen(answer.regions, *image.size),
        "regions": [[round(v, 1) for v in box.corners] for box in answer.regions],
        "visual_tokens": total.visual_tokens,
        "prompt_tokens": total.prompt_tokens,
        "reused_tokens": total.reused_tokens,
        "generated_tokens": total.generated_tokens,
        "tokens": total.tokens,
        "forward_passes": total.forward_passes,
        "first_token_ms": total.first_token_ms,
        "milliseconds": total.milliseconds,
        "notes": list(answer.notes),
    }


def _choice(item: Item, answer: PerceptionAnswer) -> tuple[int | list[int] | None, bool]:
    """What was chosen, None if nothing was, and whether it is right: of several, exactly the right ones."""
    if item.several:
        return list(answer.chosen) or None, answer.chosen == item.several
    choice = answer.choice if answer.choice is not None else choose(answer.text, item.options)
    return choice, choice == item.answer


def _inside(box: Box, size: tuple[int, int]) -> Box:
    """The part of an annotated box inside the picture; annotations reach out of it by a pixel now and then."""
    return Box.clamped(box.corners, *size, label=box.label)


# Files


def read_records(path: Path) -> list[dict[str, Any]]:
    """The per-item records of a run, the last one of each item, in order of first appearance.

    An incomplete last line, as an interrupted run leaves it, is dropped. Raises `DataError` for anything else broken.
    """
    file = path / ITEMS_FILE if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{file} does not exist; give a run's folder or its {ITEMS_FILE}")
    records: dict[str, dict[str, Any]] = {}
    lines = file.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            records[record["id"]] = record
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):  # no newline after it: it was being written
                break
            raise DataError(f"{file}, line {number}: not a record of a run: {error}") from error
    return list(records.values())


def _prepare(output: Path, run: Run, resume: bool) -> dict[str, dict[str, Any]]:
    """Scored records to keep, by item; the file is left holding exactly these."""
    output.mkdir(parents=True, exist_ok=True)
    file = output / ITEMS_FILE
    if not file.is_file():
        return {}
    if not resume:
        raise ConfigError(f"{file} already holds results; resume the run or choose another output folder")
    records = read_records(file)
    other = {str(r.get("hash")) for r in records} - {run.hash}
    if other:
        raise DataError(
            f"{file} holds results of other settings (hash {', '.join(sorted(other))}, this run {run.hash}); "
            "choose another output folder"
        )
    kept = {r["id"]: r for r in records if r["status"] == "scored"}
    _write_atomically(file, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept.values()))
    return kept


def _check_same_questions(items: Sequence[Item], done: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse to continue records whose options stood in another order (a benchmark loaded with another seed)."""
    for item in items:
        record = done.get(item.id)
        if record and (record["options"] != list(item.options) or record["question"] != item.question):
            raise DataError(
                f"item {item.id} was asked with options {record['options']}, now they are {list(item.options)}; "
                "load the benchmark with the same seed or choose another output folder"
            )


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


class _Bar:
    """Progress with the accuracy so far."""

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=total, accuracy="")

    def update(self, right: int, count: int) -> None:
        """``right`` of ``count`` items so far."""
        accuracy = f"accuracy {right / count:.3f}" if count else ""
        self._progress.update(self._task, completed=count, accuracy=accuracy)


@contextmanager
def _bar(name: str, total: int, shown: bool) -> Iterator[_Bar]:
    columns: Sequence[Any] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as progress:
        yield _Bar(progress, name, total)
