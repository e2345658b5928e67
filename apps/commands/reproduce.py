"""``fovea reproduce [CLAIM]``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.markup import escape

from apps.commands.common import ModelOptions, check_folder
from apps.names import no_such
from apps.output import Output
from backbone.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Command(ModelOptions):
    """Measure the claims of the README again on this machine; without a name all of them.

    Runs are kept in --output and continued, so that an interrupted reproduction goes on. Exit code 1 if a claim fails.
    """

    claims: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="CLAIM")] = ()  # names of claims
    list: bool = False  # only list the claims
    items: int = 400  # of each benchmark run; fewer is quicker and less certain
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/reproduce")  # runs and results.json
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Measure claim after claim, printing each as it is done."""
        from apps.claims import CLAIMS
        from apps.claims.claim import Workbench, circumstances

        names = self.claims or tuple(CLAIMS)
        for name in names:
            if name not in CLAIMS:
                raise no_such("claim", name, CLAIMS)
        if self.list:
            return _list(output, names)
        self.check()
        if self.items < 1:
            raise ConfigError(f"--items must be at least 1, got {self.items}")
        check_folder(self.output)
        bench = Workbench(self, self.output, self.items, progress=not output.as_json)
        results: dict[str, Any] = {}
        for name in names:
            finding = CLAIMS[name].measure(bench)
            results[name] = {"statement": CLAIMS[name].statement, "target": CLAIMS[name].target, **asdict(finding)}
            if not output.as_json:
                word = "[green]holds[/]" if finding.holds else "[red]FAILS[/]"
                output.console.print(
                    f"{word}  {name}: {escape(CLAIMS[name].statement)} ({escape(CLAIMS[name].target)})"
                )
                output.console.print(f"       {escape(finding.measured)}")
        record = {
            "claims": results,
            "items": self.items,
            "model": self.model,
            "seed": self.seed,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            **circumstances(),
        }
        (self.output / "results.json").write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", "utf-8")
        if not output.as_json:
            output.console.print(f"written: {escape(str(self.output / 'results.json'))}")
        output.json(record)
        return 0 if all(result["holds"] for result in results.values()) else 1


def _list(output: Output, names: tuple[str, ...]) -> int:
    from apps.claims import CLAIMS

    if not output.as_json:
        width = max(map(len, names))
        for name in names:
            output.console.print(f"{name:<{width}} {CLAIMS[name].statement} ({CLAIMS[name].target})")
    output.json({name: {"statement": CLAIMS[name].statement, "target": CLAIMS[name].target} for name in names})
    return 0
