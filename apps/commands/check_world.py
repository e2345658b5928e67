"""``fovea check world NAME``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from apps.commands.choices import WORLD_HELP, chosen_world, named_world, with_configs
from apps.output import Output
from backbone.checks.report import CheckReport, Finding


@dataclass(frozen=True, kw_only=True)
class Command:
    """Check a world against its contract, line by line; what failed says what is probably wrong and what to do.

    Any world can be checked, also one of your own. Options of the world are shown by `fovea check world WORLD --help`.
    """

    world: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD", help=WORLD_HELP)]
    seed: int = 0  # of the episode that is played
    index: int = 0  # of the episode in the world's list of tasks, logs or files
    steps: int = 12  # played in most checks
    json: bool = False  # print the findings as JSON only

    def run(self, output: Output) -> int:
        """Run the checks; exit code 1 if one failed."""
        from backbone.checks.world import check_world

        config = chosen_world(self, self.world)
        report = check_world(
            config, seed=self.seed, index=self.index, steps=self.steps, on_finding=lambda f: show(output.console, f)
        )
        return conclude(output, report)


def command_for(arguments: Sequence[str]) -> type:
    """`Command` with the options of the world that ``arguments`` name."""
    return with_configs(Command, named_world(arguments), None)


def show(console: Console, finding: Finding) -> None:
    """One line a check, and below a failed one what to do."""
    mark = "[green]ok  [/green]" if finding.ok else "[red]FAIL[/red]" if finding.checked else "[dim]--  [/dim]"
    remark = f" [dim]({escape(finding.message)})[/dim]" if finding.ok and finding.message else ""
    console.print(f"{mark} {escape(finding.name)}{remark}")
    if not finding.ok:
        console.print(f"     {escape(finding.message)}")


def conclude(output: Output, report: CheckReport) -> int:
    """The last line and the exit code."""
    failed = len(report.failed)
    unchecked = len(report.unchecked)
    held = len(report.findings) - failed - unchecked
    rest = f", {unchecked} not checked" if unchecked else ""
    output.console.print(f"{escape(report.subject)}: {held} checks held, {failed} failed{rest}")
    output.json(report.to_dict())
    return 0 if report.ok else 1
