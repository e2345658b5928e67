"""``fovea doctor``."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rich.markup import escape

from apps.doctor import Check, examine
from apps.output import Output

COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}


@dataclass(frozen=True, kw_only=True)
class Command:
    """Say what works on this machine and how to get the rest.

    Exits with 1 only if the core is broken: Python, torch, transformers or the model.
    """

    model: str = "nano"  # the model that is loaded as a check; a served one as http://HOST:PORT/v1#NAME
    deep: bool = False  # also import every optional package, each in a process of its own
    json: bool = False  # print JSON only

    def run(self, output: Output) -> int:
        """Print every check as it is done."""
        checks: list[Check] = []
        for check in examine(self.model, deep=self.deep):
            checks.append(check)
            if not output.as_json:
                colour = COLOURS[check.state]
                output.console.print(f"[{colour}]{check.state:<8}[/] {check.name:<20} {escape(check.detail)}")
                if check.remedy:
                    output.console.print(f"{'':<30}-> {escape(check.remedy)}")
        broken = [check.name for check in checks if check.core and check.state != "ok"]
        if not output.as_json:
            output.console.print(f"the core is broken: {', '.join(broken)}" if broken else "the core works")
        output.json({"core_works": not broken, "checks": [asdict(check) for check in checks]})
        return 1 if broken else 0
