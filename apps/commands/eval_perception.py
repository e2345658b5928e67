"""``fovea eval perception BENCH``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from apps.commands.common import ModelOptions, SearchOptions, check_folder, weights_version
from apps.output import Output
from apps.printing import report_table


@dataclass(frozen=True, kw_only=True)
class Command(SearchOptions, ModelOptions):
    """Score a method on a benchmark: accuracy with a 95 % interval, found targets, tokens and times.

    BENCH is ministar (generated here), or one that you downloaded and name with --path: vstar, hrbench-4k, hrbench-8k,
    xlrs-lite. Writes report.json and items.jsonl; --resume goes on where a run of the same settings stopped.
    """

    bench: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="BENCH")]  # the benchmark's name
    path: Path | None = None  # downloaded files; for ministar a folder of more photographs
    limit: int | None = None  # how many items (default: all; ministar 400)
    split: str | None = None  # ministar: train or held_out (default)
    oracle: bool = False  # show the true boxes instead of searching: what perfect perception would give
    overlap: float | None = None  # with --oracle: close-ups that cover this part of the true box only, 0 to 1
    resume: bool = False  # continue the run in --output
    output: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None  # default: runs/SETTINGS
    json: bool = False  # print the report as JSON only

    def run(self, output: Output) -> int:
        """Evaluate and print the report; exit code 1 if any item failed."""
        self.check()
        config = self.config(self.model)
        from backbone.errors import CancelledError, ConfigError
        from perception.benchmarks import load_benchmark
        from perception.evaluate import evaluate
        from perception.oracle import Oracle

        if self.overlap is not None and not self.oracle:
            raise ConfigError("--overlap displaces true boxes and needs --oracle")
        oracle = Oracle(self.overlap) if self.oracle else None
        benchmark = load_benchmark(self.bench, self.path, self.limit, self.split, self.seed)
        check_folder(self._folder())
        vlm = self.load()
        config = self.attach(vlm, config)
        try:
            report = evaluate(
                vlm,
                benchmark,
                config,
                self._folder(),
                seed=self.seed,
                resume=self.resume,
                oracle=oracle,
                model_version=weights_version(self.model) + self.adapters_version(),
                progress=not output.as_json,
            )
        except KeyboardInterrupt as stop:
            raise CancelledError(
                f"what was done is kept; the same command with --resume goes on in {self._folder()}"
            ) from stop
        if not output.as_json:
            output.console.print(report_table(report))
            for reason in report["skipped"]:
                output.console.print(f"left out: {escape(reason)}")
            output.console.print(f"written: {escape(str(self._folder() / 'report.json'))}, items.jsonl beside it")
        output.json({**report, "command": {key: _plain(value) for key, value in asdict(self).items()}})
        return 1 if report["n"]["failed"] or report["n"]["missing"] else 0

    def _folder(self) -> Path:
        if self.output is not None:
            return self.output
        method = "oracle" if self.oracle else self.method
        name = f"{self.bench}-{Path(self.model.replace('#', '/')).name}-{method}-{self.regime}-{self.rollouts}"
        return Path("runs") / name


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
