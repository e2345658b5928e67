"""``fovea eval docparse SOURCE``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.markup import escape
from rich.progress import Progress

import assets
from apps.commands.common import check_folder, weights_version
from apps.output import Output
from apps.printing import documents_table
from backbone.errors import CancelledError, ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from docparse.data import Example
    from docparse.fields.patches import PatchConfig
    from docparse.scoring import Row

Method = Literal["weights", "match"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """Score a reader of documents: boxes, pages and answers with 95 % intervals, by the size of the evidence.

    SOURCE is a folder of records that `fovea data records` made, or a benchmark: generated, docvqa, mpdocvqa, slidevqa,
    boundingdocs, bboxdocvqa (named with --path), real. Writes OUTPUT/result.json with settings, summary and a row for
    every question; --against compares with another such file, question by question.
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]  # a folder of records or a benchmark
    weights: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # of the reader or a rival (default: shipped)
    method: Method = "weights"  # match: no weights, words after labels that match the question; records only
    path: Path | None = None  # file or folder of a benchmark
    split: Literal["held_out", "train"] = "held_out"  # of records
    kinds: tuple[str, ...] = ()  # of a benchmark's questions, such as picture signature (default: all)
    limit: int | None = None  # how many questions, drawn by --seed (default: all)
    seed: int = 0  # of the draw
    budget: int | None = None  # most particles of any step; records only (default: as the weights were made)
    distances: bool = False  # W2 to the truth after every step; records only, slower
    pages: int = 200  # of a benchmark's document, at most
    against: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None  # result.json of another run
    resamples: int = 10_000  # of the bootstrap
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/eval-docparse")  # result.json goes there
    json: bool = False  # print the result as JSON only

    def run(self, output: Output) -> int:
        """Evaluate, write, print; exit code 1 if any question failed."""
        self._check()
        from docparse.results import compared, make_result, read_rows

        if self.against is not None:
            read_rows(self.against)  # a broken file is told before the work
        try:
            rows, expected, about = self._records(output) if self._is_records else self._benchmark(output)
        except KeyboardInterrupt as stop:
            raise CancelledError("nothing was written") from stop
        result = make_result(rows, expected, {"command": self._plain(), **about}, self.resamples)
        if self.against is not None:
            result["against"] = compared(rows, self.against, self.resamples)
        self.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
        (self.output / "result.json").write_text(text + "\n", "utf-8")
        if not output.as_json:
            output.console.print(documents_table(result["summary"], self.source))
            for line in _differences(result.get("against")):
                output.console.print(line, markup=False)
            for reason in about["skipped"]:
                output.console.print(f"left out: {escape(reason)}")
            output.console.print(f"written: {escape(str(self.output / 'result.json'))}")
        output.json(result)
        counts = result["summary"]["n"]
        return 1 if counts["failed"] or counts["missing"] else 0

    @property
    def _is_records(self) -> bool:
        return Path(self.source).is_dir()

    def _check(self) -> None:
        """Everything that can be known before torch is loaded."""
        from docparse.benchmarks import BENCHMARKS

        check_folder(self.output)
        if not self._is_records and self.source not in BENCHMARKS:
            raise ConfigError(
                f"{self.source} is neither a folder of records nor a benchmark; there are {', '.join(BENCHMARKS)}"
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"--limit must be at least 1 question, got {self.limit}")
        if self.resamples < 100 or self.pages < 1:
            raise ConfigError(f"--resamples needs 100 and --pages 1 at least, got {self.resamples} and {self.pages}")
        if self._is_records and self.path is not None:
            raise ConfigError("--path belongs to a benchmark; SOURCE is a folder already")
        if self._is_records and self.kinds:
            raise ConfigError("--kinds needs a benchmark; a folder of records is scored by kind anyway")
        if not self._is_records and (self.method == "match" or self.distances or self.budget is not None):
            raise ConfigError("--method match, --distances and --budget need a folder of records")
        if self.budget is not None and (self.budget < 1 or self.method == "match"):
            raise ConfigError(f"--budget needs 1 particle at least, and weights that have particles, got {self.budget}")
        if not self._is_records and self.path is None and self.source != "real":
            raise ConfigError(f"{self.source} is not shipped; download it and name its file or folder with --path")
        if self.weights is not None and not (self.weights / "config.json").is_file():
            raise ConfigError(f"--weights {self.weights}: holds no config.json; give one that training left")

    def _records(self, output: Output) -> tuple[list[Row], int, dict[str, Any]]:
        from docparse.evaluate import Reader, evaluate_reader, reader_of
        from docparse.rivals import match_reader

        read: Reader = match_reader
        if self.method == "weights":
            read = reader_of(self._folder, self.distances, self.budget)
        chosen = _drawn(Path(self.source), self.split, self.limit, self.seed)
        count = sum(len(numbers) for _, numbers in chosen)
        with _bar(output, count) as advance:
            rows = evaluate_reader(read, _examples(chosen, Path(self.source), self._patches(), advance))
        config = {} if self.method == "match" else self._config()
        return rows, count, {"source": self.source, "split": self.split, "skipped": [], **config}

    def _benchmark(self, output: Output) -> tuple[list[Row], int, dict[str, Any]]:
        from docparse.benchmarks import load_benchmark, of_kinds
        from docparse.documents import Limits
        from docparse.item_reader import ItemReader, evaluate_items
        from docparse.pipeline import DocumentReader

        limits = Limits(pages=self.pages)
        read = ItemReader(DocumentReader.load(self._folder), limits)
        benchmark = _load(load_benchmark, self.source, self.path, None if self.kinds else self.limit, self.seed)
        benchmark = of_kinds(benchmark, self.kinds, self.limit, self.seed)
        items = sorted(benchmark.items, key=lambda item: (item.document, str(item.path)))  # a document is read once
        with _bar(output, len(items)) as advance:
            rows = evaluate_items(read, items, advance)
        about = {"source": benchmark.name, "split": benchmark.split, "limits": asdict(limits), **self._config()}
        return rows, len(items), {**about, "skipped": list(benchmark.skipped)}

    @property
    def _folder(self) -> Path:
        return self.weights or assets.DOCPARSE

    def _patches(self) -> PatchConfig | None:
        """Which patch fields the weights want to see, if any."""
        from docparse.weights import load_network

        return None if self.method == "match" else load_network(self._folder)[1].patches

    def _config(self) -> dict[str, Any]:
        """The resolved settings that lie beside the weights, and which weights they are."""
        about = json.loads((self._folder / "config.json").read_text("utf-8"))
        version = weights_version(str(self._folder))
        return {"reader": about, "weights": {"folder": str(self._folder), "sha256": version}}

    def _plain(self) -> dict[str, Any]:
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}


def _load(load: Callable[..., Any], name: str, path: Path | None, limit: int | None, seed: int) -> Any:
    from docparse.benchmarks import real

    return load(name, path or real.CACHE, limit, seed)


def _drawn(folder: Path, split: str, limit: int | None, seed: int) -> list[tuple[Path, list[int]]]:
    """Which questions of which records: all, or ``limit`` of them in an order drawn by ``seed``."""
    import numpy as np

    from docparse.train import index_records

    records = [record for record in index_records(folder) if record.path.name.startswith(f"{split}-")]
    if not records:
        raise DataError(
            f"{folder} holds no records of the split {split}; give --split, or make some: fovea data records"
        )
    every = [(record.path, number) for record in records for number in range(record.questions)]
    if limit is not None and limit < len(every):
        every = [every[i] for i in sorted(np.random.default_rng(seed).permutation(len(every))[:limit].tolist())]
    chosen: dict[Path, list[int]] = {}
    for path, number in every:
        chosen.setdefault(path, []).append(number)
    return [*chosen.items()]


def _examples(
    chosen: list[tuple[Path, list[int]]], records: Path, patches: PatchConfig | None, advance: Callable[[], None]
) -> Iterator[Example]:
    from docparse.data import load_document
    from docparse.patch_data import with_patches

    for path, numbers in chosen:
        examples = load_document(path)
        for number in numbers:
            yield from with_patches([examples[number]], records, patches)
            advance()


@contextmanager
def _bar(output: Output, total: int) -> Iterator[Callable[[], None]]:
    shown = output.console.is_terminal and not output.as_json
    with Progress(console=output.console, transient=True, disable=not shown) as bar:
        task = bar.add_task("asking", total=total)
        yield lambda: bar.advance(task)


def _differences(against: dict[str, Any] | None) -> Iterator[str]:
    """The comparison for people: a line a metric."""
    if against is None:
        return
    yield f"minus {against['file']}, paired, n = {against['n']}, {against['left_out']} left out:"
    groups = [("", against["all"]), *((f"{name}: ", values) for name, values in against["by_bucket"].items())]
    for group, values in groups:
        for metric in ("iou", "strict", "anls"):
            if metric in values:
                found = values[metric]
                p = f", McNemar p = {found['mcnemar_p']:.2g}" if "mcnemar_p" in found else ""
                interval = f"{found['low']:+.3f} to {found['high']:+.3f}"
                yield f"  {group}{metric} {found['estimate']:+.3f} ({interval}, n = {found['n']}{p})"
